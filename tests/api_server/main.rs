//! What this webhook relies on of the API server, asked of a real kube-apiserver; docs/api-server.md lists it.
//!
//! A hook of the tests records what it is asked and answers as the test says. Each test has a namespace, a hook and a
//! webhook configuration of its own, so all run at once. The objects are of a kind of the tests, for the API server
//! treats Clusters like all other custom resources.
#![allow(missing_docs, reason = "nobody depends on a test")]

mod client;
mod facts;
mod hook;
#[path = "../stack/mod.rs"]
mod stack;

use std::{
    fs,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};

use crate::stack::{control_plane::ControlPlane, trials};

fn main() -> ExitCode {
    trials::exit(run_all())
}

fn run_all() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    // They mostly wait.
    arguments.test_threads.get_or_insert(facts::FACTS.len());
    if arguments.list {
        return Ok(trials::list(&arguments, facts::FACTS.iter().map(|(_, name, _)| (*name).to_owned())));
    }
    let directory = stack::directory("api_server")?;
    let control_plane = Arc::new(start(directory.path())?);
    let trials = facts::FACTS.iter().map(|(namespace, name, fact)| {
        let control_plane = Arc::clone(&control_plane);
        Trial::test(*name, move || {
            fact(&control_plane, namespace).map_err(|error| Failed::from(format!("{namespace}: {error:#}")))
        })
    });
    Ok(trials::run(&arguments, trials, directory))
}

/// A control plane with the kind of the tests, and a namespace for each.
fn start(directory: &Path) -> Result<ControlPlane> {
    let control_plane = ControlPlane::without_crds(directory)?;
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "additionalProperties": {"type": "string"}},
            }}},
        })
    };
    let names = json!({"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"});
    let mut objects = vec![json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.facts.example.com"},
        "spec": {
            "group": "facts.example.com", "scope": "Namespaced", "names": names,
            "conversion": {"strategy": "None"}, "versions": [version("v1", true), version("v1beta1", false)],
        },
    })];
    objects.extend(facts::FACTS.iter().map(|(name, ..)| namespace(name)));
    control_plane.create("given", objects)?;
    control_plane.wait_until_served(&[
        "facts.example.com/v1/things".to_owned(),
        "facts.example.com/v1beta1/things".to_owned(),
    ])?;
    // Written once, before many threads want it.
    fs::write(directory.join("admin.kubeconfig"), control_plane.admin_kubeconfig("default"))?;
    Ok(control_plane)
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Waits until `there` finds something.
fn until<T>(what: &str, longest: Duration, mut there: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = there()? {
            return Ok(found);
        }
        if start.elapsed() > longest {
            bail!("{what}: not within {longest:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
