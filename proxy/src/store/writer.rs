//! The one thread that writes to the database: it collects records and commits them in groups.
//!
//! A commit costs a disk flush and a tenth of a millisecond of work, so it is shared: records are
//! collected for [`COLLECT`], until there are [`GROUP`], or until somebody wants to read them. They
//! lie in the log meanwhile. The thread knows its place in the log. A record that lies further on than
//! that place means that the queue was full in between: what is missing is read from the log.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::spool::{self, Found, Position, Records};
use super::{Entry, Shared, sqlite};

/// How long records are collected after the first.
const COLLECT: Duration = Duration::from_millis(250);

/// Records in one transaction.
pub(super) const GROUP: usize = 512;

/// The first and the longest pause after a failed commit.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Failed commits after which a closing store leaves the rest in the log: about five seconds.
const CLOSING_TRIES: u32 = 7;

/// The connection that is written to.
#[derive(Debug)]
pub(super) enum Connected {
    Own(Box<Connection>),
    Shared(Arc<Mutex<Connection>>),
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Writer {
    db: Connected,
    shared: Arc<Shared>,
    receiver: Receiver<Box<Entry>>,
    group: Vec<Entry>,
    /// Everything before it is committed or in `group`.
    position: Position,
    /// The number of the last record in `group` or before.
    number: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The store closes and the database fails: nothing more is tried.
    GivenUp,
    Writing,
}

impl Writer {
    pub(super) fn new(db: Connected, shared: Arc<Shared>, receiver: Receiver<Box<Entry>>) -> Self {
        let position = shared.intake().head();
        Self {
            db,
            shared,
            receiver,
            group: Vec::with_capacity(GROUP),
            position,
            number: 0,
            state: State::Writing,
        }
    }

    /// Writes until the store closes.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.receiver.recv() {
            // Parked rather than waiting on the queue: senders then need not wake us each time.
            thread::park_timeout(COLLECT);
            self.take(first);
            while let Ok(entry) = self.receiver.try_recv() {
                self.take(entry);
            }
            self.catch_up();
            self.commit();
        }
        self.catch_up();
        self.commit();
        self.finish();
    }

    fn take(&mut self, entry: Box<Entry>) {
        if entry.start < entry.end && entry.end <= self.position {
            // Read back from the log already.
            return;
        }
        if entry.start > self.position {
            self.read_back(entry.start);
        }
        self.position = entry.end;
        self.number = self.number.max(entry.number);
        self.push(*entry);
    }

    fn push(&mut self, entry: Entry) {
        self.group.push(entry);
        if self.group.len() >= GROUP {
            self.commit();
        }
    }

    /// Reads what the queue had no room for, if anything.
    fn catch_up(&mut self) {
        let mut intake = self.shared.intake();
        if !std::mem::take(&mut intake.overflowed) {
            return;
        }
        let (head, number) = (intake.head(), intake.recorded);
        drop(intake);
        self.read_back(head);
        self.number = number;
        if self.group.is_empty() && self.state == State::Writing {
            // The last of them filled a group, which was committed under the number before.
            self.committed();
        }
    }

    /// Takes the log's records from our place up to `end`.
    fn read_back(&mut self, end: Position) {
        let Some(dir) = self.shared.dir.clone() else {
            return;
        };
        while self.position < end {
            let segment = self.position.segment;
            let upto = (segment == end.segment).then_some(end.offset);
            match Records::read(&dir, segment, self.position.offset, upto) {
                Ok(records) => self.take_records(records),
                Err(error) => {
                    // The segment stays, so the next start enters what is missing now.
                    tracing::error!(%error, segment, "a segment of the log cannot be read");
                    self.state = State::GivenUp;
                }
            }
            self.position = if segment == end.segment {
                end
            } else {
                Position {
                    segment: segment + 1,
                    offset: 0,
                }
            };
        }
    }

    fn take_records(&mut self, mut records: Records) {
        loop {
            let entry = match records.next() {
                None => return,
                Some(Found::Record(json)) => Entry::read_back(json),
                Some(Found::Damaged | Found::Torn) => None,
            };
            if let Some(entry) = entry {
                self.push(entry);
            } else {
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
                tracing::error!("a record of the log is damaged");
            }
        }
    }

    /// Enters the group, however long it takes, unless the store is closing.
    fn commit(&mut self) {
        let mut pause = BACKOFF.0;
        let mut tries_while_closing = 0;
        while !self.group.is_empty() && self.state == State::Writing {
            let entered = match &mut self.db {
                Connected::Own(db) => sqlite::enter(db, &self.group),
                Connected::Shared(db) => sqlite::enter(&mut sqlite::lock(db), &self.group),
            };
            match entered {
                Ok(refused) => {
                    for entry in refused {
                        self.shared.lost.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(request_id = %entry.exchange.request_id, "the database refused an exchange");
                    }
                    self.group.clear();
                    self.committed();
                }
                Err(error) => {
                    if self
                        .shared
                        .failing
                        .fetch_add(1, Ordering::Relaxed)
                        .is_multiple_of(16)
                    {
                        tracing::error!(%error, "the ledger cannot be written; trying again");
                    }
                    if self.shared.intake().sender.is_none() {
                        tries_while_closing += 1;
                    }
                    if tries_while_closing >= CLOSING_TRIES {
                        self.state = State::GivenUp;
                        break;
                    }
                    thread::sleep(pause);
                    pause = BACKOFF.1.min(pause * 2);
                }
            }
        }
        if self.state == State::GivenUp {
            let unspooled = self.group.iter().filter(|entry| entry.start == entry.end);
            let lost = unspooled.count() as u64;
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            self.group.clear();
        }
    }

    fn committed(&self) {
        self.shared.failing.store(0, Ordering::Relaxed);
        self.shared.committed.send_replace(self.number);
        if let Some(dir) = &self.shared.dir {
            remove_before(dir, self.position.segment);
        }
    }

    /// Removes the log when all of it is committed, and lets go those who wait.
    fn finish(&self) {
        let mut intake = self.shared.intake();
        if self.state == State::Writing
            && intake.head() == self.position
            && let (Some(dir), Some(spool)) = (&self.shared.dir, &mut intake.spool)
        {
            spool.start_segment();
            remove_before(dir, spool.head().segment);
        }
        drop(intake);
        self.shared.committed.send_replace(u64::MAX);
    }
}

fn remove_before(dir: &Path, segment: u64) {
    if let Err(error) = spool::remove_before(dir, segment) {
        // Harmless: what is in it is entered once, and the next start tries again.
        tracing::warn!(%error, "a committed segment of the log cannot be removed");
    }
}
