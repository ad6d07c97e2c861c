//! The two requests that the harness makes by hand.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};

/// GET in plain HTTP on loopback: the code and the body.
pub fn get(port: u16, path: &str) -> Result<(u16, String)> {
    exchange(connect(port)?, path, "")
}

/// GET over HTTPS on loopback. Whose certificate it is does not matter to a question after readiness.
pub fn get_tls(port: u16, path: &str, token: &str) -> Result<(u16, String)> {
    let mut connector = SslConnector::builder(SslMethod::tls_client())?;
    connector.set_verify(SslVerifyMode::NONE);
    let stream = connector.build().connect("localhost", connect(port)?).ok().context("failed to agree on TLS")?;
    exchange(stream, path, &format!("Authorization: Bearer {token}\r\n"))
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

fn exchange(mut stream: impl Read + Write, path: &str, headers: &str) -> Result<(u16, String)> {
    // HTTP/1.0: a newer answer may come in chunks, whose borders cut lines.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let code = head.split(' ').nth(1).context("an answer without a code")?.parse()?;
    Ok((code, body.to_owned()))
}
