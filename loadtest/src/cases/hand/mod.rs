//! The parts of cases that are prose: right behaviours, variants and steps, each written as code.

mod abuse;
mod load;
mod reload;
mod retries;
mod streams;

use super::run::Run;

/// What the code for a case covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    id: &'static str,
    /// Entries of the input that the code checks itself.
    pub(super) claims: &'static [&'static str],
    /// Whether the input is first played as it stands, with its mechanical assertions.
    pub(super) plays_input: bool,
    /// Whether it needs the machine for itself.
    heavy: bool,
}

const fn beside(id: &'static str, claims: &'static [&'static str]) -> Entry {
    Entry {
        id,
        claims,
        plays_input: true,
        heavy: false,
    }
}

const fn alone(id: &'static str, claims: &'static [&'static str]) -> Entry {
    Entry {
        id,
        claims,
        plays_input: false,
        heavy: false,
    }
}

const fn heavy(id: &'static str, claims: &'static [&'static str]) -> Entry {
    Entry {
        id,
        claims,
        plays_input: false,
        heavy: true,
    }
}

const ENTRIES: [Entry; 33] = [
    alone("C001", &[]),
    beside("C004", &[]),
    beside("C013", &[]),
    alone("C014", &[]),
    alone("C016", &[]),
    alone("C017", &["steps"]),
    beside("C018", &[]),
    alone("C022", &[]),
    alone("C024", &["steps", "assert_client"]),
    alone("C025", &["variants"]),
    alone("C028", &["variants"]),
    beside("C032", &["variants"]),
    beside("C034", &[]),
    beside("C035", &[]),
    beside("C046", &["property"]),
    beside("C048", &["variants"]),
    beside("C058", &[]),
    beside("C061", &[]),
    beside("C063", &[]),
    heavy("C156", &["assert_rss"]),
    heavy("C157", &["assert_metrics"]),
    heavy("C159", &["assert_rss"]),
    beside("C161", &[]),
    alone("C163", &["variants", "assert_client"]),
    heavy("C166", &["variants", "assert_client", "assert_upstream"]),
    heavy("C167", &["variants", "assert_upstream"]),
    alone("C168", &["variants", "assert_client"]),
    heavy("C169", &["assert_rss", "assert_client"]),
    alone("C170", &["steps", "assert_client"]),
    alone("C171", &["steps"]),
    heavy("C176", &["variants", "assert_client"]),
    heavy("C177", &["assert_client"]),
    beside("C178", &[]),
];

const LATER: [Entry; 2] = [
    heavy("C180", &["assert_latency_ms"]),
    heavy("C181", &["assert_metrics"]),
];

/// The code for a case, if there is any.
pub(super) fn entry(id: &str) -> Option<Entry> {
    ENTRIES
        .iter()
        .chain(&LATER)
        .copied()
        .find(|entry| entry.id == id)
}

/// Whether a case needs the machine for itself.
pub(super) fn is_heavy(id: &str) -> bool {
    entry(id).is_some_and(|entry| entry.heavy)
}

/// Plays what is written for the case.
pub(super) async fn play(run: &mut Run<'_>) -> anyhow::Result<()> {
    match run.case.id.as_str() {
        "C001" => retries::http_date(run).await,
        "C004" => retries::seconds(run).await,
        "C013" => retries::vendor_wants_no_retry(run).await,
        "C014" => retries::jitter(run).await,
        "C016" => retries::one_deadline(run).await,
        "C017" => retries::cooldown_only_grows(run).await,
        "C018" => retries::waits_for_the_only_target(run).await,
        "C022" => retries::attempts_told(run).await,
        "C024" => retries::own_limit(run).await,
        "C025" => streams::cut_after_content(run).await,
        "C028" => streams::silence(run).await,
        "C032" => streams::no_event_stream(run).await,
        "C034" | "C035" => streams::arguments_relayed(run).await,
        "C046" => streams::every_split(run).await,
        "C048" => streams::lone_cr(run).await,
        "C058" => streams::usage_when_asked(run).await,
        "C061" => streams::leaving_a_whole_answer(run).await,
        "C063" => streams::annotations_pass(run).await,
        "C156" => load::stalled_reader(run).await,
        "C157" => load::label_values(run).await,
        "C159" => load::many_streams(run).await,
        "C161" => abuse::secret_in_failures(run).await,
        "C163" => abuse::refused_keys(run).await,
        "C166" => abuse::host_in_path(run).await,
        "C167" => abuse::host_in_header(run).await,
        "C168" => abuse::body_limit(run).await,
        "C169" => load::many_large_bodies(run).await,
        "C170" => reload::routes_and_port(run).await,
        "C171" => reload::refused(run).await,
        "C176" => abuse::slow_senders(run).await,
        "C177" => load::burst(run).await,
        "C178" => load::saturated_pool(run).await,
        "C180" => load::added_latency(run).await,
        "C181" => load::even_balance(run).await,
        other => anyhow::bail!("not checked: no code for {other}"),
    }
}
