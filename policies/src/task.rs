//! Which task (agent run) a request belongs to, which client program sent it, and whether the run
//! has gone wild.
//!
//! Harnesses already say more than they are asked: session ids in headers, a JSON text in a metadata
//! field, a cache key that is a thread id (wire-facts, section I). [`declared`] puts those sources in
//! order. [`harness()`] knows clients by what they send anyway, and with that how they retry.
//! [`runaway`] stops a run that only burns money.
//!
//! Limits: everything here is the client's word. It attributes and protects within one tenant; it
//! never authenticates, and never becomes the label of a metric.

mod harness;
pub mod runaway;
mod user_id;

pub use self::harness::{Harness, harness};

/// What a request says of its task, as far as it says anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskHints<'a> {
    /// The header `x-wt-task`.
    pub declared: Option<&'a str>,
    /// The header `x-claude-code-session-id`.
    pub claude_code_session: Option<&'a str>,
    /// The header `session-id` or `thread-id` of Codex.
    pub codex_session: Option<&'a str>,
    /// A session header of other clients, such as `x-session-id`.
    pub session: Option<&'a str>,
    /// The body's `metadata.user_id`, in which Claude Code hides its session.
    pub metadata_user_id: Option<&'a str>,
    /// The body's `metadata.session_id`.
    pub metadata_session_id: Option<&'a str>,
    /// The body's `prompt_cache_key`, which is the thread's id at Codex and a good stand-in
    /// elsewhere: who shares it shares a prompt prefix.
    pub prompt_cache_key: Option<&'a str>,
}

/// The task that a request names, from the most explicit source that names one. `None`: only the
/// conversation itself can tell.
///
/// Fields that name a person (`user`, `safety_identifier`) are no source: one person runs many tasks.
pub fn declared<'a>(hints: &TaskHints<'a>) -> Option<&'a str> {
    [
        hints.declared,
        hints.claude_code_session,
        hints.codex_session,
        hints.session,
        hints.metadata_user_id.and_then(user_id::session),
        hints.metadata_session_id,
        hints.prompt_cache_key,
    ]
    .into_iter()
    .flatten()
    .map(str::trim)
    .find(|name| is_name(name))
}

/// A name that can stand in a log and a column: not empty, no control characters.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_explicit_source_wins() {
        let all = TaskHints {
            declared: Some("run-1"),
            claude_code_session: Some("cc"),
            codex_session: Some("codex"),
            session: Some("other"),
            metadata_user_id: Some(r#"{"session_id":"hidden"}"#),
            metadata_session_id: Some("meta"),
            prompt_cache_key: Some("cache"),
        };
        let mut hints = all;
        let mut order = alloc::vec::Vec::new();
        while let Some(task) = declared(&hints) {
            order.push(task);
            match order.len() {
                1 => hints.declared = None,
                2 => hints.claude_code_session = None,
                3 => hints.codex_session = None,
                4 => hints.session = None,
                5 => hints.metadata_user_id = None,
                6 => hints.metadata_session_id = None,
                _ => hints.prompt_cache_key = None,
            }
        }
        assert_eq!(
            order,
            ["run-1", "cc", "codex", "other", "hidden", "meta", "cache"]
        );
    }

    #[test]
    fn empty_and_unprintable_names_are_passed_over() {
        let hints = TaskHints {
            declared: Some("  "),
            session: Some("a\u{7}b"),
            prompt_cache_key: Some(" key "),
            ..TaskHints::default()
        };
        assert_eq!(declared(&hints), Some("key"));
        assert_eq!(declared(&TaskHints::default()), None);
    }
}
