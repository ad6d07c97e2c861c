//! Objects written and read past kubectl: many at once, or to look at one place.

use std::{cell::RefCell, future::Future};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    scenario::{Object, RunningObject},
    stack::control_plane::{ControlPlane, client_config},
};

/// Requests under way at once.
const PARALLEL: usize = 16;

/// An API client of a cluster-admin that blocks its thread.
pub struct Api {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Api {
    /// Connects.
    pub fn new(control_plane: &ControlPlane) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let config = client_config(&control_plane.admin_kubeconfig("default")).await?;
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self { runtime, client })
    }

    /// Creates a namespace for each name, with labels.
    pub fn create_namespaces(&self, namespaces: Vec<(String, Value)>) -> Result<()> {
        self.each(namespaces, async |(name, labels)| {
            let namespace = json!({"metadata": {"name": name, "labels": labels}});
            self.send("POST", "/api/v1/namespaces", Some(namespace)).await
        })
    }

    /// Creates objects, each in the namespace that it states.
    pub fn create(&self, objects: Vec<Object>) -> Result<()> {
        self.each(objects, async |object| self.send("POST", &collection(&object), Some(object.manifest())).await)
    }

    /// Creates what runs of Clusters, with the statuses that controllers would write.
    pub fn run(&self, objects: Vec<RunningObject>) -> Result<()> {
        self.each(objects, async |RunningObject { collection, manifest, status }| {
            let created = self.send("POST", &format!("/apis/{collection}"), Some(manifest)).await?;
            let Some(status) = status else { return Ok(created) };
            let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let mut with_status = created;
            with_status["status"] = status;
            self.send("PUT", &format!("/apis/{collection}/{name}/status"), Some(with_status)).await
        })
    }

    /// Deletes objects.
    pub fn delete(&self, objects: Vec<Object>) -> Result<()> {
        self.each(objects, async |object| {
            self.send("DELETE", &format!("{}/{}", collection(&object), object.name()), None).await
        })
    }

    /// The value at a JSON pointer of `of`, such as "clusters/prod"; null if the object is gone or has nothing there.
    pub fn value(&self, namespace: &str, of: &str, pointer: &str) -> Result<Value> {
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/{of}");
        match self.runtime.block_on(self.send("GET", &path, None)) {
            Ok(object) => Ok(object.pointer(pointer).cloned().unwrap_or_default()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
            Err(error) => Err(error).with_context(|| format!("failed to read {of}")),
        }
    }

    fn each<T, F: Future<Output = kube::Result<Value>>>(&self, items: Vec<T>, send: impl Fn(T) -> F) -> Result<()> {
        self.runtime
            .block_on(stream::iter(items).map(send).buffer_unordered(PARALLEL).try_for_each(async |_| Ok(())))?;
        Ok(())
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", "application/json");
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}

fn collection(object: &Object) -> String {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/{}", object.resource())
}

/// Runs `work` with the client of this thread.
pub fn with<T>(control_plane: &ControlPlane, work: impl FnOnce(&Api) -> Result<T>) -> Result<T> {
    thread_local!(static API: RefCell<Option<Api>> = const { RefCell::new(None) });
    API.with_borrow_mut(|api| {
        if api.is_none() {
            *api = Some(Api::new(control_plane)?);
        }
        work(api.as_ref().context("it was just made")?)
    })
}
