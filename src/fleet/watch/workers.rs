//! Worker sets: MachineDeployments and MachinePools that a topology owns.
//!
//! The label selector keeps all others on the API server. An object that loses the label is told as deleted, which is
//! what it is here.

use std::sync::Arc;

use kube::Client;

use super::{
    access::Access,
    follow::{Followed, Refusal},
    watched::worker_resource,
};
use crate::{
    fleet::{Event, Fleet},
    model::{WorkerKind, WorkerSet, label},
};

/// Follows one kind of worker sets for ever.
pub(super) async fn follow(kind: WorkerKind, client: Client, fleet: Arc<Fleet>) {
    let source = fleet.workers(kind);
    let resource = worker_resource(kind);
    let mut sets = Followed::<WorkerSet>::all(client, resource.clone()).with_label(label::TOPOLOGY_OWNED);
    loop {
        let refusal = sets
            .until_refused(|event| {
                source.freshness.touch();
                if matches!(event, Event::Completed) {
                    source.set(Access::Granted);
                }
                fleet.index.write().handle_workers(kind, event);
            })
            .await;
        match refusal {
            Refusal::NotServed => {
                // The API server has answered: it knows of none.
                source.freshness.touch();
                if source.set(Access::NotServed) {
                    fleet.index.write().workers_not_served(kind);
                    tracing::info!(kind = kind.as_str(), "not served, so there are none");
                }
            }
            Refusal::Forbidden => {
                if source.set(Access::Forbidden) {
                    fleet.index.write().forget_workers(kind);
                    tracing::warn!(
                        kind = kind.as_str(),
                        "forbidden to read the {plural}, so it cannot be told which versions workers run; grant get, list and \
                         watch on {plural}.{group}",
                        plural = resource.plural,
                        group = resource.group,
                    );
                }
            }
        }
        tokio::time::sleep(sets.pause(refusal)).await;
    }
}
