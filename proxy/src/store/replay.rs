//! Enters what an earlier process left in the log.

use std::path::Path;

use rusqlite::Connection;

use super::spool::{self, Found, Records};
use super::writer::GROUP;
use super::{Entry, StoreError, sqlite};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    /// Records that were whole. Most are in the database already.
    pub(super) entered: u64,
    /// Records that were not.
    pub(super) damaged: u64,
}

/// Enters the records of all segments before number `end` and removes the segments. One with
/// damage is set aside instead.
///
/// # Errors
///
/// The log cannot be read, or the database fails; the log is as it was.
pub(super) fn replay(dir: &Path, db: &mut Connection, end: u64) -> Result<Replayed, StoreError> {
    let path_error = |source| StoreError::Path {
        path: dir.to_owned(),
        source,
    };
    let mut all = Replayed::default();
    for number in spool::segments(dir).map_err(path_error)? {
        if number >= end {
            continue;
        }
        let records = Records::read(dir, number, 0, None).map_err(path_error)?;
        let one = replay_segment(records, db)?;
        all.entered += one.entered;
        all.damaged += one.damaged;
        if one.damaged > 0 {
            let path = spool::set_aside(dir, number).map_err(path_error)?;
            tracing::warn!(path = %path.display(), records = one.damaged,
                "the log of an earlier process ends within a record or is damaged; set aside");
        }
    }
    spool::remove_before(dir, end).map_err(path_error)?;
    if all.entered > 0 {
        tracing::info!(
            records = all.entered,
            "entered the log of an earlier process"
        );
    }
    Ok(all)
}

fn replay_segment(mut records: Records, db: &mut Connection) -> Result<Replayed, StoreError> {
    let mut found = Replayed::default();
    let mut group = Vec::with_capacity(GROUP);
    loop {
        let next = records.next();
        let last = next.is_none();
        match next {
            None => {}
            Some(Found::Record(json)) => match Entry::read_back(json) {
                Some(entry) => group.push(entry),
                None => found.damaged += 1,
            },
            Some(Found::Damaged | Found::Torn) => found.damaged += 1,
        }
        if group.len() >= GROUP || last {
            let refused = sqlite::enter(db, &group)?.len() as u64;
            found.damaged += refused;
            found.entered += group.len() as u64 - refused;
            group.clear();
        }
        if last {
            return Ok(found);
        }
    }
}
