//! `/healthz` and `/readyz`, in plain HTTP, in the words of Kubernetes' own components.
//!
//! Healthy is a process that answers. Ready is one whose verdicts can be relied on: it knows both kinds, has heard of them
//! lately, serves a valid certificate and is not about to leave. What else it knows of the fleet makes its warnings better;
//! what is missing of that is told by `?verbose`, and never takes a Pod out of service.

use std::{
    fmt::Write,
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::Server, web};

use super::{Listener, judge::STALE, shutdown::Draining, tls::Certificates};
use crate::{
    fleet::{
        ClusterApi, Fleet,
        watch::{Access, KindState, contract::kind_name},
    },
    model::{GROUP, WorkerKind},
    text::quoted,
};

/// What readiness is made of.
#[derive(Debug)]
pub struct Health {
    /// The fleet.
    pub fleet: Arc<Fleet>,
    /// What is served.
    pub certificates: Arc<Certificates>,
    /// Whether the program is about to leave.
    pub draining: Draining,
}

/// One condition: its name, and what is wrong if it is not met.
type Check = (&'static str, Result<(), String>);

impl Health {
    fn checks(&self) -> [Check; 6] {
        let (clusters, classes) = {
            let index = self.fleet.index.read();
            (index.clusters.synced(), index.classes.synced())
        };
        let not_listed = || NOT_LISTED.to_owned();
        [
            ("clusters-synced", clusters.then_some(()).ok_or_else(not_listed)),
            ("clusterclasses-synced", classes.then_some(()).ok_or_else(not_listed)),
            ("clusters-fresh", fresh(self.fleet.clusters.staleness())),
            ("clusterclasses-fresh", fresh(self.fleet.classes.staleness())),
            ("certificate", valid(self.certificates.not_after(), SystemTime::now())),
            ("shutdown", if self.draining.is_set() { Err("about to leave".to_owned()) } else { Ok(()) }),
        ]
    }
}

/// Something to know that makes no Pod unready: its name, and how it is or what is wrong.
type Note = (String, Result<String, String>);

fn notes(fleet: &Fleet) -> Vec<Note> {
    let mut notes = Vec::from(WorkerKind::ALL.map(|kind| (kind.plural().to_owned(), worker_sets(fleet, kind))));
    for (kind, state) in fleet.control_planes.all() {
        let note = match state {
            KindState::Met => Err(NOT_LISTED.to_owned()),
            KindState::Followed(freshness) => fresh(freshness.staleness()).map(|()| OK.to_owned()),
            KindState::Unreadable(reason) => Err(format!("cannot be read: {reason}")),
        };
        notes.push((format!("control-planes {}", kind_name(&kind)), note));
    }
    let ClusterApi { version, told_by, installed, .. } = fleet.cluster_api();
    let version = format!("{} (source: {})", quoted(&version), told_by.as_str());
    let note = if installed.unknown.is_some() {
        Err(format!("{version} is newer than this program knows; it judges by the newest that it knows"))
    } else if installed.release.is_none() {
        Err(format!("{version} has no version lists; the rules on lists and paths stay idle"))
    } else {
        Ok(version)
    };
    notes.push(("cluster-api".to_owned(), note));
    notes
}

fn worker_sets(fleet: &Fleet, kind: WorkerKind) -> Result<String, String> {
    let source = fleet.workers(kind);
    match source.access() {
        Access::Forbidden => {
            let plural = kind.plural();
            Err(format!("reading them is forbidden; grant get, list and watch on {plural}.{GROUP}"))
        }
        Access::NotServed => Ok("not served".to_owned()),
        Access::Granted | Access::Unknown if fleet.index.read().workers(kind).synced() => {
            fresh(source.freshness.staleness()).map(|()| OK.to_owned())
        }
        Access::Granted | Access::Unknown => Err(NOT_LISTED.to_owned()),
    }
}

const OK: &str = "ok";
const NOT_LISTED: &str = "not listed yet";

/// A certificate that has expired fails every call, and a Pod that is not ready says so where people look.
fn valid(not_after: i64, now: SystemTime) -> Result<(), String> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = not_after - i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if left > 0 { Ok(()) } else { Err(format!("expired {} s ago", -left)) }
}

/// A source that was never heard of is not listed either, and one that is read from files is never stale.
fn fresh(staleness: Option<Duration>) -> Result<(), String> {
    match staleness {
        Some(staleness) if staleness >= STALE => Err(format!("not heard of for {} s", staleness.as_secs())),
        _ => Ok(()),
    }
}

