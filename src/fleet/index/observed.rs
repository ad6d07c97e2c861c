//! What was observed of running Clusters: their control plane objects and worker sets.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    super::source::Source,
    clusters::{Identity, Member},
    control_planes::ControlPlaneIndex,
    workers::WorkerIndex,
};
use crate::model::{
    Cluster, ControlPlaneKind, ControlPlaneState, ObjectKey, Provider, Running, WorkerKind, annotation,
    distinct_workers,
};

/// The sources that tell what runs.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// By kind; a kind that is not here is not followed.
    pub(super) control_planes: BTreeMap<ControlPlaneKind, Source<ControlPlaneIndex>>,
    pub(super) deployments: Source<WorkerIndex>,
    pub(super) pools: Source<WorkerIndex>,
    /// The sources hold what people wrote, not what controllers made: what is not there may exist.
    pub(super) manifests: bool,
}

/// Where to look for what runs of a Cluster.
pub(super) struct Of<'a> {
    namespace: &'a str,
    name: &'a str,
    control_plane: Option<(&'a ControlPlaneKind, &'a str)>,
    step: Option<&'a str>,
}

impl<'a> Of<'a> {
    pub(super) fn member(member: &'a Member) -> Self {
        let Identity { key, control_plane, step } = &*member.0;
        Self {
            namespace: &key.namespace,
            name: &key.name,
            control_plane: control_plane.as_ref().map(|it| (&*it.kind, &*it.name)),
            step: step.as_deref(),
        }
    }
}

impl Observed {
    pub(super) fn workers(&self, kind: WorkerKind) -> &Source<WorkerIndex> {
        match kind {
            WorkerKind::MachineDeployment => &self.deployments,
            WorkerKind::MachinePool => &self.pools,
        }
    }

    pub(super) fn workers_mut(&mut self, kind: WorkerKind) -> &mut Source<WorkerIndex> {
        match kind {
            WorkerKind::MachineDeployment => &mut self.deployments,
            WorkerKind::MachinePool => &mut self.pools,
        }
    }

    /// What is known to run of `cluster`.
    pub(super) fn running_of(&self, cluster: &Cluster) -> Running {
        let reference = cluster.control_plane_ref();
        let kind = reference.map(ControlPlaneKind::from);
        self.running(&Of {
            namespace: &cluster.metadata.namespace,
            name: &cluster.metadata.name,
            control_plane: kind.as_ref().zip(reference.map(|reference| &*reference.name)),
            step: cluster.metadata.annotations.value(annotation::UPGRADE_STEP),
        })
    }

    pub(super) fn running(&self, of: &Of<'_>) -> Running {
        let (control_plane, held) = self.control_plane(of);
        Running { control_plane, workers: self.worker_versions(of, held) }
    }

    /// The control plane, and whether its object was observed.
    fn control_plane(&self, of: &Of<'_>) -> (ControlPlaneState, bool) {
        let Some((kind, name)) = of.control_plane else { return (ControlPlaneState::NotCreated, false) };
        let provider = Provider::of(&kind.group, &kind.kind);
        let source = self.control_planes.get(kind).filter(|source| source.synced());
        let found = source.and_then(|source| source.objects().get(of.namespace, name, provider));
        let held = found.is_some();
        let state = match (found, source) {
            (Some(state), _) => state,
            (None, Some(source)) if !self.manifests && !source.gave_up(&ObjectKey::new(of.namespace, name)) => {
                ControlPlaneState::Missing
            }
            (None, _) => ControlPlaneState::Unknown,
        };
        match (state, of.step) {
            (ControlPlaneState::Unknown, Some(step)) => (ControlPlaneState::at(step.into(), false, provider), held),
            (state, _) => (state, held),
        }
    }

    fn worker_versions(&self, of: &Of<'_>, control_plane_held: bool) -> Option<Arc<[Arc<str>]>> {
        let sources = WorkerKind::ALL.map(|kind| self.workers(kind));
        if sources.iter().any(|source| !source.synced() || source.gave_up_in(of.namespace)) {
            return None;
        }
        let found = sources.map(|source| source.objects().versions(of.namespace, of.name));
        if self.manifests && !control_plane_held && found.iter().all(Option::is_none) {
            return None;
        }
        Some(distinct_workers(found.into_iter().flatten().flatten().cloned()))
    }
}
