//! From what a manifest says to an object, or to what is wrong with it and where.

use serde::de::IgnoredAny;
use serde_saphyr::{Location, Spanned};

use super::{
    Manifest, Object, Position, Problem,
    wire::{Field, Value, Wire, WireClassRef, WireControlPlaneRef, WireLabels, WireMetadata, WireSpec, WireTopology},
};
use crate::{
    model::{
        CONTROL_PLANE_GROUP, Cluster, ClusterClass, ControlPlane, ControlPlaneKind, ControlPlaneRef, GROUP, Labels,
        Metadata, Topology, WorkerKind, WorkerSet, label,
    },
    text::quoted,
};

/// What an object is, as far as it decides how it is read.
#[derive(Clone, Debug)]
enum Kind {
    Cluster(ApiVersion),
    ClusterClass,
    ControlPlane(ControlPlaneKind),
    WorkerSet(WorkerKind),
}

impl Kind {
    /// What the two fields say, and whether it is a list of such objects; `None` for what is passed over. The error is
    /// what is wrong with the version.
    fn of(api_version: &str, kind: &str) -> Result<Option<(Self, bool)>, String> {
        let Some((group, version)) = api_version.split_once('/') else { return Ok(None) };
        let (kind, listed) = kind.strip_suffix("List").map_or((kind, false), |kind| (kind, true));
        if group == CONTROL_PLANE_GROUP {
            let known = ControlPlaneKind { group: group.into(), kind: kind.into() };
            return Ok((!kind.ends_with("Template")).then_some((Self::ControlPlane(known), listed)));
        }
        let known: fn(ApiVersion) -> Self = match (group, kind) {
            (GROUP, "Cluster") => Self::Cluster,
            (GROUP, "ClusterClass") => |_| Self::ClusterClass,
            (GROUP, "MachineDeployment") => |_| Self::WorkerSet(WorkerKind::MachineDeployment),
            (GROUP, "MachinePool") => |_| Self::WorkerSet(WorkerKind::MachinePool),
            _ => return Ok(None),
        };
        let version = match version {
            "v1beta1" => ApiVersion::V1Beta1,
            "v1beta2" => ApiVersion::V1Beta2,
            other => {
                return Err(format!(
                    "apiVersion: {GROUP}/{} is not a version that is read; convert it to v1beta2 or v1beta1",
                    quoted(other)
                ));
            }
        };
        Ok(Some((known(version), listed)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiVersion {
    V1Beta1,
    V1Beta2,
}

/// Whether the labels of a worker set say that a topology owns it, or cannot be read. Others are nobody's business here:
/// people write such sets by hand.
fn may_be_owned(metadata: Option<&Spanned<Value<WireMetadata>>>) -> bool {
    let Some(Value::Map(metadata)) = metadata.map(|metadata| &metadata.value) else { return false };
    match metadata.labels.as_ref().map(|labels| &labels.value) {
        None => false,
        Some(Value::Map(labels)) => labels.topology_owned.is_some(),
        Some(_) => true,
    }
}

/// Turns what was found into objects and problems.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) lines_before: u64,
    pub(super) found: &'a mut Vec<Result<Manifest, Problem>>,
}

impl Reader<'_> {
    fn position(&self, at: Location) -> Position {
        // A place that is not known is the document's.
        Position { line: self.lines_before + at.line().max(1), column: at.column().max(1) }
    }

    pub(super) fn problem(&mut self, at: Location, text: String) {
        let position = self.position(at);
        self.found.push(Err(Problem { position, text }));
    }

    /// The object that a document is, if it is one that is read.
    pub(super) fn document(&mut self, wire: Wire, at: Location) {
        self.object(wire, at, None);
    }

    /// An object of any kind. The items of a `ClusterList` need not repeat what the list says of them.
    fn object(&mut self, wire: Wire, at: Location, of_list: Option<&Kind>) {
        let Wire { api_version, kind, metadata, spec, status, items } = wire;
        let text = |field: Field| match field?.value {
            Value::Text(text) => Some(text),
            _ => None,
        };
        let version_at = api_version.as_ref().map_or(at, |field| field.referenced);
        let (kind, listed) = match (text(api_version), text(kind), of_list) {
            (None, None, Some(kind)) => (kind.clone(), false),
            (Some(version), Some(kind), _) if version == "v1" && kind == "List" => return self.items(items, None),
            (Some(version), Some(kind), _) => match Kind::of(&version, &kind) {
                Ok(Some(known)) => known,
                Ok(None) => return,
                Err(text) => return self.problem(version_at, text),
            },
            _ => return,
        };
        if listed {
            return self.items(items, Some(&kind));
        }
        if matches!(kind, Kind::WorkerSet(_)) && !may_be_owned(metadata.as_ref()) {
            return;
        }
        let before = self.found.len();
        let metadata = self.metadata(metadata, at);
        let spec = self.map("spec", spec);
        let object = match kind {
            Kind::Cluster(version) => Object::Cluster(self.cluster(metadata, spec, version)),
            Kind::ClusterClass => Object::ClusterClass(self.class(metadata, spec)),
            Kind::ControlPlane(kind) => {
                let version = self.text("spec.version", spec.and_then(|spec| spec.version));
                let status = self.map("status", status).and_then(|status| status.version);
                let reported = self.text("status.version", status);
                Object::ControlPlane(kind, ControlPlane::from_parts(metadata, version, reported))
            }
            Kind::WorkerSet(kind) => Object::WorkerSet(kind, self.worker_set(metadata, spec)),
        };
        if self.found.len() == before {
            let position = self.position(at);
            self.found.push(Ok(Manifest { position, object }));
        }
    }

    fn items(&mut self, items: Field<IgnoredAny, Spanned<Value<Wire>>>, of_list: Option<&Kind>) {
        for (number, item) in self.list("items", items).into_iter().enumerate() {
            match item.value {
                Value::Map(wire) => self.object(wire, item.referenced, of_list),
                other => self.unexpected(&format!("items[{number}]"), &other, item.referenced, "a map"),
            }
        }
    }

    fn metadata(&mut self, found: Field<WireMetadata>, object: Location) -> Metadata {
        let at = found.as_ref().map_or(object, |found| found.referenced);
        let mut metadata = Metadata::default();
        let before = self.found.len();
        if let Some(found) = self.map("metadata", found) {
            let WireMetadata {
                name,
                generate_name,
                namespace,
                uid,
                resource_version,
                deletion_timestamp,
                annotations,
                labels,
            } = found;
            let at = name.as_ref().map_or(at, |name| name.referenced);
            metadata.name = self.text("metadata.name", name);
            if metadata.name.is_empty() && self.found.len() == before {
                self.problem(at, "metadata.name: is missing".to_owned());
            }
            metadata.generate_name = self.text("metadata.generateName", generate_name);
            metadata.namespace = self.text("metadata.namespace", namespace);
            metadata.uid = self.text("metadata.uid", uid);
            metadata.resource_version = self.text("metadata.resourceVersion", resource_version);
            metadata.deleting = deletion_timestamp.is_some();
            metadata.annotations = self.map("metadata.annotations", annotations).unwrap_or_default();
            if let Some(WireLabels { cluster_name, topology_owned }) = self.map("metadata.labels", labels) {
                let cluster_name = self.text(&format!("metadata.labels[{}]", label::CLUSTER_NAME), cluster_name);
                metadata.labels = Labels { cluster_name, topology_owned: topology_owned.is_some() };
            }
        } else if self.found.len() == before {
            self.problem(at, "metadata.name: is missing".to_owned());
        }
        if metadata.namespace.is_empty() {
            // As kubectl does.
            "default".clone_into(&mut metadata.namespace);
        }
        metadata
    }

    fn cluster(&mut self, metadata: Metadata, spec: Option<WireSpec>, version: ApiVersion) -> Cluster {
        let Some(WireSpec { paused, topology, control_plane_ref, .. }) = spec else {
            return Cluster::from_parts(metadata, false, None, None);
        };
        let paused = match paused {
            None => false,
            Some(Spanned { value: Value::Bool(paused), .. }) => paused,
            Some(other) => {
                self.unexpected("spec.paused", &other.value, other.referenced, "true or false");
                false
            }
        };
        let at = topology.as_ref().map_or(Location::UNKNOWN, |topology| topology.referenced);
        let topology = self.map("spec.topology", topology).map(|topology| self.topology(topology, at, version));
        let at = control_plane_ref.as_ref().map_or(Location::UNKNOWN, |reference| reference.referenced);
        let reference = self
            .map("spec.controlPlaneRef", control_plane_ref)
            .and_then(|reference| self.control_plane_ref(reference, at, version));
        Cluster::from_parts(metadata, paused, topology, reference)
    }

    /// An empty reference counts as none; else all of it is needed.
    fn control_plane_ref(
        &mut self,
        wire: WireControlPlaneRef,
        at: Location,
        version: ApiVersion,
    ) -> Option<ControlPlaneRef> {
        let WireControlPlaneRef { api_group, api_version, kind, name } = wire;
        if [&api_group, &api_version, &kind, &name].iter().all(|field| field.is_none()) {
            return None;
        }
        let before = self.found.len();
        let (group_field, group, (other_field, other)) = match version {
            ApiVersion::V1Beta1 => ("apiVersion", api_version, ("apiGroup", api_group)),
            ApiVersion::V1Beta2 => ("apiGroup", api_group, ("apiVersion", api_version)),
        };
        if let Some(other) = other {
            let version = match version {
                ApiVersion::V1Beta1 => "v1beta1",
                ApiVersion::V1Beta2 => "v1beta2",
            };
            let text = format!("spec.controlPlaneRef.{other_field}: is not known in {version}; write {group_field}");
            self.problem(other.referenced, text);
        }
        let group = self.text(&format!("spec.controlPlaneRef.{group_field}"), group);
        let kind = self.text("spec.controlPlaneRef.kind", kind);
        let name = self.text("spec.controlPlaneRef.name", name);
        if self.found.len() == before {
            for (field, text) in [(group_field, &group), ("kind", &kind), ("name", &name)] {
                if text.is_empty() {
                    self.problem(at, format!("spec.controlPlaneRef.{field}: is missing"));
                }
            }
        }
        let group = match (version, group.split_once('/')) {
            (ApiVersion::V1Beta2, _) => group,
            (ApiVersion::V1Beta1, Some((group, _))) => group.to_owned(),
            (ApiVersion::V1Beta1, None) => {
                if self.found.len() == before {
                    self.problem(at, format!("spec.controlPlaneRef.apiVersion: {} names no group", quoted(&group)));
                }
                String::new()
            }
        };
        Some(ControlPlaneRef { group, kind, name })
    }

    fn worker_set(&mut self, metadata: Metadata, spec: Option<WireSpec>) -> WorkerSet {
        let template = self.map("spec.template", spec.and_then(|spec| spec.template));
        let machine = self.map("spec.template.spec", template.and_then(|template| template.spec));
        let version = self.text("spec.template.spec.version", machine.and_then(|machine| machine.version));
        WorkerSet::from_parts(metadata, version)
    }

    fn topology(&mut self, wire: WireTopology, at: Location, api_version: ApiVersion) -> Topology {
        let WireTopology { class_ref, class, class_namespace, version } = wire;
        let mut topology = Topology::default();
        let before = self.found.len();
        match api_version {
            ApiVersion::V1Beta1 => {
                if let Some(class_ref) = class_ref {
                    let text = "spec.topology.classRef: is not known in v1beta1; write class and classNamespace";
                    self.problem(class_ref.referenced, text.to_owned());
                }
                topology.class = self.text("spec.topology.class", class);
                topology.class_namespace = self.text("spec.topology.classNamespace", class_namespace);
            }
            ApiVersion::V1Beta2 => {
                for (field, instead) in
                    [(&class, ("class", "name")), (&class_namespace, ("classNamespace", "namespace"))]
                {
                    if let Some(field) = field {
                        let (old, new) = instead;
                        let text = format!("spec.topology.{old}: is not known in v1beta2; write classRef.{new}");
                        self.problem(field.referenced, text);
                    }
                }
                if let Some(WireClassRef { name, namespace }) = self.map("spec.topology.classRef", class_ref) {
                    topology.class = self.text("spec.topology.classRef.name", name);
                    topology.class_namespace = self.text("spec.topology.classRef.namespace", namespace);
                }
            }
        }
        if topology.class.is_empty() && self.found.len() == before {
            let field = match api_version {
                ApiVersion::V1Beta1 => "class",
                ApiVersion::V1Beta2 => "classRef.name",
            };
            self.problem(at, format!("spec.topology.{field}: is missing"));
        }
        let before = self.found.len();
        topology.version = self.text("spec.topology.version", version);
        if topology.version.is_empty() && self.found.len() == before {
            self.problem(at, "spec.topology.version: is missing".to_owned());
        }
        topology
    }

    fn class(&mut self, metadata: Metadata, spec: Option<WireSpec>) -> ClusterClass {
        let Some(WireSpec { kubernetes_versions, upgrade, .. }) = spec else {
            return ClusterClass::from_parts(metadata, Vec::new(), None);
        };
        let mut versions = Vec::new();
        for (number, version) in self.list("spec.kubernetesVersions", kubernetes_versions).into_iter().enumerate() {
            versions.push(self.text(&format!("spec.kubernetesVersions[{number}]"), Some(version)));
        }
        let external = self.map("spec.upgrade", upgrade).and_then(|upgrade| upgrade.external);
        let extension = self.map("spec.upgrade.external", external).and_then(|it| it.generate_upgrade_plan_extension);
        let extension = extension.map(|it| self.text("spec.upgrade.external.generateUpgradePlanExtension", Some(it)));
        ClusterClass::from_parts(metadata, versions, extension)
    }

    fn map<M>(&mut self, field: &str, found: Field<M>) -> Option<M> {
        let found = found?;
        match found.value {
            Value::Map(map) => Some(map),
            other => {
                self.unexpected(field, &other, found.referenced, "a map");
                None
            }
        }
    }

    fn list<L>(&mut self, field: &str, found: Field<IgnoredAny, L>) -> Vec<L> {
        let Some(found) = found else { return Vec::new() };
        match found.value {
            Value::List(list) => list,
            other => {
                self.unexpected(field, &other, found.referenced, "a list");
                Vec::new()
            }
        }
    }

    fn text(&mut self, field: &str, found: Field) -> String {
        let Some(found) = found else { return String::new() };
        match found.value {
            Value::Text(text) => return text,
            Value::Number | Value::Bool(_) => {
                let word = self.source(found.defined).unwrap_or("it");
                let text = format!("{field}: {word} is {}, not text; put it in quotes", found.value.kind());
                self.problem(found.referenced, text);
            }
            other => self.unexpected(field, &other, found.referenced, "text"),
        }
        String::new()
    }

    /// A scalar as the file has it: a number's own digits are gone once it is read (1.30 is 1.3).
    fn source(&self, at: Location) -> Option<&str> {
        let (start, len) = (at.span().byte_offset()?, at.span().byte_len()?);
        let start = usize::try_from(start).ok()?;
        self.text.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    fn unexpected<M, L>(&mut self, field: &str, found: &Value<M, L>, at: Location, expected: &str) {
        self.problem(at, format!("{field}: is {}, not {expected}", found.kind()));
    }
}
