//! Serves the fleet of `examples/fleet` on loopback, sends the reviews of `examples/reviews` as an API server would, and
//! shows each change with its verdict. Run by `make demo`.

use std::{
    fs,
    io::{BufRead, BufReader, IsTerminal, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use openssl::ssl::{SslConnector, SslMethod, SslStream};
use serde_json::Value;

/// What is shown of an object that is created; of an update, whatever changes.
const TELLING: [&str; 3] = ["spec.topology.classRef", "spec.topology.version", "spec.kubernetesVersions"];

fn main() -> Result<()> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let server = Server::start(&examples.join("fleet"))?;
    println!("capi-version-guard serves the fleet of examples/fleet at https://{}\n", server.address);

    let mut reviews: Vec<PathBuf> =
        fs::read_dir(examples.join("reviews"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    reviews.sort();
    let mut connection = server.connect()?;
    let mut denied = 0;
    for (at, path) in reviews.iter().enumerate() {
        let review: Value =
            serde_json::from_slice(&fs::read(path)?).with_context(|| format!("failed to read {}", path.display()))?;
        let request = &review["request"];
        let answer = connection.post(&format!("/validate/{}", text(&request["resource"]["resource"])), &review)?;
        let response = &answer["response"];
        ensure!(response["uid"] == request["uid"], "the answer to {} belongs to another review", path.display());
        println!("{:2}. {}", at + 1, headline(request));
        for change in changes(request) {
            println!("      {change}");
        }
        let allowed = response["allowed"] == true;
        denied += usize::from(!allowed);
        println!("    {}", if allowed { paint("32", "allowed") } else { paint("31", "denied") });
        if !allowed {
            println!("      {}", text(&response["status"]["message"]));
        }
        for warning in response["warnings"].as_array().into_iter().flatten() {
            println!("      {} {}", paint("33", "Warning:"), text(warning));
        }
        println!();
    }
    println!("{} changes: {} allowed, {denied} denied.", reviews.len(), reviews.len() - denied);
    server.stop()
}

fn headline(request: &Value) -> String {
    let [operation, kind, namespace, name] =
        [&request["operation"], &request["kind"]["kind"], &request["namespace"], &request["name"]].map(text);
    format!("{operation} {kind} {namespace}/{name}")
}

/// What the request changes, one line each.
fn changes(request: &Value) -> Vec<String> {
    let (old, new) = (&request["oldObject"], &request["object"]);
    let mut lines = Vec::new();
    match (old, new) {
        (_, Value::Null) => {}
        (Value::Null, new) => {
            for path in TELLING {
                let value = path.split('.').fold(new, |value, key| &value[key]);
                if !value.is_null() {
                    lines.push(format!("{path}: {}", shown(value)));
                }
            }
        }
        (old, new) => compare("", old, new, &mut lines),
    }
    lines
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, &old[key], &new[key], lines);
            }
        }
        (old, new) => lines.push(format!("{path}: {} -> {}", shown(old), shown(new))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| format!("{key} {}", shown(value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn paint(color: &str, word: &str) -> String {
    if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[{color}m{word}\x1b[0m")
    } else {
        word.to_owned()
    }
}

/// The running server; it ends with this value.
struct Server {
    process: Child,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Server {
    fn start(fleet: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        // Cargo puts examples one directory below the program.
        let program = std::env::current_exe()?
            .parent()
            .and_then(Path::parent)
            .map(|directory| directory.join("capi-version-guard"))
            .filter(|program| program.exists())
            .context("there is no capi-version-guard beside this example: run `make demo`")?;
        let process = Command::new(program)
            .arg("serve")
            .arg("--fleet")
            .arg(fleet)
            .arg("--write-ca")
            .arg(directory.path().join("ca.crt"))
            .args(["--listen", "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
            .args(["--shutdown-grace", "0"])
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start capi-version-guard")?;
        let mut server = Self { process, address: SocketAddr::from(([127, 0, 0, 1], 0)), directory };
        let log = server.process.stderr.take().context("the server has no stderr")?;
        let mut log = BufReader::new(log).lines();
        let mut told = String::new();
        for line in &mut log {
            let line = line?;
            let address = line.split_once("listening on https://").and_then(|(_, rest)| rest.split_once(' '));
            if let Some((address, _)) = address {
                server.address = address.parse()?;
                // Nobody reads the rest, but a full pipe would stop the server.
                thread::spawn(move || log.for_each(drop));
                return Ok(server);
            }
            told.push_str(&line);
            told.push('\n');
        }
        bail!("the server did not start:\n{told}")
    }

    fn connect(&self) -> Result<Connection> {
        let mut trust = SslConnector::builder(SslMethod::tls_client())?;
        trust.set_ca_file(self.directory.path().join("ca.crt"))?;
        let stream = trust.build().connect("localhost", TcpStream::connect(self.address)?)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Asks it to end, as Kubernetes does.
    fn stop(mut self) -> Result<()> {
        Command::new("kill").arg("-TERM").arg(self.process.id().to_string()).status()?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One connection for all calls, as the API server keeps it.
struct Connection(BufReader<SslStream<TcpStream>>);

impl Connection {
    fn post(&mut self, path: &str, review: &Value) -> Result<Value> {
        let body = serde_json::to_vec(review)?;
        write!(
            self.0.get_mut(),
            "POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        )?;
        self.0.get_mut().write_all(&body)?;

        let mut status = String::new();
        self.0.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.0.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer)?;
        ensure!(
            status.starts_with("HTTP/1.1 200 "),
            "the server answered {}: {}",
            status.trim(),
            String::from_utf8_lossy(&answer)
        );
        Ok(serde_json::from_slice(&answer)?)
    }
}
