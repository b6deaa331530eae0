use jiff::Timestamp;
use proptest::prelude::*;
use whippletree_policies::units::{Money, Tokens};
use whippletree_policies::usage::Usage;

use super::*;
use crate::config;
use crate::exchange::{Attempt, Exchange, Millis};
use crate::store::ledger::LedgerFilter;
use crate::store::query::Page;
use crate::store::tests::{exchange, id};
use crate::store::{Recorder, Store};

fn store_of(exchanges: &[Exchange]) -> Store {
    let store = Store::open(&config::Store::Memory).unwrap();
    for exchange in exchanges {
        store.recorder().record(exchange);
    }
    wait(&store.recorder());
    store
}

fn wait(recorder: &Recorder) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(recorder.committed());
}

fn by(dimension: &str) -> UsageQuery {
    UsageQuery {
        group_by: vec![dimension.parse().unwrap()],
        ..UsageQuery::default()
    }
}

fn shown(rows: &[UsageRow]) -> Vec<String> {
    let show = |row: &UsageRow| {
        let group: Vec<_> = row
            .group
            .iter()
            .map(|v| v.as_deref().unwrap_or("-"))
            .collect();
        let Totals {
            requests,
            attempts,
            cost,
            ..
        } = row.totals;
        format!("{} {requests}/{attempts} ${cost}", group.join(","))
    };
    rows.iter().map(show).collect()
}

#[test]
fn a_request_counts_where_its_last_attempt_went() {
    let mut one = exchange(1);
    one.tags.insert("team".to_owned(), "blue".to_owned());
    let mut stand_in = one.attempts[0].clone();
    stand_in.target = "local/org/qwen".into();
    stand_in.cost_usd = Money::from_pico(5);
    one.attempts.push(stand_in);
    let store = store_of(&[one, exchange(2)]);
    let shown_by = |dimension| shown(&store.reader().usage(&by(dimension)).unwrap());
    assert_eq!(
        shown_by("target"),
        [
            "openai/gpt-5.6 1/2 $0.000002469134",
            "local/org/qwen 1/1 $0.000000000005"
        ]
    );
    assert_eq!(
        shown_by("model"),
        [
            "gpt-5.6 1/2 $0.000002469134",
            "org/qwen 1/1 $0.000000000005"
        ]
    );
    assert_eq!(
        shown_by("tag:team"),
        ["blue 1/2 $0.000001234572", "- 1/1 $0.000001234567"]
    );
    assert_eq!(shown_by("task"), ["- 2/3 $0.000002469139"]);
    let only = UsageQuery {
        only: vec![(Dimension::Provider, vec!["local".to_owned()])],
        ..by("tenant")
    };
    assert_eq!(
        shown(&store.reader().usage(&only).unwrap()),
        ["research 1/1 $0.000000000005"]
    );
}

#[test]
fn days_are_those_of_the_place() {
    // Settled at 23:30 UTC, which in Berlin is the next day and the next month.
    let settled: Timestamp = "2026-11-30T23:30:00Z".parse().unwrap();
    let mut late = exchange(1);
    late.duration_ms = Millis(0);
    late.time = UnixTime(settled.as_millisecond());
    let store = store_of(&[late]);
    let first_day = |zone: &str, bucket| {
        let query = UsageQuery {
            bucket: Some(bucket),
            zone: TimeZone::get(zone).unwrap(),
            ..UsageQuery::default()
        };
        let from = store.reader().usage(&query).unwrap()[0]
            .period
            .unwrap()
            .from;
        Timestamp::from_millisecond(from.0).unwrap().to_string()
    };
    assert_eq!(first_day("UTC", Bucket::Day), "2026-11-30T00:00:00Z");
    assert_eq!(first_day("UTC", Bucket::Month), "2026-11-01T00:00:00Z");
    assert_eq!(
        first_day("Europe/Berlin", Bucket::Day),
        "2026-11-30T23:00:00Z"
    );
    assert_eq!(
        first_day("Europe/Berlin", Bucket::Month),
        "2026-11-30T23:00:00Z"
    );
}

