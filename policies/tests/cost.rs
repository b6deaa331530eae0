//! Prices, against the public cases of wrong bills (`shared/cases`, kind K4) and as properties.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test may panic as the test itself may"
)]

use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;
use whippletree_policies::cost::{
    Estimate, Overflow, PriceCard, Rates, Service, Tier, Writes, ceiling, charge, cost,
};
use whippletree_policies::units::{Money, Price, Tokens};
use whippletree_policies::usage::Usage;

fn case(id: &str) -> Value {
    let root = std::env::var_os("WHIPPLETREE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    );
    let path = root.join("cases/cases.jsonl");
    let text = std::fs::read_to_string(&path).expect("the shared cases are beside the workspace");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.into_iter().find(|case| case["id"] == id).unwrap()
}

/// The card of a case: its plain numbers written as the strings that a card wants.
fn card(case: &Value) -> PriceCard {
    let prices = &case["input"]["config"]["prices_usd_per_mtok"];
    let rates = |rates: &Value, into: &mut String| {
        for (name, dollars) in rates.as_object().unwrap() {
            write!(into, r#","{name}":"{dollars}""#).unwrap();
        }
    };
    let mut json = String::from(r#"{"per":1000000"#);
    if prices.get("base").is_some() {
        rates(&prices["base"], &mut json);
        json.push_str(r#","tiers":[{"above":200000"#);
        rates(&prices["over_200k"], &mut json);
        json.push_str("}]");
    } else {
        rates(prices, &mut json);
    }
    json.push('}');
    serde_json::from_str(&json).unwrap()
}

fn nano(money: Money) -> i64 {
    assert_eq!(money.pico() % 1000, 0);
    money.pico() / 1000
}

const fn usage(read: u64, cache_read: u64, write_5m: u64, write_1h: u64, output: u64) -> Usage {
    Usage {
        input: Tokens(read + cache_read + write_5m + write_1h),
        cache_read: Some(Tokens(cache_read)),
        cache_write_5m: Some(Tokens(write_5m)),
        cache_write_1h: Some(Tokens(write_1h)),
        output: Tokens(output),
        reasoning: None,
        audio_input: None,
        audio_output: None,
        images: None,
        estimated: false,
    }
}

fn costs_as_the_case_says(id: &str, usages: &[Usage]) {
    let case = case(id);
    let want = &case["input"]["assert_ledger"]["nano_usd"];
    let want: Vec<i64> = want.as_array().map_or_else(
        || vec![want.as_i64().unwrap()],
        |list| list.iter().map(|n| n.as_i64().unwrap()).collect(),
    );
    let card = card(&case);
    let got: Vec<i64> = usages
        .iter()
        .map(|usage| nano(cost(&card, usage).unwrap()))
        .collect();
    assert_eq!(got, want, "{id}");
}

#[test]
fn c103_cache_writes_are_not_charged_as_input_too() {
    costs_as_the_case_says("C103", &[usage(7, 0, 10_000, 0, 400)]);
}

#[test]
fn c104_each_class_is_charged_once() {
    costs_as_the_case_says("C104", &[usage(120, 300, 600, 0, 10)]);
}

#[test]
fn c105_cached_tokens_come_out_of_the_input() {
    costs_as_the_case_says("C105", &[usage(1_000, 9_000, 0, 0, 100)]);
}

#[test]
fn c106_cache_writes_count_towards_the_tier() {
    costs_as_the_case_says("C106", &[usage(20_000, 0, 190_000, 0, 1_000)]);
}

#[test]
fn c107_a_tier_begins_past_its_threshold_and_prices_the_whole_call() {
    costs_as_the_case_says(
        "C107",
        &[usage(200_000, 0, 0, 0, 1), usage(200_001, 0, 0, 0, 1)],
    );
}

#[test]
fn c108_cache_classes_follow_the_tier() {
    costs_as_the_case_says("C108", &[usage(250_000, 1_000, 5_000, 0, 0)]);
}

#[test]
fn c109_a_missing_rate_is_that_tiers_input_rate_and_is_told() {
    let usage = usage(10_000, 200_000, 0, 0, 0);
    costs_as_the_case_says("C109", &[usage]);
    let charge = charge(&card(&case("C109")), &usage, Service::Standard).unwrap();
    assert!(charge.price_fallback);
    assert_eq!(charge.tier, Some(Tokens(200_000)));
}

#[test]
fn c110_long_writes_have_their_own_rate() {
    costs_as_the_case_says("C110", &[usage(10, 0, 1_000, 9_000, 10)]);
}

#[test]
fn c111_and_c112_reasoning_is_part_of_the_output() {
    let thoughtful = Usage {
        reasoning: Some(Tokens(480)),
        ..usage(100, 0, 0, 0, 500)
    };
    costs_as_the_case_says("C111", &[thoughtful]);
    costs_as_the_case_says("C112", &[thoughtful]);

    let mut card = card(&case("C112"));
    card.base.reasoning = Some(Price(12_000_000));
    let dearer = cost(&card, &thoughtful).unwrap();
    assert_eq!(nano(dearer), 5_125_000 + 480 * 2_000);
}

#[test]
fn c115_reported_zeros_cost_zero() {
    let card = card(&case("C115"));
    let charge = charge(&card, &usage(0, 0, 0, 0, 0), Service::Standard).unwrap();
    assert_eq!(charge.amount, Money::ZERO);
    assert!(!charge.price_fallback && !charge.clamped);
}

#[test]
fn a_rate_of_zero_is_not_a_missing_rate() {
    let mut card = PriceCard::new(Price(3), Price(15));
    card.base.cache_write_5m = Some(Price(0));
    let charge = charge(&card, &usage(0, 0, 1_000, 0, 0), Service::Standard).unwrap();
    assert_eq!(charge.amount, Money::ZERO);
    assert!(!charge.price_fallback);
}

#[test]
fn parts_that_exceed_their_whole_are_charged_as_parts_and_told() {
    let mut card = PriceCard::new(Price(10), Price(10));
    card.base.cache_read = Some(Price(1));
    let usage = Usage {
        input: Tokens(100),
        cache_read: Some(Tokens(150)),
        ..Usage::default()
    };
    let charge = charge(&card, &usage, Service::Standard).unwrap();
    assert_eq!(charge.amount, Money::from_pico(150));
    assert!(charge.clamped);
}

#[test]
fn a_service_tier_prices_tokens_and_a_missing_factor_is_told() {
    let mut card = PriceCard::new(Price(3), Price(15));
    card.service.batch = Some("0.5".parse().unwrap());
    card.request = Some(Money::from_pico(7));
    card.image = Some(Money::from_pico(100));
    let usage = Usage {
        images: Some(2),
        ..usage(3, 0, 0, 0, 0)
    };
    let batch = charge(&card, &usage, Service::Batch).unwrap();
    assert_eq!(batch.amount, Money::from_pico(5 + 7 + 200));
    assert!(!batch.price_fallback);
    let flex = charge(&card, &usage, Service::Flex).unwrap();
    assert_eq!(flex.amount, Money::from_pico(9 + 7 + 200));
    assert!(flex.price_fallback);
}

#[test]
fn audio_is_charged_within_the_uncached_input_and_the_output() {
    let mut card = PriceCard::new(Price(1), Price(2));
    card.base.cache_read = Some(Price(0));
    card.base.audio_input = Some(Price(100));
    card.base.audio_output = Some(Price(200));
    let usage = Usage {
        audio_input: Some(Tokens(30)),
        audio_output: Some(Tokens(5)),
        ..usage(40, 60, 0, 0, 20)
    };
    let want = 30 * 100 + 10 + 5 * 200 + 15 * 2;
    assert_eq!(cost(&card, &usage), Ok(Money::from_pico(want)));
}

#[test]
fn an_amount_past_the_range_is_refused_rather_than_wrapped() {
    let card = PriceCard::new(Price(i64::MAX), Price(0));
    assert_eq!(cost(&card, &usage(2, 0, 0, 0, 0)), Err(Overflow));
    let vast = usage(u64::MAX, 0, 0, 0, u64::MAX);
    assert_eq!(cost(&card, &vast), Err(Overflow));
    let estimate = Estimate {
        input: Tokens(u64::MAX),
        ..Estimate::default()
    };
    assert_eq!(ceiling(&card, &estimate), Err(Overflow));
}

#[test]
fn a_card_reads_and_prints_without_loss() {
    let text = r#"{"input":"3","cache_read":"0.3","cache_write_5m":"3.75","cache_write_1h":"6","output":"15","image":"0.04","per":1000000,"tiers":[{"above":200000,"input":"6","output":"22.5"}],"service":{"batch":"0.5"}}"#;
    let card: PriceCard = serde_json::from_str(text).unwrap();
    assert_eq!(card.base.cache_write_5m, Some(Price(3_750_000)));
    assert_eq!(serde_json::to_string(&card).unwrap(), text);
}

#[test]
fn a_card_that_cannot_be_exact_is_refused_with_the_reason() {
    let refusal = |json: &str| {
        serde_json::from_str::<PriceCard>(json)
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(refusal(r#"{"input":"0.0000001","output":"1"}"#), @"price 0.0000001 for 1000000 tokens: expected a whole number of picodollars for each token");
    insta::assert_snapshot!(refusal(r#"{"input":"-1","output":"1"}"#), @"price -1: expected zero or more");
    insta::assert_snapshot!(refusal(r#"{"input":"1","output":"1","per":0}"#), @"per = 0: expected a number of tokens such as 1000000");
    insta::assert_snapshot!(refusal(r#"{"input":3.0,"output":"1"}"#), @"invalid type: floating point `3.0`, expected a string at line 1 column 12");
    insta::assert_snapshot!(refusal(r#"{"input":"1","output":"1","cached":"1"}"#), @"unknown field `cached`, expected one of `input`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `output`, `reasoning`, `audio_input`, `audio_output`, `image`, `request`, `per`, `tiers`, `service` at line 1 column 34");
    insta::assert_snapshot!(
        refusal(
            r#"{"input":"1","output":"1","tiers":[{"above":9,"input":"1","output":"1"},{"above":9,"input":"2","output":"2"}]}"#
        ),
        @"two tiers above 9 tokens: expected one"
    );
}

fn any_rates() -> impl Strategy<Value = Rates> {
    let price = || (0..100_000_000_i64).prop_map(Price);
    let maybe = move || proptest::option::of(price());
    (
        price(),
        maybe(),
        maybe(),
        maybe(),
        price(),
        maybe(),
        maybe(),
        maybe(),
    )
        .prop_map(
            |(input, read, short, long, output, reasoning, ai, ao)| Rates {
                input,
                cache_read: read,
                cache_write_5m: short,
                cache_write_1h: long,
                output,
                reasoning,
                audio_input: ai,
                audio_output: ao,
            },
        )
}

prop_compose! {
    fn any_card()(
        base in any_rates(),
        tiers in proptest::collection::vec((0..300_000_u64, any_rates()), 0..3),
        batch in proptest::option::of(0..2_000_000_000_u64),
    ) -> PriceCard {
        let mut card = PriceCard::new(base.input, base.output);
        card.base = base;
        card.tiers = tiers
            .into_iter()
            .map(|(above, rates)| Tier { above: Tokens(above), rates })
            .collect();
        card.service.batch = batch.map(whippletree_policies::units::Ratio::from_billionths);
        card
    }
}

prop_compose! {
    /// A usage with the invariants that codecs keep, with the estimate that covers it.
    fn any_usage()(
        parts in prop::array::uniform4(0..100_000_u64),
        output in 0..50_000_u64,
        reasoning in 0..50_000_u64,
        audio in prop::array::uniform2(0..50_000_u64),
        slack in prop::array::uniform2(0..200_000_u64),
        batch in any::<bool>(),
    ) -> (Usage, Estimate) {
        let usage = Usage {
            reasoning: Some(Tokens(reasoning.min(output))),
            audio_input: Some(Tokens(audio[0])),
            audio_output: Some(Tokens(audio[1])),
            ..usage(parts[0], parts[1], parts[2], parts[3], output)
        };
        let estimate = Estimate {
            input: Tokens(usage.input.0 + slack[0]),
            output: Tokens(output + slack[1]),
            images: 0,
            writes: Writes::Long,
            service: if batch { Service::Batch } else { Service::Standard },
        };
        (usage, estimate)
    }
}

proptest! {
    #[test]
    fn no_call_within_its_estimate_costs_more_than_the_ceiling(
        card in any_card(),
        (usage, estimate) in any_usage(),
    ) {
        let most = ceiling(&card, &estimate).unwrap();
        let charge = charge(&card, &usage, estimate.service).unwrap();
        prop_assert!(charge.amount <= most, "{charge:?} > {most}");
        prop_assert!(!charge.clamped);
    }

    #[test]
    fn without_cache_writes_the_lower_ceiling_holds_too(
        card in any_card(),
        (usage, estimate) in any_usage(),
    ) {
        let usage = Usage { cache_write_5m: None, cache_write_1h: None, ..usage };
        let estimate = Estimate { writes: Writes::None, ..estimate };
        let charge = charge(&card, &usage, estimate.service).unwrap();
        prop_assert!(charge.amount <= ceiling(&card, &estimate).unwrap());
    }

    #[test]
    fn a_card_survives_writing(card in any_card()) {
        let mut card = card;
        card.tiers.sort_by_key(|tier| tier.above);
        card.tiers.dedup_by_key(|tier| tier.above);
        let json = serde_json::to_string(&card).unwrap();
        prop_assert_eq!(serde_json::from_str::<PriceCard>(&json).unwrap(), card);
    }
}
