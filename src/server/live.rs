//! Quorum reads, to confirm what the index says before a refusal rests on it.
//!
//! A GET or a LIST without a resourceVersion goes to etcd and returns the newest committed state.

use std::{borrow::Cow, collections::HashMap, future::Future, sync::Arc, time::Duration};

use kube::{
    Api, Client, Config,
    api::{ApiResource, ListParams},
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::Instant};

use crate::{
    fleet::watch::{
        Kind, Refusal, Unreadable, Watched,
        contract::{Unresolved, is_dns_subdomain, kind_name, resolve},
        worker_resource,
    },
    model::{
        Cluster, ControlPlane, ControlPlaneKind, ControlPlaneRef, ControlPlaneState, ObjectKey, Provider, Running,
        WorkerKind, WorkerSet, annotation, distinct_workers, label,
    },
    text::chain,
};

/// How long it is believed where a kind of control planes is.
const RESOLVED_FOR: Duration = Duration::from_mins(1);

/// How long it is believed that it cannot be read. An API server that just started says so of everything.
const UNREADABLE_FOR: Duration = Duration::from_secs(10);

/// More kinds than this are not remembered: a Cluster's author can name any number of them.
const RESOLVED: usize = 64;

/// No object carries a label with a longer value.
const LONGEST_LABEL: usize = 63;

/// Reads from the API server, on the runtime that owns its connections.
#[derive(Clone)]
pub struct Live {
    client: Client,
    runtime: Handle,
    resolved: Arc<Mutex<HashMap<ControlPlaneKind, (Instant, Resolved)>>>,
}

type Resolved = Result<ApiResource, Unreadable>;

/// A read that gave no answer, so that nothing can be said.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {what}: {reason}")]
pub struct LiveReadError {
    what: Cow<'static, str>,
    reason: String,
}

impl LiveReadError {
    fn new(what: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }
}

impl Live {
    /// Makes the client. `runtime` must live as long as the program: the server's workers come and go, and a connection
    /// dies with the runtime that opened it.
    ///
    /// # Errors
    /// If the configuration makes no client.
    pub fn new(mut config: Config, runtime: Handle) -> Result<Self, kube::Error> {
        // The API server waits for us: a failed read is answered, not repeated for minutes.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(2));
        Ok(Self::with_client(Client::try_from(config)?, runtime))
    }

    /// Reads through a client that exists already.
    #[must_use]
    pub fn with_client(client: Client, runtime: Handle) -> Self {
        Self { client, runtime, resolved: Arc::default() }
    }

    /// Reads one object; `None` if it is not there.
    ///
    /// # Errors
    /// If the API server does not answer by `deadline`, refuses, or sends what does not decode.
    pub async fn read<T: Kind>(&self, key: &ObjectKey, deadline: Instant) -> Result<Option<T>, LiveReadError> {
        let failed = |reason: String| LiveReadError::new(format!("{} {key}", T::KIND), reason);
        // Both become parts of a path. The API server's schema lets nothing else through, but it is not asked to prove it.
        if !is_dns_subdomain(&key.namespace) || !is_dns_subdomain(&key.name) {
            return Ok(None);
        }
        let api: Api<Watched<T>> = Api::namespaced_with(self.client.clone(), &key.namespace, &T::resource());
        let name = key.name.to_string();
        match self.by(deadline, async move { api.get_opt(&name).await }).await.map_err(failed)? {
            Err(error) => Err(failed(chain(&error))),
            Ok(None) => Ok(None),
            Ok(Some(watched)) => watched.object.map(Some).map_err(failed),
        }
    }

    /// Reads what runs of a Cluster: the control plane object that it refers to, and the worker sets that its topology owns.
    ///
    /// What cannot be read for want of a right, a definition or a contract label, or does not decode, is unknown, as in the
    /// index; then the annotation that Cluster API writes while it upgrades tells the control plane's version. The limit on
    /// the kinds that are *followed* does not matter here: one read costs little.
    ///
    /// # Errors
    /// If the API server does not answer by `deadline`, or with an error that may be gone at the next try.
    pub async fn running(&self, cluster: &Cluster, deadline: Instant) -> Result<Running, LiveReadError> {
        let control_plane = self.control_plane(cluster, deadline);
        let [deployments, pools] = WorkerKind::ALL.map(|kind| self.worker_versions(kind, cluster, deadline));
        let (control_plane, deployments, pools) = futures::try_join!(control_plane, deployments, pools)?;
        let workers =
            deployments.zip(pools).map(|(deployments, pools)| distinct_workers([deployments, pools].concat()));
        Ok(Running { control_plane, workers })
    }

    async fn control_plane(&self, cluster: &Cluster, deadline: Instant) -> Result<ControlPlaneState, LiveReadError> {
        let Some(reference) = cluster.control_plane_ref() else { return Ok(ControlPlaneState::NotCreated) };
        let provider = Provider::of(&reference.group, &reference.kind);
        let read = self.control_plane_object(&cluster.metadata.namespace, reference, deadline).await?;
        let state = match read {
            Read::Object(object) => ControlPlaneState::of(&object, provider),
            Read::Missing => ControlPlaneState::Missing,
            Read::Unreadable => ControlPlaneState::Unknown,
        };
        Ok(match (state, cluster.metadata.annotations.value(annotation::UPGRADE_STEP)) {
            (ControlPlaneState::Unknown, Some(step)) => ControlPlaneState::at(step.into(), false, provider),
            (state, _) => state,
        })
    }

