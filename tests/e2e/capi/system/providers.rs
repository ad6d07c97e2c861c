//! The simulated providers: they do to their objects what real ones would, at once or after a delay, and tell versions as
//! they are told to.
//!
//! Simulated are the infrastructure, the control plane and the kubelets. A Machine with replicas gets a Node on the same API
//! server, whose kubelet version is the Machine's version to the letter. (Cluster API compares the two as text, so another
//! text for the same version stalls a chain for ever: kubernetes-sigs/cluster-api#14086.)

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::{
    api::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    Tasks,
    api::{self, Api},
    definitions::{BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE, KINDS, plural, resource},
};

/// How the control plane of a Cluster behaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    /// These versions are asked for in vain: the control plane goes on to tell the one that it had.
    pub held: Vec<String>,
    /// With a version held, one machine of the control plane runs it already.
    pub partly: bool,
    /// So long it takes until a version is reached.
    pub delay: Duration,
}

/// The providers at work. They end with the runtime.
#[derive(Clone)]
pub struct Providers {
    api: Api,
    /// What kubeconfig Secrets hold: Cluster API looks for Nodes there.
    kubeconfig: Arc<str>,
    /// By namespace and Cluster.
    behaviors: Arc<Mutex<HashMap<(String, String), Behavior>>>,
}

impl Providers {
    /// Starts them on the current runtime.
    pub fn start(api: Api, kubeconfig: &str, tasks: &mut Tasks) -> Self {
        let providers = Self { api, kubeconfig: kubeconfig.into(), behaviors: Arc::default() };
        for (group_version, kind) in KINDS {
            let this = providers.clone();
            tasks.spawn(async move { this.follow(group_version, kind).await });
        }
        providers
    }

