//! A validating webhook that allows everything, after a while: it widens the time between our verdict and the commit.
//!
//! The API server waits for all webhooks of a write, so ours has long answered when this one does. Cluster API's own
//! webhooks do the same to a lesser degree.

use std::{
    io::BufReader,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;
use openssl::ssl::SslStream;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    random::Random,
    stack::{control_plane::ControlPlane, http, tls},
};

/// The webhook, called for every Cluster or class that is created or updated.
pub struct Sleeper {
    shared: Arc<Shared>,
}

struct Shared {
    longest: AtomicU64,
    calls: AtomicUsize,
    random: Mutex<Random>,
}

impl Sleeper {
    /// Starts it without a sleep, and has the API servers call it.
    pub fn start(control_plane: &ControlPlane, seed: u64) -> Result<Self> {
        let shared = Arc::new(Shared {
            longest: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            random: Mutex::new(Random(seed)),
        });
        let serving = Arc::clone(&shared);
        let port = tls::listen(&control_plane.directory, move |stream| {
            // The API server breaks connections off as it likes.
            let _ = serve(stream, &serving);
        })?;
        let ca = control_plane.ca_bundle()?;
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "sleep"},
            "webhooks": [{
                "name": "sleep.race.test",
                "clientConfig": {"url": format!("https://127.0.0.1:{port}/sleep"), "caBundle": ca},
                "rules": [{
                    "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["v1beta2"],
                    "resources": ["clusters", "clusterclasses"], "operations": ["CREATE", "UPDATE"],
                }],
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        });
        control_plane.create("sleep", vec![configuration])?;
        Ok(Self { shared })
    }

    /// From now on each call takes a time from zero to this, by chance.
    pub fn sleep_up_to(&self, longest: Duration) {
        self.shared.longest.store(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

fn serve(stream: SslStream<TcpStream>, shared: &Shared) -> Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some((_, body)) = http::read_post(&mut stream)? {
        let review: Value = serde_json::from_slice(&body)?;
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let longest = usize::try_from(shared.longest.load(Ordering::Relaxed))?;
        let milliseconds = shared.random.lock().below(longest + 1);
        thread::sleep(Duration::from_millis(milliseconds as u64));
        http::answer(stream.get_mut(), 200, "", &http::admits(&review["request"], &[]))?;
    }
    Ok(())
}
