//! The program itself: its arguments, logs, signals and exit codes.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use capi_version_guard::server::self_made;
use serde_json::Value;

use crate::{
    client::Connection,
    running::{CLUSTERS, cluster, creation},
};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capi-version-guard"));
    command.env_remove("RUST_LOG").env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    command
}

fn run(arguments: &[&str]) -> Output {
    output(program().args(arguments))
}

/// What a program says that ends by itself; one that would serve instead is ended, and the test with it.
fn output(command: &mut Command) -> Output {
    let mut process = Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = process.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        thread::sleep(Duration::from_millis(5));
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    process.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    process.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    Output { status, stdout, stderr }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A directory with a class and nothing else.
fn fleet() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let class = r#"{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"ClusterClass","metadata":{"name":"quick","namespace":"a"},"spec":{"kubernetesVersions":["v1.31.2","v1.32.4"]}}"#;
    fs::write(directory.path().join("class.json"), class).unwrap();
    directory
}

/// A process that ends with its test, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, listening.
struct Serving {
    process: Process,
    webhook: SocketAddr,
    health: SocketAddr,
    ca: Vec<u8>,
    log: mpsc::Receiver<String>,
    _files: Vec<tempfile::TempDir>,
}

impl Serving {
    fn start(arguments: &[&str], levels: &str) -> Self {
        let (fleet, written) = (fleet(), tempfile::tempdir().unwrap());
        let ca = written.path().join("ca.crt");
        let mut command = program();
        command.args(["serve", "--fleet"]).arg(fleet.path()).arg("--write-ca").arg(&ca).args(arguments);
        let read_ca = || {
            assert_eq!(fs::metadata(&ca).unwrap().permissions().mode() & 0o777, 0o644);
            assert_eq!(fs::read_dir(written.path()).unwrap().count(), 1, "nothing is left beside the CA");
            fs::read(&ca).unwrap()
        };
        let serving = Self::of(command.env("RUST_LOG", levels), read_ca, vec![fleet]);
        drop(written);
        serving
    }

