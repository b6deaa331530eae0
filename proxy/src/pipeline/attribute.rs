//! Whose request it is, within the tenant: user, task, tags and harness.
//!
//! The facts come from headers and body fields that clients already send (wire-facts, section I);
//! which of them wins is decided in [`whippletree_policies::task`]. All values are clipped: they are
//! the client's words and end up in the record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::HeaderMap;
use whippletree_policies::task::{self, Harness, TaskHints};
use whippletree_providers::envelope::Envelope;

use crate::exchange::Api;

/// The longest value kept, in bytes.
const MAX_VALUE: usize = 256;
/// How much of each message's beginning, and of its end, tells conversations apart beside its
/// length, in bytes.
const HASHED: usize = 512;
/// The most tags kept.
const MAX_TAGS: usize = 32;

/// Whose request it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// The end user.
    pub user: Option<String>,
    /// The agent run.
    pub task: Option<String>,
    /// The run is named by a header or a session field, not guessed from the conversation.
    pub names_task: bool,
    /// Free labels.
    pub tags: BTreeMap<String, String>,
    /// The client program.
    pub harness: Option<Harness>,
}

/// What the request's headers say of whose it is. Found in one pass: a look-up by name hashes it, and
/// two dozen of them cost more than reading the dozen headers that a request has.
#[derive(Debug, Default)]
struct Told<'a> {
    user_agent: Option<&'a str>,
    task: Option<&'a str>,
    user: Option<&'a str>,
    end_user: Option<&'a str>,
    tags: Option<&'a str>,
    claude_code_session: Option<&'a str>,
    codex_thread: Option<&'a str>,
    codex_session: Option<&'a str>,
    session: Option<&'a str>,
    /// Headers by which [`task::harness`] knows a client.
    marks: Vec<&'a str>,
}

impl<'a> Told<'a> {
    fn by(headers: &'a HeaderMap) -> Self {
        let mut told = Self::default();
        for (name, value) in headers {
            let name = name.as_str();
            let place = match name {
                "user-agent" => &mut told.user_agent,
                "x-wt-task" => &mut told.task,
                "x-wt-user" => &mut told.user,
                "x-litellm-end-user-id" | "helicone-user-id" => &mut told.end_user,
                "x-wt-tags" | "x-litellm-tags" => &mut told.tags,
                "thread-id" => &mut told.codex_thread,
                "session-id" => &mut told.codex_session,
                "x-session-id" | "session_id" | "conversation_id" | "helicone-session-id" => {
                    &mut told.session
                }
                "x-claude-code-session-id" => {
                    told.marks.push(name);
                    &mut told.claude_code_session
                }
                "x-codex-turn-metadata" | "x-codex-window-id" | "x-stainless-lang" => {
                    told.marks.push(name);
                    continue;
                }
                _ => continue,
            };
            if place.is_none() {
                *place = value.to_str().ok();
            }
        }
        told
    }
}

/// Reads the attribution of a request. Only a request that names no session is fingerprinted, which
/// costs a hash over its first messages.
pub fn attribute(headers: &HeaderMap, api: Api, envelope: Option<&Envelope>) -> Attribution {
    let told = Told::by(headers);
    let field = |name: &str| envelope.and_then(|e| e.text(name));
    let harness = task::harness(told.user_agent.unwrap_or_default(), |name| {
        told.marks.contains(&name)
    });
    let metadata = Metadata::read(envelope);
    let cache_key = field("prompt_cache_key");
    let hints = TaskHints {
        declared: told.task,
        claude_code_session: told.claude_code_session,
        codex_session: told.codex_thread.or(told.codex_session),
        session: told.session,
        metadata_user_id: metadata.user_id.as_deref(),
        metadata_session_id: metadata.session_id.as_deref(),
        prompt_cache_key: cache_key.as_deref(),
    };
    let named = TaskHints {
        prompt_cache_key: None,
        ..hints
    };
    let names_task = task::declared(&named).is_some();
    let task = match task::declared(&hints) {
        Some(task) => Some(clip(task)),
        None => envelope.and_then(|e| root(api, e)),
    };
    let user = told
        .user
        .map(Cow::Borrowed)
        .or_else(|| field("safety_identifier"))
        .or_else(|| field("user"))
        .or_else(|| told.end_user.map(Cow::Borrowed));
    Attribution {
        user: user.filter(|u| !u.is_empty()).map(|u| clip(&u)),
        task,
        names_task,
        tags: tags(told.tags, metadata.tags),
        harness,
    }
}

