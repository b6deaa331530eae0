//! The configuration in force, and putting another in its place.
//!
//! A reload reads, checks and then swaps the whole; when anything is wrong the one in force stays
//! and the fault is reported until a reload succeeds. What is in force and what was refused are
//! kept apart, so that nobody takes a file on disk for what is served.
//!
//! Three things start a reload: `SIGHUP`, an order of the admin plane, and a change of a file that
//! the configuration was read from (itself, secrets, certificates). For changes the files' metadata
//! is looked at every [`POLL`]. That costs a few system calls a second, and sees what notifications
//! miss or garble: network and overlay file systems, links that Kubernetes turns to another
//! directory, files that are replaced. A change is acted on once it has stood for one more look, so
//! a file is not read half-written.
//!
//! Limit: a change that leaves both length and time of a file as they were needs `SIGHUP`.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use serde::Serialize;
use whippletree_policies::time::UnixTime;

use super::Config;
use super::fault::chain;
use super::load::{LoadError, Loaded, load};
use crate::clock;

/// How often the files' metadata is looked at.
pub const POLL: Duration = Duration::from_millis(250);

/// A configuration in force.
#[derive(Debug)]
pub struct Applied {
    /// The configuration, with where it came from and how it may be shown.
    pub loaded: Loaded,
    /// 1 at the start, one more with each reload that changed something.
    pub generation: u64,
    /// Since when it is in force.
    pub since: UnixTime,
}

/// Why a reload was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// When.
    pub time: UnixTime,
    /// What is wrong, all of it.
    pub message: String,
}

/// How the configuration stands.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Of the configuration in force.
    pub generation: u64,
    /// SHA-256 of the file in force, in hex.
    pub hash: String,
    /// Since when it is in force.
    pub loaded_at: UnixTime,
    /// Where it came from.
    pub source: String,
    /// Why the last reload was refused; `None` when it succeeded.
    pub last_error: Option<Refused>,
    /// Settings that the file has and that wait for a restart.
    pub waiting_for_restart: Vec<&'static str>,
    /// The file's form with all defaults, secrets masked.
    pub config: serde_json::Value,
}

/// What started a reload, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A file changed.
    Change,
    /// The admin plane asked for it.
    Order,
    /// `SIGHUP`.
    Signal,
}

/// What came of a reload that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// Another configuration is in force.
    Changed {
        /// Its generation.
        generation: u64,
        /// Settings that take effect at the next start only.
        at_restart: Vec<&'static str>,
    },
    /// Everything that was read is as it was.
    Unchanged,
}

/// Why a reload was refused: the one in force stays.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The gateway could not take it over.
    #[error("the new configuration cannot be taken over")]
    TakeOver(#[source] anyhow::Error),
    /// It is not a valid one.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Who works by the configuration in force. Called by one reload at a time.
pub trait Follower: Send + Sync + 'static {
    /// Takes a new configuration over.
    ///
    /// # Errors
    /// The old one must be in force still, so whatever may fail has to come first.
    fn take_over(&self, old: &Config, new: &Arc<Config>) -> anyhow::Result<()>;

    /// A reload has ended; `None` says that the file is in force.
    fn reloaded(&self, refused: Option<&Refused>);
}

/// The configuration in force, and the way to another.
pub struct Live {
    applied: ArcSwap<Applied>,
    /// What cannot change while the process runs is compared with this.
    first: Arc<Config>,
    refused: Mutex<Option<Refused>>,
    /// The files that the last reload read, or would have.
    files: Mutex<Vec<PathBuf>>,
    turn: Mutex<()>,
    follower: Box<dyn Follower>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl Live {
    /// Starts with a configuration that `follower` works by already.
    pub fn new(loaded: Loaded, follower: impl Follower) -> Self {
        Self {
            first: Arc::clone(&loaded.config),
            files: Mutex::new(loaded.files.clone()),
            applied: ArcSwap::from_pointee(Applied {
                loaded,
                generation: 1,
                since: clock::unix_now(),
            }),
            refused: Mutex::new(None),
            turn: Mutex::new(()),
            follower: Box::new(follower),
        }
    }

    /// The configuration in force.
    pub fn applied(&self) -> Arc<Applied> {
        self.applied.load_full()
    }

    /// How the configuration stands, for the admin plane and for metrics.
    pub fn status(&self) -> Status {
        let applied = self.applied();
        let config = &applied.loaded.config;
        Status {
            generation: applied.generation,
            hash: config.hash.clone(),
            loaded_at: applied.since,
            source: applied.loaded.source.to_string(),
            last_error: self.refused(),
            waiting_for_restart: at_restart(&self.first, config),
            config: applied.loaded.view.clone(),
        }
    }

    /// Why the last reload was refused; `None` when it succeeded.
    pub fn refused(&self) -> Option<Refused> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the configuration again and puts it in force. Blocks on files.
    ///
    /// # Errors
    /// [`ReloadError`]; the one in force stays, and [`Live::refused`] says why until a reload
    /// succeeds.
    pub fn reload(&self, cause: Cause) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.swap();
        let refused = result.as_ref().err().map(|error| Refused {
            time: clock::unix_now(),
            message: chain(error),
        });
        match (&result, &refused) {
            (
                Ok(Reloaded::Changed {
                    generation,
                    at_restart,
                }),
                _,
            ) => {
                tracing::info!(?cause, generation, ?at_restart, "configuration reloaded");
            }
            (Ok(Reloaded::Unchanged), _) => tracing::debug!(?cause, "configuration unchanged"),
            (Err(_), refused) => {
                let error = refused.as_ref().map(|refused| refused.message.as_str());
                tracing::error!(?cause, error, "configuration refused, the old one stays");
            }
        }
        self.follower.reloaded(refused.as_ref());
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        result
    }

