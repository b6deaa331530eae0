use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// 2026-11-30T12:00:00Z.
const NOW: UnixTime = UnixTime(1_796_040_000_000);

fn hint(fields: &[(&str, &str)], body: &str) -> Option<f64> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.insert(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    wait_hint(&headers, body.as_bytes(), NOW).map(|wait| (wait.as_secs_f64() * 1e6).round() / 1e6)
}

#[test]
fn every_form_of_retry_after_is_read() {
    for (value, seconds) in [
        ("37", Some(37.0)),
        (" 1.5 ", Some(1.5)),
        ("86400", Some(86_400.0)),
        ("Mon, 30 Nov 2026 12:00:30 GMT", Some(30.0)),
        ("Monday, 30-Nov-26 12:00:30 GMT", Some(30.0)),
        ("Mon Nov 30 12:00:30 2026", Some(30.0)),
        ("2026-11-30T12:01:00Z", Some(60.0)),
        ("20s", Some(20.0)),
        ("0", None),
        ("-5", None),
        ("NaN", None),
        ("inf", None),
        ("1e300", None),
        ("40000000", None),
        ("soon", None),
        ("", None),
        ("Mon, 30 Nov 2026 11:59:00 GMT", None),
    ] {
        assert_eq!(hint(&[("retry-after", value)], ""), seconds, "{value}");
    }
}

#[test]
fn the_first_usable_form_wins() {
    let body = r#"{"error":{"message":"Please try again in 9s.","details":[{"retryDelay":"8s"}]}}"#;
    let mut fields = vec![
        ("retry-after-ms", "1500"),
        ("retry-after", "4"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    assert_eq!(hint(&fields, body), Some(1.5));
    fields[0].1 = "0";
    assert_eq!(hint(&fields, body), Some(4.0));
    fields[1].1 = "never";
    assert_eq!(hint(&fields, body), Some(360.0));
    fields[2].1 = "1";
    assert_eq!(hint(&fields, body), Some(8.0));
    assert_eq!(
        hint(&[], r#"{"error":{"message":"Please try again in 9s."}}"#),
        Some(9.0)
    );
}

#[test]
fn only_the_empty_bucket_counts_and_of_two_the_slower() {
    let fields = [
        ("x-ratelimit-remaining-requests", "12"),
        ("x-ratelimit-reset-requests", "17h4m3s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "2m59.56s"),
    ];
    assert_eq!(hint(&fields, ""), Some(179.56));
    let both = [
        fields[1],
        fields[2],
        fields[3],
        ("x-ratelimit-remaining-requests", "0"),
    ];
    assert_eq!(hint(&both, ""), Some(61_443.0));
    // What Azure sends when it counts nothing.
    let unlimited = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
    ];
    assert_eq!(hint(&unlimited, ""), None);
}

#[test]
fn reset_fields_of_every_vendor_are_read() {
    for (fields, seconds) in [
        (
            [
                ("x-ratelimit-remaining-requests-day", "0"),
                ("x-ratelimit-reset-requests-day", "33011.4"),
            ],
            33_011.4,
        ),
        (
            [
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                (
                    "anthropic-ratelimit-input-tokens-reset",
                    "2026-11-30T12:00:07Z",
                ),
            ],
            7.0,
        ),
        (
            [
                ("anthropic-ratelimit-unified-status", "rejected"),
                ("anthropic-ratelimit-unified-reset", "1796040060"),
            ],
            60.0,
        ),
        (
            [
                ("x-codex-primary-used-percent", "100"),
                ("x-codex-primary-reset-at", "1796043600"),
            ],
            3_600.0,
        ),
        (
            [
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1796040002500"),
            ],
            2.5,
        ),
        (
            [("ratelimit-remaining", "0"), ("ratelimit-reset", "12")],
            12.0,
        ),
        (
            [
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "12ms"),
            ],
            0.012,
        ),
    ] {
        assert_eq!(hint(&fields, ""), Some(seconds), "{fields:?}");
    }
}

#[test]
fn bodies_of_every_vendor_are_read() {
    for (body, seconds) in [
        (
            r#"[{"error":{"details":[{"@type":"x"},{"retryDelay":"34.07s"}]}}]"#,
            Some(34.07),
        ),
        (r#"{"error":{"resets_in_seconds":90}}"#, Some(90.0)),
        (r#"{"error":{"resets_at":1796040030}}"#, Some(30.0)),
        (
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":1796040003000}}}}"#,
            Some(3.0),
        ),
        (
            r#"{"error":{"message":"Please try again in 41.724s. Visit"}}"#,
            Some(41.724),
        ),
        (
            r#"{"error":{"message":"try again in 644ms."}}"#,
            Some(0.644),
        ),
        (
            r#"{"error":{"message":"Please try again in 9m38.016s."}}"#,
            Some(578.016),
        ),
        (
            r#"{"error":{"message":"Please retry after 37 seconds. Go"}}"#,
            Some(37.0),
        ),
        (
            r#"{"message":"Try again in 1 hour, 5 minutes"}"#,
            Some(3_900.0),
        ),
        (r#"{"error":"Please retry in 12.5s"}"#, Some(12.5)),
        (
            r#"{"type":"response.failed","response":{"error":{"message":"try again in 1.574s"}}}"#,
            Some(1.574),
        ),
        (r#"{"error":{"message":"try again in a while"}}"#, None),
        (r#"{"error":{"message":"retry after 5"}}"#, None),
        (
            r#"{"error":{"message":"no"},"messages":["try again in 5s"]}"#,
            None,
        ),
        ("try again in 5s", None),
    ] {
        assert_eq!(hint(&[], body), seconds, "{body}");
    }
}

proptest! {
    #[test]
    fn no_field_yields_an_absurd_wait(
        name in prop_oneof![
            Just("retry-after"), Just("retry-after-ms"), Just("x-ratelimit-reset-tokens"),
        ],
        value in "[ -~]{0,20}|[0-9]{0,25}(\\.[0-9]{1,5})?|([0-9]{1,9}(h|m|s|ms)){1,3}",
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining-tokens", HeaderValue::from_static("0"));
        headers.insert(name, HeaderValue::from_str(&value).unwrap());
        if let Some(wait) = wait_hint(&headers, value.as_bytes(), NOW) {
            prop_assert!(!wait.is_zero() && wait <= LONGEST);
        }
    }

    #[test]
    fn a_duration_that_go_printed_is_read_back(ms in 1..86_400_000_u64) {
        let text = format!("{}h{}m{}.{:03}s", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
        let read = go_duration(&text).unwrap();
        prop_assert!(read.abs_diff(Duration::from_millis(ms)) < Duration::from_micros(1));
    }
}