/// Serves the probes.
pub(super) fn server(listener: Listener, health: Arc<Health>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::from(Arc::clone(&health)))
            .route("/healthz", web::get().to(async || HttpResponse::Ok().content_type(TEXT).body("ok")))
            .route("/readyz", web::get().to(ready))
    });
    Ok(server.workers(1).tcp_nodelay(true).disable_signals().listen(listener)?.run())
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn ready(health: web::Data<Health>, request: HttpRequest) -> HttpResponse {
    let checks = health.checks();
    let ready = checks.iter().all(|(_, check)| check.is_ok());
    let verbose = request.query_string().split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let mut response = if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    let notes = if verbose { notes(&health.fleet) } else { Vec::new() };
    let text = if ready && !verbose { "ok".to_owned() } else { report(&checks, &notes, ready) };
    response.content_type(TEXT).body(text)
}

fn report(checks: &[Check], notes: &[Note], ready: bool) -> String {
    let mut text = String::new();
    for (name, check) in checks {
        // Writing to a String cannot fail.
        let _ = match check {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(problem) => writeln!(text, "[-]{name} failed: {problem}"),
        };
    }
    for (name, note) in notes {
        let _ = match note {
            Ok(how) => writeln!(text, "[+]{name} {how}"),
            Err(problem) => writeln!(text, "[!]{name} {problem}"),
        };
    }
    text.push_str(if ready { "readyz check passed\n" } else { "readyz check failed\n" });
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{fresh, notes, report, valid};
    use crate::{
        fleet::{
            ClusterApi, Fleet, ToldBy,
            watch::{Access, KindState, Unreadable},
        },
        model::{ControlPlaneKind, WorkerKind},
    };

    #[test]
    fn what_makes_no_pod_unready_is_told_all_the_same() {
        let fleet = Fleet::default();
        let kind = |kind: &str| ControlPlaneKind { group: "example.com".into(), kind: kind.into() };
        fleet.workers(WorkerKind::MachineDeployment).set(Access::Forbidden);
        fleet.workers(WorkerKind::MachinePool).set(Access::NotServed);
        fleet.control_planes.set(&kind("A"), KindState::Followed(std::sync::Arc::default()));
        fleet.control_planes.set(&kind("A1"), KindState::Met);
        fleet.control_planes.set(&kind("B"), KindState::Unreadable(Unreadable::NoDefinition("bs.example.com".into())));
        fleet.control_planes.set(&kind("C\n"), KindState::Unreadable(Unreadable::Illegal));
        let text = "[!]machinedeployments reading them is forbidden; grant get, list and watch on \
                    machinedeployments.cluster.x-k8s.io\n\
                    [+]machinepools not served\n\
                    [+]control-planes A.example.com ok\n\
                    [!]control-planes A1.example.com not listed yet\n\
                    [!]control-planes B.example.com cannot be read: there is no CustomResourceDefinition bs.example.com\n\
                    [!]control-planes \"C\\n.example.com\" cannot be read: no CustomResourceDefinition can have this group \
                    and kind\n\
                    [+]cluster-api v1.14 (source: default)\nreadyz check passed\n";
        assert_eq!(report(&[], &notes(&fleet), true), text);
        for (version, told) in [
            ("1.13.2", "[+]cluster-api v1.13.2 (source: operator)\n"),
            (
                "v1.15.0",
                "[!]cluster-api v1.15.0 (source: operator) is newer than this program knows; it judges by the newest that \
                 it knows\n",
            ),
            (
                "v1.11.0",
                "[!]cluster-api v1.11.0 (source: operator) has no version lists; the rules on lists and paths stay idle\n",
            ),
        ] {
            fleet.set_cluster_api(ClusterApi::of_version(version, ToldBy::Operator).expect("a version"));
            let text = report(&[], &notes(&fleet), true);
            assert!(text.contains(told), "{text}");
        }
    }

    #[test]
    fn silence_of_a_minute_is_stale() {
        let failed = |text: &str| Err(text.to_owned());
        assert_eq!(fresh(None), Ok(()));
        assert_eq!(fresh(Some(Duration::from_millis(59_999))), Ok(()));
        assert_eq!(fresh(Some(Duration::from_mins(1))), failed("not heard of for 60 s"));
        assert_eq!(fresh(Some(Duration::from_millis(3_600_900))), failed("not heard of for 3600 s"));
    }

    #[test]
    fn a_certificate_is_valid_until_its_end() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(valid(1_001, now), Ok(()));
        assert_eq!(valid(1_000, now), Err("expired 0 s ago".to_owned()));
        assert_eq!(valid(-10, now), Err("expired 1010 s ago".to_owned()));
    }
}
