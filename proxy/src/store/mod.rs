//! Keeps the record of every call: exactly once, and before the client has its last byte.
//!
//! Problem: the ledger must not lose a call when the process is killed, and no response may wait for
//! a disk. Idea: [`Recorder::record`] appends the exchange to a log beside the database with one
//! `write(2)`, which outlives the process, and hands it to one writer thread, which commits in
//! groups. Records that found no room on the way to the thread are read back from the log, and so
//! are those of a process that died: each is entered once, by its request id.
//!
//! Limits: a power loss can take what the database has not committed (some milliseconds). The log
//! grows without bound while the database cannot be written; its size is a metric. In memory
//! ([`config::Store::Memory`]) there is no log, and everything is lost at exit.

pub mod calendar;
pub mod ledger;
mod migrate;
pub mod query;
mod replay;
mod spool;
mod sqlite;
pub mod usage;

mod writer;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use tokio::sync::watch;

use self::query::Reader;
use self::replay::Replayed;
use self::spool::{Position, Spool};
use self::sqlite::Database;
use self::writer::{Connected, Writer};
use crate::config;
use crate::exchange::Exchange;
use crate::json;

/// Records between the response path and the writer thread; more wait in the log.
const QUEUE: usize = 8192;

/// How often the lock is tried before the store is taken to be in use, and the pause between.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// How long a query of the admin plane may take.
const LONGEST_QUERY: Duration = Duration::from_secs(30);

/// The store could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory cannot be opened, created or read.
    #[error("cannot open {path}", path = path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes here.
    #[error("{path} is in use by another process", path = path.display())]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// The schema is of a later release.
    #[error("the database has schema version {version}, which this release does not know")]
    NewerSchema {
        /// The first unknown version.
        version: i64,
    },
    /// The schema is of an earlier release; only the gateway itself brings it up to date.
    #[error("the database was written by an earlier release; start the gateway on it once")]
    OlderSchema,
    /// The schema is not what its version says.
    #[error("schema version {version} of the database differs from this release's")]
    ForeignSchema {
        /// The first that differs.
        version: i64,
    },
    /// More groups than an answer may have.
    #[error("more than {groups} groups: narrow the period or group by less", groups = usage::GROUPS)]
    TooManyGroups,
    /// The query took longer than a query may.
    #[error("the query took too long: narrow the period")]
    TooSlow,
    /// A time is beyond the calendar.
    #[error("a time is beyond the calendar")]
    Calendar(#[from] jiff::Error),
    /// SQLite failed.
    #[error("the database failed")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::TooSlow,
            _ => Self::Sqlite(error),
        }
    }
}

/// The store, open; owns the writer thread.
#[derive(Debug)]
pub struct Store {
    recorder: Recorder,
    reader: Reader,
    writer: Option<JoinHandle<()>>,
    /// Held locked as long as the store is open.
    _lock: Option<File>,
}

impl Store {
    /// Opens the store, creates it where there is none, and enters what an earlier process left in
    /// its log.
    ///
    /// # Errors
    ///
    /// The path cannot be used, another process has it, the schema is not ours, or SQLite fails.
    pub fn open(config: &config::Store) -> Result<Self, StoreError> {
        match config {
            config::Store::Memory => {
                let db = sqlite::open_in_memory()?;
                let reader = Reader::new(Database::Memory(Arc::clone(&db)), Some(LONGEST_QUERY));
                Self::start(Connected::Shared(db), reader, None, Replayed::default())
            }
            config::Store::Sqlite(path) => {
                let dir = spool_dir(path);
                let path_error = |source| StoreError::Path {
                    path: dir.clone(),
                    source,
                };
                spool::create_private_dir(&dir).map_err(path_error)?;
                let lock = lock_file(&dir, path)?;
                let spool = Spool::open(&dir).map_err(path_error)?;
                let mut db = sqlite::open_to_write(path)?;
                let replayed = replay::replay(&dir, &mut db, spool.head().segment)?;
                let db = Connected::Own(Box::new(db));
                let reader = Reader::new(Database::File(path.clone()), Some(LONGEST_QUERY));
                Self::start(db, reader, Some(Log { dir, spool, lock }), replayed)
            }
        }
    }

