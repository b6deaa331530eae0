use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::config::diagnostics::Report;
use crate::config::{Commit, UnknownModel};
use crate::exchange::Api;

fn resolve_here(text: &str) -> Resolved {
    let surroundings = Surroundings {
        directory: PathBuf::from("/etc/whippletree"),
        variable: &|name| match name {
            "OPENAI_API_KEY" => Some("sk-test-0123456789abcdef".to_owned()),
            "EMPTY" => Some(String::new()),
            "SHORT" => Some("tooshort".to_owned()),
            "BROKEN" => Some("two words\nand lines".to_owned()),
            _ => None,
        },
        file: &|path| match path.to_str() {
            Some("/etc/whippletree/token") => Ok("0123456789abcdef0123\n".to_owned()),
            Some("/etc/whippletree/ca.pem") => Ok("pem".to_owned()),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "No such file or directory",
            )),
        },
        certificate: &|_| Ok(()),
        authority: &|_| Ok(()),
    };
    resolve("whippletree.toml", text, &surroundings)
}

fn config(text: &str) -> Config {
    let resolved = resolve_here(text);
    match resolved.config {
        Some(config) => config,
        None => panic!("{}", Report::new(resolved.document, resolved.faults)),
    }
}

/// Each fault on a line, without the source.
fn faults(text: &str) -> String {
    let resolved = resolve_here(text);
    let report = Report::new(resolved.document, resolved.faults);
    let mut lines = String::new();
    for entry in report.entries() {
        write!(lines, "{}:{} {}", entry.line, entry.column, entry.message).unwrap();
        for more in [entry.expected, entry.help].into_iter().flatten() {
            write!(lines, " | {more}").unwrap();
        }
        lines.push('\n');
    }
    lines
}

const WHOLE: &str = r#"
[server]
listen = "127.0.0.1:9090"
workers = 2
max_body = "1MiB"
max_inflight_bytes = "64MiB"

[admin]
listen = "127.0.0.1:9091"
tokens = [{ name = "ops", role = "admin", token = { file = "token" } }]

[store]
path = ":memory:"

[providers.local]
kind = "vllm"
base_url = "http://127.0.0.1:8000/v1/"
ca = "ca.pem"

[providers.openai]
kind = "openai"
keys = [{ env = "OPENAI_API_KEY" }]
timeouts = { connect = "2s" }
pool = { warm = 2 }
apis = ["chat"]

[routes.coder]
targets = [
  { target = "openai/gpt-5.6", weight = 3 },
  { target = "local/org/model", weight = 1 },
  "openai/gpt-5.5",
  { target = "openai/gpt-5.4", weight = 2 },
]
fallback = []
resume = false
commit = "tool_calls"

[routes.coder.retry]
max_attempts = 2
budget = { ratio = 0.2 }

[targets."openai/gpt-5.6"]
context_window = 200_000
price = { input = "3.00", output = "15.00" }

[prices]
unknown_model = { input = "1", output = "2" }

[tenants.acme]
time_zone = "Europe/Berlin"
routes = ["coder", "openai/*"]
limits = { requests_per_minute = 600 }
keys = [{ name = "ci", sha256 = "0000000000000000000000000000000000000000000000000000000000000001" }]
"#;

#[test]
fn a_whole_file_becomes_a_configuration() {
    let config = config(WHOLE);
    assert_eq!(config.server.listen.port(), 9090);
    assert_eq!(config.server.max_body, 1 << 20);
    assert_eq!(config.server.header_timeout.as_secs(), 10);
    assert_eq!(config.store, Store::Memory);
    assert_eq!(
        config.admin.tokens[0].sha256,
        keys::hash("0123456789abcdef0123")
    );

    let openai = &config.providers[&"openai".into()];
    assert_eq!(openai.base_url, "https://api.openai.com/v1");
    assert_eq!(
        openai.keys[0].as_key().unwrap().expose_secret(),
        "sk-test-0123456789abcdef"
    );
    assert_eq!(openai.timeouts.connect.as_secs(), 2);
    assert_eq!(openai.timeouts.idle.as_secs(), 120);
    assert_eq!(openai.apis, [Api::Chat]);
    let local = &config.providers[&"local".into()];
    assert_eq!(local.base_url, "http://127.0.0.1:8000/v1");
    assert_eq!(local.ca, Some(PathBuf::from("/etc/whippletree/ca.pem")));

    let coder = &config.routes[&"coder".into()];
    assert_eq!(coder.settings.commit, Commit::ToolCalls);
    assert_eq!(coder.settings.retry.max_attempts, 2);
    assert_eq!(coder.settings.retry.budget_min_per_second, 3);
    let targets: Vec<_> = coder
        .targets
        .iter()
        .map(|target| {
            (
                target.id.as_str(),
                target.model.as_str(),
                target.weight,
                target.rank,
            )
        })
        .collect();
    assert_eq!(
        targets,
        [
            ("openai/gpt-5.6", "gpt-5.6", 3, 0),
            ("local/org/model", "org/model", 1, 0),
            ("openai/gpt-5.5", "gpt-5.5", 1, 1),
            ("openai/gpt-5.4", "gpt-5.4", 2, 2),
        ]
    );

    let target = &config.targets[&"openai/gpt-5.6".into()];
    assert_eq!(target.price.as_ref().unwrap().base.input.0, 3_000_000);
    assert!(
        matches!(&config.unknown_model, UnknownModel::Price(card) if card.base.output.0 == 2_000_000)
    );
    let acme = &config.tenants[&"acme".into()];
    assert_eq!(acme.time_zone.iana_name(), Some("Europe/Berlin"));
    assert_eq!(acme.limits.requests_per_minute.unwrap().get(), 600);
    let mut hash = [0; 32];
    hash[31] = 1;
    assert_eq!(config.keys[&hash].id.as_str(), "ci");
    // The first in the file, not in the alphabet.
    assert_eq!(config.relay.unwrap().as_str(), "local");
    assert!(config.direct.is_some());
}

