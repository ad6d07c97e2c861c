//! Metrics of the fleet, read when they are asked for.
//!
//! Kinds of control planes are labels too, although a Cluster's author writes them: only those that are followed, which are
//! as many as a flag allows and have a definition that an administrator installed.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

use crate::{
    fleet::{
        Fleet, ToldBy,
        watch::{Access, KindState},
    },
    model::{Cluster, ClusterClass, WorkerKind},
    review::Judged,
};

/// Reads the fleet's numbers.
#[derive(Debug)]
pub(super) struct FleetMetrics(pub(super) Arc<Fleet>);

/// One source of the index.
struct Row {
    kind: Cow<'static, str>,
    objects: usize,
    undecodable: usize,
    staleness: Option<Duration>,
}

impl FleetMetrics {
    fn rows(&self) -> Vec<Row> {
        let fleet = &self.0;
        let index = fleet.index.read();
        let (clusters, classes) = (&index.clusters, &index.classes);
        let mut rows = vec![
            Row {
                kind: Cluster::KIND.into(),
                objects: clusters.objects().len(),
                undecodable: clusters.undecodable(),
                staleness: fleet.clusters.staleness(),
            },
            Row {
                kind: ClusterClass::KIND.into(),
                objects: classes.objects().len(),
                undecodable: classes.undecodable(),
                staleness: fleet.classes.staleness(),
            },
        ];
        rows.extend(WorkerKind::ALL.map(|kind| {
            let source = index.workers(kind);
            Row {
                kind: kind.as_str().into(),
                objects: source.objects().len(),
                undecodable: source.undecodable(),
                staleness: fleet.workers(kind).freshness.staleness(),
            }
        }));
        rows.extend(fleet.control_planes.all().into_iter().filter_map(|(kind, state)| {
            let KindState::Followed(freshness) = state else { return None };
            let source = index.control_planes(&kind)?;
            Some(Row {
                kind: kind.to_string().into(),
                objects: source.objects().len(),
                undecodable: source.undecodable(),
                staleness: freshness.staleness(),
            })
        }));
        rows
    }
}

impl Collector for FleetMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rows = self.rows();
        let versions = self.0.index.read().versions_in_use();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let gauge = MetricType::Gauge;

        let mut family = encoder.encode_descriptor("index_objects", "Objects in the index.", None, gauge)?;
        for Row { kind, objects, .. } in &rows {
            family.encode_family(&[("kind", &**kind)])?.encode_gauge(&number(*objects))?;
        }
        let help = "Objects that do not decode and are left out of the index.";
        let mut family = encoder.encode_descriptor("index_undecodable", help, None, gauge)?;
        for Row { kind, undecodable, .. } in &rows {
            family.encode_family(&[("kind", &**kind)])?.encode_gauge(&number(*undecodable))?;
        }
        let help = "Distinct pairs of class and version that Clusters use, those of deleting Clusters apart.";
        encoder.encode_descriptor("index_versions_in_use", help, None, gauge)?.encode_gauge(&number(versions))?;
        let help = "Time since the API server last gave a sign of life for this kind; absent without an API server.";
        let mut family = encoder.encode_descriptor("index_staleness_seconds", help, None, gauge)?;
        for Row { kind, staleness, .. } in &rows {
            if let Some(staleness) = staleness {
                family.encode_family(&[("kind", &**kind)])?.encode_gauge(&staleness.as_secs_f64())?;
            }
        }
        self.encode_control_plane_kinds(&mut encoder)?;
        self.encode_forbidden(&mut encoder)?;
        self.encode_cluster_api(&mut encoder)
    }
}

impl FleetMetrics {
    fn encode_control_plane_kinds(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (mut followed, mut unreadable) = (0_i64, 0_i64);
        for (_, state) in self.0.control_planes.all() {
            match state {
                KindState::Met => {}
                KindState::Followed(_) => followed += 1,
                KindState::Unreadable(_) => unreadable += 1,
            }
        }
        let help = "Kinds of control planes that Clusters refer to, by whether their objects can be read.";
        let mut family = encoder.encode_descriptor("control_plane_kinds", help, None, MetricType::Gauge)?;
        for (state, count) in [("followed", followed), ("unreadable", unreadable)] {
            family.encode_family(&[("state", state)])?.encode_gauge(&count)?;
        }
        Ok(())
    }

    fn encode_forbidden(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the webhook lacks the right to read this kind of worker sets.";
        let mut family = encoder.encode_descriptor("index_forbidden", help, None, MetricType::Gauge)?;
        for kind in WorkerKind::ALL {
            let forbidden = i64::from(self.0.workers(kind).access() == Access::Forbidden);
            family.encode_family(&[("kind", kind.as_str())])?.encode_gauge(&forbidden)?;
        }
        Ok(())
    }

    fn encode_cluster_api(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let what = self.0.cluster_api();
        let known = what.installed.unknown.is_none();
        let labels = [
            ("version", what.version.as_str()),
            ("source", ToldBy::as_str(what.told_by)),
            ("known", if known { "true" } else { "false" }),
        ];
        let help = "The Cluster API that is taken to be installed, who says so, and whether its planner is known.";
        let mut descriptor = encoder.encode_descriptor("cluster_api", help, None, MetricType::Info)?;
        descriptor.encode_info(&labels)
    }
}