    fn swap(&self) -> Result<Reloaded, ReloadError> {
        let old = self.applied();
        let loaded = match load(&old.loaded.source) {
            Ok(loaded) => loaded,
            Err(error) => {
                if let LoadError::Invalid { files, .. } = &error {
                    self.follow(files.clone());
                }
                return Err(error.into());
            }
        };
        self.follow(loaded.files.clone());
        if loaded.fingerprint == old.loaded.fingerprint {
            return Ok(Reloaded::Unchanged);
        }
        for warning in loaded.warnings.entries() {
            let (path, message) = (warning.path, warning.message);
            tracing::warn!(%path, message, "configuration warning");
        }
        self.follower
            .take_over(&old.loaded.config, &loaded.config)
            .map_err(ReloadError::TakeOver)?;
        let generation = old.generation + 1;
        let at_restart = at_restart(&self.first, &loaded.config);
        self.applied.store(Arc::new(Applied {
            loaded,
            generation,
            since: clock::unix_now(),
        }));
        Ok(Reloaded::Changed {
            generation,
            at_restart,
        })
    }

    fn follow(&self, files: Vec<PathBuf>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// What the files look like whose change is a reason to reload.
    fn signature(&self) -> Vec<Signature> {
        let files = self.files.lock();
        let files = files.unwrap_or_else(PoisonError::into_inner).clone();
        signature(&files)
    }

    /// Reloads on `SIGHUP` and on changes of files, until the future is dropped.
    pub async fn watch(self: Arc<Self>) {
        let mut hangup = Hangup::new();
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // What was there at the last look, and at the last reload. At first nothing is known, so a
        // change between the start and now is found.
        let mut last = Vec::new();
        let mut acted_on = Vec::new();
        loop {
            let cause = tokio::select! {
                () = hangup.recv() => Cause::Signal,
                _ = ticks.tick() => Cause::Change,
            };
            let live = Arc::clone(&self);
            let settled = std::mem::take(&mut last);
            let known = std::mem::take(&mut acted_on);
            // Files may hang, on a network file system say.
            let look = tokio::task::spawn_blocking(move || {
                let now = live.signature();
                let due = cause == Cause::Signal || (now == settled && now != known);
                if !due {
                    return (now, known);
                }
                // A refusal has been logged and stands in the status.
                let _reported = live.reload(cause);
                // A change during the reload is found at the next look, unless other files are read
                // now: then what they look like is news.
                let after = live.signature();
                let now = if after.len() == now.len() { now } else { after };
                (now.clone(), now)
            });
            if let Ok((now, known)) = look.await {
                (last, acted_on) = (now, known);
            }
        }
    }
}

/// What of a file changes when its content does.
type Signature = Option<(SystemTime, u64)>;

/// Follows symbolic links, so a link that was turned to another file counts as a change.
fn signature(files: &[PathBuf]) -> Vec<Signature> {
    let of = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(of).collect()
}

/// Settings that differ and are read at the start alone.
fn at_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changes = [
        ("server.workers", old.server.workers != new.server.workers),
        ("admin.listen", old.admin.listen != new.admin.listen),
        ("store.path", old.store != new.store),
        ("telemetry.log", old.telemetry.log != new.telemetry.log),
        (
            "telemetry.log_format",
            old.telemetry.log_format != new.telemetry.log_format,
        ),
    ];
    changes
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
}

/// `SIGHUP`, where there is such a thing.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let signal = signal(SignalKind::hangup())
            .inspect_err(|error| tracing::warn!(%error, "SIGHUP does not reload"))
            .ok();
        Self { signal }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }

    #[cfg(unix)]
    async fn recv(&mut self) {
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    #[cfg(not(unix))]
    async fn recv(&mut self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
