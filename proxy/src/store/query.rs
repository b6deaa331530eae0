//! The way out of the store: requests, newest first, page by page.
//!
//! The [`Reader`]'s other methods stand in [`ledger`](super::ledger) and [`usage`](super::usage).
//! Every method blocks while SQLite reads; call them from a thread that may.

use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use serde_json::value::RawValue;
use whippletree_policies::ids::RequestId;
use whippletree_policies::time::UnixTime;

use super::StoreError;
use super::sqlite::{self, Database};
use crate::clock;
use crate::exchange::End;

/// Connections kept open between queries.
const IDLE: usize = 4;

/// How far the time in a request's id may be from that in its record: they are read one after the
/// other, and somebody may set the clock in between.
const SLACK_MS: i64 = 60_000;

/// Steps of SQLite's machine between looks at the clock: some milliseconds.
const STEPS: i32 = 100_000;

/// Reads the store; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    database: Database,
    /// How long a query may take.
    longest: Option<Duration>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Reader {
    pub(super) fn new(database: Database, longest: Option<Duration>) -> Self {
        Self {
            database,
            longest,
            idle: Arc::default(),
        }
    }

    /// Reads a database file, whether a gateway has it open or not. What lies in its log only is
    /// not seen: see [`left_behind`].
    ///
    /// # Errors
    ///
    /// The file does not exist, or is no database of this release.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let reader = Self::new(Database::File(path.to_owned()), None);
        reader.with(|_| Ok(()))?;
        Ok(reader)
    }

    /// Exchanges that pass `filter`, as JSON, newest first, in the order of their ids.
    ///
    /// # Errors
    ///
    /// SQLite fails.
    pub fn requests(
        &self,
        filter: &RequestFilter,
        page: &Page<RequestCursor>,
    ) -> Result<Listed<Box<RawValue>, RequestCursor>, StoreError> {
        let query = requests_query(filter, page);
        self.list(&query, page.limit, |row| {
            let cursor = RequestCursor(RequestId(row.get(0)?));
            Ok((cursor, raw_json(row.get(1)?)))
        })
    }

    /// One exchange, as JSON.
    ///
    /// # Errors
    ///
    /// SQLite fails.
    pub fn request(&self, id: RequestId) -> Result<Option<Box<RawValue>>, StoreError> {
        self.with(|db| {
            let doc = db
                .prepare_cached("SELECT doc FROM exchanges WHERE request_id = ?1")?
                .query_row([&id.0], |row| row.get(0))
                .optional()?;
            Ok(doc.map(raw_json))
        })
    }

    /// Runs `read` on a connection of its own.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = match &self.database {
            Database::Memory(db) => return self.limited(&mut sqlite::lock(db), read),
            Database::File(path) => path,
        };
        let idle = self.idle().pop();
        let mut db = match idle {
            Some(db) => db,
            None => sqlite::open_to_read(path)?,
        };
        let result = self.limited(&mut db, read);
        let mut idle = self.idle();
        if result.is_ok() && idle.len() < IDLE {
            idle.push(db);
        }
        result
    }

    /// A query without an index could run for ever, and nobody would wait for it any more.
    fn limited<T>(
        &self,
        db: &mut Connection,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(longest) = self.longest else {
            return read(db);
        };
        let end = clock::std_now() + longest;
        db.progress_handler(STEPS, Some(move || clock::std_now() > end))?;
        let result = read(db);
        db.progress_handler(0, None::<fn() -> bool>)?;
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list<T, C>(
        &self,
        query: &Query,
        limit: u32,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<(C, T)>,
    ) -> Result<Listed<T, C>, StoreError> {
        self.with(|db| {
            let mut statement = db.prepare_cached(&query.sql)?;
            let mut rows = statement.query(params_from_iter(&query.values))?;
            let mut listed = Listed {
                items: Vec::new(),
                next: None,
            };
            let mut last = None;
            while let Some(row) = rows.next()? {
                if listed.items.len() >= limit as usize {
                    listed.next = last;
                    break;
                }
                let (cursor, item) = read(row)?;
                last = Some(cursor);
                listed.items.push(item);
            }
            Ok(listed)
        })
    }
}

/// Bytes of records in the log beside a database file that no gateway has open: one has died, and
/// its last records are entered when it starts again. Most of them are in the database too.
pub fn left_behind(database: &Path) -> u64 {
    let dir = super::spool_dir(database);
    if super::is_locked(&dir) {
        return 0;
    }
    super::spool::bytes_in(&dir)
}

/// Which exchanges; `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Who pays.
    pub tenant: Option<String>,
    /// The agent run.
    pub task: Option<String>,
    /// The route.
    pub route: Option<String>,
    /// Who answered.
    pub target: Option<String>,
    /// How it ended.
    pub outcome: Option<End>,
    /// Not before.
    pub since: Option<UnixTime>,
    /// Before.
    pub until: Option<UnixTime>,
}

