//! Object metadata, reduced to identity, deletion and the annotations that Cluster API's version checks look at.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// The annotations that are kept while decoding; all others are passed over unread.
pub mod annotation {
    /// On a Cluster: skips Cluster API's checks of version transitions on UPDATE (presence counts, not the value).
    pub const DISABLE_UPDATE_VERSION_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// On a Cluster or class: reconciliation is paused.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";

    pub(super) const KNOWN: [&str; 2] = [DISABLE_UPDATE_VERSION_CHECK, PAUSED];
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
}

/// Those of an object's annotations that this program knows ([`annotation`]).
#[derive(Clone, Debug, Default)]
pub struct Annotations(Vec<&'static str>);

impl Annotations {
    /// Whether the annotation is there. Cluster API asks no more: a value of "false" counts as well.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.contains(&key)
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
                // The values are never looked at: last-applied-configuration alone can be larger than all the rest.
                while let Some((key, IgnoredAny)) = map.next_entry::<Key, _>()? {
                    known.extend(key.0);
                }
                Ok(Annotations(known))
            }
        }

        struct Key(Option<&'static str>);

        impl<'de> Deserialize<'de> for Key {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = Key;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an annotation key")
                    }

                    fn visit_str<E>(self, text: &str) -> Result<Key, E> {
                        Ok(Key(annotation::KNOWN.into_iter().find(|key| *key == text)))
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }

        deserializer.deserialize_map(Keys)
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
