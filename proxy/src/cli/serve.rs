//! `whippletree serve`: the gateway itself.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;

use super::{Ending, check};
use crate::boot::Whippletree;
use crate::config::Config;
use crate::config::load::{LoadError, Source, load};
use crate::telemetry::log;

/// Serves agents until SIGTERM or SIGINT.
///
/// Without a configuration file the vendors' usual environment variables are enough: each that is
/// set makes its vendor's models available to clients on this machine. SIGHUP reads the
/// configuration again. The first SIGTERM lets requests under way end, the second cuts them off.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  OPENAI_API_KEY=… whippletree serve
  whippletree serve --config /etc/whippletree/whippletree.toml

Agents then use http://127.0.0.1:8080/v1 as their base URL.")]
pub(super) struct Serve {
    /// The file. Without it: whippletree.toml here, else the vendors' environment variables.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let loaded = match load(&Source::choose(self.config)) {
            Ok(loaded) => loaded,
            Err(LoadError::Invalid { report, .. }) => {
                check::show(&report);
                return Ok(Ending::Misused);
            }
            Err(error) => return Err(error.into()),
        };
        check::show(&loaded.warnings);
        let log = log::init(&loaded.config.telemetry)?;
        let config = Arc::clone(&loaded.config);
        let source = loaded.source.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start")?;
        runtime.block_on(async {
            let mut stop = Stop::new()?;
            let gateway = Whippletree::start(loaded)?;
            announce(&gateway, &config, &source);
            stop.asked().await;
            tracing::info!("stopping: requests under way are served to their end");
            wind_down(&gateway, &mut stop).await;
            // Joins threads that have ended, and waits for the database.
            drop(gateway);
            anyhow::Ok(())
        })?;
        tracing::info!("stopped");
        drop(log);
        Ok(Ending::Done)
    }
}

fn announce(gateway: &Whippletree, config: &Config, source: &str) {
    let providers: Vec<_> = config.providers.keys().map(ToString::to_string).collect();
    tracing::info!(
        address = %gateway.data_address(),
        admin = %gateway.admin_address(),
        configuration = source,
        providers = providers.join(","),
        routes = config.routes.len(),
        tenants = config.tenants.len(),
        "serving"
    );
}

/// Lets requests under way end, unless a further signal cuts them off.
pub(super) async fn wind_down(gateway: &Whippletree, stop: &mut Stop) {
    gateway.drain();
    tokio::select! {
        () = gateway.ended() => {}
        () = stop.asked() => {
            tracing::warn!("stopping at once");
            gateway.abort();
            gateway.ended().await;
        }
    }
}

/// The signals that end the process.
pub(super) struct Stop {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Stop {
    pub(super) fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
impl Stop {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    pub(super) async fn asked(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
