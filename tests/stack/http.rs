//! What the harness speaks of HTTP by hand.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use serde_json::{Value, json};

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

/// POST of JSON in plain HTTP on loopback: the body of the answer, to be read as it comes.
pub fn post_stream(port: u16, path: &str, body: &str) -> Result<impl BufRead> {
    let mut stream = connect(port)?;
    // HTTP/1.0, so that an answer without an end is not cut into chunks.
    let head =
        format!("POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes())?;
    let mut answer = BufReader::new(stream);
    let head = read_head(&mut answer)?.context("no answer")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{path} was answered with {head:?}");
    Ok(answer)
}

/// Reads the head of a request or an answer, with the empty line behind it; `None` if the other side has nothing more to say.
pub fn read_head(from: &mut impl BufRead) -> Result<Option<String>> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if from.read_line(&mut head)? == 0 {
            ensure!(head.is_empty(), "a head without an end: {head:?}");
            return Ok(None);
        }
        if head[before..].trim_end().is_empty() {
            return Ok(Some(head));
        }
    }
}

/// The value of a header.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// Reads a request with a body: its path with the query, and the body; `None` if the other side has nothing more to ask.
pub fn read_post(from: &mut impl BufRead) -> Result<Option<(String, Vec<u8>)>> {
    let Some(head) = read_head(from)? else { return Ok(None) };
    let path = head.split(' ').nth(1).context("a request without a path")?.to_owned();
    let length = header(&head, "content-length").context("a request without a length")?.parse()?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(Some((path, body)))
}

/// Answers a request. Each of `headers` has its line end.
pub fn answer(to: &mut impl Write, code: u16, headers: &str, body: &Value) -> Result<()> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} Some\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    // In one write: a head that travels alone may be all that the other side ever sees.
    Ok(to.write_all((head + &body).as_bytes())?)
}

/// The AdmissionReview that admits `request`.
pub fn admits(request: &Value, warnings: &[String]) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true, "warnings": warnings},
    })
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
