//! The webhook: takes a review in, has it judged, answers. It decides nothing.

use std::{any::Any, collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use actix_web::{
    App, Error, HttpRequest, HttpResponse,
    body::MessageBody,
    dev::{ServiceFactory, ServiceRequest, ServiceResponse},
    http::{ConnectionType, header::ContentType},
    middleware::{Next, from_fn},
    web,
};
use futures::FutureExt;
use tokio::time::Instant;

use super::{
    body::{Gate, check_media_type},
    deadline,
    judge::{Judge, Judgement, Unavailable},
    log,
    metrics::{Metrics, Outcome},
    refusal::{Reason, Refusal, one_line},
    shutdown::Draining,
};
use crate::{
    model::{Change, Cluster, ClusterClass, Metadata},
    review::{self, Judged, Question, Request},
};

/// What the handlers share.
pub struct Webhook {
    /// Who decides.
    pub judge: Judge,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How much is taken in.
    pub gate: Gate,
    /// Whether connections are to be closed.
    pub draining: Draining,
}

/// A kind that the judge knows.
trait Triable: Judged + 'static {
    async fn judge(
        judge: &Judge,
        change: &Change<Self>,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable>;
    fn metadata(&self) -> &Metadata;
}

impl Triable for Cluster {
    async fn judge(
        judge: &Judge,
        change: &Change<Self>,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable> {
        judge.cluster(change, dry_run, deadline).await
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Triable for ClusterClass {
    async fn judge(
        judge: &Judge,
        change: &Change<Self>,
        dry_run: bool,
        deadline: Instant,
    ) -> Result<Judgement, Unavailable> {
        judge.class(change, dry_run, deadline).await
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The webhook's paths.
pub fn app(
    webhook: Arc<Webhook>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = Error,
        InitError = (),
    >,
> {
    App::new()
        .app_data(web::Data::from(webhook))
        .service(resource::<Cluster>("/validate/clusters"))
        .service(resource::<ClusterClass>("/validate/clusterclasses"))
        .default_service(web::to(no_such_path))
        .wrap(from_fn(guard))
}

fn resource<T: Triable>(path: &str) -> actix_web::Resource {
    web::resource(path).route(web::post().to(answer::<T>)).default_service(web::to(no_such_method))
}

async fn no_such_path() -> Result<HttpResponse, Refusal> {
    let message = "there is nothing at this path; the webhooks are /validate/clusters and /validate/clusterclasses";
    Err(Refusal::new(Reason::Path, message))
}

async fn no_such_method() -> Result<HttpResponse, Refusal> {
    Err(Refusal::new(Reason::Method, "reviews are sent by POST"))
}

/// Around every request: a panic ends it alone, refusals are counted, and a leaving server asks for the end of the
/// connection.
async fn guard(
    webhook: web::Data<Webhook>,
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    // What is shared is behind locks that do not poison, each held for whole steps; no half-done change can be seen.
    let answered =
        AssertUnwindSafe(next.call(request)).catch_unwind().await.unwrap_or_else(|panic| Err(panicked(&panic)));
    let error = match &answered {
        Ok(response) => response.response().error(),
        Err(error) => Some(error),
    };
    if let Some(refusal) = error.and_then(Error::as_error::<Refusal>) {
        webhook.metrics.refused(refusal.reason);
        log::refusal(refusal);
    }
    answered.map(|mut response| {
        if webhook.draining.is_set() {
            response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
        }
        response
    })
}

fn panicked(panic: &Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or_default(), "a request was lost to a defect of this program");
    Refusal::new(Reason::Panic, "capi-version-guard met a defect of its own; see its logs").into()
}

async fn answer<T: Triable>(
    webhook: web::Data<Webhook>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, Refusal> {
    let arrived = Instant::now();
    let deadline = arrived + deadline::budget(request.query_string());
    check_media_type(request.headers())?;
    let body = webhook.gate.read(payload, request.headers(), deadline).await?;
    let _place = webhook.gate.place()?;
    let asked = review::parse::<T>(&body.bytes)?;
    // The review owns what it needs of it, and a judgement may wait for the API server.
    drop(body);
    let (answer, outcome) = match &asked.question {
        Question::Judge(change) => judge(&webhook, &asked, change, arrived, deadline).await?,
        Question::NotJudged(text) => {
            let text = one_line(text);
            log::not_judged(&asked, &text);
            (asked.respond_not_judged(&text), Outcome::NotJudged)
        }
        Question::Undecodable(text) => {
            let text = one_line(text);
            log::not_judged(&asked, &text);
            (asked.respond_undecodable(&text), Outcome::Undecodable)
        }
    };
    webhook.metrics.answered(T::RESOURCE, &asked.operation, outcome, arrived.elapsed());
    Ok(HttpResponse::Ok().insert_header(ContentType::json()).body(answer))
}

async fn judge<T: Triable>(
    webhook: &Webhook,
    asked: &Request<T>,
    change: &Change<T>,
    arrived: Instant,
    deadline: Instant,
) -> Result<(Vec<u8>, Outcome), Refusal> {
    let metadata = change.object().metadata();
    let judgement = T::judge(&webhook.judge, change, asked.dry_run, deadline)
        .await
        .inspect_err(|why| log::no_verdict(asked, metadata, why))?;
    let Judgement { verdict, basis, staleness } = &judgement;
    webhook.metrics.told(verdict);
    let mut audit = BTreeMap::from([("basis", basis.as_str().to_owned())]);
    if let Some(staleness) = staleness {
        audit.insert("staleness", format!("{:.1}s", staleness.as_secs_f64()));
    }
    let answer = asked.respond(&metadata.name, verdict, audit);
    log::verdict(asked, metadata, &judgement, arrived);
    Ok((answer, if verdict.allowed() { Outcome::Allowed } else { Outcome::Denied }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use actix_web::{
        HttpResponse,
        test::{TestRequest, call_service, init_service, read_body},
        web,
    };

    use super::{Webhook, app};
    use crate::{
        config::Config,
        fleet::Fleet,
        server::{
            body::{Gate, Limits},
            judge::Judge,
            metrics::Metrics,
            shutdown::Draining,
        },
    };

    #[actix_web::test]
    async fn a_panic_is_answered_with_a_status_and_ends_nothing_else() {
        let fleet = Arc::new(Fleet::default());
        let metrics = Arc::new(Metrics::new(&fleet));
        let webhook = Arc::new(Webhook {
            judge: Judge::new(fleet, None, Config::default()),
            metrics: Arc::clone(&metrics),
            gate: Gate::new(Limits::default()),
            draining: Draining::default(),
        });
        let defect = web::get().to(async || -> HttpResponse { panic!("a defect\nof two lines") });
        let app = init_service(app(webhook).route("/defect", defect)).await;
        for _ in 0..2 {
            let error = actix_web::test::try_call_service(&app, TestRequest::get().uri("/defect").to_request())
                .await
                .err()
                .expect("a panic");
            let response = error.error_response();
            assert_eq!(response.status().as_u16(), 500);
            let body = actix_web::body::to_bytes(response.into_body()).await.expect("a body");
            assert_eq!(
                String::from_utf8_lossy(&body),
                r#"{"apiVersion":"v1","kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"capi-version-guard met a defect of its own; see its logs"}"#
            );
        }
        let response = call_service(&app, TestRequest::get().uri("/validate/clusters").to_request()).await;
        assert_eq!(response.status().as_u16(), 405);
        assert!(!read_body(response).await.is_empty());
        let text = metrics.text().expect("metrics");
        assert!(text.contains("capi_version_guard_refused_requests_total{reason=\"panic\"} 2\n"), "{text}");
        assert!(text.contains("capi_version_guard_refused_requests_total{reason=\"method\"} 1\n"), "{text}");
    }
}
