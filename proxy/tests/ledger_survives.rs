//! The ledger against the end of its process, and against a full disk. The process is a child: this
//! same binary, told by its environment to record until it is killed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail by panicking"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use whippletree::config;
use whippletree::exchange::Exchange;
use whippletree::store::Store;
use whippletree::store::ledger::LedgerFilter;
use whippletree::store::query::{Page, RequestFilter};

const DATABASE: &str = "WHIPPLETREE_TEST_DATABASE";
const FIRST: &str = "WHIPPLETREE_TEST_FIRST";

fn exchange(n: u64) -> Exchange {
    serde_json::from_value(serde_json::json!({
        "request_id": format!("00000000-0000-7000-8000-{n:012x}"),
        "time": 1_764_500_000_000_u64 + n,
        "tenant": "default", "tags": {},
        "route": "coder", "api": "chat", "dialect": "openai", "stream": false,
        "status": 200, "outcome": "ok", "target": "openai/gpt-5.6", "fallback": false,
        "attempts": [{
            "target": "openai/gpt-5.6", "key": 0, "status": 200, "waited_ms": 0.0, "took_ms": 12.5,
            "usage": {"input_tokens": n, "output_tokens": 1, "estimated": false},
            "cost_usd": "0.000001", "price_version": "2026-11-30",
        }],
        "cost_usd": "0.000001", "duration_ms": 13.0, "overhead_ms": 0.1,
        "request_bytes": 100, "response_bytes": 100,
    }))
    .unwrap()
}

/// Not a test: what the child does. Says each number once it is recorded.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let Ok(path) = std::env::var(DATABASE) else {
        return;
    };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let store = Store::open(&config::Store::Sqlite(path.into())).unwrap();
    let recorder = store.recorder();
    let mut out = std::io::stdout().lock();
    for n in first..first + 100_000 {
        recorder.record(&exchange(n));
        let word = match recorder.health().unspooled {
            0 => "kept",
            _ => "refused",
        };
        writeln!(out, "{word} {n}").unwrap();
        out.flush().unwrap();
    }
}

fn start(mut command: Command, database: &Path, first: u64) -> Child {
    command
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DATABASE, database)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads until `enough` of the child's lines begin with `word`; returns the numbers kept.
fn listen(child: &mut Child, word: &str, enough: usize) -> BTreeSet<u64> {
    let mut kept = BTreeSet::new();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(n) = line.strip_prefix("kept ") {
            kept.insert(n.parse().unwrap());
        }
        seen += usize::from(line.starts_with(word));
        if seen == enough {
            return kept;
        }
    }
    panic!("the child ended early, after {} records", kept.len());
}

/// The numbers in the database, each of which must stand there once, with one ledger entry.
fn in_database(path: &Path) -> BTreeSet<u64> {
    let store = Store::open(&config::Store::Sqlite(path.to_owned())).unwrap();
    let reader = store.reader();
    let mut numbers = BTreeSet::new();
    let mut page = Page {
        limit: 10_000,
        after: None,
    };
    loop {
        let listed = reader.requests(&RequestFilter::default(), &page).unwrap();
        for doc in &listed.items {
            let exchange: Exchange = serde_json::from_str(doc.get()).unwrap();
            let n = u64::from_be_bytes(exchange.request_id.0[8..].try_into().unwrap());
            assert!(
                numbers.insert(n & 0xffff_ffff_ffff),
                "{n} stands there twice"
            );
        }
        page.after = listed.next;
        if page.after.is_none() {
            break;
        }
    }
    let page = Page {
        limit: 1_000_000,
        after: None,
    };
    let ledger = reader.ledger(&LedgerFilter::default(), &page).unwrap();
    let entries: BTreeSet<u64> = ledger
        .items
        .iter()
        .map(|entry| entry.usage.unwrap().input.0)
        .collect();
    assert_eq!(ledger.items.len(), numbers.len());
    assert_eq!(entries, numbers);
    numbers
}

#[test]
fn no_record_is_lost_or_doubled_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whippletree.db");
    let mut kept = BTreeSet::new();
    for round in 0..25 {
        let this = Command::new(std::env::current_exe().unwrap());
        let mut child = start(this, &path, round * 1_000_000);
        // Each round dies after another number of records: at once, or far beyond the queue.
        let enough = 1 + usize::try_from(round * round * 7).unwrap();
        kept.extend(listen(&mut child, "kept", enough));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let found = in_database(&path);
    let missing: Vec<_> = kept.difference(&found).collect();
    assert!(missing.is_empty(), "lost {missing:?}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_loses_no_record_that_the_log_took() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whippletree.db");
    // No file may grow beyond 512 KiB; SIGXFSZ ignored, so that writing fails as on a full disk.
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap());
    let mut child = start(limited, &path, 0);
    let kept = listen(&mut child, "refused", 100);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!kept.is_empty());
    let found = in_database(&path);
    let missing: Vec<_> = kept.difference(&found).collect();
    assert!(missing.is_empty(), "lost {missing:?}");
}