    fn start(
        db: Connected,
        reader: Reader,
        log: Option<Log>,
        replayed: Replayed,
    ) -> Result<Self, StoreError> {
        let (dir, spool, lock) = match log {
            Some(log) => (Some(log.dir), Some(log.spool), Some(log.lock)),
            None => (None, None, None),
        };
        let (sender, receiver) = sync_channel(QUEUE);
        let (committed, _) = watch::channel(0);
        let shared = Arc::new(Shared {
            dir,
            intake: Mutex::new(Intake {
                sender: Some(sender),
                spool,
                recorded: 0,
                overflowed: false,
            }),
            committed,
            unspooled: AtomicU64::new(0),
            lost: AtomicU64::new(replayed.damaged),
            failing: AtomicU64::new(0),
            replayed: replayed.entered,
            writer: OnceLock::new(),
        });
        let writer = Writer::new(db, Arc::clone(&shared), receiver);
        let writer = thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| StoreError::Path {
                path: PathBuf::from("the ledger's thread"),
                source,
            })?;
        // Set once, here.
        let _ = shared.writer.set(writer.thread().clone());
        Ok(Self {
            recorder: Recorder { shared },
            reader,
            writer: Some(writer),
            _lock: lock,
        })
    }

    /// The way in.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// The way out.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Commits what was recorded and stops the writer thread. Blocks, some seconds at most: what a
    /// failing database does not take by then stays in the log for the next start.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.recorder.shared.intake().sender = None;
        self.recorder.shared.hurry();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the ledger's thread has panicked; its records are in the log");
        }
    }
}

/// Takes exchanges; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

impl Recorder {
    /// Records a finished exchange. When this returns, the end of this process cannot lose it,
    /// unless the disk refused it, which is counted and logged.
    ///
    /// Call once per exchange, before the response's last byte. Does not wait for a disk.
    pub fn record(&self, exchange: &Exchange) {
        let Some(mut entry) = Entry::new(exchange) else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(request_id = %exchange.request_id, "an exchange could not be written as JSON");
            return;
        };
        let mut intake = self.shared.intake();
        let spooled = intake.append(&mut entry);
        entry.number = intake.recorded + 1;
        let queued = match &intake.sender {
            Some(sender) => sender.try_send(entry).is_ok(),
            None => false,
        };
        let kept = queued || matches!(spooled, Ok(Spooled::Yes));
        intake.recorded += u64::from(kept);
        intake.overflowed |= !queued;
        let full_group = intake.recorded.is_multiple_of(writer::GROUP as u64);
        drop(intake);
        if full_group {
            self.shared.hurry();
        }
        if let Err(error) = spooled {
            self.shared.note_unspooled(&error);
        }
        if !kept {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(request_id = %exchange.request_id, "an exchange was not recorded");
        }
    }

    /// Waits until everything recorded before this call can be read, and has it committed now.
    pub async fn committed(&self) {
        let recorded = self.shared.intake().recorded;
        self.shared.hurry();
        let mut committed = self.shared.committed.subscribe();
        // The sender lives in `shared`, so this cannot fail while we hold it.
        let _ = committed.wait_for(|number| *number >= recorded).await;
    }

    /// How the store is doing.
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let recorded = shared.intake().recorded;
        Health {
            recorded,
            waiting: recorded.saturating_sub(*shared.committed.borrow()),
            unspooled: shared.unspooled.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            replayed: shared.replayed,
            failing: shared.failing.load(Ordering::Relaxed) > 0,
            spool_bytes: shared.dir.as_deref().map_or(0, spool::bytes_in),
        }
    }
}

/// How the store is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Exchanges recorded by this process.
    pub recorded: u64,
    /// Of those, not yet in the database.
    pub waiting: u64,
    /// Exchanges that the log did not take: the disk is full or failing.
    pub unspooled: u64,
    /// Exchanges that will never be in the database.
    pub lost: u64,
    /// Exchanges found in the log of an earlier process.
    pub replayed: u64,
    /// The last commit failed and is tried again.
    pub failing: bool,
    /// The log's size.
    pub spool_bytes: u64,
}

