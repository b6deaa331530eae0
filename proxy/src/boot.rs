//! A whole gateway, started and stopped: the wiring between the parts, and nothing else.
//!
//! `serve`, `demo` and the tests start the same thing. Order matters: the store is open and has
//! entered what an earlier process left before anything is answered; the data plane stops before the
//! store is closed, so that every answered call is on record.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use http::{Request, Response};
use tokio_util::sync::CancellationToken;
use whippletree_policies::ids::{KeyIndex, ProviderId, TargetId};
use whippletree_policies::route::health::Standing;

use crate::admin::{self, AdminState};
use crate::api::body::Body;
use crate::config::Config;
use crate::config::load::Loaded;
use crate::config::reload::{Follower, Live, Refused};
use crate::credentials::tokens::keep_fresh;
use crate::gateway::Gateway;
use crate::pipeline;
use crate::server::{self, Counts, Handler, HeadFault, Listener, Peer, Running, Upload};
use crate::store::{Store, StoreError};
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;
use crate::tls::{ServerTls, TlsError, install_provider};
use crate::upstream::PoolCounts;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The metrics could not be registered: two have one name.
    #[error("the metrics cannot be registered")]
    Metrics(#[from] prometheus::Error),
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] StoreError),
    /// A thread cannot be started.
    #[error("a thread cannot be started")]
    Thread(#[from] io::Error),
    /// A certificate cannot be used.
    #[error("TLS cannot be set up")]
    Tls(#[from] TlsError),
}

/// A gateway in operation. Dropping it stops it at once; see [`Whippletree::drain`].
#[derive(Debug)]
pub struct Whippletree {
    gateway: Arc<Gateway>,
    live: Arc<Live>,
    data: Arc<Running>,
    data_address: SocketAddr,
    admin_address: SocketAddr,
    stop: CancellationToken,
    /// Of everything that is not the data plane.
    threads: Vec<JoinHandle<()>>,
    /// Last, so that it is closed last.
    store: Option<Store>,
}

/// Answers the data plane's requests.
#[derive(Clone, Debug)]
struct DataPlane(Arc<Gateway>);

impl Handler for DataPlane {
    type Body = Body;

    fn handle(
        self,
        request: Request<Upload>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        pipeline::serve(self.0, request, peer)
    }

    fn refuse(&self, fault: HeadFault) -> Response<Body> {
        pipeline::refuse(&self.0, fault)
    }
}

/// Takes a new configuration over, and tells the admin plane how things stand.
#[derive(Clone, Debug)]
struct Parts {
    gateway: Arc<Gateway>,
    data: Arc<Running>,
}

impl Follower for Parts {
    fn take_over(&self, old: &Config, new: &Arc<Config>) -> anyhow::Result<()> {
        // What may fail comes first, so that the old configuration stays whole if it does.
        let tls = new
            .server
            .tls
            .clone()
            .map(ServerTls::new)
            .transpose()?
            .map(Arc::new);
        let moved = old.server.listen != new.server.listen;
        let shares = moved
            .then(|| Listener::bind(new.server.listen, new.server.max_connections))
            .transpose()?
            .map(|listener| self.data.share(&[listener]))
            .transpose()?;
        log::set_filter(&new.telemetry.log)?;
        if let Err(error) = self.gateway.reload(new) {
            log::set_filter(&old.telemetry.log)?;
            return Err(error.into());
        }
        self.data.reconfigure(new.server.clone(), tls);
        if let Some(shares) = shares {
            self.data.accept_from(shares);
        }
        attend(&self.gateway, &self.data);
        Ok(())
    }

    /// Metrics and the admin plane ask [`Live`] itself.
    fn reloaded(&self, _: Option<&Refused>) {}
}

impl admin::Gateway for Parts {
    fn standings(&self) -> Vec<Standing> {
        self.gateway.state.standings()
    }

    fn in_flight(&self, target: &TargetId) -> u32 {
        self.gateway.state.in_flight(target)
    }

    fn pools(&self) -> Vec<(ProviderId, PoolCounts)> {
        let snapshot = self.gateway.snapshot();
        snapshot
            .pools()
            .map(|(id, pool)| (id.clone(), pool.counts()))
            .collect()
    }

    fn connections(&self) -> Counts {
        self.data.counts()
    }

    fn restore(&self, target: &TargetId) -> bool {
        self.gateway.state.restore(target)
    }

    fn unlock(&self, provider: &str, key: KeyIndex) -> bool {
        self.gateway.state.unlock(provider, key)
    }

    fn is_draining(&self) -> bool {
        self.gateway.is_draining()
    }
}

impl Whippletree {
    /// Starts everything. When this returns, both planes answer.
    ///
    /// # Errors
    /// [`BootError`]; nothing is left running.
    pub fn start(loaded: Loaded) -> Result<Self, BootError> {
        install_provider();
        server::raise_open_files();
        let config = Arc::clone(&loaded.config);
        let bind = |address| {
            Listener::bind(address, config.server.max_connections)
                .map_err(|source| BootError::Listen { address, source })
        };
        let listener = bind(config.server.listen)?;
        let admin_address = config.admin.listen;
        let admin_listener =
            std::net::TcpListener::bind(admin_address).map_err(|source| BootError::Listen {
                address: admin_address,
                source,
            })?;
        let tls = config
            .server
            .tls
            .clone()
            .map(ServerTls::new)
            .transpose()?
            .map(Arc::new);
        let store = Store::open(&config.store)?;
        let metrics = Arc::new(Metrics::new()?);
        metrics.configure(&config);
        let gateway = Arc::new(Gateway::new(
            Arc::clone(&config),
            store.recorder(),
            Arc::clone(&metrics),
        )?);
        let data_address = listener.local_address()?;
        let admin_address = admin_listener.local_addr()?;
        let handler = DataPlane(Arc::clone(&gateway));
        let data = Arc::new(server::start(
            &[listener],
            config.server.clone(),
            tls,
            &handler,
        )?);
        attend(&gateway, &data);
        let parts = Parts {
            gateway: Arc::clone(&gateway),
            data: Arc::clone(&data),
        };
        let live = Arc::new(Live::new(loaded, parts.clone()));
        let stop = CancellationToken::new();
        let state = Arc::new(AdminState::new(
            Arc::new(parts),
            Arc::clone(&live),
            metrics,
            store.recorder(),
            store.reader(),
        ));
        let threads = vec![
            admin::start(admin_listener, state, stop.clone())?,
            watch(Arc::clone(&gateway), Arc::clone(&live), stop.clone())?,
        ];
        Ok(Self {
            gateway,
            live,
            data,
            data_address,
            admin_address,
            stop,
            threads,
            store: Some(store),
        })
    }

    /// Where the data plane listens.
    pub const fn data_address(&self) -> SocketAddr {
        self.data_address
    }

    /// Where the admin plane listens.
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// What all requests share.
    pub const fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// The configuration in force.
    pub const fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Stops accepting and lets what runs come to its end, for `server.drain_timeout` at most.
    /// `/readyz` says no from now on.
    pub fn drain(&self) {
        self.gateway.drain();
        self.data.drain();
    }

    /// Cuts everything off.
    pub fn abort(&self) {
        self.data.abort();
    }

    /// Waits until no request is left.
    pub async fn ended(&self) {
        self.data.ended().await;
    }
}

impl Drop for Whippletree {
    fn drop(&mut self) {
        self.data.abort();
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the gateway has panicked");
            }
        }
        if let Some(store) = self.store.take() {
            store.close();
        }
    }
}

/// Has every worker look after the pools, so that warm connections are there before the first call.
fn attend(gateway: &Gateway, data: &Running) {
    let snapshot = gateway.snapshot();
    let pools: Vec<_> = snapshot.pools().map(|(_, pool)| Arc::clone(pool)).collect();
    data.on_each_worker(move || pools.iter().for_each(|pool| pool.attend()));
}

/// The thread that watches for changes of the configuration, and keeps tokens fresh.
fn watch(
    gateway: Arc<Gateway>,
    live: Arc<Live>,
    stop: CancellationToken,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("reload".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = live.watch() => {}
                    () = keep_fresh(|| gateway.snapshot().token_sources().cloned().collect()) => {}
                    () = stop.cancelled() => {}
                }
            });
            runtime.shutdown_background();
        })
}
