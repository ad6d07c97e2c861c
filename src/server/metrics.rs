//! Metrics, in `OpenMetrics` text.
//!
//! Labels hold words of this program, kinds and Cluster API's version, never the name of an object or what a request says:
//! those have no bound.

use std::{fmt, sync::Arc, time::Duration};

use actix_web::{App, HttpResponse, HttpServer, dev::Server, web};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

use super::{Listener, fleet_metrics::FleetMetrics, refusal::Reason};
use crate::{
    fleet::Fleet,
    model::{Cluster, ClusterClass},
    review::Judged,
    rules::RULES,
    verdict::Verdict,
};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The smallest bucket of the API server's own histogram is 5 ms; below it are those that tell a slow judgement.
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// What became of a readable review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change may go on.
    Allowed,
    /// The change is denied.
    Denied,
    /// The review asks for something else.
    NotJudged,
    /// The change does not decode.
    Undecodable,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Allowed, Self::Denied, Self::NotJudged, Self::Undecodable];

    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::NotJudged => "not_judged",
            Self::Undecodable => "undecodable",
        }
    }
}

/// The metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels<3>, Counter>,
    findings: Family<Labels<2>, Counter>,
    durations: Family<Labels<1>, Histogram>,
    refused: Family<Labels<1>, Counter>,
    reload_failures: Counter,
    not_after: Gauge,
}

impl Metrics {
    /// The metrics of a server with this fleet. Every series whose labels are known is there from the start, at zero, so
    /// that the first increase of each is seen as one.
    #[must_use]
    pub fn new(fleet: &Arc<Fleet>) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("capi_version_guard"),
            requests: Family::default(),
            findings: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refused: Family::default(),
            reload_failures: Counter::default(),
            not_after: Gauge::default(),
        };
        metrics.register(fleet);
        metrics.start_at_zero();
        metrics
    }

    fn register(&mut self, fleet: &Arc<Fleet>) {
        let registry = &mut self.registry;
        registry.register("requests", "Reviews answered", self.requests.clone());
        registry.register("findings", "Findings of rules in reviews, by what they did", self.findings.clone());
        registry.register(
            "request_duration_seconds",
            "Time from the head of a review to its answer, the reading of its body included",
            self.durations.clone(),
        );
        registry.register("refused_requests", "Requests answered with an HTTP error", self.refused.clone());
        registry.register(
            "certificate_reload_failures",
            "Attempts to load a changed certificate that failed; the last good one is still served",
            self.reload_failures.clone(),
        );
        registry.register(
            "certificate_not_after_timestamp_seconds",
            "When the served certificate expires, in Unix time",
            self.not_after.clone(),
        );
        registry.register("build", "The running program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(FleetMetrics(Arc::clone(fleet))));
    }

    fn start_at_zero(&self) {
        for resource in [Cluster::RESOURCE, ClusterClass::RESOURCE] {
            let _ = self.durations.get_or_create(&[("resource", resource)]);
            for operation in OPERATIONS {
                for outcome in [Outcome::Allowed, Outcome::Denied] {
                    let _ = self.requests.get_or_create(&request_labels(resource, operation, outcome));
                }
            }
        }
        for rule in &RULES {
            for effect in [DENY, WARN] {
                let _ = self.findings.get_or_create(&[("rule", rule.name), ("effect", effect)]);
            }
        }
        for reason in Reason::ALL {
            let _ = self.refused.get_or_create(&[("reason", reason.as_str())]);
        }
    }

    /// Counts an answered review.
    pub fn answered(&self, resource: &'static str, operation: &str, outcome: Outcome, took: Duration) {
        let operation = OPERATIONS.into_iter().find(|known| *known == operation).unwrap_or("other");
        self.requests.get_or_create(&request_labels(resource, operation, outcome)).inc();
        self.durations.get_or_create(&[("resource", resource)]).observe(took.as_secs_f64());
    }

    /// Counts what a verdict says.
    pub fn told(&self, verdict: &Verdict) {
        for (findings, effect) in [(&verdict.denials, DENY), (&verdict.warnings, WARN)] {
            for finding in findings {
                self.findings.get_or_create(&[("rule", finding.rule), ("effect", effect)]).inc();
            }
        }
    }

    /// Counts a refused request.
    pub fn refused(&self, reason: Reason) {
        self.refused.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    /// Counts a certificate that did not load.
    pub fn reload_failed(&self) {
        self.reload_failures.inc();
    }

    /// Notes the end of the served certificate, in Unix time.
    pub fn serves_until(&self, not_after: i64) {
        self.not_after.set(not_after);
    }

    /// All metrics as `OpenMetrics` text.
    ///
    /// # Errors
    /// None that can happen while writing to a String.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

const OPERATIONS: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];
const DENY: &str = "deny";
const WARN: &str = "warn";

fn request_labels(resource: &'static str, operation: &'static str, outcome: Outcome) -> Labels<3> {
    debug_assert!(Outcome::ALL.contains(&outcome));
    [("resource", resource), ("operation", operation), ("verdict", outcome.as_str())]
}

/// Serves `/metrics`, in plain HTTP.
pub(super) fn server(listener: Listener, metrics: Arc<Metrics>) -> std::io::Result<Server> {
    let server = HttpServer::new(move || {
        App::new().app_data(web::Data::from(Arc::clone(&metrics))).route("/metrics", web::get().to(show))
    });
    Ok(server.workers(1).tcp_nodelay(true).disable_signals().listen(listener)?.run())
}

async fn show(metrics: web::Data<Metrics>) -> HttpResponse {
    match metrics.text() {
        Ok(text) => HttpResponse::Ok().content_type(CONTENT_TYPE).body(text),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