    async fn control_plane_object(
        &self,
        namespace: &str,
        reference: &ControlPlaneRef,
        deadline: Instant,
    ) -> Result<Read, LiveReadError> {
        if !is_dns_subdomain(namespace) || !is_dns_subdomain(&reference.name) {
            return Ok(Read::Missing);
        }
        let kind = ControlPlaneKind::from(reference);
        let failed = |reason: String| {
            let name = ObjectKey::new(namespace, reference.name.as_str());
            LiveReadError::new(format!("{} {name}", kind_name(&kind)), reason)
        };
        // A second time if what was known of the kind proves to be old.
        for _ in 0..2 {
            let Some(resource) = self.resource(&kind, deadline).await.map_err(failed)? else {
                return Ok(Read::Unreadable);
            };
            let api: Api<Watched<ControlPlane>> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            let name = reference.name.clone();
            let error = match self.by(deadline, async move { api.get(&name).await }).await.map_err(failed)? {
                Ok(watched) => {
                    return Ok(watched.object.map_or(Read::Unreadable, |object| Read::Object(Box::new(object))));
                }
                Err(error) => error,
            };
            match (Refusal::of(&error), &error) {
                (Some(Refusal::NotServed), kube::Error::Api(status)) if status.reason == NOT_FOUND => {
                    return Ok(Read::Missing);
                }
                (Some(refusal), _) => {
                    if refusal == Refusal::Forbidden {
                        self.remember(&kind, Err(Unreadable::refused(refusal, &resource)));
                        return Ok(Read::Unreadable);
                    }
                    self.resolved.lock().remove(&kind);
                }
                (None, _) => return Err(failed(chain(&error))),
            }
        }
        Ok(Read::Unreadable)
    }

    /// Where a kind of control planes is; `None` if it cannot be read.
    async fn resource(&self, kind: &ControlPlaneKind, deadline: Instant) -> Result<Option<ApiResource>, String> {
        let believed = |(at, resolved): &&(Instant, Resolved)| {
            at.elapsed() < if resolved.is_ok() { RESOLVED_FOR } else { UNREADABLE_FOR }
        };
        let known = self.resolved.lock().get(kind).filter(believed).cloned();
        if let Some((_, resolved)) = known {
            return Ok(resolved.ok());
        }
        let (client, asked) = (self.client.clone(), kind.clone());
        let resolved = match self.by(deadline, async move { resolve(&client, &asked).await }).await? {
            Ok(resource) => Ok(resource),
            Err(Unresolved::Unreadable(reason)) => Err(reason),
            Err(Unresolved::Failed(error)) => return Err(chain(&error)),
        };
        self.remember(kind, resolved.clone());
        Ok(resolved.ok())
    }

    fn remember(&self, kind: &ControlPlaneKind, resolved: Resolved) {
        let mut all = self.resolved.lock();
        if all.len() >= RESOLVED {
            all.clear();
        }
        all.insert(kind.clone(), (Instant::now(), resolved));
    }

    /// The versions of a Cluster's worker sets of one kind; `None` if they cannot be told.
    async fn worker_versions(
        &self,
        kind: WorkerKind,
        cluster: &Cluster,
        deadline: Instant,
    ) -> Result<Option<Vec<Arc<str>>>, LiveReadError> {
        let (namespace, name) = (&cluster.metadata.namespace, &cluster.metadata.name);
        // The name becomes a part of a selector.
        if !is_dns_subdomain(namespace) || !is_dns_subdomain(name) || name.len() > LONGEST_LABEL {
            return Ok(Some(Vec::new()));
        }
        let failed = |reason: String| {
            LiveReadError::new(format!("the {}s of Cluster {namespace}/{name}", kind.as_str()), reason)
        };
        let selector = format!("{}={name},{}", label::CLUSTER_NAME, label::TOPOLOGY_OWNED);
        let api: Api<Watched<WorkerSet>> = Api::namespaced_with(self.client.clone(), namespace, &worker_resource(kind));
        let list = async move { api.list(&ListParams::default().labels(&selector)).await };
        match self.by(deadline, list).await.map_err(failed)? {
            Ok(sets) => {
                let versions: Result<Vec<_>, _> =
                    sets.items.into_iter().map(|set| set.object.map(|set| Arc::from(set.version()))).collect();
                Ok(versions.ok())
            }
            Err(error) => match Refusal::of(&error) {
                Some(Refusal::NotServed) => Ok(Some(Vec::new())),
                Some(Refusal::Forbidden) => Ok(None),
                None => Err(failed(chain(&error))),
            },
        }
    }

    /// What the API server answers by `deadline`.
    async fn by<T: Send + 'static>(
        &self,
        deadline: Instant,
        read: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        match tokio::time::timeout_at(deadline, self.runtime.spawn(read)).await {
            Err(_) => Err("the API server did not answer in time".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(read)) => Ok(read),
        }
    }
}

/// The reason of a Status that says that an object is not there. A path that is not served has none.
const NOT_FOUND: &str = "NotFound";

/// What a read of a control plane object gave.
enum Read {
    Object(Box<ControlPlane>),
    Missing,
    Unreadable,
}
