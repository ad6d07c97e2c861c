//! A port in front of an API server that holds back what watches say, and nothing else.
//!
//! Lists, live reads and watches come over the same kind of connection, so what is what is told by the requests: this
//! proxy ends TLS (with the certificate that everything of the tests has) and reads their first lines. Whatever the API
//! server sends in answer to a request with `watch=true`, its head included, is passed on late and in order; all other
//! answers at once.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use openssl::ssl::SslStream;

use super::{http, tls};

/// Such a port.
pub struct SlowWatch {
    /// Its number.
    pub port: u16,
    milliseconds: Arc<AtomicU64>,
}

/// Something of an answer, and when it may be passed on.
enum Part {
    Bytes(Instant, Vec<u8>),
    /// The answer is complete.
    End,
}

impl SlowWatch {
    /// Opens a port in front of `port` that does not delay anything yet.
    pub fn before(port: u16, directory: &Path) -> Result<Self> {
        let milliseconds = Arc::new(AtomicU64::new(0));
        let delay = Arc::clone(&milliseconds);
        let port = tls::listen(directory, move |inward| {
            if let Ok(outward) = tls::connect(port) {
                // Either side may break off; then both connections end.
                let _ = pass(inward, outward, &delay);
            }
        })?;
        Ok(Self { port, milliseconds })
    }

    /// From now on, what watches say is passed on so much later.
    pub fn delay(&self, by: Duration) {
        self.milliseconds.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// So long a connection may be idle. Nobody notices here when the API server closes one, which it does after 90 s.
const IDLE: Duration = Duration::from_secs(30);

/// Passes requests on, one after the other, and their answers back.
///
/// An answer is read by a thread of its own, or what it says later would be delayed by what it said before.
fn pass(inward: SslStream<TcpStream>, outward: SslStream<TcpStream>, delay: &Arc<AtomicU64>) -> Result<()> {
    let (requests, asked) = mpsc::channel();
    let (parts, held) = mpsc::channel();
    let delay = Arc::clone(delay);
    thread::spawn(move || answer(outward, &asked, &parts, &delay));
    inward.get_ref().set_read_timeout(Some(IDLE))?;
    let mut inward = BufReader::new(inward);
    while let Some(head) = http::read_head(&mut inward)? {
        // The webhook only reads: its requests have no bodies.
        requests.send(head)?;
        while let Part::Bytes(due, bytes) = held.recv()? {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            inward.get_mut().write_all(&bytes)?;
        }
    }
    Ok(())
}

fn answer(
    outward: SslStream<TcpStream>,
    asked: &mpsc::Receiver<String>,
    parts: &mpsc::Sender<Part>,
    delay: &AtomicU64,
) -> Result<()> {
    let mut outward = BufReader::new(outward);
    for request in asked {
        let is_watch = request.lines().next().unwrap_or_default().contains("watch=true");
        let send = |bytes: Vec<u8>| {
            let delay = if is_watch { delay.load(Ordering::Relaxed) } else { 0 };
            parts.send(Part::Bytes(Instant::now() + Duration::from_millis(delay), bytes))
        };
        outward.get_mut().write_all(request.as_bytes())?;
        let head = http::read_head(&mut outward)?.context("no answer")?;
        let length = http::header(&head, "content-length").map(str::parse).transpose()?;
        let chunked = http::header(&head, "transfer-encoding") == Some("chunked");
        send(head.into_bytes())?;
        if let Some(length) = length {
            send(bytes(&mut outward, length)?)?;
        } else if chunked {
            loop {
                let mut line = String::new();
                outward.read_line(&mut line)?;
                let length = usize::from_str_radix(line.trim_end(), 16).context("no length of a chunk")?;
                // A line end behind it. The last chunk is empty; the API server sends no trailers.
                let chunk = bytes(&mut outward, length + 2)?;
                send([line.into_bytes(), chunk].concat())?;
                if length == 0 {
                    break;
                }
            }
        }
        parts.send(Part::End)?;
    }
    Ok(())
}

fn bytes(from: &mut impl Read, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
