//! Brings a database to the schema that this program knows, or refuses it.
//!
//! Migrations are numbered SQL files within the program. Each is applied once, in a transaction that
//! also notes its checksum; a database that a newer program has changed, or whose past differs from
//! the program's, is refused rather than guessed at.

use std::fmt::Write as _;

use rusqlite::{Connection, TransactionBehavior};
use sha2::{Digest, Sha256};

use super::StoreError;
use crate::clock;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_ledger.sql"),
    include_str!("migrations/0002_charge.sql"),
];

/// Applies what is missing.
///
/// # Errors
///
/// The database is newer than this program, was made by other migrations, or fails.
pub(super) fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
             version INTEGER PRIMARY KEY, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL
         ) STRICT",
    )?;
    let applied = check(&transaction)?;
    for (version, sql) in (1_i64..).zip(MIGRATIONS).skip(applied) {
        transaction.execute_batch(sql)?;
        transaction.execute(
            "INSERT INTO schema_migrations (version, checksum, applied_at) VALUES (?1, ?2, ?3)",
            (version, checksum(sql), clock::unix_now().0),
        )?;
    }
    transaction.commit()?;
    Ok(())
}

/// Refuses a database that this program cannot read as it stands.
///
/// # Errors
///
/// It is older or newer than this program, was made by other migrations, or fails.
pub(super) fn require_current(db: &Connection) -> Result<(), StoreError> {
    if check(db)? < MIGRATIONS.len() {
        return Err(StoreError::OlderSchema);
    }
    Ok(())
}

/// How many migrations the database has; each must be the one we know.
fn check(db: &Connection) -> Result<usize, StoreError> {
    let mut query =
        db.prepare("SELECT version, checksum FROM schema_migrations ORDER BY version")?;
    let rows = query.query_map((), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut applied = 0;
    for (expected, row) in (1_i64..).zip(rows) {
        let (version, found) = row?;
        let Some(sql) = MIGRATIONS.get(applied) else {
            return Err(StoreError::NewerSchema { version });
        };
        if version != expected || found != checksum(sql) {
            return Err(StoreError::ForeignSchema { version });
        }
        applied += 1;
    }
    Ok(applied)
}

fn checksum(sql: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(sql) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_brought_up_once_and_then_left_alone() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        migrate(&mut db).unwrap();
        require_current(&db).unwrap();
        let versions: i64 = db
            .query_row("SELECT count(*) FROM schema_migrations", (), |r| r.get(0))
            .unwrap();
        assert_eq!(versions, i64::try_from(MIGRATIONS.len()).unwrap());
    }

    #[test]
    fn a_newer_database_is_refused() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        db.execute("INSERT INTO schema_migrations VALUES (999, '', 0)", ())
            .unwrap();
        assert!(matches!(
            migrate(&mut db),
            Err(StoreError::NewerSchema { version: 999 })
        ));
    }

    #[test]
    fn a_changed_past_is_refused() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        db.execute("UPDATE schema_migrations SET checksum = 'x'", ())
            .unwrap();
        assert!(matches!(
            migrate(&mut db),
            Err(StoreError::ForeignSchema { version: 1 })
        ));
    }

    #[test]
    fn a_ledger_row_can_be_neither_changed_nor_removed() {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db).unwrap();
        db.execute(
            "INSERT INTO ledger (request_id, attempt, kind, time, tenant, api, target, last,
                                 cost_pico, estimated)
             VALUES (zeroblob(16), 1, 'settle', 0, 't', 'chat', 'p/m', 1, 5, 0)",
            (),
        )
        .unwrap();
        for sql in ["UPDATE ledger SET cost_pico = 0", "DELETE FROM ledger"] {
            let error = db.execute(sql, ()).unwrap_err().to_string();
            assert!(error.contains("append-only"), "{error}");
        }
    }
}