    /// Starts it on free ports. `ca` is asked once it listens.
    fn of(command: &mut Command, ca: impl FnOnce() -> Vec<u8>, files: Vec<tempfile::TempDir>) -> Self {
        let child = command
            .args(["--listen=127.0.0.1:0", "--health-listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Process(child);
        let stderr = BufReader::new(process.0.stderr.take().unwrap());
        let (tell, log) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let address = |what: &str| -> SocketAddr {
            loop {
                let line =
                    log.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{what} is never logged"));
                // At the default level nothing but the program itself speaks: no line of the framework's.
                let expected = ["listening on", "DEBUG", " Cluster API v"];
                assert!(expected.iter().any(|part| line.contains(part)), "{line}");
                if line.contains(&format!("({what})")) {
                    let (_, address) = line.split_once("://").unwrap();
                    break address.split(' ').next().unwrap().parse().unwrap();
                }
            }
        };
        let (webhook, health) = (address("webhook"), address("health"));
        address("metrics");
        Self { process, webhook, health, ca: ca(), log, _files: files }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.webhook, &self.ca)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.process.0.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end: exit code, and the log since the last look at it.
    fn end(&mut self) -> (Option<i32>, Vec<String>) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                return (status.code(), self.log.iter().collect());
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn no_request_is_lost_while_the_program_leaves() {
    let mut serving = Serving::start(&["--shutdown-grace=4"], "info");
    let review = creation("u1", &cluster("b", "v1.31.2"));
    let stop = Arc::new(AtomicBool::new(false));
    let closed = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, closed, review) = (Arc::clone(&stop), Arc::clone(&closed), review.clone());
            let (address, ca) = (serving.webhook, serving.ca.clone());
            thread::spawn(move || {
                let mut connection = None;
                let mut served = 0_usize;
                while !stop.load(Ordering::Relaxed) {
                    let mut open = match connection.take() {
                        Some(open) => open,
                        None => Connection::try_open(address, &ca)?,
                    };
                    let response = open.try_post(CLUSTERS, review.as_bytes())?;
                    assert_eq!(response.status, 200);
                    served += 1;
                    if response.closes() {
                        closed.fetch_add(1, Ordering::Relaxed);
                    } else {
                        connection = Some(open);
                    }
                }
                Ok::<_, String>(served)
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(closed.load(Ordering::Relaxed), 0);
    serving.signal("TERM");
    // Until the listener closes every request is answered, on old connections and new ones. The clients stop well before,
    // because one that connects at that very moment cannot be told apart from one that comes too late.
    thread::sleep(Duration::from_secs(2));
    stop.store(true, Ordering::Relaxed);
    let served: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert!(served.iter().all(|served| served.as_ref().is_ok_and(|count| *count > 10)), "{served:?}");
    assert!(closed.load(Ordering::Relaxed) > 8, "connections were asked to close");
    println!("answered while leaving: {served:?}, closed {}", closed.load(Ordering::Relaxed));
    let (code, log) = serving.end();
    assert_eq!(code, Some(0), "{log:?}");
    assert!(
        log.iter().any(|line| line.ends_with("draining: not ready any more, answering on signal=\"SIGTERM\" grace=4s")),
        "{log:?}"
    );
    assert!(log.last().unwrap().ends_with(" INFO drained"), "{log:?}");
}

#[test]
fn an_interrupt_drains_too_and_a_second_ends_at_once() {
    let mut serving = Serving::start(&["--shutdown-grace=0"], "info");
    serving.signal("INT");
    assert_eq!(serving.end().0, Some(0));

    let mut serving = Serving::start(&["--shutdown-grace=60"], "info");
    serving.signal("INT");
    let deadline = Instant::now() + Duration::from_secs(10);
    while Connection::plain(serving.health).get("/readyz").status == 200 {
        assert!(Instant::now() < deadline);
    }
    serving.signal("TERM");
    let (code, log) = serving.end();
    assert_eq!(code, Some(1));
    assert_eq!(log.last().unwrap(), "error: left at once at a second SIGTERM; requests may be unanswered");
}

#[test]
fn each_verdict_is_one_line_whatever_it_is_about() {
    let hostile = "x\n2026-01-01T00:00:00Z  INFO allowed \u{1b}[2J\u{202e}";
    let mut object = cluster(hostile, &format!("v1.31.2{hostile}"));
    object["metadata"]["namespace"] = hostile.into();
    for format in ["text", "json"] {
        let mut serving = Serving::start(&["--shutdown-grace=0", "--log-format", format], "debug,mio=off,polling=off");
        let mut connection = serving.connect();
        assert_eq!(connection.post(CLUSTERS, creation("u1", &cluster("b", "v1.33.0")).as_bytes()).status, 200);
        assert_eq!(connection.post(CLUSTERS, creation("u2", &cluster("b", "v1.32.4")).as_bytes()).status, 200);
        assert_eq!(connection.post(CLUSTERS, creation(hostile, &object).as_bytes()).status, 200);
        drop(connection);
        serving.signal("TERM");
        let (code, log) = serving.end();
        assert_eq!(code, Some(0));
        let verdicts: Vec<_> = log.iter().filter(|line| line.contains("microseconds")).collect();
        assert_eq!(verdicts.len(), 3, "{log:#?}");
        // JSON escapes what ends a line; what it leaves as it is, its readers escape.
        let control = |line: &String| line.chars().any(|c| c.is_control() || (format == "text" && c == '\u{202e}'));
        assert!(!log.iter().any(control), "{log:#?}");
        if format == "json" {
            let lines: Vec<Value> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            let denied = lines.iter().find(|line| line["uid"] == "u1").unwrap();
            let mut denied = denied.clone();
            for varying in ["timestamp", "microseconds"] {
                assert!(denied.as_object_mut().unwrap().remove(varying).is_some(), "{varying}");
            }
            let expected = serde_json::json!({
                "level": "INFO",
                "message": "denied: Cluster a/b: spec.topology.version: v1.33.0 is not in spec.kubernetesVersions of \
                            ClusterClass a/quick; choose v1.32.4, or add v1.33.0 to the class (version-listed)",
                "uid": "u1",
                "resource": "clusters",
                "operation": "CREATE",
                "namespace": "a",
                "name": "b",
                "allowed": false,
                "rules": "version-listed",
                "basis": "manifests",
                "dry_run": false
            });
            assert_eq!(denied, expected);
            assert!(lines.iter().any(|line| line["name"] == hostile), "nothing is lost");
        } else {
            let line = verdicts[0];
            let (at, rest) = line.split_once("  INFO ").unwrap();
            assert!(at.ends_with('Z') && at.len() == 27, "{at}");
            let (said, microseconds) = rest.rsplit_once('=').unwrap();
            assert!(microseconds.parse::<u64>().is_ok(), "{microseconds}");
            assert_eq!(
                said,
                "denied: Cluster a/b: spec.topology.version: v1.33.0 is not in spec.kubernetesVersions of ClusterClass \
                 a/quick; choose v1.32.4, or add v1.33.0 to the class (version-listed) uid=\"u1\" resource=\"clusters\" \
                 operation=\"CREATE\" namespace=\"a\" name=\"b\" allowed=false rules=\"version-listed\" \
                 basis=\"manifests\" dry_run=false microseconds"
            );
        }
    }
}

#[test]
fn a_change_of_nothing_is_logged_at_debug_only() {
    for (levels, expected) in [("info", 0), ("debug", 1)] {
        let mut serving = Serving::start(&["--shutdown-grace=0"], levels);
        let mut review: Value = serde_json::from_str(&creation("u1", &cluster("b", "v1.99.9"))).unwrap();
        review["request"]["operation"] = "UPDATE".into();
        review["request"]["oldObject"] = review["request"]["object"].clone();
        assert_eq!(serving.connect().post(CLUSTERS, review.to_string().as_bytes()).status, 200);
        serving.signal("TERM");
        let (_, log) = serving.end();
        let others = log.iter().filter(|line| !line.contains("DEBUG"));
        assert_eq!(others.count(), 2, "draining and drained: {log:#?}");
        assert_eq!(log.iter().filter(|line| line.contains("uid=\"u1\"")).count(), expected, "{levels}: {log:#?}");
    }
}

#[test]
fn arguments_that_contradict_each_other_are_usage_errors() {
    let usage = "Usage: capi-version-guard serve --fleet <DIR>\n\nFor more information, try '--help'.\n";
    let cases: [(&[&str], String); 4] = [
        (
            &["serve", "--fleet", "d", "--kubeconfig", "f"],
            format!("error: the argument '--fleet <DIR>' cannot be used with '--kubeconfig <FILE>'\n\n{usage}"),
        ),
        (
            &["serve", "--fleet", "d", "--context", "c"],
            format!("error: the argument '--fleet <DIR>' cannot be used with '--context <NAME>'\n\n{usage}"),
        ),
        (
            &["serve", "--write-ca", "f"],
            "error: the following required arguments were not provided:\n  --fleet <DIR>\n\nUsage: capi-version-guard serve \
             --fleet <DIR> --write-ca <FILE>\n\nFor more information, try '--help'.\n"
                .to_owned(),
        ),
        (
            &["serve", "--tls-cert-file", "f"],
            "error: the following required arguments were not provided:\n  --tls-private-key-file <FILE>\n\nUsage: \
             capi-version-guard serve --tls-cert-file <FILE> --tls-private-key-file <FILE>\n\nFor more information, try \
             '--help'.\n"
                .to_owned(),
        ),
    ];
    for (arguments, expected) in cases {
        let Output { status, stderr, stdout } = run(arguments);
        assert_eq!((status.code(), text(&stderr), text(&stdout)), (Some(2), expected, String::new()), "{arguments:?}");
    }
    let Output { status, stdout, .. } = run(&["--version"]);
    assert_eq!(status.code(), Some(0));
    assert_eq!(text(&stdout), concat!("capi-version-guard ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn the_release_of_cluster_api_can_be_given() {
    for text in ["1.13", "latest", "v1.13.x", ""] {
        let Output { status, stderr, .. } = run(&["serve", "--cluster-api-version", text]);
        let expected = format!(
            "error: invalid value '{text}' for '--cluster-api-version <VERSION>': it is not a release of Cluster API; write it \
             in full, such as v1.13.2\n\nFor more information, try '--help'.\n"
        );
        assert_eq!((status.code(), self::text(&stderr)), (Some(2), expected));
    }
    let told = "[!]cluster-api v1.99.0 (source: flag) is newer than this program knows; it judges by the newest that it knows\n";
    let mut serving = Serving::start(&["--shutdown-grace=0", "--cluster-api-version=1.99.0"], "info");
    let ready = Connection::plain(serving.health).get("/readyz?verbose");
    assert!(ready.status == 200 && ready.body.contains(told), "{}", ready.body);
    serving.signal("TERM");
    assert_eq!(serving.end().0, Some(0));
}

#[test]
fn a_fatal_error_is_one_line_and_stands_in_the_termination_log_if_there_is_one() {
    let (fleet, directory) = (fleet(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (log, fleet) = (path("termination-log"), fleet.path().display().to_string());
    let fatal = |arguments: &[&str]| {
        let mut all = vec!["serve", "--termination-log", &log, "--fleet", &fleet, "--health-listen=127.0.0.1:0"];
        all.extend(["--metrics-listen=127.0.0.1:0"]);
        all.extend(arguments);
        let Output { status, stderr, stdout } = run(&all);
        assert_eq!((status.code(), text(&stdout)), (Some(1), String::new()), "{arguments:?}");
        text(&stderr)
    };
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let files = ["--tls-cert-file", &certificate, "--tls-private-key-file", &key, "--listen=127.0.0.1:0"];
    let missing = format!("failed to read {certificate}: No such file or directory (os error 2)");
    assert_eq!(fatal(&files), format!("error: {missing}\n"));
    assert!(!Path::new(&log).exists(), "where there is no such file nobody reads it");

    fs::write(
        &log,
        "something older and longer than the error that follows, as Kubernetes never leaves it there, but who knows",
    )
    .unwrap();
    assert_eq!(fatal(&files), format!("error: {missing}\n"));
    assert_eq!(fs::read_to_string(&log).unwrap(), missing);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    assert_eq!(
        fatal(&[&format!("--listen={address}")]),
        format!("error: failed to listen on {address} (webhook): Address already in use (os error 98)\n")
    );
    let nowhere = path("no/such/ca.crt");
    assert_eq!(
        fatal(&["--listen=127.0.0.1:0", "--write-ca", &nowhere]),
        format!("error: failed to write the CA to {nowhere}: No such file or directory (os error 2)\n")
    );
}

#[test]
fn a_kubeconfig_that_is_none_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig").display().to_string();
    let Output { status, stderr, .. } = run(&["serve", "--kubeconfig", &file]);
    assert_eq!(status.code(), Some(1));
    let stderr = text(&stderr);
    assert!(stderr.starts_with(&format!("error: failed to read the kubeconfig {file}: ")), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn levels_that_mean_nothing_are_an_error() {
    let fleet = fleet();
    let Output { status, stderr, .. } =
        output(program().args(["serve", "--fleet"]).arg(fleet.path()).env("RUST_LOG", "capi=loud"));
    assert_eq!(status.code(), Some(1));
    let stderr = text(&stderr);
    assert!(stderr.starts_with("error: failed to read RUST_LOG: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_configuration_is_carried_out_and_a_bad_one_is_fatal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    fs::write(&file, "rules:\n  version-listed: warn\n").unwrap();
    let config = file.display().to_string();
    let mut serving = Serving::start(&["--shutdown-grace=0", "--config", &config], "info");
    let response = serving.connect().post(CLUSTERS, creation("u1", &cluster("b", "v1.33.0")).as_bytes());
    let review: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(review["response"]["allowed"], true);
    assert_eq!(
        review["response"]["warnings"][0],
        "Cluster a/b: spec.topology.version: v1.33.0 is not in spec.kubernetesVersions of ClusterClass a/quick; choose \
         v1.32.4, or add v1.33.0 to the class (version-listed)"
    );
    serving.signal("TERM");
    assert_eq!(serving.end().0, Some(0));

    fs::write(&file, "rules:\n  version-list: deny\n").unwrap();
    let Output { status, stderr, .. } = run(&["serve", "--fleet", ".", "--config", &config]);
    assert_eq!(status.code(), Some(1));
    assert_eq!(
        text(&stderr),
        format!(
            "error: failed to load the configuration {config}:\n  2:3: unknown rule version-list; did you mean \
             version-listed?\n"
        )
    );
}

/// A kubeconfig for an API server that is not there.
fn kubeconfig(directory: &Path) -> String {
    let file = directory.join("kubeconfig");
    let text = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: a, user: {}}]}\n";
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn without_an_api_server_the_program_runs_and_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path());
    let made = self_made::make("127.0.0.1".parse().unwrap()).unwrap();
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    fs::write(&certificate, &made.pair.certificate).unwrap();
    fs::write(&key, &made.pair.private_key).unwrap();
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let arguments = [
        "serve",
        "--kubeconfig",
        &kubeconfig,
        "--tls-cert-file",
        &certificate,
        "--tls-private-key-file",
        &key,
        "--shutdown-grace=0",
    ];
    let mut serving = Serving::of(program().args(arguments).env("RUST_LOG", "info"), || made.ca.clone(), Vec::new());
    let mut health = Connection::plain(serving.health);
    assert_eq!(health.get("/healthz").status, 200);
    let ready = health.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.body.starts_with("[-]clusters-synced failed: not listed yet\n"), "{}", ready.body);

    let response = serving.connect().post(CLUSTERS, creation("u1", &cluster("b", "v1.31.2")).as_bytes());
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    serving.signal("TERM");
    let (code, log) = serving.end();
    assert_eq!(code, Some(0));
    let told = "WARN no verdict: capi-version-guard has not listed the ClusterClasses yet; try again in a few seconds \
                uid=\"u1\" resource=\"clusters\" operation=\"CREATE\" namespace=\"a\" name=\"b\" retry_soon=true";
    assert!(log.iter().any(|line| line.ends_with(told)), "{log:#?}");
}

#[test]
fn without_certificate_arguments_the_mounted_files_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(directory.path());
    let fatal = |arguments: &[&str]| {
        let Output { status, stderr, .. } = output(program().arg("serve").args(arguments));
        (status.code(), text(&stderr))
    };
    let expected =
        "error: failed to read /etc/capi-version-guard/tls/tls.crt: No such file or directory (os error 2)\n"
            .to_owned();
    assert_eq!(fatal(&["--kubeconfig", &kubeconfig]), (Some(1), expected.clone()));
    let (code, stderr) = fatal(&["--kubeconfig", &kubeconfig, "--context", "b"]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with(&format!("error: failed to use the kubeconfig {kubeconfig}: ")), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    // Where kubectl would look.
    let Output { stderr, .. } = output(program().arg("serve").env("KUBECONFIG", &kubeconfig));
    assert_eq!(text(&stderr), expected);
}
