//! `/healthz` and `/readyz`, in plain HTTP, in the words of Kubernetes' own components.
//!
//! Healthy is a process that answers. Ready is one whose verdicts can be relied on: it knows both kinds, has heard of them
//! lately, serves a valid certificate and is not about to leave.

use std::{
    fmt::Write,
    io,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::Server, web};

use super::{Listener, judge::STALE, shutdown::Draining, tls::Certificates};
use crate::fleet::{Fleet, Freshness};

/// What readiness is made of.
#[derive(Debug)]
pub struct Health {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// What is served.
    pub certificates: Arc<Certificates>,
    /// Whether the program is about to leave.
    pub draining: Draining,
}

/// One condition: its name, and what is wrong if it is not met.
type Check = (&'static str, Result<(), String>);

impl Health {
    fn checks(&self) -> [Check; 6] {
        let (clusters, classes) = {
            let index = self.fleet.index.read();
            (index.clusters.synced(), index.classes.synced())
        };
        let not_listed = || "not listed yet".to_owned();
        [
            ("clusters-synced", clusters.then_some(()).ok_or_else(not_listed)),
            ("clusterclasses-synced", classes.then_some(()).ok_or_else(not_listed)),
            ("clusters-fresh", fresh(&self.fleet.clusters)),
            ("clusterclasses-fresh", fresh(&self.fleet.classes)),
            ("certificate", self.certificate()),
            ("shutdown", if self.draining.is_set() { Err("about to leave".to_owned()) } else { Ok(()) }),
        ]
    }

    fn certificate(&self) -> Result<(), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let left = self.certificates.not_after() - i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if left > 0 { Ok(()) } else { Err(format!("expired {} s ago", -left)) }
    }
}

/// A source that is read from files is never stale.
fn fresh(freshness: &Freshness) -> Result<(), String> {
    match freshness.staleness() {
        Some(staleness) if staleness >= STALE => Err(format!("not heard of for {} s", staleness.as_secs())),
        _ => Ok(()),
    }
}

/// Serves the probes.
pub(super) fn server(listener: Listener, health: Arc<Health>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::from(Arc::clone(&health)))
            .route("/healthz", web::get().to(async || HttpResponse::Ok().content_type(TEXT).body("ok")))
            .route("/readyz", web::get().to(ready))
    });
    Ok(server.workers(1).tcp_nodelay(true).disable_signals().listen(listener)?.run())
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn ready(health: web::Data<Health>, request: HttpRequest) -> HttpResponse {
    let checks = health.checks();
    let ready = checks.iter().all(|(_, check)| check.is_ok());
    let verbose = request.query_string().split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let mut response = if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    let text = if ready && !verbose { "ok".to_owned() } else { report(&checks, ready) };
    response.content_type(TEXT).body(text)
}

fn report(checks: &[Check], ready: bool) -> String {
    let mut text = String::new();
    for (name, check) in checks {
        // Writing to a String cannot fail.
        let _ = match check {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(problem) => writeln!(text, "[-]{name} failed: {problem}"),
        };
    }
    text.push_str(if ready { "readyz check passed\n" } else { "readyz check failed\n" });
    text
}
