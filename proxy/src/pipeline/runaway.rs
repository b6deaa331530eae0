//! An agent run that only burns money is stopped before it reaches a vendor.
//!
//! What counts as running away is decided in [`whippletree_policies::task::runaway`]; here a request
//! is reduced to what that looks at: hashes of the prompt and of the tool calls that it reports on.
//!
//! Limits: only runs that a header or a session field names are watched. A plain client that sends
//! one prompt again and again is a benchmark or a cron job more often than an agent in a loop, and a
//! cache key is shared by whole applications.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use whippletree_policies::task::runaway::{Ended, Look, RunawayPolicy};
use whippletree_providers::envelope::{Envelope, Span};
use whippletree_providers::provider::Api;

use super::Call;
use super::run::Prepared;
use super::twin;
use crate::api::rejection::Rejection;
use crate::exchange::End;
use crate::gateway::Gateway;

/// The most tool results of one request that are looked at.
const MOST_RESULTS: usize = 64;

/// A request of a task that is watched; it has to be told how the request ended.
#[derive(Debug)]
pub struct Watched {
    gateway: Arc<Gateway>,
    task: String,
}

impl Watched {
    /// The request has ended.
    pub(super) fn end(self, end: End) {
        let ended = match end {
            End::ClientGone | End::Refused => Ended::Neither,
            End::Failed | End::Interrupted => Ended::Failed,
            End::Ok => Ended::Well,
        };
        self.gateway.state.task_ended(&self.task, ended);
    }
}

/// Counts a request of its task.
///
/// # Errors
/// [`Rejection::RunawayTask`] when the task is stopped.
pub(super) fn admit(call: &Call, prepared: &Prepared) -> Result<Option<Watched>, Rejection> {
    let policy = prepared.plan.route.settings.runaway;
    let off = prepared
        .caller
        .tenant()
        .is_some_and(|tenant| !tenant.runaway);
    let repeated = twin::retry_count(&call.head.headers).is_some_and(|count| count > 0);
    let Some(task) = &prepared.task else {
        return Ok(None);
    };
    // An SDK's retries are bounded already, and are no sign of a loop.
    if off || repeated || policy == RunawayPolicy::default() {
        return Ok(None);
    }
    // No tenant's name holds a line feed.
    let task = format!("{}\n{task}", prepared.caller.tenant_id());
    let look = look(prepared.api, &prepared.envelope);
    call.gateway
        .state
        .admit_task(&task, look, &policy)
        .map_err(|runaway| Rejection::RunawayTask {
            route: prepared.plan.route.id.clone(),
            runaway,
        })?;
    Ok(Some(Watched {
        gateway: Arc::clone(&call.gateway),
        task,
    }))
}

fn look(api: Api, envelope: &Envelope) -> Look {
    Look {
        prompt: short(&blake3::hash(envelope.body())),
        tool_call: tool_calls(api, envelope),
    }
}

/// A message or item, as far as tool calls go.
#[derive(Deserialize)]
struct Item {
    role: Option<String>,
    r#type: Option<String>,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    tool_call_id: Option<String>,
    #[serde(default)]
    content: Value,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    #[serde(default)]
    output: Value,
}

#[derive(Deserialize)]
struct ToolCall {
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

impl Item {
    /// The result of a call: whose, and what.
    fn result(&self) -> Option<(&str, &Value)> {
        if self.role.as_deref() == Some("tool") {
            return Some((self.tool_call_id.as_deref()?, &self.content));
        }
        let output = self.r#type.as_deref() == Some("function_call_output");
        output.then_some((self.call_id.as_deref()?, &self.output))
    }

    /// The call of that id: name and arguments.
    fn call(&self, id: &str) -> Option<(&str, &str)> {
        if self.r#type.as_deref() == Some("function_call") && self.call_id.as_deref() == Some(id) {
            return Some((self.name.as_deref()?, self.arguments.as_deref()?));
        }
        let call = self
            .tool_calls
            .iter()
            .find(|call| call.id.as_deref() == Some(id))?;
        let function = call.function.as_ref()?;
        Some((function.name.as_deref()?, function.arguments.as_deref()?))
    }
}

/// Of the results that a request ends with and the calls that they answer; ids, which differ each
/// time, left out.
fn tool_calls(api: Api, envelope: &Envelope) -> Option<u64> {
    let items = envelope.items(match api {
        Api::Responses => "input",
        Api::Chat | Api::Completions | Api::CountTokens | Api::Embeddings | Api::Messages => {
            "messages"
        }
    });
    let read = |span: &Span| serde_json::from_slice::<Item>(&envelope.bytes(*span)).ok();
    let mut results: Vec<Item> = Vec::new();
    let mut calls = Vec::new();
    let mut rest = items.iter().rev();
    for item in rest.by_ref().map_while(read) {
        let is_result = item.result().is_some();
        if is_result && calls.is_empty() && results.len() < MOST_RESULTS {
            results.push(item);
            continue;
        }
        let belongs = results.iter().any(|result| {
            result
                .result()
                .is_some_and(|(id, _)| item.call(id).is_some())
        });
        if !belongs {
            break;
        }
        calls.push(item);
    }
    let mut hasher = blake3::Hasher::new();
    let mut found = false;
    for (id, output) in results.iter().rev().filter_map(Item::result) {
        let Some((name, arguments)) = calls.iter().find_map(|item| item.call(id)) else {
            continue;
        };
        found = true;
        for part in [name, arguments, &output.to_string()] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    found.then(|| short(&hasher.finalize()))
}

fn short(hash: &blake3::Hash) -> u64 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(hash.as_bytes()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn of(api: Api, body: &Value) -> Option<u64> {
        let envelope = Envelope::parse(Bytes::from(body.to_string())).unwrap();
        tool_calls(api, &envelope)
    }

    fn chat(id: &str, arguments: &str, content: &str) -> Value {
        json!({"messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": id, "content": content},
        ]})
    }

    #[test]
    fn the_same_call_with_the_same_result_looks_the_same_whatever_its_id() {
        let first = of(Api::Chat, &chat("call_1", "{\"p\":1}", "no such file"));
        assert!(first.is_some());
        assert_eq!(
            first,
            of(Api::Chat, &chat("call_2", "{\"p\":1}", "no such file"))
        );
        assert_ne!(
            first,
            of(Api::Chat, &chat("call_2", "{\"p\":2}", "no such file"))
        );
        assert_ne!(first, of(Api::Chat, &chat("call_2", "{\"p\":1}", "found")));
    }

    #[test]
    fn responses_are_read_too_and_other_requests_report_on_no_call() {
        let item = json!({"input": [
            {"type": "message", "role": "user", "content": "q"},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ]});
        assert!(of(Api::Responses, &item).is_some());
        let mut asked = chat("c", "{}", "x");
        asked["messages"]
            .as_array_mut()
            .unwrap()
            .push(json!({"role": "user", "content": "go on"}));
        assert_eq!(of(Api::Chat, &asked), None);
        assert_eq!(of(Api::Chat, &json!({"messages": "nonsense"})), None);
    }
}
