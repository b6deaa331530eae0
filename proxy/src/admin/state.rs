//! What the admin plane is given to show.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use whippletree_policies::ids::{KeyIndex, ProviderId, TargetId};
use whippletree_policies::route::health::Standing;

use super::problem::Problem;
use crate::config::reload::Live;
use crate::server::Counts;
use crate::store::query::Reader;
use crate::store::{Recorder, StoreError};
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;
use crate::upstream::PoolCounts;

/// Reads of the store at once; others wait.
const READS: usize = 4;

/// How long a read waits for records that are being committed.
const CATCH_UP: Duration = Duration::from_secs(1);

/// What the gateway tells of itself.
pub trait Gateway: std::fmt::Debug + Send + Sync {
    /// What is known of each target that was used.
    fn standings(&self) -> Vec<Standing>;

    /// Calls to a target under way.
    fn in_flight(&self, target: &TargetId) -> u32;

    /// Connections to each provider.
    fn pools(&self) -> Vec<(ProviderId, PoolCounts)>;

    /// Connections of clients.
    fn connections(&self) -> Counts;

    /// A person says that a target works again. Says whether it was shut.
    fn restore(&self, target: &TargetId) -> bool;

    /// A person says that a provider's key works again. Says whether it was locked.
    fn unlock(&self, provider: &str, key: KeyIndex) -> bool;

    /// Whether it takes no new requests because it is shutting down.
    fn is_draining(&self) -> bool;
}

/// Everything the admin plane shows.
#[derive(Debug)]
pub struct AdminState {
    pub(super) gateway: Arc<dyn Gateway>,
    pub(super) config: Arc<Live>,
    pub(super) metrics: Arc<Metrics>,
    recorder: Recorder,
    reader: Reader,
    reads: Semaphore,
}

impl AdminState {
    /// Puts it together.
    pub fn new(
        gateway: Arc<dyn Gateway>,
        config: Arc<Live>,
        metrics: Arc<Metrics>,
        recorder: Recorder,
        reader: Reader,
    ) -> Self {
        Self {
            gateway,
            config,
            metrics,
            recorder,
            reader,
            reads: Semaphore::new(READS),
        }
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Reads the store, with everything that was recorded before, unless the database is failing.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        // The semaphore is never closed.
        let _place = self.reads.acquire().await;
        // Past the time, what is there is shown.
        let _ = tokio::time::timeout(CATCH_UP, self.recorder.committed()).await;
        let reader = self.reader.clone();
        let done = tokio::task::spawn_blocking(move || read(&reader)).await;
        match done {
            Ok(result) => Ok(result?),
            Err(_) => Err(Problem::unavailable("the read was broken off")),
        }
    }

    /// Metrics that are looked up rather than counted.
    pub(super) fn refresh_metrics(&self) {
        let metrics = &self.metrics;
        metrics.set_health(&self.recorder.health(), log::dropped());
        metrics.set_connections(self.gateway.connections());
        let pools = self.gateway.pools();
        metrics.set_pools(pools.iter().map(|(provider, counts)| (provider, *counts)));
        metrics.set_breakers(&self.gateway.standings());
        let refused = self.config.refused();
        metrics.set_reload(refused.as_ref(), self.config.applied().since);
    }
}
