//! Classes and Clusters of the simulated providers.

use serde_json::{Value, json};

use super::{
    api::CORE,
    definitions::{BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE},
};

/// A class with a worker class `default`. The templates are those of [`super::System::namespace`].
pub fn class(namespace: &str, name: &str, versions: Option<&[String]>) -> Value {
    let of = |group_version: &str, kind: &str| json!({"templateRef": {"apiVersion": group_version, "kind": kind, "name": "simulated"}});
    let machines = of(INFRASTRUCTURE, "SimulatedMachineTemplate");
    let mut class = json!({
        "apiVersion": CORE, "kind": "ClusterClass",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "infrastructure": of(INFRASTRUCTURE, "SimulatedClusterTemplate"),
            "controlPlane": of(CONTROL_PLANE, "SimulatedControlPlaneTemplate"),
            "workers": {"machineDeployments": [{
                "class": "default", "bootstrap": of(BOOTSTRAP, "SimulatedConfigTemplate"), "infrastructure": machines,
            }]},
        },
    });
    if let Some(versions) = versions {
        class["spec"]["kubernetesVersions"] = json!(versions);
    }
    class
}

/// A Cluster of a class, with a worker set of so many replicas if any is given.
pub fn cluster(namespace: &str, name: &str, class: &str, version: &str, workers: Option<u32>) -> Value {
    let mut topology = json!({"classRef": {"name": class}, "version": version});
    if let Some(replicas) = workers {
        let set = json!({"class": "default", "name": "md", "replicas": replicas});
        topology["workers"] = json!({"machineDeployments": [set]});
    }
    json!({
        "apiVersion": CORE, "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"topology": topology},
    })
}
