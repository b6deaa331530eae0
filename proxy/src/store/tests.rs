use std::collections::BTreeMap;

use proptest::prelude::*;
use whippletree_policies::ids::RequestId;
use whippletree_policies::outcome::Class;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::{Money, Tokens};
use whippletree_policies::usage::Usage;

use super::ledger::LedgerFilter;
use super::query::{Page, RequestFilter};
use super::*;
use crate::exchange::{Api, Attempt, ChargeRule, Dialect, End, Millis};

/// An exchange with one good attempt; `n` tells it from others.
pub(crate) fn exchange(n: u64) -> Exchange {
    let time = 1_764_500_000_000 + i64::try_from(n).unwrap();
    let usage = Usage {
        input: Tokens(1000 + n),
        cache_read: Some(Tokens(800)),
        output: Tokens(50),
        ..Usage::default()
    };
    Exchange {
        request_id: id(time, n),
        time: UnixTime(time),
        tenant: "research".into(),
        key: Some("ci".into()),
        user: Some("ada".to_owned()),
        task: None,
        tags: BTreeMap::new(),
        harness: Some("codex".to_owned()),
        route: Some("coder".into()),
        api: Api::Chat,
        dialect: Dialect::Openai,
        stream: true,
        status: 200,
        outcome: End::Ok,
        error: None,
        target: Some("openai/gpt-5.6".into()),
        fallback: false,
        attempts: vec![Attempt {
            target: "openai/gpt-5.6".into(),
            key: Some(0),
            class: None,
            status: Some(200),
            waited_ms: Millis(0),
            first_byte_ms: Some(Millis(310_123)),
            took_ms: Millis(2_101_200),
            usage: Some(usage),
            cost_usd: Money::from_pico(1_234_567),
            price_version: Some("2026-11-30".to_owned()),
            price_fallback: true,
            rule: Some(ChargeRule::Reported),
        }],
        usage: Some(usage),
        cost_usd: Money::from_pico(1_234_567),
        price_version: Some("2026-11-30".to_owned()),
        prefix: None,
        repeats: None,
        ttft_ms: Some(Millis(320_456)),
        duration_ms: Millis(2_110_001),
        overhead_ms: Millis(91),
        request_bytes: 12_345,
        response_bytes: 2_345,
    }
}

/// A request id of that time that tells `n`.
pub(crate) fn id(time: i64, n: u64) -> RequestId {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&time.to_be_bytes()[2..]);
    id[6] = 0x70;
    id[8..].copy_from_slice(&n.to_be_bytes());
    RequestId(id)
}

fn first_page<C>() -> Page<C> {
    Page {
        limit: 1000,
        after: None,
    }
}

/// The ids of all exchanges, oldest first, and how often the ledger has each.
fn recorded(reader: &Reader) -> (Vec<u64>, usize) {
    let number = |json: &str| {
        let exchange: Exchange = serde_json::from_str(json).unwrap();
        u64::from_be_bytes(exchange.request_id.0[8..].try_into().unwrap())
    };
    let mut page = first_page();
    let mut ids = Vec::new();
    loop {
        let listed = reader.requests(&RequestFilter::default(), &page).unwrap();
        ids.extend(listed.items.iter().map(|doc| number(doc.get())));
        page.after = listed.next;
        if page.after.is_none() {
            break;
        }
    }
    ids.reverse();
    let mut entries = 0;
    let mut page = first_page();
    loop {
        let listed = reader.ledger(&LedgerFilter::default(), &page).unwrap();
        entries += listed.items.len();
        page.after = listed.next;
        if page.after.is_none() {
            break;
        }
    }
    (ids, entries)
}

fn wait(recorder: &Recorder) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(recorder.committed());
}

fn in_dir(dir: &tempfile::TempDir) -> config::Store {
    config::Store::Sqlite(dir.path().join("whippletree.db"))
}

#[test]
fn an_exchange_is_read_as_it_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    for config in [in_dir(&dir), config::Store::Memory] {
        let store = Store::open(&config).unwrap();
        let mut sent = exchange(7);
        sent.tags.insert("team".to_owned(), "a\"b".to_owned());
        sent.attempts.insert(
            0,
            Attempt {
                class: Some(Class::Overloaded),
                usage: None,
                cost_usd: Money::ZERO,
                price_version: None,
                price_fallback: false,
                rule: Some(ChargeRule::VendorFailedBeforeContent),
                ..sent.attempts[0].clone()
            },
        );
        store.recorder().record(&sent);
        wait(&store.recorder());
        let doc = store.reader().request(sent.request_id).unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Exchange>(doc.get()).unwrap(), sent);
        let ledger = store
            .reader()
            .ledger(&LedgerFilter::default(), &first_page())
            .unwrap()
            .items;
        insta::allow_duplicates! {
            insta::assert_json_snapshot!(ledger);
        }
    }
}

#[test]
fn a_second_process_on_the_same_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Store::open(&in_dir(&dir)).unwrap();
    assert!(matches!(
        Store::open(&in_dir(&dir)),
        Err(StoreError::InUse { .. })
    ));
    first.close();
    Store::open(&in_dir(&dir)).unwrap();
}

