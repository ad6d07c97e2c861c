//! Objects as the API server sends them: slim, and never undecodable as a whole.

use std::{borrow::Cow, fmt::Debug};

use kube::{
    Resource,
    api::{ApiResource, ObjectMeta},
    core::{DynamicResourceScope, GroupVersionKind},
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::model::{Cluster, ClusterClass, GROUP, Metadata, ObjectKey, WorkerKind};

/// The version of Cluster API's own kinds that is read. Every Cluster API that has version lists serves it; both shapes
/// decode.
const API_VERSION: &str = "v1beta2";

/// What can be decoded out of an object.
pub trait Decoded: DeserializeOwned + Clone + Debug + Send + Sync + 'static {}

impl<T: DeserializeOwned + Clone + Debug + Send + Sync + 'static> Decoded for T {}

/// A kind that is known beforehand: where it is, and what it takes to name it.
pub trait Kind: Decoded {
    /// The kind, in words for people and for the API.
    const KIND: &'static str;
    /// The resource.
    const PLURAL: &'static str;
    /// The API group.
    const GROUP: &'static str = GROUP;
    /// The API version.
    const VERSION: &'static str = API_VERSION;

    /// The same as kube wants it.
    #[must_use]
    fn resource() -> ApiResource {
        resource(Self::GROUP, Self::VERSION, Self::KIND, Self::PLURAL)
    }
}

impl Kind for Cluster {
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
}

impl Kind for ClusterClass {
    const KIND: &'static str = "ClusterClass";
    const PLURAL: &'static str = "clusterclasses";
}

/// Where a kind of worker sets is.
#[must_use]
pub fn worker_resource(kind: WorkerKind) -> ApiResource {
    resource(GROUP, API_VERSION, kind.as_str(), kind.plural())
}

/// Where a kind is.
pub(super) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// An object as the API server sends it: its name, and what it says if that decodes.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    /// Only name, namespace and resourceVersion; `managedFields` alone would cost more than all the rest.
    metadata: ObjectMeta,
    /// The object, or why it does not decode.
    pub object: Result<T, String>,
}

impl<T> Watched<T> {
    /// The object's key, which even an undecodable object has.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        ObjectKey::new(text(&self.metadata.namespace), text(&self.metadata.name))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Named {
            metadata: Metadata,
        }

        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Named { metadata } = serde_json::from_str(json.get()).unwrap_or_default();
        Ok(Self {
            metadata: ObjectMeta {
                name: Some(metadata.name),
                namespace: Some(metadata.namespace),
                resource_version: Some(metadata.resource_version),
                ..ObjectMeta::default()
            },
            object: serde_json::from_str(json.get()).map_err(|error| error.to_string()),
        })
    }
}

/// The kind is known by its [`ApiResource`], since those of control planes are learned at run time.
impl<T: Decoded> Resource for Watched<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.kind)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.group)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.version)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&resource.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
