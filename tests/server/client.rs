//! A small HTTP/1.1 client that shows everything: whole responses, and what happens to the connection.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use openssl::{
    ssl::{Ssl, SslContext, SslContextBuilder, SslMethod, SslStream, SslVerifyMode},
    x509::{X509, store::X509StoreBuilder},
};

/// So long a test waits for bytes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

/// A connection that requests are sent on, one after the other.
pub struct Connection<S = SslStream<TcpStream>> {
    pub stream: S,
    read: Vec<u8>,
}

/// A client that trusts this CA alone. (`SslConnector` would read all of the system's first: 30 ms for each connection.)
pub fn trusting(ca: &[u8]) -> SslContextBuilder {
    let mut builder = SslContext::builder(SslMethod::tls_client()).unwrap();
    let mut store = X509StoreBuilder::new().unwrap();
    store.add_cert(X509::from_pem(ca).unwrap()).unwrap();
    builder.set_cert_store(store.build());
    builder.set_verify(SslVerifyMode::PEER);
    builder
}

/// The handshake, with the address as the name that the certificate must hold.
pub fn handshake(context: &SslContext, address: SocketAddr) -> Result<SslStream<TcpStream>, String> {
    let tcp = tcp(address).map_err(|error| format!("connect: {error}"))?;
    let mut ssl = Ssl::new(context).unwrap();
    ssl.param_mut().set_ip(address.ip()).unwrap();
    ssl.connect(tcp).map_err(|error| format!("handshake: {error}"))
}

pub fn tcp(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Connection {
    /// Connects as the API server does.
    pub fn open(address: SocketAddr, ca: &[u8]) -> Self {
        Self::try_open(address, ca).expect("a connection")
    }

    pub fn try_open(address: SocketAddr, ca: &[u8]) -> Result<Self, String> {
        Ok(Self { stream: handshake(&trusting(ca).build(), address)?, read: Vec::new() })
    }
}

impl Connection<TcpStream> {
    pub fn plain(address: SocketAddr) -> Self {
        Self { stream: tcp(address).expect("a connection"), read: Vec::new() }
    }
}

impl<S: Read + Write> Connection<S> {
    /// Sends a POST and waits for its response.
    pub fn post(&mut self, target: &str, body: &[u8]) -> Response {
        self.try_post(target, body).expect("a response")
    }

    pub fn try_post(&mut self, target: &str, body: &[u8]) -> Result<Response, String> {
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.try_send(head.as_bytes()).and_then(|()| self.try_send(body)).map_err(|error| format!("send: {error}"))?;
        self.try_response()
    }

    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: server\r\n\r\n").as_bytes());
        self.response()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("to send");
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    pub fn response(&mut self) -> Response {
        self.try_response().expect("a response")
    }

    pub fn try_response(&mut self) -> Result<Response, String> {
        let head_end = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            self.more()?;
        };
        let head = String::from_utf8(self.read.drain(..head_end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status_line = lines.next().unwrap();
        let status = status_line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("{status_line}"));
        let status = status.get(..3).unwrap().parse().unwrap();
        let headers: Vec<_> = lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
        while self.read.len() < length {
            self.more()?;
        }
        let body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        Ok(Response { status, headers, body })
    }

    fn more(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err("receive: the connection ended".to_owned()),
            Ok(count) => {
                self.read.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) => Err(format!("receive: {error}")),
        }
    }

    /// Whether the server ends the connection without another byte.
    pub fn ends(&mut self) -> bool {
        let mut buffer = [0; 1];
        self.read.is_empty() && matches!(self.stream.read(&mut buffer), Ok(0))
    }
}