#[test]
fn closing_commits_everything_and_leaves_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&in_dir(&dir)).unwrap();
    for n in 0..2000 {
        store.recorder().record(&exchange(n));
    }
    let late = store.recorder();
    store.close();
    let path = dir.path().join("whippletree.db");
    assert_eq!(query::left_behind(&path), 0);
    assert_eq!(recorded(&Reader::open(&path).unwrap()).0.len(), 2000);

    late.record(&exchange(2000));
    assert_eq!(late.health().lost, 0);
    let store = Store::open(&in_dir(&dir)).unwrap();
    assert_eq!(recorded(&store.reader()), ((0..=2000).collect(), 2001));
}

#[test]
fn what_the_queue_has_no_room_for_is_read_back_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&in_dir(&dir)).unwrap();
    // The writer cannot commit while somebody else holds the write lock.
    let other = rusqlite::Connection::open(dir.path().join("whippletree.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let all = 3 * QUEUE as u64;
    for n in 0..all {
        store.recorder().record(&exchange(n));
    }
    assert!(store.recorder().health().waiting >= all - 1);
    other.execute_batch("ROLLBACK").unwrap();
    wait(&store.recorder());
    assert_eq!(
        recorded(&store.reader()),
        ((0..all).collect(), usize::try_from(all).unwrap())
    );
    assert_eq!(store.recorder().health().lost, 0);
    // And the next one comes through the queue again.
    store.recorder().record(&exchange(all));
    wait(&store.recorder());
    assert_eq!(recorded(&store.reader()).0.len() as u64, all + 1);
}

#[test]
fn a_log_that_refuses_is_counted_and_the_record_still_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&in_dir(&dir)).unwrap();
    std::fs::remove_dir_all(dir.path().join("whippletree.db.spool")).unwrap();
    store.recorder().record(&exchange(1));
    wait(&store.recorder());
    assert_eq!(recorded(&store.reader()).0, [1]);
    let health = store.recorder().health();
    assert_eq!((health.unspooled, health.lost), (1, 0));
}

#[test]
fn a_torn_tail_is_counted_set_aside_and_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let spool = dir.path().join("whippletree.db.spool");
    std::fs::create_dir(&spool).unwrap();
    let whole: Vec<u8> = (0..3)
        .flat_map(|n| Entry::new(&exchange(n)).unwrap().record)
        .collect();
    let torn = Entry::new(&exchange(3)).unwrap().record;
    let mut bytes = whole.clone();
    bytes.extend_from_slice(&torn[..torn.len() - 1]);
    std::fs::write(spool.join("000004.log"), &bytes).unwrap();
    std::fs::write(spool.join("000005.log"), &torn).unwrap();
    let store = Store::open(&in_dir(&dir)).unwrap();
    assert_eq!(recorded(&store.reader()).0, [0, 1, 2, 3]);
    let health = store.recorder().health();
    assert_eq!((health.replayed, health.lost), (4, 1));
    assert!(spool.join("000004.damaged").exists());
    assert!(!spool.join("000005.log").exists());
}

/// What happens to a store.
#[derive(Clone, Debug)]
enum Step {
    /// Records exchanges with these numbers.
    Record(Vec<u8>),
    /// Waits for the commit.
    Wait,
    /// The process ends in order.
    Restart,
    /// The process dies: what the database has not committed is in the log, cut after some of the
    /// last record's bytes.
    Crash { cut: u16 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Step::Record),
        1 => Just(Step::Wait),
        1 => Just(Step::Restart),
        2 => any::<u16>().prop_map(|cut| Step::Crash { cut }),
    ];
    proptest::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The model is a set: every exchange that was recorded is there, once.
    #[test]
    fn any_sequence_of_records_and_crashes_keeps_every_exchange_once(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let spool = dir.path().join("whippletree.db.spool");
        let mut store = Store::open(&in_dir(&dir)).unwrap();
        let mut model = std::collections::BTreeSet::new();
        for step in steps {
            match step {
                Step::Record(numbers) => for n in numbers {
                    store.recorder().record(&exchange(n.into()));
                    model.insert(u64::from(n));
                },
                Step::Wait => wait(&store.recorder()),
                Step::Restart => {
                    store.close();
                    store = Store::open(&in_dir(&dir)).unwrap();
                }
                Step::Crash { cut } => {
                    // A process that dies leaves the log as it is at this instant; the one that we
                    // end in order removes it, so it is put back, with a record cut short.
                    let mut left = Vec::new();
                    for number in spool::segments(&spool).unwrap() {
                        let name = format!("{number:06}.log");
                        left.extend(std::fs::read(spool.join(&name)).map(|bytes| (name, bytes)));
                    }
                    store.close();
                    let torn = Entry::new(&exchange(1000)).unwrap().record;
                    let torn = &torn[..usize::from(cut) % torn.len()];
                    for (name, bytes) in left {
                        std::fs::write(spool.join(name), [&bytes, torn].concat()).unwrap();
                    }
                    store = Store::open(&in_dir(&dir)).unwrap();
                }
            }
        }
        wait(&store.recorder());
        let expected: Vec<u64> = model.iter().copied().collect();
        prop_assert_eq!(recorded(&store.reader()), (expected, model.len()));
    }
}
