//! `make demo`: the main job in one screen, without a cluster.
//!
//! Starts `capi-version-guard serve --fleet examples/fleet` with TLS on loopback, sends it the reviews of
//! examples/reviews as an API server would, prints each change with its verdict, and stops the server.
#![allow(clippy::print_stdout, reason = "that is what a demonstration is for")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use openssl::ssl::{SslConnector, SslMethod};
use serde_json::Value;

/// The server; it ends with the demonstration, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ca = std::env::temp_dir().join(format!("capi-version-guard-demo-{}.crt", std::process::id()));
    let shown = run(root, &ca);
    // It is not there if the server did not start.
    let _ = fs::remove_file(&ca);
    shown
}

fn run(root: &Path, ca: &Path) -> Result<()> {
    let (mut server, port) = start(root, ca)?;
    println!("The fleet of examples/fleet: Clusters of team-a and team-b, and their ClusterClasses.");
    let mut reviews: Vec<PathBuf> =
        fs::read_dir(root.join("examples/reviews"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    reviews.sort();
    for path in reviews {
        let bytes = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let review: Value = serde_json::from_slice(&bytes)?;
        let answer = send(port, ca, &review, &bytes)?;
        show(&review["request"], &answer["response"]);
    }
    let stopped = Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status()?;
    ensure!(stopped.success(), "failed to stop the server");
    ensure!(server.0.wait()?.success(), "the server did not end well");
    println!("\nThe server has drained and stopped.");
    Ok(())
}

/// Starts the binary that was built beside this example; gives back the port that it chose.
fn start(root: &Path, ca: &Path) -> Result<(Server, u16)> {
    let example = std::env::current_exe()?;
    let binary = example.ancestors().nth(2).context("failed to find the binary")?.join("capi-version-guard");
    println!("$ capi-version-guard serve --fleet examples/fleet --listen 127.0.0.1:0");
    let mut child = Command::new(&binary)
        .args(["serve", "--fleet"])
        .arg(root.join("examples/fleet"))
        .arg("--write-ca")
        .arg(ca)
        .args(["--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
        .arg("--shutdown-grace=0")
        .env("RUST_LOG", "info")
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("failed to start {}", binary.display()))?;
    let log = child.stderr.take().context("the server has no log")?;
    let server = Server(child);
    let mut lines = BufReader::new(log).lines();
    let mut seen = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if line.contains("(webhook)") {
            let port = line.split("127.0.0.1:").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit));
            let port = port.context("failed to read the server's address")?.collect::<String>().parse()?;
            // Somebody has to read on, or a full pipe stops the server.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((server, port));
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    anyhow::bail!("the server ended at once:\n{seen}")
}

/// POSTs a review over TLS, trusting the CA that the server wrote.
fn send(port: u16, ca: &Path, review: &Value, bytes: &[u8]) -> Result<Value> {
    let mut connector = SslConnector::builder(SslMethod::tls_client())?;
    connector.set_ca_file(ca)?;
    let mut stream = connector.build().connect("localhost", TcpStream::connect(("127.0.0.1", port))?)?;
    let resource = review["request"]["resource"]["resource"].as_str().context("the review names no resource")?;
    write!(
        stream,
        "POST /validate/{resource}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    stream.write_all(bytes)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("failed to read the answer")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "the server answered: {answer}");
    Ok(serde_json::from_str(body)?)
}

/// Prints a change and what became of it.
fn show(request: &Value, response: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&request["kind"]["kind"]);
    println!(
        "\n{} {kind} {}/{}{}",
        text(&request["operation"]),
        text(&request["namespace"]),
        text(&request["name"]),
        what(request)
    );
    for warning in response["warnings"].as_array().into_iter().flatten() {
        println!("  Warning: {}", text(warning));
    }
    if response["allowed"] == Value::Bool(true) {
        println!("  allowed");
    } else {
        println!("  denied ({}): {}", text(&response["status"]["reason"]), text(&response["status"]["message"]));
    }
}

/// What the change is, in a few words.
fn what(request: &Value) -> String {
    let facts = |object: &Value| {
        let topology = &object["spec"]["topology"];
        let list = object["spec"]["kubernetesVersions"].as_array();
        let list = list.map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "));
        [
            ("version", topology["version"].as_str().map(ToOwned::to_owned)),
            ("class", topology["classRef"]["name"].as_str().map(ToOwned::to_owned)),
            ("kubernetesVersions", list),
            (
                "extension",
                object["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"].as_str().map(Into::into),
            ),
            (
                "finalizers",
                object["metadata"]["finalizers"].as_array().map(|list| Value::from(list.clone()).to_string()),
            ),
            ("labels", object["metadata"]["labels"].as_object().map(|labels| Value::from(labels.clone()).to_string())),
        ]
    };
    let (old, new) = (facts(&request["oldObject"]), facts(&request["object"]));
    let (created, deleted) = (request["oldObject"].is_null(), request["object"].is_null());
    let changes = old.into_iter().zip(new).filter(|(old, new)| old.1 != new.1 && !deleted).map(|(old, new)| {
        let (name, new) = (new.0, new.1.unwrap_or_else(|| "none".to_owned()));
        match old.1 {
            Some(old) if !created => format!("{name} {old} -> {new}"),
            _ => format!("{name} {new}"),
        }
    });
    let changes: Vec<_> = changes.collect();
    if changes.is_empty() { String::new() } else { format!(": {}", changes.join("; ")) }
}