/// What the response path and the writer thread share.
#[derive(Debug)]
struct Shared {
    /// The log's directory; `None` in memory.
    dir: Option<PathBuf>,
    intake: Mutex<Intake>,
    /// The number of the last committed record.
    committed: watch::Sender<u64>,
    unspooled: AtomicU64,
    lost: AtomicU64,
    /// Commits that failed since the last one that did not.
    failing: AtomicU64,
    replayed: u64,
    /// The writer's thread, once it runs.
    writer: OnceLock<Thread>,
}

impl Shared {
    /// Has the writer commit at once what it is collecting.
    fn hurry(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    fn intake(&self) -> MutexGuard<'_, Intake> {
        // Nothing within the lock can leave the intake half changed.
        self.intake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_unspooled(&self, error: &io::Error) {
        let before = self.unspooled.fetch_add(1, Ordering::Relaxed);
        // The first and then ever fewer: a full disk must not be filled with this.
        if before == 0 || before.is_power_of_two() {
            tracing::error!(%error, "the ledger's log refuses records; a crash would lose them");
        }
    }
}

/// The order of the log and of the queue is one, because both are entered under one lock.
#[derive(Debug)]
struct Intake {
    /// `None` once the store is closing.
    sender: Option<SyncSender<Box<Entry>>>,
    /// `None` in memory.
    spool: Option<Spool>,
    recorded: u64,
    /// Records went to the log only, since the writer last looked.
    overflowed: bool,
}

/// The log of a store with a file.
#[derive(Debug)]
struct Log {
    dir: PathBuf,
    spool: Spool,
    lock: File,
}

#[derive(Debug, PartialEq, Eq)]
enum Spooled {
    No,
    Yes,
}

impl Intake {
    fn append(&mut self, entry: &mut Entry) -> io::Result<Spooled> {
        let Some(spool) = &mut self.spool else {
            return Ok(Spooled::No);
        };
        let appended = spool.append(&entry.record);
        entry.end = spool.head();
        entry.start = entry.end;
        appended?;
        entry.start.offset -= entry.record.len() as u64;
        Ok(Spooled::Yes)
    }

    fn head(&self) -> Position {
        self.spool.as_ref().map(Spool::head).unwrap_or_default()
    }
}

/// An exchange on its way into the database.
#[derive(Debug)]
struct Entry {
    /// Which record of this process it is, from 1; 0 when it was read back from the log.
    number: u64,
    /// Where it lies in the log. `start == end` when it does not.
    start: Position,
    end: Position,
    exchange: Exchange,
    /// Header and JSON, as in the log.
    record: Vec<u8>,
}

impl Entry {
    fn new(exchange: &Exchange) -> Option<Box<Self>> {
        let mut record = Vec::with_capacity(1536);
        record.extend_from_slice(&[0; spool::HEADER]);
        json::write(&mut record, exchange).ok()?;
        spool::frame(&mut record).ok()?;
        Some(Box::new(Self {
            number: 0,
            start: Position::default(),
            end: Position::default(),
            exchange: exchange.clone(),
            record,
        }))
    }

    /// A record of the log; `None` when it is not an exchange.
    fn read_back(json: &[u8]) -> Option<Self> {
        let exchange = serde_json::from_slice(json).ok()?;
        let mut record = Vec::with_capacity(spool::HEADER + json.len());
        record.extend_from_slice(&[0; spool::HEADER]);
        record.extend_from_slice(json);
        // The log has it, wherever that is.
        let end = Position {
            segment: 0,
            offset: 1,
        };
        Some(Self {
            number: 0,
            start: Position::default(),
            end,
            exchange,
            record,
        })
    }

    /// The exchange as JSON.
    fn doc(&self) -> &str {
        let json = self.record.get(spool::HEADER..).unwrap_or_default();
        // serde_json writes UTF-8, and what was read back was parsed as such.
        std::str::from_utf8(json).unwrap_or_default()
    }
}

fn spool_dir(path: &Path) -> PathBuf {
    let mut dir = path.as_os_str().to_owned();
    dir.push(".spool");
    PathBuf::from(dir)
}

fn lock_file(dir: &Path, database: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = opened.map_err(|source| StoreError::Path {
        path: path.clone(),
        source,
    })?;
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // Somebody may just be looking whether it is locked.
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => tries += 1,
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse {
                    path: database.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(StoreError::Path { path, source }),
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Whether a gateway has the store of this log open.
fn is_locked(dir: &Path) -> bool {
    let lock = File::open(dir.join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
pub(crate) mod tests;