/// How much of a list, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<C> {
    /// Items at most.
    pub limit: u32,
    /// The last item of the page before; `None` for the first page.
    pub after: Option<C>,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub struct Listed<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins; `None` when this is the last.
    pub next: Option<C>,
}

/// The cursor is not one that this API has given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a cursor that an earlier page named as its next_cursor")]
pub struct InvalidCursor;

/// A place in the list of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCursor(RequestId);

impl std::fmt::Display for RequestCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RequestCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        text.parse().map(Self).map_err(|_| InvalidCursor)
    }
}

fn requests_query(filter: &RequestFilter, page: &Page<RequestCursor>) -> Query {
    let mut query = Query::new("SELECT request_id, doc FROM exchanges");
    query.equal("tenant", filter.tenant.as_deref());
    if let Some(task) = &filter.task {
        let hash = sqlite::task_hash(task);
        query.when(
            "task_hash = ? AND task = ?",
            [hash.into(), task.clone().into()],
        );
    }
    query.equal("route", filter.route.as_deref());
    query.equal("target", filter.target.as_deref());
    query.equal("outcome", filter.outcome.map(End::as_str));
    query.between(filter.since, filter.until);
    // The id's time is not quite the record's, so it only narrows the search.
    if let Some(since) = filter.since {
        query.when("request_id >= ?", [first_id(since, -SLACK_MS).into()]);
    }
    if let Some(until) = filter.until {
        query.when("request_id < ?", [first_id(until, SLACK_MS).into()]);
    }
    if let Some(after) = page.after {
        query.when("request_id < ?", [after.0.0.to_vec().into()]);
    }
    // A task has few requests: they are found by its index and then sorted.
    let order = match filter.task {
        None => "ORDER BY request_id DESC",
        Some(_) => "ORDER BY +request_id DESC",
    };
    query.end(order, page.limit);
    query
}

/// The first request id of a time (UUID version 7: 48 bits of milliseconds come first).
fn first_id(time: UnixTime, slack_ms: i64) -> Vec<u8> {
    let millis = time.0.saturating_add(slack_ms).clamp(0, (1 << 48) - 1);
    let mut id = millis.to_be_bytes().get(2..).unwrap_or_default().to_vec();
    id.resize(16, 0);
    id
}

/// The document as it was entered; `null` for one that is no JSON, which the recorder never writes.
fn raw_json(doc: String) -> Box<RawValue> {
    RawValue::from_string(doc).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A query put together from the filters that are there.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    joint: &'static str,
}

impl Query {
    pub(super) fn new(select: &str) -> Self {
        Self {
            sql: select.to_owned(),
            values: Vec::new(),
            joint: " WHERE ",
        }
    }

    pub(super) fn when<const N: usize>(&mut self, condition: &str, values: [Value; N]) {
        self.sql.push_str(self.joint);
        self.sql.push_str(condition);
        self.values.extend(values);
        self.joint = " AND ";
    }

    /// `column` is ours, never a client's.
    pub(super) fn equal(&mut self, column: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.when(&format!("{column} = ?"), [value.to_owned().into()]);
        }
    }

    pub(super) fn between(&mut self, since: Option<UnixTime>, until: Option<UnixTime>) {
        if let Some(since) = since {
            self.when("time >= ?", [since.0.into()]);
        }
        if let Some(until) = until {
            self.when("time < ?", [until.0.into()]);
        }
    }

    /// One item more than asked for, which says whether there is another page.
    pub(super) fn end(&mut self, order: &str, limit: u32) {
        self.sql.push(' ');
        self.sql.push_str(order);
        self.sql.push_str(" LIMIT ?");
        self.values.push((i64::from(limit) + 1).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way that SQLite takes to the requests that pass `filter`.
    fn plan(filter: &RequestFilter, after: Option<RequestCursor>) -> String {
        let db = sqlite::open_in_memory().unwrap();
        let query = requests_query(filter, &Page { limit: 50, after });
        let reader = Reader::new(Database::Memory(db), None);
        let plan = reader.with(|db| {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql))?;
            let rows = plan.query_map(params_from_iter(&query.values), |row| row.get(3))?;
            Ok(rows.collect::<Result<Vec<String>, _>>()?)
        });
        plan.unwrap().join("; ")
    }

    #[test]
    fn requests_are_found_by_an_index_whatever_is_asked() {
        let cursor = Some(RequestCursor(RequestId([7; 16])));
        let since = RequestFilter {
            since: Some(UnixTime(1)),
            tenant: Some("a".to_owned()),
            ..RequestFilter::default()
        };
        for (filter, after) in [(RequestFilter::default(), None), (since.clone(), cursor)] {
            let plan = plan(&filter, after);
            assert!(plan.contains("sqlite_autoindex_exchanges_1"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
        let task = RequestFilter {
            task: Some("t".to_owned()),
            ..since
        };
        for after in [None, cursor] {
            let plan = plan(&task, after);
            assert!(plan.contains("exchanges_by_task"), "{plan}");
        }
    }
}