#[test]
fn an_empty_file_is_a_configuration_of_defaults() {
    let config = config("");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.store, Store::Sqlite(PathBuf::from("whippletree.db")));
    assert!(config.providers.is_empty() && config.relay.is_none());
    assert_eq!(
        config.hash,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

#[test]
fn every_fault_of_form_is_found_at_once() {
    assert_snapshot!(faults(
        r#"
colour = "red"
[server]
listen = "8080"
max_body = "32MB"
max_connections = 0
header_timeout = 10
drain_timout = "60s"
max_head = "1KiB"
idle_timeout = "0s"

[providers.openai]
kind = "opneai"
base_url = "api.openai.com"
keys = [{ env = "OPENAI_API_KEY", file = "x" }, {}, 7]
timeout = { connect = "5s" }
connect = "5s"

[providers.claude]
kind = "gemini"
error_classes = { busy = "overload" }

[providers.nameless]

[routes.coder]
targets = []
commit = "firsttoken"
keepalive = 15
retry = { max_attempts = "four", ambiguous = "twice" }
breaker = { failure_ratio = 1.5 }

[targets."x/y"]
price = { input = 3.00, output = "cheap" }

[tenants.acme]
time_zone = "Europe/Berlim"
keys = [{ name = "ci", sha256 = "abc" }]
limits = { requests_per_minute = 5_000_000_000 }
"#
    ));
}

#[test]
fn every_fault_of_meaning_is_found_at_once() {
    assert_snapshot!(faults(
        r#"
[server]
listen = "127.0.0.1:8081"
tls = { cert = "missing.pem", key = "missing.key" }
[admin]
tokens = [
  { name = "ops", role = "admin", token = { env = "SHORT" } },
  { name = "ops", role = "viewer", token = "literal-literal-literal" },
]
[providers.openai]
kind = "openai"
keys = [{ env = "OPENAI_KEY" }, { env = "EMPTY" }, { file = "nowhere" }, { env = "BROKEN" }]
pool = { max_connections = 1, warm = 2 }
[providers."a/b"]
kind = "openai"
[providers.far]
kind = "openai-compatible"
[routing]
relay = "opnai"
direct = false
[routes.coder]
targets = ["openai/gpt", "opnai/gpt", "gpt", "openai/gpt"]
retry = { base = "30s" }
[targets."nobody/gpt"]
context_window = 1
[targets."openai/gpt"]
price = { input = "1", output = "1", per = 7 }
[tenants.acme]
routes = ["codr", "openai/*"]
keys = [
  { name = "ci", sha256 = "0000000000000000000000000000000000000000000000000000000000000001" },
  { name = "ci", sha256 = "0000000000000000000000000000000000000000000000000000000000000001" },
]
[telemetry]
log = "info,=="
"#
    ));
}

#[test]
fn what_was_dropped_for_its_form_is_not_reported_again_where_it_is_named() {
    let found = faults(
        r#"
[providers.openai]
kind = "opneai"
[routes.coder]
targets = ["openai/gpt"]
commit = 1
[tenants.acme]
routes = ["coder", "openai/*"]
"#,
    );
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[test]
fn keys_of_features_to_come_are_refused_by_name() {
    let example = std::env::var("WHIPPLETREE_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared").to_owned());
    let example = std::fs::read_to_string(format!("{example}/whippletree.example.toml")).unwrap();
    let resolved = resolve_here(&example);
    let mut refused = String::new();
    for fault in &resolved.faults {
        if fault.message.ends_with("is not available yet") {
            writeln!(refused, "{}", fault.path).unwrap();
        }
    }
    assert_snapshot!(refused);
    // Nothing of the documented form is unknown.
    for fault in &resolved.faults {
        assert!(!fault.message.contains("unknown"), "{fault:?}");
    }
}

#[test]
fn a_text_that_is_not_toml_is_reported_for_its_syntax() {
    assert_snapshot!(faults("[server\nlisten = \"x\"\nlisten = 1\n[a]\n[a]\n"));
}

#[test]
fn a_fault_shows_its_line_and_the_nearest_name() {
    let resolved = resolve_here(
        r#"
[providers.openai]
kind = "openai"
timeout = { connect = "5s" }

[tenants.acme]
keys = [
  { name = "ci", sha256 = "0000000000000000000000000000000000000000000000000000000000000001" },
  { name = "cd", sha256 = "0000000000000000000000000000000000000000000000000000000000000001" },
]
"#,
    );
    assert_snapshot!(Report::new(resolved.document, resolved.faults));
}

#[test]
fn a_rendered_fault_never_shows_a_secret() {
    let resolved = resolve_here(
        r#"
[providers.openai]
kind = "openai"
keys = ["hunter2-in-plain-text"]
kyes = ["hunter2-misplaced"]
base_url = ["hunter2-of-the-wrong-type"]
[providers.other]
kind = "openai"
pool = { warm = 1 } , keys = "hunter2-sk"
"#,
    );
    let rendered = Report::new(resolved.document, resolved.faults).to_string();
    assert!(rendered.contains("error"), "{rendered}");
    let resolved = resolve_here(
        "[providers.openai]\nkind = \"openai\"\nkeys = [\"hunter2-in-plain-text\"]\nkyes = [\"hunter2-misplaced\"]\nbase_url = [\"hunter2-of-the-wrong-type\"]",
    );
    let rendered = Report::new(resolved.document, resolved.faults).to_string();
    assert_eq!(rendered.matches("error: ").count(), 3, "{rendered}");
    assert!(!rendered.contains("hunter2"), "{rendered}");
}

#[test]
fn doors_that_stay_closed_are_a_warning() {
    let resolved = resolve_here(
        r#"
[server]
listen = "0.0.0.0:8080"
[admin]
listen = "0.0.0.0:8081"
[providers.far]
kind = "openai-compatible"
base_url = "http://far.example/v1"
keys = [{ env = "OPENAI_API_KEY" }]
"#,
    );
    assert!(resolved.config.is_some());
    let paths: Vec<_> = resolved
        .faults
        .iter()
        .map(|fault| fault.path.to_string())
        .collect();
    assert_eq!(
        paths,
        ["server.listen", "admin.listen", "providers.far.base_url"]
    );
}

#[test]
fn a_literal_secret_needs_a_word_at_the_top() {
    let text = "[providers.openai]\nkind = \"openai\"\nkeys = [\"sk-literal-0123456789\"]\n";
    assert!(resolve_here(text).config.is_none());
    let config = config(&format!("allow_literal_secrets = true\n{text}"));
    let key = &config.providers[&"openai".into()].keys[0];
    assert_eq!(
        key.as_key().unwrap().expose_secret(),
        "sk-literal-0123456789"
    );
    assert!(!format!("{config:?}").contains("sk-literal"));
}

/// A key of the form, or nearly.
fn word() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WHOLE
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    prop_oneof![
        8 => proptest::sample::select(words).prop_map(str::to_owned),
        1 => "[a-z]{0,3}",
    ]
}

