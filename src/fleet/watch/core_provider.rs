//! Which Cluster API is installed: clusterctl's inventory and Cluster API's operator say it.
//!
//! Both are optional; an installation by plain manifests or by Helm has neither. They are watched, so that an upgrade of
//! Cluster API is noticed. Sources: Cluster API `cmd/clusterctl/api/v1alpha3/provider_type.go`, Cluster API operator
//! `api/v1alpha2/provider_types.go`.

use std::{collections::BTreeMap, sync::Arc};

use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;

use super::{
    follow::{Followed, Refusal},
    watched::Kind,
};
use crate::{
    fleet::{ClusterApi, Fleet, Fold, Source, ToldBy},
    model::{Metadata, ObjectKey},
    text::quoted,
};

/// An object that may tell the version of Cluster API's core.
trait TellsVersion: Kind {
    fn metadata(&self) -> &Metadata;
    /// The version, if the object is about the core.
    fn version(&self) -> Option<&str>;
}

/// An entry of clusterctl's inventory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Provider {
    metadata: Metadata,
    #[serde(rename = "type")]
    role: Option<String>,
    #[serde(rename = "providerName")]
    name: Option<String>,
    version: Option<String>,
}

impl Kind for Provider {
    const KIND: &'static str = "Provider";
    const PLURAL: &'static str = "providers";
    const GROUP: &'static str = "clusterctl.cluster.x-k8s.io";
    const VERSION: &'static str = "v1alpha3";
}

impl TellsVersion for Provider {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn version(&self) -> Option<&str> {
        let core = self.role.as_deref() == Some("CoreProvider");
        let ours = core && self.name.as_deref() == Some("cluster-api");
        self.version.as_deref().filter(|_| ours)
    }
}

/// The core as Cluster API's operator installs it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CoreProvider {
    metadata: Metadata,
    spec: Option<CoreProviderSpec>,
    status: Option<CoreProviderStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CoreProviderSpec {
    version: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CoreProviderStatus {
    installed_version: Option<String>,
}

impl Kind for CoreProvider {
    const KIND: &'static str = "CoreProvider";
    const PLURAL: &'static str = "coreproviders";
    const GROUP: &'static str = "operator.cluster.x-k8s.io";
    const VERSION: &'static str = "v1alpha2";
}

impl TellsVersion for CoreProvider {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What runs, else what is about to be installed.
    fn version(&self) -> Option<&str> {
        let given = |text: &Option<String>| text.is_some();
        let installed = self.status.as_ref().map(|status| &status.installed_version).filter(|text| given(text));
        let wanted = self.spec.as_ref().map(|spec| &spec.version);
        installed.or(wanted)?.as_deref()
    }
}

/// The versions that one kind tells, by object.
#[derive(Debug)]
struct Versions<T>(BTreeMap<ObjectKey, String>, std::marker::PhantomData<T>);

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self(BTreeMap::new(), std::marker::PhantomData)
    }
}

impl<T: TellsVersion> Fold for Versions<T> {
    type Object = T;

    fn apply(&mut self, object: T) -> ObjectKey {
        let key = object.metadata().key();
        match object.version().filter(|text| !text.is_empty()) {
            Some(version) => self.0.insert(key.clone(), version.to_owned()),
            None => self.0.remove(&key),
        };
        key
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

/// What both have told so far; `None` before the first answer.
#[derive(Debug, Default)]
struct Told {
    operator: Option<Vec<String>>,
    clusterctl: Option<Vec<String>>,
}

/// Follows both for ever, unless a flag says which Cluster API is installed.
pub(super) async fn follow(client: Client, fleet: Arc<Fleet>) {
    if fleet.cluster_api().told_by == ToldBy::Flag {
        return;
    }
    let told = Mutex::new(Told::default());
    let note = |change: &dyn Fn(&mut Told)| {
        let mut told = told.lock();
        change(&mut told);
        conclude(&told, &fleet);
    };
    futures::join!(
        follow_kind::<Provider>(client.clone(), |versions| note(&|told| told.clusterctl = Some(versions.clone()))),
        follow_kind::<CoreProvider>(client, |versions| note(&|told| told.operator = Some(versions.clone()))),
    );
}

async fn follow_kind<T: TellsVersion>(client: Client, tell: impl Fn(Vec<String>)) {
    let mut objects = Followed::<T>::all(client, T::resource());
    let mut source = Source::<Versions<T>>::default();
    let mut told_forbidden = false;
    loop {
        let refusal = objects
            .until_refused(|event| {
                source.handle(event);
                if source.synced() {
                    tell(source.objects().0.values().cloned().collect());
                }
            })
            .await;
        source = Source::default();
        tell(Vec::new());
        if refusal == Refusal::Forbidden && !std::mem::replace(&mut told_forbidden, true) {
            tracing::warn!(
                kind = T::KIND,
                "forbidden to read the {plural}, so they cannot tell which Cluster API is installed; grant get, list and watch \
                 on {plural}.{group}, or set --cluster-api-version",
                plural = T::PLURAL,
                group = T::GROUP,
            );
        }
        tokio::time::sleep(objects.pause(refusal)).await;
    }
}

/// Takes over what was told, and says it if it is new.
fn conclude(told: &Told, fleet: &Fleet) {
    let Told { operator, clusterctl } = told;
    let versions = |told: &Option<Vec<String>>| told.clone().unwrap_or_default();
    let now = ClusterApi::told(&versions(operator), &versions(clusterctl));
    // Until both have answered, silence means nothing.
    let answered = operator.is_some() && clusterctl.is_some();
    if now.told_by == ToldBy::Nobody && !answered {
        return;
    }
    let before = fleet.set_cluster_api(now.clone());
    if before != now {
        say(&now);
        if now.told_by == ToldBy::Nobody && operator.iter().chain(clusterctl).any(|versions| !versions.is_empty()) {
            tracing::warn!("what tells the version of Cluster API names none; set --cluster-api-version");
        }
    }
}

/// Tells the log what is installed, and what that means.
pub fn say(what: &ClusterApi) {
    let ClusterApi { version, told_by, installed, .. } = what;
    if *told_by == ToldBy::Nobody {
        tracing::info!(
            "nothing tells which Cluster API is installed, so {version} is assumed; set --cluster-api-version if it is another"
        );
        return;
    }
    let (version, told_by) = (quoted(version), told_by.as_str());
    if let Some((major, minor)) = installed.unknown {
        tracing::warn!(
            told_by,
            "Cluster API {version} is installed, and {major}.{minor} is newer than this program knows; it judges by the newest \
             that it knows"
        );
    } else if installed.release.is_none() {
        tracing::warn!(
            told_by,
            "Cluster API {version} is installed, which has no version lists; the rules on lists and paths stay idle"
        );
    } else {
        tracing::info!(told_by, "Cluster API {version} is installed");
    }
}
