//! Manifests as they are written: every value of every kind decodes, so that what is wrong can be told with its place.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::Spanned;

use crate::model::Annotations;

/// A value as it was found. `M` and `L` say what is kept of a map and of a list's elements.
#[derive(Debug)]
pub(super) enum Value<M = IgnoredAny, L = IgnoredAny> {
    Map(M),
    List(Vec<L>),
    Text(String),
    Bool(bool),
    Number,
    Null,
}

/// A field that may be absent; `null` counts as absent, as in Kubernetes.
pub(super) type Field<M = IgnoredAny, L = IgnoredAny> = Option<Spanned<Value<M, L>>>;

impl<M, L> Value<M, L> {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Map(_) => "a map",
            Self::List(_) => "a list",
            Self::Text(_) => "text",
            Self::Bool(_) => "a boolean",
            Self::Number => "a number",
            Self::Null => "null",
        }
    }
}

impl<'de, M: Deserialize<'de>, L: Deserialize<'de>> Deserialize<'de> for Value<M, L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<M, L>(std::marker::PhantomData<(M, L)>);

        impl<'de, M: Deserialize<'de>, L: Deserialize<'de>> Visitor<'de> for Any<M, L> {
            type Value = Value<M, L>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                M::deserialize(MapAccessDeserializer::new(map)).map(Value::Map)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                }
                Ok(Value::List(elements))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Value::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Value::Text(text))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Value::Number)
            }

            fn visit_i128<E>(self, _: i128) -> Result<Self::Value, E> {
                Ok(Value::Number)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Value::Number)
            }

            fn visit_u128<E>(self, _: u128) -> Result<Self::Value, E> {
                Ok(Value::Number)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Value::Number)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Value::Null)
            }

            fn visit_none<E>(self) -> Result<Self::Value, E> {
                Ok(Value::Null)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_any(self)
            }
        }

        deserializer.deserialize_any(Any(std::marker::PhantomData))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wire {
    pub(super) api_version: Field,
    pub(super) kind: Field,
    pub(super) metadata: Field<WireMetadata>,
    pub(super) spec: Field<WireSpec>,
    pub(super) status: Field<WireStatus>,
    pub(super) items: Field<IgnoredAny, Spanned<Value<Self>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireMetadata {
    pub(super) name: Field,
    pub(super) generate_name: Field,
    pub(super) namespace: Field,
    pub(super) uid: Field,
    pub(super) resource_version: Field,
    pub(super) deletion_timestamp: Field,
    pub(super) annotations: Field<Annotations>,
    pub(super) labels: Field<WireLabels>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireLabels {
    #[serde(rename = "cluster.x-k8s.io/cluster-name")]
    pub(super) cluster_name: Field,
    #[serde(rename = "topology.cluster.x-k8s.io/owned")]
    pub(super) topology_owned: Field,
}

/// The fields of all kinds: they do not overlap.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireSpec {
    pub(super) paused: Field,
    pub(super) topology: Field<WireTopology>,
    pub(super) control_plane_ref: Field<WireControlPlaneRef>,
    pub(super) kubernetes_versions: Field<IgnoredAny, Spanned<Value>>,
    pub(super) upgrade: Field<WireUpgrade>,
    pub(super) template: Field<WireTemplate>,
    pub(super) version: Field,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireStatus {
    pub(super) version: Field,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireControlPlaneRef {
    pub(super) api_group: Field,
    pub(super) api_version: Field,
    pub(super) kind: Field,
    pub(super) name: Field,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireTemplate {
    pub(super) spec: Field<WireMachineSpec>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireMachineSpec {
    pub(super) version: Field,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireTopology {
    pub(super) class_ref: Field<WireClassRef>,
    pub(super) class: Field,
    pub(super) class_namespace: Field,
    pub(super) version: Field,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireClassRef {
    pub(super) name: Field,
    pub(super) namespace: Field,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUpgrade {
    pub(super) external: Field<WireExternal>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireExternal {
    pub(super) generate_upgrade_plan_extension: Field,
}
