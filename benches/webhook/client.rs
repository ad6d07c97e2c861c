//! A blocking HTTPS client that does what the API server does: one request at a time on a kept connection.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::LazyLock,
    time::{Duration, Instant},
};

use openssl::ssl::{SslConnector, SslMethod, SslStream, SslVerifyMode};

/// Whom to call.
#[derive(Clone, Copy)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
}

/// A connection to a server.
pub struct Connection {
    stream: SslStream<TcpStream>,
    answer: Vec<u8>,
}

impl Connection {
    /// Opens a new connection, with a full handshake as the API server does.
    pub fn open(server: Server) -> Self {
        // Made once: it reads the system's certificates, which is not what is measured.
        static CONNECTOR: LazyLock<SslConnector> = LazyLock::new(|| {
            let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
            connector.set_verify(SslVerifyMode::NONE);
            connector.build()
        });
        let tcp = TcpStream::connect(server.address).unwrap();
        tcp.set_nodelay(true).unwrap();
        let stream = CONNECTOR.connect("localhost", tcp).unwrap();
        Self { stream, answer: vec![0; 1 << 16] }
    }

    /// Sends a request and reads the answer; gives back the seconds that it took.
    pub fn call(&mut self, request: &[u8]) -> f64 {
        let start = Instant::now();
        self.stream.write_all(request).unwrap();
        let mut read = 0;
        loop {
            read += self.stream.read(&mut self.answer[read..]).unwrap();
            let so_far = &self.answer[..read];
            if let Some(head) = so_far.windows(4).position(|four| four == b"\r\n\r\n") {
                let text = std::str::from_utf8(&so_far[..head]).unwrap().to_ascii_lowercase();
                assert!(text.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(so_far));
                let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
                if read == head + 4 + length.unwrap().trim().parse::<usize>().unwrap() {
                    return start.elapsed().as_secs_f64();
                }
            }
            assert!(read > 0, "the connection was closed");
        }
    }

    /// The body of the last answer.
    pub fn body(&self) -> String {
        let text = String::from_utf8_lossy(&self.answer);
        text.split("\r\n\r\n").nth(1).unwrap_or_default().trim_end_matches('\0').to_owned()
    }
}

/// Calls on every connection for a second; how many calls that were.
pub fn one_second(request: &[u8], connections: &mut [Connection]) -> usize {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .map(|connection| {
                scope.spawn(move || {
                    let mut calls = 0;
                    while start.elapsed() < Duration::from_secs(1) {
                        connection.call(request);
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The bytes of a POST of `body` to `path`, as the API server words it.
pub fn request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: \
         {}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
