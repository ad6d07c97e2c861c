//! Object metadata, reduced to identity, deletion and the labels and annotations that version checks look at.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::ObjectKey;

/// The annotations that are kept while decoding; all others are passed over unread.
pub mod annotation {
    /// On a Cluster: skips Cluster API's checks of version transitions on UPDATE (presence counts, not the value).
    pub const DISABLE_UPDATE_VERSION_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// On a Cluster: lets a Cluster that had no topology get one.
    pub const DISABLE_UPDATE_CLASS_NAME_CHECK: &str =
        "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    /// On a Cluster or class: reconciliation is paused.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// On a Cluster, written by Cluster API: the control plane's version while an upgrade runs.
    pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
    /// On a Cluster, written by Cluster API: the runtime hooks that it has still to call, separated by commas.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

    /// Those whose presence is all that counts.
    const MARKS: [&str; 3] = [DISABLE_UPDATE_VERSION_CHECK, DISABLE_UPDATE_CLASS_NAME_CHECK, PAUSED];
    /// Those whose value is kept.
    const VALUES: [&str; 2] = [UPGRADE_STEP, PENDING_HOOKS];

    /// The known key, and whether its value is kept.
    pub(super) fn known(text: &str) -> Option<(&'static str, bool)> {
        let mark = MARKS.into_iter().map(|key| (key, false));
        mark.chain(VALUES.into_iter().map(|key| (key, true))).find(|(key, _)| *key == text)
    }
}

/// The labels that are kept while decoding.
pub mod label {
    /// The name of the Cluster that an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// On what the topology controller made; presence counts.
    pub const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";
}

/// The part of `metadata` that judgements need. Absent or `null` metadata decodes to the default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// `metadata.name`; empty on a dry run with `generateName` in some API servers.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// `metadata.generateName`.
    #[serde(deserialize_with = "null_is_default")]
    pub generate_name: String,
    /// `metadata.namespace`.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// `metadata.uid`; empty in a manifest.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
    /// `metadata.resourceVersion`; empty in a manifest.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_version: String,
    /// Whether `metadata.deletionTimestamp` is set.
    #[serde(rename = "deletionTimestamp", deserialize_with = "is_present")]
    pub deleting: bool,
    /// The known annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: Annotations,
    /// The known labels.
    #[serde(deserialize_with = "null_is_default")]
    pub labels: Labels,
}

impl Metadata {
    /// The key of the object that this is the metadata of.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_str(), self.name.as_str())
    }
}

/// Those of an object's annotations that this program knows ([`annotation`]).
#[derive(Clone, Debug, Default)]
pub struct Annotations(Vec<(&'static str, Box<str>)>);

impl Annotations {
    /// Whether the annotation is there. Cluster API asks no more of most: a value of "false" counts as well.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == key)
    }

    /// The value of an annotation whose value counts; `None` if it is absent or empty.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut known = Vec::new();
                while let Some(Key(key)) = map.next_key()? {
                    match key {
                        Some((key, true)) => known.push((key, map.next_value::<Box<str>>()?)),
                        // Other values are never looked at: last-applied-configuration alone can be larger than all the rest.
                        Some((key, false)) => {
                            let IgnoredAny = map.next_value()?;
                            known.push((key, Box::default()));
                        }
                        None => {
                            let IgnoredAny = map.next_value()?;
                        }
                    }
                }
                Ok(Annotations(known))
            }
        }

        struct Key(Option<(&'static str, bool)>);

        impl<'de> Deserialize<'de> for Key {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = Key;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an annotation key")
                    }

                    fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                        Ok(Key(annotation::known(text)))
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }

        deserializer.deserialize_map(Keys)
    }
}

/// The [`label`]s that tell whose an object is.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// The name of the Cluster; empty without that label.
    pub cluster_name: String,
    /// Whether the topology controller made the object.
    pub topology_owned: bool,
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        enum Key {
            #[serde(rename = "cluster.x-k8s.io/cluster-name")]
            ClusterName,
            #[serde(rename = "topology.cluster.x-k8s.io/owned")]
            TopologyOwned,
            #[serde(other)]
            Other,
        }

        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Labels::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::ClusterName => {
                            labels.cluster_name = map.next_value::<Option<String>>()?.unwrap_or_default();
                        }
                        Key::TopologyOwned => labels.topology_owned = map.next_value::<Option<IgnoredAny>>()?.is_some(),
                        Key::Other => {
                            let IgnoredAny = map.next_value()?;
                        }
                    }
                }
                Ok(labels)
            }

            /// Labels that are a list say nothing, but make no object undecodable.
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Labels, A::Error> {
                while let Some(IgnoredAny) = list.next_element()? {}
                Ok(Labels::default())
            }
        }

        deserializer.deserialize_any(Keys)
    }
}

/// Reads `null` as if the field were absent, as Kubernetes does.
pub(super) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads whether a field is there and not `null`, whatever its value.
pub(super) fn is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// Reads the texts of `[{version: ..}, ..]`, the form of versions in statuses; empty ones say nothing. Another form says
/// nothing either: a control plane provider may have used the field for something else before it had this meaning.
pub(super) fn versions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Versions(Vec<Item>),
        Other(IgnoredAny),
    }

    #[derive(Deserialize)]
    struct Item {
        #[serde(default, deserialize_with = "null_is_default")]
        version: String,
    }

    Ok(match Form::deserialize(deserializer)? {
        Form::Versions(items) => items.into_iter().map(|item| item.version).filter(|text| !text.is_empty()).collect(),
        Form::Other(IgnoredAny) => Vec::new(),
    })
}