#[derive(serde::Deserialize)]
struct MetadataWire {
    user_id: Option<String>,
    session_id: Option<String>,
    #[serde(default)]
    tags: serde_json::Value,
}

/// What is read of the body's `metadata`.
#[derive(Debug, Default)]
struct Metadata {
    user_id: Option<String>,
    session_id: Option<String>,
    tags: Vec<String>,
}

impl Metadata {
    fn read(envelope: Option<&Envelope>) -> Self {
        let Some(envelope) = envelope else {
            return Self::default();
        };
        let Some(field) = envelope.field("metadata") else {
            return Self::default();
        };
        let raw = envelope.bytes(field.value);
        let Ok(wire) = serde_json::from_slice::<MetadataWire>(&raw) else {
            return Self::default();
        };
        let tags = match wire.tags {
            serde_json::Value::Array(list) => list
                .into_iter()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            user_id: wire.user_id,
            session_id: wire.session_id,
            tags,
        }
    }
}

/// `team=search, env=ci, urgent`: a label without a value is its own name.
fn tags(header: Option<&str>, listed: Vec<String>) -> BTreeMap<String, String> {
    let of_header = header.unwrap_or_default().split(',').map(str::to_owned);
    of_header
        .chain(listed)
        .filter_map(|tag| {
            let tag = tag.trim();
            let (name, value) = tag.split_once('=').unwrap_or((tag, ""));
            (!name.trim().is_empty()).then(|| (clip(name.trim()), clip(value.trim())))
        })
        .take(MAX_TAGS)
        .collect()
}

/// The conversation's root: a fingerprint of everything up to and including the first user message,
/// so that a run is one task even when its client declares nothing.
fn root(api: Api, envelope: &Envelope) -> Option<String> {
    let name = match api {
        Api::Chat | Api::CountTokens | Api::Messages => "messages",
        Api::Responses => "input",
        Api::Completions | Api::Embeddings | Api::Other => return None,
    };
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&bytes.len().to_le_bytes());
        match (bytes.first_chunk::<HASHED>(), bytes.last_chunk::<HASHED>()) {
            (Some(first), Some(last)) if bytes.len() > 2 * HASHED => {
                hasher.update(first);
                hasher.update(last);
            }
            _ => {
                hasher.update(bytes);
            }
        }
    };
    let body = envelope.body();
    for name in ["instructions", "system"] {
        if let Some(field) = envelope.field(name) {
            add(field.value.of(body));
        }
    }
    let items = envelope.items(name);
    if items.is_empty() {
        add(envelope.field(name)?.value.of(body));
    }
    for item in items {
        add(item.of(body));
        let role = envelope
            .members(*item)
            .find(|member| envelope.name(member) == "role");
        if role.is_some_and(|role| role.value.of(body) == b"\"user\"") {
            break;
        }
    }
    let hash = hasher.finalize().to_hex();
    hash.get(..16).map(|short| format!("root-{short}"))
}

fn clip(text: &str) -> String {
    let mut end = text.len().min(MAX_VALUE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_from_a_header_and_clipped() {
        let read = tags(Some(" team = search,urgent,, =x"), vec!["env=ci".into()]);
        let expected = [("env", "ci"), ("team", "search"), ("urgent", "")];
        assert_eq!(
            read,
            expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
        );
        assert_eq!(clip(&"é".repeat(200)).len(), 256);
    }

    #[test]
    fn a_conversation_has_the_same_root_as_it_grows() {
        let of = |body: &'static str| {
            let envelope = Envelope::parse(bytes::Bytes::from_static(body.as_bytes())).unwrap();
            attribute(&HeaderMap::new(), Api::Chat, Some(&envelope))
                .task
                .unwrap()
        };
        let first =
            of(r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}"#);
        let later = of(
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"v"}]}"#,
        );
        let other =
            of(r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"w"}]}"#);
        assert_eq!(first, later);
        assert_ne!(first, other);
        assert!(first.starts_with("root-"));
    }
}
