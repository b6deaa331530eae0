//! `whippletree explain`: the story of a request, told before anything is sent.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::process::{Command, Stdio};

const CONFIG: &str = r#"
[providers.one]
kind = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
keys = [{ env = "KEY" }, { env = "KEY_2" }]
[providers.two]
kind = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
keys = []
[prices]
unknown_model = { input = "1.00", output = "2.00", per = 1_000_000 }
[routes.coder]
targets = ["one/m", "two/m"]
[routes.single]
targets = ["two/m"]
retry = { max_attempts = 3 }
"#;

fn explain(model: &str, arguments: &[&str]) -> (i32, String) {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("whippletree.toml"), CONFIG).unwrap();
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"q"}}]}}"#);
    std::fs::write(here.path().join("request.json"), body).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_whippletree"))
        .args(["explain", "request.json"])
        .args(arguments)
        .current_dir(here.path())
        .env_clear()
        .env("KEY", "sk-1")
        .env("KEY_2", "sk-2")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

fn outcomes(model: &str, outcomes: &[&str]) -> String {
    let arguments: Vec<&str> = outcomes.iter().flat_map(|o| ["--outcome", o]).collect();
    let (code, text) = explain(model, &arguments);
    assert_eq!(code, 0, "{text}");
    text
}

#[test]
fn a_limited_key_gives_way_to_the_other_and_a_hint_is_obeyed() {
    insta::assert_snapshot!(outcomes("coder", &["429:retry-after=3", "timeout", "ok"]));
}

#[test]
fn an_outage_is_waited_for_at_a_single_target_and_then_told() {
    insta::assert_snapshot!(outcomes("single", &["503:retry-after=2"]));
}

#[test]
fn a_hint_beyond_patience_is_not_waited_for_and_told_to_the_client() {
    insta::assert_snapshot!(outcomes("single", &["429:retry-after=90"]));
}

#[test]
fn what_may_have_been_billed_is_sent_once_more_at_most() {
    insta::assert_snapshot!(outcomes("single", &["reset", "reset", "ok"]));
}

#[test]
fn a_request_that_is_wrong_is_not_tried_elsewhere() {
    insta::assert_snapshot!(outcomes("coder", &["400:code=context_length_exceeded"]));
}

#[test]
fn the_same_story_can_be_had_as_json() {
    let (code, text) = explain(
        "coder",
        &["--outcome", "500:took=1", "--outcome", "ok", "--json"],
    );
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!(text);
    let again = explain(
        "coder",
        &["--outcome", "500:took=1", "--outcome", "ok", "--json"],
    );
    assert_eq!(again.1, text);
}

#[test]
fn an_unknown_model_and_an_outcome_that_cannot_be_imagined_are_refused() {
    let (code, text) = explain("codr", &[]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(text, @r#"error: 404 no route or model is called "codr"; did you mean "coder"?"#);
    let (code, text) = explain("coder", &["--outcome", "200"]);
    assert_eq!(code, 2);
    assert!(
        text.contains("expected ok, timeout, reset, refused or a status"),
        "{text}"
    );
}