    /// From now on the control plane of that Cluster behaves so.
    pub async fn behave(&self, namespace: &str, cluster: &str, behavior: Behavior) -> Result<()> {
        self.behaviors.lock().insert((namespace.to_owned(), cluster.to_owned()), behavior);
        let selector = format!("labelSelector=cluster.x-k8s.io%2Fcluster-name%3D{cluster}");
        let all = format!("/apis/{CONTROL_PLANE}/namespaces/{namespace}/simulatedcontrolplanes?{selector}");
        let list = self.api.get(&all).await?.unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            self.control_plane(object).await?;
        }
        Ok(())
    }

    fn behavior(&self, namespace: &str, cluster: &str) -> Behavior {
        self.behaviors.lock().get(&(namespace.to_owned(), cluster.to_owned())).cloned().unwrap_or_default()
    }

    async fn follow(&self, group_version: &str, kind: &str) {
        let resource = resource(group_version, kind);
        let objects = kube::Api::<DynamicObject>::all_with(self.api.client(), &resource);
        let mut events = watcher(objects, watcher::Config::default()).default_backoff().applied_objects().boxed();
        while let Some(event) = events.next().await {
            let Ok(object) = event.inspect_err(|error| eprintln!("simulated providers: {error}")) else { continue };
            let this = self.clone();
            let kind = kind.to_owned();
            // One that waits for its delay must not hold up the others.
            tokio::spawn(async move {
                let object = serde_json::to_value(&object).unwrap_or_default();
                let done = match kind.as_str() {
                    "SimulatedCluster" => this.infrastructure(&object).await,
                    "SimulatedMachine" => this.machine(&object).await,
                    "SimulatedControlPlane" => this.control_plane(&object).await,
                    _ => this.config(&object).await,
                };
                if let Err(error) = done {
                    eprintln!("simulated providers: failed to act on {kind} {}: {error:#}", object["metadata"]["name"]);
                }
            });
        }
    }

    async fn infrastructure(&self, object: &Value) -> Result<()> {
        if object.pointer("/status/initialization/provisioned") == Some(&json!(true)) {
            return Ok(());
        }
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}});
        self.merge(INFRASTRUCTURE, object, &endpoint, "").await?;
        self.merge(INFRASTRUCTURE, object, &json!({"status": {"initialization": {"provisioned": true}}}), "/status")
            .await
    }

    async fn config(&self, object: &Value) -> Result<()> {
        if object.pointer("/status/dataSecretName").is_some() {
            return Ok(());
        }
        let (namespace, name) = key(object);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": "nothing to boot"},
        });
        self.create_once(&secret).await?;
        let status = json!({"status": {"dataSecretName": name, "initialization": {"dataSecretCreated": true}}});
        self.merge(BOOTSTRAP, object, &status, "/status").await
    }

    async fn machine(&self, object: &Value) -> Result<()> {
        if object.pointer("/status/initialization/provisioned") == Some(&json!(true)) {
            return Ok(());
        }
        let (namespace, name) = key(object);
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let Some(machine) = owners.into_iter().flatten().find(|owner| owner["kind"] == "Machine") else {
            return Ok(());
        };
        let machine = machine["name"].as_str().unwrap_or_default();
        // The Machine waits for its bootstrap data without telling its infrastructure, so it is asked.
        let machine = loop {
            let path = api::path(api::CORE, "machines", namespace, machine);
            let Some(machine) = self.api.get(&path).await? else { return Ok(()) };
            if machine.pointer("/spec/bootstrap/dataSecretName").is_some() {
                break machine;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let provisioned = json!({"status": {"initialization": {"provisioned": true}}});
        if object.pointer("/spec/providerID").is_some() {
            // It was moved here or restored: its Node is there.
            return self.merge(INFRASTRUCTURE, object, &provisioned, "/status").await;
        }
        let id = format!("simulated://{namespace}/{name}");
        let node = format!("{namespace}-{name}");
        let version = machine.pointer("/spec/version").context("a Machine without a version")?;
        self.create_once(&json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"providerID": id},
        }))
        .await?;
        let info = json!({
            "kubeletVersion": version, "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
        });
        // A Machine is ready when its Node is, and says that it is under no pressure.
        let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(|condition| {
            json!({
                "type": condition, "status": if condition == "Ready" { "True" } else { "False" },
                "reason": "Simulated", "message": "",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        });
        let status = json!({"status": {"nodeInfo": info, "conditions": conditions}});
        self.api.merge(&format!("/api/v1/nodes/{node}/status"), &status).await?.object()?;
        self.merge(INFRASTRUCTURE, object, &json!({"spec": {"providerID": id}}), "").await?;
        self.merge(INFRASTRUCTURE, object, &provisioned, "/status").await
    }

    async fn control_plane(&self, object: &Value) -> Result<()> {
        let (namespace, name) = key(object);
        let Some(cluster) = object.pointer("/metadata/labels/cluster.x-k8s.io~1cluster-name").and_then(Value::as_str)
        else {
            return Ok(());
        };
        self.kubeconfig_secret(namespace, cluster).await?;
        let behavior = self.behavior(namespace, cluster);
        if !behavior.delay.is_zero() && object.pointer("/status/version") != object.pointer("/spec/version") {
            tokio::time::sleep(behavior.delay).await;
        }
        // It may have been changed meanwhile, or be held since.
        let path = api::path(CONTROL_PLANE, "simulatedcontrolplanes", namespace, name);
        let Some(object) = self.api.get(&path).await? else { return Ok(()) };
        let behavior = self.behavior(namespace, cluster);
        let status = control_plane_status(&object, &behavior)?;
        if agrees(object.get("status").unwrap_or(&Value::Null), &status) {
            return Ok(());
        }
        self.merge(CONTROL_PLANE, &object, &json!({"status": status}), "/status").await
    }

    async fn kubeconfig_secret(&self, namespace: &str, cluster: &str) -> Result<()> {
        self.create_once(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": namespace, "name": format!("{cluster}-kubeconfig"),
                "labels": {"cluster.x-k8s.io/cluster-name": cluster},
            },
            "type": "cluster.x-k8s.io/secret", "stringData": {"value": &*self.kubeconfig},
        }))
        .await
    }

    async fn create_once(&self, object: &Value) -> Result<()> {
        let answer = self.api.create(object).await?;
        // It is there already.
        if answer.code == 409 { Ok(()) } else { answer.object().map(drop) }
    }

    async fn merge(&self, group_version: &str, object: &Value, change: &Value, subresource: &str) -> Result<()> {
        let (namespace, name) = key(object);
        let plural = plural(object["kind"].as_str().unwrap_or_default());
        let path = api::path(group_version, &plural, namespace, name);
        let answer = self.api.merge(&format!("{path}{subresource}"), change).await?;
        // It was deleted meanwhile.
        if answer.code == 404 { Ok(()) } else { answer.object().map(drop) }
    }
}

/// The status that a control plane with that spec and behavior would have.
fn control_plane_status(object: &Value, behavior: &Behavior) -> Result<Value> {
    let wanted =
        object.pointer("/spec/version").and_then(Value::as_str).context("a control plane without a version")?;
    let before = object.pointer("/status/version").and_then(Value::as_str);
    let (version, versions) = match before {
        Some(before) if behavior.held.iter().any(|held| held == wanted) && before != wanted => {
            let newer = json!({"version": wanted, "replicas": 1});
            let older = json!({"version": before, "replicas": if behavior.partly { 2 } else { 3 }});
            (before, if behavior.partly { json!([older, newer]) } else { json!([older]) })
        }
        _ => (wanted, json!([{"version": wanted, "replicas": 3}])),
    };
    // Whose class says nothing of replicas has a control plane without a number.
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(3);
    Ok(json!({
        "initialization": {"controlPlaneInitialized": true},
        "version": version, "versions": versions,
        "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "upToDateReplicas": replicas,
        "observedGeneration": object.pointer("/metadata/generation"),
        "conditions": [{
            "type": "Available", "status": "True", "reason": "Simulated", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }))
}

/// Whether `there` holds all of `wanted`.
fn agrees(there: &Value, wanted: &Value) -> bool {
    let wanted: BTreeMap<_, _> = wanted.as_object().into_iter().flatten().collect();
    wanted.into_iter().all(|(name, value)| there.get(name) == Some(value))
}

fn key(object: &Value) -> (&str, &str) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}
