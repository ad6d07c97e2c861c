//! A client that hides nothing: one request, one answer with its head.

use std::io::{BufReader, Read, Write};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::stack::{
    control_plane::{ControlPlane, OTHER_ADMIN},
    http, tls,
};

/// What the API server answered.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    head: String,
    pub body: Value,
}

impl Answer {
    /// The texts of its `Warning` headers (`299 - "text"`).
    pub fn warnings(&self) -> Vec<String> {
        let values = self.head.lines().filter_map(|line| line.split_once(": "));
        let warnings = values.filter(|(name, _)| name.eq_ignore_ascii_case("warning"));
        let text = |value: &str| value.trim_start_matches("299 - \"").trim_end_matches('"').to_owned();
        warnings.map(|(_, value)| text(value)).collect()
    }

    /// The object's version.
    pub fn resource_version(&self) -> Result<String> {
        let version = self.body["metadata"]["resourceVersion"].as_str();
        Ok(version.with_context(|| format!("no object, but {}", self.body))?.to_owned())
    }
}

/// The path of the things of `namespace`.
pub fn things(version: &str, namespace: &str) -> String {
    format!("/apis/facts.example.com/{version}/namespaces/{namespace}/things")
}

/// A thing.
pub fn thing(version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("facts.example.com/{version}"), "kind": "Thing", "metadata": {"name": name},
        "spec": {"by": "nobody"},
    })
}

/// Creates a thing of version v1.
pub fn create(control_plane: &ControlPlane, namespace: &str, name: &str) -> Result<Answer> {
    send(control_plane, "POST", &things("v1", namespace), &thing("v1", name))
}

/// Sends `body`, which for a PATCH is a merge patch, and reads the answer.
pub fn send(control_plane: &ControlPlane, method: &str, path: &str, body: &Value) -> Result<Answer> {
    let mut stream = tls::connect(control_plane.port)?;
    let (body, kind) = match method {
        "GET" => (String::new(), "application/json"),
        "PATCH" => (body.to_string(), "application/merge-patch+json"),
        _ => (body.to_string(), "application/json"),
    };
    // HTTP/1.0, so that no answer comes in chunks.
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {OTHER_ADMIN}\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut stream = BufReader::new(stream);
    let head = http::read_head(&mut stream)?.context("no answer")?;
    let code = head.split(' ').nth(1).context("an answer without a code")?.parse()?;
    let mut body = Vec::new();
    stream.read_to_end(&mut body)?;
    Ok(Answer { code, head, body: serde_json::from_slice(&body)? })
}

/// Runs `kubectl create` on a new thing, which shall fail, and returns what a person reads.
pub fn kubectl_create_fails(control_plane: &ControlPlane, namespace: &str) -> Result<String> {
    let file = control_plane.directory.join(format!("{namespace}.json"));
    std::fs::write(&file, thing("v1", "new").to_string())?;
    let created = control_plane.kubectl(&["create", "-n", namespace, "-f", &file.display().to_string()]);
    let error = created.err().context("it was created")?.to_string();
    let (_, printed) = error.split_once(" failed: ").context("kubectl did not run")?;
    Ok(printed.replace(&file.display().to_string(), "FILE"))
}
