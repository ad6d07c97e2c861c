//! `fleet::watch` over real sockets: a connection that dies without a word is noticed within 60 s.
//!
//! Real time, about half a minute: the read timeout under test belongs to the socket, which knows no virtual clock.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use capi_version_guard::fleet::{Fleet, watch};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const LIST: &str = r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;

/// What the scripted server does with its n-th request for Clusters.
#[derive(Clone, Copy)]
enum Step {
    List,
    /// The head of a watch, then silence, the connection left open.
    DeadWatch,
    /// Not even a head.
    DeadList,
}

/// Serves plain HTTP: the steps for Clusters, then lists and open watches; notes when each request came.
async fn serve(steps: &'static [Step]) -> (u16, Arc<Mutex<Vec<(Instant, String)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(stream, steps, Arc::clone(&log)));
        }
    });
    (port, asked)
}

async fn connection(mut stream: TcpStream, steps: &[Step], log: Arc<Mutex<Vec<(Instant, String)>>>) {
    let mut buffer = vec![0; 8192];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let step = if path.contains("/clusters?") {
            let mut log = log.lock().unwrap();
            log.push((Instant::now(), path.clone()));
            steps.get(log.len() - 1).copied()
        } else {
            None
        };
        let watch = path.contains("watch=true");
        let answer = match step {
            Some(Step::DeadList) => String::new(),
            Some(Step::DeadWatch) => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
            None if watch => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
            Some(Step::List) | None => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{LIST}", LIST.len()),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// Follows until Clusters were asked for `requests` times; gives back the gap before the last one.
async fn gap_before_the_last(steps: &'static [Step], requests: usize) -> Duration {
    let (port, asked) = serve(steps).await;
    let config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    let fleet = Arc::new(Fleet::default());
    let following = tokio::spawn(watch::run(config, Arc::clone(&fleet), watch::MAX_KINDS));
    let limit = Instant::now() + Duration::from_secs(70);
    while asked.lock().unwrap().len() < requests && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    following.abort();
    let asked = asked.lock().unwrap();
    assert!(asked.len() >= requests, "not asked again within 70 s: {asked:?}");
    let (last, before) = (asked[requests - 1].0, asked[requests - 2].0);
    // The silent source was seen to be silent, whatever the other one does.
    assert!(fleet.clusters.staleness().is_none_or(|staleness| staleness < Duration::from_secs(60)));
    last - before
}

#[tokio::test]
async fn a_watch_that_dies_silently_is_replaced_within_60_s() {
    let gap = gap_before_the_last(&[Step::List, Step::DeadWatch], 3).await;
    assert!(gap > Duration::from_secs(20) && gap < Duration::from_secs(60), "{gap:?}");
}

#[tokio::test]
async fn a_list_that_is_never_answered_is_repeated_within_60_s() {
    let gap = gap_before_the_last(&[Step::DeadList], 2).await;
    assert!(gap > Duration::from_secs(20) && gap < Duration::from_secs(60), "{gap:?}");
}