#[test]
fn sums_beyond_64_bits_are_exact() {
    let mut exchanges = Vec::new();
    for n in 0..3 {
        let mut dear = exchange(n);
        dear.attempts[0].cost_usd = Money::from_pico(i64::MAX);
        dear.attempts[0].usage = Some(Usage {
            input: Tokens(u64::MAX),
            ..Usage::default()
        });
        exchanges.push(dear);
    }
    let rows = store_of(&exchanges)
        .reader()
        .usage(&UsageQuery::default())
        .unwrap();
    assert_eq!(rows[0].totals.cost.pico(), 3 * i128::from(i64::MAX));
    // A count beyond 2⁶³ is no count; it is held there.
    assert_eq!(
        rows[0].totals.usage.input_tokens,
        3 * u128::from(i64::MAX.unsigned_abs())
    );
}

/// Exchanges that differ in every dimension.
fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let name = || proptest::option::of("[a-c]");
    let attempts = proptest::collection::vec(attempt(), 0..4);
    let one = (
        name(),
        name(),
        name(),
        "[a-b]",
        0_i64..100_000_000,
        attempts,
    );
    let one = one.prop_map(|(user, task, tag, tenant, time, attempts)| {
        let mut exchange = exchange(0);
        exchange.tenant = tenant.as_str().into();
        exchange.user = user;
        exchange.task = task;
        exchange.tags.extend(tag.map(|tag| ("t".to_owned(), tag)));
        exchange.time = UnixTime(1_764_500_000_000 + time);
        exchange.attempts = attempts;
        exchange
    });
    proptest::collection::vec(one, 0..30).prop_map(|mut all| {
        for (n, exchange) in (0..).zip(&mut all) {
            exchange.request_id = id(exchange.time.0, n);
        }
        all
    })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let tokens = proptest::option::of(0..1_000_000_u64);
    let attempt = ("[pq]/[m-n]", 0..i64::MAX, tokens, any::<bool>());
    attempt.prop_map(|(target, cost, tokens, estimated)| Attempt {
        target: target.as_str().into(),
        cost_usd: Money::from_pico(cost),
        usage: tokens.map(|tokens| Usage {
            input: Tokens(tokens),
            estimated,
            ..Usage::default()
        }),
        ..exchange(0).attempts.remove(0)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn totals_by_any_dimension_add_up_to_the_ledger(
        exchanges in exchanges(),
        dimension in prop_oneof![
            Just("tenant"), Just("key"), Just("user"), Just("task"), Just("model"),
            Just("provider"), Just("target"), Just("route"), Just("harness"), Just("tag:t")
        ],
        bucket in proptest::option::of(prop_oneof![
            Just(Bucket::Hour), Just(Bucket::Day), Just(Bucket::Month)
        ]),
    ) {
        let store = store_of(&exchanges);
        let reader = store.reader();
        let page = Page { limit: 1000, after: None };
        let ledger = reader.ledger(&LedgerFilter::default(), &page).unwrap().items;
        let rows = reader.usage(&UsageQuery { bucket, ..by(dimension) }).unwrap();

        let cost: i128 = ledger.iter().map(|entry| i128::from(entry.cost_usd.pico())).sum();
        prop_assert_eq!(rows.iter().map(|row| row.totals.cost.pico()).sum::<i128>(), cost);
        let estimated = ledger.iter().filter(|entry| entry.estimated);
        let estimated: i128 = estimated.map(|entry| i128::from(entry.cost_usd.pico())).sum();
        let sum: i128 = rows.iter().map(|row| row.totals.estimated_cost.pico()).sum();
        prop_assert_eq!(sum, estimated);
        let input: u64 = ledger.iter().filter_map(|entry| entry.usage).map(|u| u.input.0).sum();
        let sum: u128 = rows.iter().map(|row| row.totals.usage.input_tokens).sum();
        prop_assert_eq!(sum, u128::from(input));
        let attempts: u64 = rows.iter().map(|row| row.totals.attempts).sum();
        prop_assert_eq!(attempts, ledger.len() as u64);
        let tried = exchanges.iter().filter(|exchange| !exchange.attempts.is_empty()).count();
        prop_assert_eq!(rows.iter().map(|row| row.totals.requests).sum::<u64>(), tried as u64);
        for row in &rows {
            prop_assert_eq!(row.period.is_some(), bucket.is_some());
        }
    }
}