fn toml_value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(toml::Value::from),
        any::<f64>().prop_map(toml::Value::from),
        any::<bool>().prop_map(toml::Value::from),
        word().prop_map(toml::Value::from),
        ".{0,12}".prop_map(toml::Value::from),
        "[0-9]{1,3}(ms|s|m|KiB|B)?".prop_map(toml::Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::from),
            prop::collection::btree_map(word(), inner, 0..6)
                .prop_map(|map| toml::Value::Table(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_check_panic(text in "\\PC{0,80}") {
        let resolved = resolve_here(&text);
        let _ = Report::new(resolved.document, resolved.faults).to_string();
    }

    #[test]
    fn a_damaged_file_is_checked_to_its_end(at in 0_usize..WHOLE.len(), cut in 0_usize..40, put in "[\\PC\n]{0,6}") {
        let mut text = WHOLE.to_owned();
        text.replace_range(at..(at + cut).min(WHOLE.len()), &put);
        let resolved = resolve_here(&text);
        prop_assert!(resolved.config.is_some() || !resolved.faults.is_empty());
        let _ = Report::new(resolved.document, resolved.faults).to_string();
    }

    /// The walker and the typed read come from one definition; this holds them together.
    #[test]
    fn what_the_walker_lets_through_the_types_can_read(value in prop::collection::btree_map(word(), toml_value(), 0..8)) {
        let table: toml::Table = value.into_iter().collect();
        let text = toml::to_string(&table).unwrap();
        let read = read::read("x.toml", &text);
        prop_assert!(read.file.is_some(), "{:?}\n{text}", read.faults);
    }
}
