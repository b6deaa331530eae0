use std::fmt::Write as _;

use whippletree_policies::units::Money;

use super::*;
use crate::exchange::Millis;
use crate::exchange::Prefix;
use crate::store::tests::exchange;

/// A failure, a retry at the same target, a fallback that answers.
fn eventful() -> Exchange {
    let mut exchange = exchange(7);
    let good = exchange.attempts[0].clone();
    let failed = Attempt {
        class: Some(Class::Overloaded),
        status: Some(529),
        usage: None,
        cost_usd: Money::ZERO,
        price_version: None,
        ..good.clone()
    };
    let unknown = Attempt {
        class: Some(Class::Other),
        ..failed.clone()
    };
    let stand_in = Attempt {
        target: "local/qwen".into(),
        price_version: None,
        ..good
    };
    exchange.attempts = vec![failed, unknown, stand_in];
    exchange.fallback = true;
    exchange.prefix = Some(Prefix {
        reused_bytes: 1,
        expected_cached_tokens: 900,
        finding: Some("volatile-date".to_owned()),
    });
    exchange
}

fn samples(metrics: &Metrics) -> String {
    let text = metrics.encode();
    let ours = text.lines().filter(|line| line.starts_with("whippletree_"));
    let lines: Vec<_> = ours
        .filter(|line| !line.contains("_bucket{") && !line.contains("build_info"))
        .collect();
    lines.join("\n")
}

#[test]
fn every_metric_of_a_call_derives_from_its_exchange() {
    let metrics = Metrics::new().unwrap();
    metrics.request_started();
    metrics.observe(&eventful());
    let refused = Exchange {
        outcome: End::Refused,
        error: Some("model_not_found".to_owned()),
        attempts: Vec::new(),
        route: None,
        ttft_ms: None,
        duration_ms: Millis(900),
        ..exchange(8)
    };
    metrics.observe(&refused);
    let standing = |target: &str, breaker, shut| Standing {
        target: target.into(),
        breaker,
        shut,
        keys: Vec::new(),
    };
    metrics.set_breakers(&[
        standing(
            "a/shut",
            BreakerState::Closed,
            Some(Class::ModelUnavailable),
        ),
        standing("b/fine", BreakerState::Closed, None),
    ]);
    let pool = PoolCounts {
        idle: 1,
        in_use: 2,
        reused: 5,
        ..PoolCounts::default()
    };
    metrics.set_pools([(&"openai".into(), pool)]);
    insta::assert_snapshot!(samples(&metrics));
}

/// Case C157 (<https://github.com/BerriAI/litellm/pull/27272>): one series per client-chosen value.
#[test]
fn what_clients_choose_makes_no_series() {
    let metrics = Metrics::new().unwrap();
    metrics.observe(&exchange(0));
    let before = metrics.encode().lines().count();
    for n in 0..10_000 {
        let mut exchange = exchange(n);
        let name = format!("openai/m-{n}");
        exchange.user = Some(format!("u-{n}"));
        exchange.task = Some(format!("t-{n}"));
        exchange.tenant = format!("tenant-{n}").as_str().into();
        exchange.route = Some(name.as_str().into());
        exchange.target = Some(name.as_str().into());
        exchange.attempts[0].target = name.as_str().into();
        exchange.outcome = End::Refused;
        exchange.error = Some(format!("code-{n}"));
        metrics.observe(&exchange);
    }
    let grown = metrics.encode().lines().count() - before;
    // Two routes' histograms, and the codes, which are bounded although they are ours.
    assert!(grown < 70 + CODES, "{grown} lines more");
}

/// `UPDATE=1` rewrites the page.
#[test]
fn the_page_of_metrics_is_up_to_date() {
    let metrics = Metrics::new().unwrap();
    let mut page = String::from(
        "# Metrics\n\n\
         Made from `src/telemetry/metrics.rs`; `UPDATE=1 cargo test -p whippletree the_page_of_metrics` \
         rewrites it. Label values come\nfrom the configuration; whatever else a client sends is \
         `other`. The usual `process_*` metrics are there as well.\n\n\
         | name | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for metric in metrics.catalogue() {
        let labels = metric.labels.join(", ");
        let (name, kind, help) = (&metric.name, metric.kind, metric.help);
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page);
}

#[test]
fn counters_that_are_kept_elsewhere_only_rise() {
    let metrics = Metrics::new().unwrap();
    let health = Health {
        lost: 3,
        unspooled: 5,
        ..Health::default()
    };
    metrics.set_health(&health, 7);
    metrics.set_health(&Health::default(), 0);
    assert_eq!((metrics.unrecorded.get(), metrics.unspooled.get()), (3, 5));
    assert_eq!(metrics.log_dropped.get(), 7);
}
