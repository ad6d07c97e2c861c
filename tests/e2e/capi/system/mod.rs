//! The whole system in one network of its own: etcd, kube-apiserver, Cluster API's manager with its webhooks, this project's
//! webhook beside it, and simulated providers.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod api;
pub mod definitions;
pub mod extension;
pub mod fleet;
pub mod manager;
pub mod network;
pub mod observe;
pub mod providers;

use std::{path::Path, sync::mpsc, thread};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::AbortHandle};

use self::{
    api::Api,
    manager::{Manager, Options, Release},
    observe::Observer,
    providers::Providers,
};
use crate::stack::{
    control_plane::{ControlPlane, OTHER_ADMIN},
    install::{self, Replica, Role},
    webhook::Webhook,
};

/// A namespace with this label is not guarded: this project's webhook is not called for what is in it.
pub const UNGUARDED: &str = "guard-of-the-tests/off";

/// The user for whom this project's webhook is not called.
pub const EXEMPT: &str = "other-admin";

/// The running system.
pub struct System {
    // Dropped in this order.
    _tasks: Tasks,
    pub webhook: Webhook,
    pub manager: Manager,
    pub providers: Providers,
    pub observer: Observer,
    /// Of a user who may do everything.
    pub api: Api,
    /// Of another one, for whom this project's webhook is not called.
    pub unguarded: Api,
    pub handle: Handle,
    pub control_plane: ControlPlane,
}

impl System {
    /// Starts everything. `config` is the text of the webhook's configuration file, if it has one, and `args` are more of its flags.
    pub fn start(
        directory: &Path,
        release: &Release,
        options: Options,
        config: Option<&str>,
        args: Vec<String>,
    ) -> Result<Self> {
        let handle = drive()?;
        let (control_plane, manager) = start_cluster_api(directory, release, options)?;
        let mut webhook = Webhook::new("guard", &control_plane, config)?;
        webhook.args = args;
        webhook.start(&control_plane)?;
        let guard = Replica { port: webhook.port, role: Role::GuardExcept { user: EXEMPT, label: UNGUARDED } };
        install::webhook_configurations(&control_plane, &[guard])?;
        let kubeconfig = control_plane.admin_kubeconfig("default");
        let other = control_plane.kubeconfig(OTHER_ADMIN, "default", control_plane.port);
        let mut tasks = Tasks::default();
        let (api, unguarded, providers, observer) = handle.block_on(async {
            let api = Api::new(&kubeconfig).await?;
            let unguarded = Api::new(&other).await?;
            // What a Secret holds is read by the manager, which does not read files.
            let ca = control_plane.ca_bundle()?;
            let kubeconfig = kubeconfig.replace(
                &format!("certificate-authority: {:?}", directory.join("ca.crt")),
                &format!("certificate-authority-data: {ca}"),
            );
            let providers = Providers::start(api.clone(), &kubeconfig, &mut tasks);
            let observer = Observer::start(&api, &manager, &mut tasks);
            anyhow::Ok((api, unguarded, providers, observer))
        })?;
        Ok(Self { _tasks: tasks, webhook, manager, providers, observer, api, unguarded, handle, control_plane })
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str, guarded: bool) -> Result<()> {
        self.namespace_with(name, if guarded { json!({}) } else { json!({UNGUARDED: "true"}) }).await?;
        for template in definitions::templates(name, "simulated") {
            self.api.create(&template).await?.object()?;
        }
        Ok(())
    }

    /// Creates a namespace with labels, and nothing in it.
    pub async fn namespace_with(&self, name: &str, labels: Value) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.api.create(&namespace).await?.object().map(drop)
    }
}

/// Starts a control plane with Cluster API, the kinds of the simulated providers, and what this project's webhook needs to start.
pub fn start_cluster_api(directory: &Path, release: &Release, options: Options) -> Result<(ControlPlane, Manager)> {
    let control_plane = ControlPlane::without_crds(directory)?;
    let manager = Manager::start(&control_plane, release, options)?;
    let definitions = definitions::all();
    let kinds: Vec<_> = definitions.iter().map(manager::served).collect::<Result<_>>()?;
    control_plane.create("simulated", definitions)?;
    control_plane.wait_until_served(&kinds)?;
    install::namespace_and_rights(&control_plane)?;
    Ok((control_plane, manager))
}

/// Tasks that end with the system, before what they talk to.
#[derive(Default)]
pub struct Tasks(Vec<AbortHandle>);

impl Tasks {
    /// Runs `task` on the current runtime.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.push(tokio::spawn(task).abort_handle());
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// A runtime that a thread of its own drives, until the program ends.
fn drive() -> Result<Handle> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        // Whoever asked has gone if this fails.
        let _ = tell.send(runtime.handle().clone());
        runtime.block_on(std::future::pending::<()>());
    });
    told.recv().context("failed to start a runtime")
}
