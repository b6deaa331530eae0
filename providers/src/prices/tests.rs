use proptest::prelude::*;
use whippletree_policies::units::Price;

use super::import::{genai, litellm};
use super::*;

fn at(text: &str) -> UnixTime {
    UnixTime(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

#[test]
fn decimals_become_picodollars_without_loss() {
    use Exactness::{Exact, Rounded};
    for (text, per, pico) in [
        ("1.25e-07", 0, Ok((125_000, Exact))),
        ("3e-7", 0, Ok((300_000, Exact))),
        ("0.000003", 0, Ok((3_000_000, Exact))),
        ("0.125", 6, Ok((125_000, Exact))),
        ("0.0", 6, Ok((0, Exact))),
        ("15", 6, Ok((15_000_000, Exact))),
        ("1.50e+1", 6, Ok((15_000_000, Exact))),
        ("2.9999900000000002e-06", 0, Ok((2_999_990, Rounded))),
        ("5.5e-12", 0, Ok((6, Rounded))),
        ("4e-13", 0, Ok((0, Rounded))),
        ("5e-13", 0, Ok((1, Rounded))),
        ("5e-20", 0, Ok((0, Rounded))),
        ("-1", 6, Err(InvalidDecimal)),
        ("1e12", 0, Err(InvalidDecimal)),
        ("1e2147483647", 0, Err(InvalidDecimal)),
        ("", 0, Err(InvalidDecimal)),
        ("1,5", 0, Err(InvalidDecimal)),
        ("NaN", 0, Err(InvalidDecimal)),
    ] {
        assert_eq!(pico_per_token(text, per), pico, "{text}");
    }
}

proptest! {
    #[test]
    fn any_spelling_of_a_price_is_the_same_price(pico in 0..9_000_000_000_000_000_i64, shift in 0..18_i32) {
        // The same number with the point moved and the exponent to match.
        let text = format!("{pico}e-12");
        prop_assert_eq!(pico_per_token(&text, 0), Ok((pico, Exactness::Exact)));
        let zeros = "0".repeat(usize::try_from(shift).unwrap());
        let text = format!("0.{zeros}{pico:016}e{}", shift + 16 - 12);
        prop_assert_eq!(pico_per_token(&text, 0), Ok((pico, Exactness::Exact)));
    }

    #[test]
    fn text_that_is_no_number_is_refused_not_guessed(text in "[0-9.e+-]{0,12}") {
        let float = text.parse::<f64>().ok().filter(|f| f.is_finite() && *f >= 0.0);
        if let Ok((pico, _)) = pico_per_token(&text, 0) {
            #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
            let error = (pico as f64 / 1e12 - float.unwrap()).abs();
            prop_assert!(error <= 1e-12 + float.unwrap() * 1e-9);
        }
    }
}

#[test]
fn hours_are_half_open_and_may_go_over_midnight() {
    let covers = |hours: &str, days: &[u8], moment: &str| {
        Window::new(hours, days.to_vec())
            .unwrap()
            .covers(at(moment))
    };
    // 2026-11-30 is a Monday.
    assert!(covers("01:00-04:00", &[1], "2026-11-30T01:00:00Z"));
    assert!(covers("01:00-04:00", &[1], "2026-11-30T03:59:59Z"));
    assert!(!covers("01:00-04:00", &[1], "2026-11-30T04:00:00Z"));
    assert!(!covers("01:00-04:00", &[2], "2026-11-30T02:00:00Z"));
    assert!(covers("00:00-00:00", &[7], "2026-11-29T23:59:59Z"));
    assert!(covers("22:00-02:00", &[1], "2026-11-30T23:00:00Z"));
    assert!(covers("22:00-02:00", &[1], "2026-12-01T01:00:00Z"));
    assert!(!covers("22:00-02:00", &[1], "2026-11-30T01:00:00Z"));
    for wrong in [
        "",
        "01:00",
        "1-2",
        "25:00-26:00",
        "24:00-01:00",
        "01:60-02:00",
    ] {
        assert!(Window::new(wrong, Vec::new()).is_err(), "{wrong}");
    }
    assert!(Window::new("01:00-02:00", vec![0]).is_err());
}

const LIST: &str = r#"
version = "test"

[[price]]
vendor = "v"
models = ["m"]
card = { input = "1", output = "2" }

[[price]]
vendor = "v"
models = ["m"]
from = "2026-06-01"
card = { input = "3", output = "4" }

[[price]]
vendor = "v"
models = ["m"]
from = "2026-06-01"
windows = [{ hours = "00:00-06:00" }]
card = { input = "1.5", output = "2" }

[[price]]
vendor = "v"
models = ["m-*", "other"]
card = { input = "5", output = "6" }

[[price]]
vendor = "v"
models = ["m-large-*-x"]
card = { input = "7", output = "8" }
"#;

#[test]
fn a_look_up_finds_the_row_of_the_moment_and_names_it() {
    let list = PriceList::parse(LIST).unwrap();
    let found = |model: &str, moment: &str| {
        let row = list.look_up("v", model, at(moment))?;
        Some((row.card.base.input.0, row.version.clone()))
    };
    let row = |input: i64, version: &str| Some((input, version.to_owned()));
    assert_eq!(
        found("m", "2026-05-31T23:59:59Z"),
        row(1_000_000, "test:v/m")
    );
    assert_eq!(
        found("m", "2026-06-01T12:00:00Z"),
        row(3_000_000, "test:v/m@2026-06-01")
    );
    assert_eq!(
        found("m", "2026-06-01T05:59:00Z"),
        row(1_500_000, "test:v/m@2026-06-01+hours")
    );
    assert_eq!(
        found("m-2", "2026-05-31T00:00:00Z"),
        row(5_000_000, "test:v/m-*")
    );
    assert_eq!(
        found("m-large-9-x", "2026-05-31T00:00:00Z"),
        row(7_000_000, "test:v/m-large-*-x")
    );
    assert_eq!(
        found("other", "2026-05-31T00:00:00Z"),
        row(5_000_000, "test:v/m-*")
    );
    assert_eq!(found("n", "2026-05-31T00:00:00Z"), None);
    assert_eq!(list.look_up("w", "m", at("2026-06-01T12:00:00Z")), None);
    let again = PriceList::parse(&list.to_toml().unwrap()).unwrap();
    assert_eq!(again.rows(), list.rows());
}

#[test]
fn a_broken_list_is_refused_with_its_place() {
    let fault = |text: &str| PriceList::parse(text).unwrap_err().to_string();
    let row =
        "version = \"x\"\n[[price]]\nvendor = \"v\"\ncard = { input = \"1\", output = \"1\" }\n";
    assert_eq!(
        fault(&format!("{row}models = []\n")),
        "a price at v names no model"
    );
    assert_eq!(
        fault(&format!("{row}models = [\"m\"]\nfrom = \"2026-02-30\"\n")),
        "price of m at v: from = \"2026-02-30\": expected a day such as 2026-11-30"
    );
    assert!(fault(&format!("{row}models = [\"m\"]\nunknown = 1\n")).contains("unknown"));
}

#[test]
fn the_builtin_list_prices_what_people_use() {
    let list = PriceList::builtin().unwrap();
    let now = at("2026-11-30T12:00:00Z");
    for (vendor, model, input, output) in [
        ("openai", "gpt-5.4", 2_500_000, 15_000_000),
        ("openai", "gpt-4o", 2_500_000, 10_000_000),
        ("openai", "gpt-6.1-sol", 2_000_000, 10_000_000),
        ("azure", "gpt-4.1", 2_000_000, 8_000_000),
        ("anthropic", "claude-sonnet-4-5", 3_000_000, 15_000_000),
        ("anthropic", "claude-haiku-5-5", 100_000, 500_000),
        ("gemini-openai", "gemini-2.5-pro", 1_250_000, 10_000_000),
        ("deepseek", "deepseek-v4-flash", 150_000, 600_000),
        ("xai", "grok-4.3", 1_250_000, 2_500_000),
    ] {
        let row = list.look_up(vendor, model, now);
        let base = row.unwrap_or_else(|| panic!("{vendor}/{model}")).card.base;
        assert_eq!(
            (base.input, base.output),
            (Price(input), Price(output)),
            "{model}"
        );
    }
    let sonnet = list.look_up("anthropic", "claude-sonnet-4-5", now).unwrap();
    assert!(sonnet.card.tiers.is_empty());
    let peak = list.look_up("deepseek", "deepseek-v4-flash", at("2026-11-30T02:00:00Z"));
    assert_eq!(peak.unwrap().card.base.input, Price(300_000));
    let promotion_over = list.look_up("gemini", "gemini-4-argon", at("2026-12-01T00:00:00Z"));
    assert_eq!(promotion_over.unwrap().card.base.input, Price(4_000_000));
    assert!(list.rows().iter().all(|row| !row.source.is_empty()));
}

#[test]
fn entries_of_both_catalogues_become_the_same_card() {
    let litellm = litellm::read(
        r#"{"sample_spec": {"x": 1},
            "openai/m": {"litellm_provider": "openai", "input_cost_per_token": 1.25e-06, "output_cost_per_token": 1e-05,
                "cache_read_input_token_cost": 1.25e-07, "cache_creation_input_token_cost_above_12hr": 2e-06,
                "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
                "cache_read_input_token_cost_above_200k_tokens": 2.5e-07,
                "input_cost_per_token_batches": 6.25e-07, "output_cost_per_token_batches": 5e-06},
            "dall": {"litellm_provider": "openai", "output_cost_per_image": 0.04}}"#,
        "l",
    )
    .unwrap();
    assert_eq!(litellm.without_token_price, 1);
    let genai = genai::read(
        r#"[{"id": "openai", "pricing_urls": ["https://example.com"], "models": [{"id": "m",
            "match": {"or": [{"equals": "m"}, {"starts_with": "m-"}, {"and": []}]},
            "prices": {"input_mtok": {"base": 1.25, "tiers": [{"start": 200000, "price": 2.5}]},
                "cache_read_mtok": {"base": 0.125, "tiers": [{"start": 200000, "price": 0.25}]},
                "output_mtok": {"base": 10, "tiers": [{"start": 200000, "price": 15}]}, "cache_write_1h_mtok": 2,
                "web_searches_kcount": 10},
            "price_variants": [{"when": {"processing": "batch"}, "prices": {"input_mtok": 0.625, "output_mtok": 5.0}}]},
            {"id": "free", "match": {"equals": "free"}, "prices": ""}]}]"#,
        "g",
    )
    .unwrap();
    assert_eq!((genai.without_token_price, genai.patterns_skipped), (1, 1));
    let now = UnixTime(0);
    let a = litellm.list.look_up("openai", "m", now).unwrap();
    let b = genai.list.look_up("openai", "m", now).unwrap();
    assert_eq!(a.card, b.card);
    assert!(genai.list.look_up("openai", "m-2", now).is_some());
    let batch = a.card.service.batch.unwrap();
    assert_eq!(batch.to_string(), "0.5");
}
