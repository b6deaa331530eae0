//! Ledger entries, newest first, page by page.

use std::str::FromStr;

use rusqlite::Row;
use serde::Serialize;
use whippletree_policies::ids::RequestId;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::{Money, Tokens};
use whippletree_policies::usage::Usage;

use super::StoreError;
use super::query::{InvalidCursor, Listed, Page, Query, Reader};

impl Reader {
    /// Ledger entries that pass `filter`, newest first.
    ///
    /// # Errors
    ///
    /// SQLite fails.
    pub fn ledger(
        &self,
        filter: &LedgerFilter,
        page: &Page<LedgerCursor>,
    ) -> Result<Listed<LedgerEntry, LedgerCursor>, StoreError> {
        let mut query = Query::new(
            "SELECT request_id, attempt, kind, time, tenant, key, user, task, route, target,
                    budgets, input, cache_read, cache_write_5m, cache_write_1h, output, reasoning,
                    audio_input, audio_output, images, cost_pico, price_version, estimated,
                    price_fallback, rule
             FROM ledger",
        );
        query.equal("tenant", filter.tenant.as_deref());
        query.equal("task", filter.task.as_deref());
        query.equal("route", filter.route.as_deref());
        query.equal("target", filter.target.as_deref());
        query.equal("kind", filter.kind.map(EntryKind::as_str));
        if let Some(id) = filter.request_id {
            query.when("request_id = ?", [id.0.to_vec().into()]);
        }
        query.between(filter.since, filter.until);
        if let Some(after) = page.after {
            query.when(
                "(time, request_id, attempt, kind) < (?, ?, ?, ?)",
                [
                    after.time.0.into(),
                    after.request_id.0.to_vec().into(),
                    i64::from(after.attempt).into(),
                    after.kind.as_str().to_owned().into(),
                ],
            );
        }
        query.end(
            "ORDER BY time DESC, request_id DESC, attempt DESC, kind DESC",
            page.limit,
        );
        self.list(&query, page.limit, |row| {
            let entry = LedgerEntry::read(row)?;
            let cursor = LedgerCursor {
                time: entry.time,
                request_id: entry.request_id,
                attempt: entry.attempt,
                kind: entry.kind,
            };
            Ok((cursor, entry))
        })
    }
}

/// Which ledger entries; `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// Who pays.
    pub tenant: Option<String>,
    /// The agent run.
    pub task: Option<String>,
    /// The route.
    pub route: Option<String>,
    /// Who was tried.
    pub target: Option<String>,
    /// What moved.
    pub kind: Option<EntryKind>,
    /// The request.
    pub request_id: Option<RequestId>,
    /// Not before.
    pub since: Option<UnixTime>,
    /// Before.
    pub until: Option<UnixTime>,
}

/// A place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerCursor {
    time: UnixTime,
    request_id: RequestId,
    attempt: u32,
    kind: EntryKind,
}

impl std::fmt::Display for LedgerCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind.as_str();
        write!(
            f,
            "{}.{}.{}.{kind}",
            self.time.0, self.request_id, self.attempt
        )
    }
}

impl FromStr for LedgerCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let mut parts = text.splitn(4, '.');
        let mut part = || parts.next().ok_or(InvalidCursor);
        Ok(Self {
            time: UnixTime(part()?.parse().map_err(|_| InvalidCursor)?),
            request_id: part()?.parse().map_err(|_| InvalidCursor)?,
            attempt: part()?.parse().map_err(|_| InvalidCursor)?,
            kind: part()?.parse().map_err(|_| InvalidCursor)?,
        })
    }
}

/// What a ledger entry does to a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Corrects what was settled.
    Adjust,
    /// Charges a reservation that nobody settled.
    Expire,
    /// Gives back what was reserved and not used.
    Release,
    /// Sets aside the worst case.
    Reserve,
    /// Charges what was used.
    Settle,
}

impl EntryKind {
    /// The name in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adjust => "adjust",
            Self::Expire => "expire",
            Self::Release => "release",
            Self::Reserve => "reserve",
            Self::Settle => "settle",
        }
    }
}

/// The text names no kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected reserve, settle, release, expire or adjust")]
pub struct InvalidKind;

impl FromStr for EntryKind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, InvalidKind> {
        let all = [
            Self::Adjust,
            Self::Expire,
            Self::Release,
            Self::Reserve,
            Self::Settle,
        ];
        all.into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(InvalidKind)
    }
}

/// One movement of money.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerEntry {
    /// `request/attempt/kind`: the same for the same movement, however often it is entered.
    pub id: String,
    /// The request.
    pub request_id: RequestId,
    /// Which attempt of the request, from 1.
    pub attempt: u32,
    /// What moved.
    pub kind: EntryKind,
    /// When it was entered.
    pub time: UnixTime,
    /// Who pays.
    pub tenant: String,
    /// The virtual key's name.
    pub key: Option<String>,
    /// The end user.
    pub user: Option<String>,
    /// The agent run.
    pub task: Option<String>,
    /// The route.
    pub route: Option<String>,
    /// Who was tried.
    pub target: String,
    /// The budgets that it counts in.
    pub budgets: Vec<String>,
    /// What was used; `None` when the vendor reported nothing.
    pub usage: Option<Usage>,
    /// The amount.
    pub cost_usd: Money,
    /// The price list's version; `None` when nothing was priced.
    pub price_version: Option<String>,
    /// The usage is the gateway's estimate.
    pub estimated: bool,
    /// A price that the call needed was missing, and another one of the list stood in.
    pub price_fallback: bool,
    /// By which rule it was charged; see [`ChargeRule`](crate::exchange::ChargeRule).
    pub rule: Option<String>,
}

impl LedgerEntry {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let request_id = RequestId(row.get(0)?);
        let attempt: u32 = row.get(1)?;
        let kind: String = row.get(2)?;
        // The schema admits no other kinds.
        let kind = kind.parse().unwrap_or(EntryKind::Settle);
        let budgets: Option<String> = row.get(10)?;
        let estimated = row.get(22)?;
        Ok(Self {
            id: format!("{request_id}/{attempt}/{}", kind.as_str()),
            request_id,
            attempt,
            kind,
            time: UnixTime(row.get(3)?),
            tenant: row.get(4)?,
            key: row.get(5)?,
            user: row.get(6)?,
            task: row.get(7)?,
            route: row.get(8)?,
            target: row.get(9)?,
            budgets: budgets
                .and_then(|json| serde_json::from_str(&json).ok())
                .unwrap_or_default(),
            usage: read_usage(row, 11, estimated)?,
            cost_usd: Money::from_pico(row.get(20)?),
            price_version: row.get(21)?,
            estimated,
            price_fallback: row.get(23)?,
            rule: row.get(24)?,
        })
    }
}

fn read_usage(row: &Row<'_>, first: usize, estimated: bool) -> rusqlite::Result<Option<Usage>> {
    let tokens = |i: usize| -> rusqlite::Result<Option<Tokens>> {
        let count: Option<i64> = row.get(first + i)?;
        Ok(count.map(|count| Tokens(count.unsigned_abs())))
    };
    let Some(input) = tokens(0)? else {
        return Ok(None);
    };
    Ok(Some(Usage {
        input,
        cache_read: tokens(1)?,
        cache_write_5m: tokens(2)?,
        cache_write_1h: tokens(3)?,
        output: tokens(4)?.unwrap_or_default(),
        reasoning: tokens(5)?,
        audio_input: tokens(6)?,
        audio_output: tokens(7)?,
        images: tokens(8)?.map(|images| images.0),
        estimated,
    }))
}
