//! The database: how it is opened, and how records are entered.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{
    CachedStatement, Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params,
};
use sha2::{Digest, Sha256};
use whippletree_policies::ids::{KeyId, RouteId, TargetId};
use whippletree_policies::units::Tokens;

use super::{Entry, StoreError, migrate};
use crate::exchange::{Attempt, ChargeRule, Exchange};

/// How long a reader, and the opening of the database, waits for another connection's lock.
const BUSY: Duration = Duration::from_secs(5);

/// The same for the writer, which tries again by itself.
const WRITER_BUSY: Duration = Duration::from_millis(100);

/// Where connections come from.
#[derive(Clone, Debug)]
pub(super) enum Database {
    /// A file; each reader opens it for itself.
    File(PathBuf),
    /// One connection for all.
    Memory(Arc<Mutex<Connection>>),
}

/// A database that is lost with the process.
///
/// # Errors
///
/// SQLite fails.
pub(super) fn open_in_memory() -> Result<Arc<Mutex<Connection>>, StoreError> {
    let mut db = Connection::open_in_memory()?;
    migrate::migrate(&mut db)?;
    Ok(Arc::new(Mutex::new(db)))
}

/// Takes the lock; a thread that died with it has left SQLite as its transaction began.
pub(super) fn lock(db: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the file to write, creates it where it does not exist and brings it to today's schema.
///
/// # Errors
///
/// The file cannot be opened, is no database of ours, or a newer one.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, StoreError> {
    create_private_file(path)?;
    let mut db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    // FULL: a commit that returned survives power loss. WAL: readers do not stop the writer.
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    migrate::migrate(&mut db)?;
    db.busy_timeout(WRITER_BUSY)?;
    db.set_prepared_statement_cache_capacity(8);
    Ok(db)
}

/// Opens the file to read.
///
/// # Errors
///
/// The file does not exist or is not a database with today's schema.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(BUSY)?;
    db.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16384;")?;
    migrate::require_current(&db)?;
    Ok(db)
}

/// Users' names stand in the file: it is not for everyone on the machine to read.
fn create_private_file(path: &Path) -> Result<(), StoreError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|source| StoreError::Path {
        path: path.to_owned(),
        source,
    })?;
    Ok(())
}

/// Whether waiting can help: otherwise it is this record that the database does not take.
pub(super) fn may_pass(error: &rusqlite::Error) -> bool {
    !matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

/// Enters the records in one transaction. A record that is there already is left as it is.
///
/// Returns those that the database will never take.
///
/// # Errors
///
/// The transaction failed as a whole: nothing was entered.
pub(super) fn enter<'a>(
    db: &mut Connection,
    entries: &'a [Entry],
) -> rusqlite::Result<Vec<&'a Entry>> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let refused = Insert::new(&transaction)?.all(entries)?;
    transaction.commit()?;
    Ok(refused)
}

/// The statements of one transaction.
struct Insert<'a> {
    exchange: CachedStatement<'a>,
    settle: CachedStatement<'a>,
}

impl<'a> Insert<'a> {
    fn new(transaction: &'a Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            exchange: transaction.prepare_cached(
                "INSERT OR IGNORE INTO exchanges
                     (request_id, time, tenant, task, task_hash, route, target, outcome, doc)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            settle: transaction.prepare_cached(
                "INSERT OR IGNORE INTO ledger
                     (request_id, attempt, kind, time, tenant, key, user, task, tags, harness, api,
                      route, target, last, input, cache_read, cache_write_5m, cache_write_1h,
                      output, reasoning, audio_input, audio_output, images, cost_pico,
                      price_version, estimated, price_fallback, rule)
                 VALUES (?1, ?2, 'settle', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
                         ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
            )?,
        })
    }

    fn all(mut self, entries: &[Entry]) -> rusqlite::Result<Vec<&Entry>> {
        let mut refused = Vec::new();
        for entry in entries {
            match self.one(entry) {
                Ok(()) => {}
                Err(error) if may_pass(&error) => return Err(error),
                Err(_) => refused.push(entry),
            }
        }
        Ok(refused)
    }

    fn one(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let exchange = &entry.exchange;
        self.exchange.execute(params![
            &exchange.request_id.0,
            exchange.time.0,
            exchange.tenant.as_str(),
            exchange.task,
            exchange.task.as_deref().map(task_hash),
            exchange.route.as_ref().map(RouteId::as_str),
            exchange.target.as_ref().map(TargetId::as_str),
            exchange.outcome.as_str(),
            entry.doc(),
        ])?;
        for (number, attempt) in (1..).zip(&exchange.attempts) {
            self.settle(exchange, number, attempt)?;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        exchange: &Exchange,
        number: usize,
        attempt: &Attempt,
    ) -> rusqlite::Result<()> {
        let ended = i64::try_from(exchange.duration_ms.0 / 1000).unwrap_or(i64::MAX);
        let tags = (!exchange.tags.is_empty())
            .then(|| serde_json::to_string(&exchange.tags).ok())
            .flatten();
        let usage = attempt.usage.as_ref();
        self.settle.execute(params![
            &exchange.request_id.0,
            i64::try_from(number).unwrap_or(i64::MAX),
            exchange.time.0.saturating_add(ended),
            exchange.tenant.as_str(),
            exchange.key.as_ref().map(KeyId::as_str),
            exchange.user,
            exchange.task,
            tags,
            exchange.harness,
            exchange.api.as_str(),
            exchange.route.as_ref().map(RouteId::as_str),
            attempt.target.as_str(),
            number == exchange.attempts.len(),
            usage.map(|usage| count(usage.input)),
            usage.and_then(|usage| usage.cache_read).map(count),
            usage.and_then(|usage| usage.cache_write_5m).map(count),
            usage.and_then(|usage| usage.cache_write_1h).map(count),
            usage.map(|usage| count(usage.output)),
            usage.and_then(|usage| usage.reasoning).map(count),
            usage.and_then(|usage| usage.audio_input).map(count),
            usage.and_then(|usage| usage.audio_output).map(count),
            usage
                .and_then(|usage| usage.images)
                .map(|images| count(Tokens(images))),
            attempt.cost_usd.pico(),
            attempt.price_version,
            usage.is_some_and(|usage| usage.estimated),
            attempt.price_fallback,
            attempt.rule.map(ChargeRule::as_str),
        ])?;
        Ok(())
    }
}

/// What tasks are indexed by: their names are long, and come in no order.
pub(super) fn task_hash(task: &str) -> i64 {
    let hash = Sha256::digest(task);
    let first = hash.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}

/// A count as SQLite holds it. Beyond 2⁶³ lies no true count.
fn count(tokens: Tokens) -> i64 {
    i64::try_from(tokens.0).unwrap_or(i64::MAX)
}
