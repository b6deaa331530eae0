//! A small agent: a conversation, two tools, and HTTP to whatever base URL it is given.
//!
//! It knows nothing of the gateway but its address and a key. It does what agents do: it sends the
//! whole conversation each time, runs the tools that the model calls, takes a stream apart, never
//! takes half an answer for a whole one, and drops old turns when it is told that the conversation
//! has grown too long.

mod answer;
mod tools;

use std::net::SocketAddr;

use anyhow::{bail, ensure};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use whippletree_loadtest::client::Call;

pub(super) use answer::Seen;
use answer::{Said, take_apart};
use tools::{MANUAL, run, tools};

/// The most calls for one question.
const MAX_CALLS: usize = 8;

/// How answers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Event by event.
    Stream,
    /// In one piece.
    Whole,
}

/// An agent with its conversation.
#[derive(Debug)]
pub(super) struct Agent {
    gateway: SocketAddr,
    key: SecretString,
    model: &'static str,
    task: &'static str,
    messages: Vec<Value>,
}

impl Agent {
    pub(super) fn new(
        gateway: SocketAddr,
        key: &SecretString,
        model: &'static str,
        task: &'static str,
    ) -> Self {
        let prompt = format!("You answer questions about this manual.\n\n{MANUAL}");
        Self {
            gateway,
            key: key.clone(),
            model,
            task,
            messages: vec![json!({ "role": "system", "content": prompt })],
        }
    }

    /// Messages of the conversation so far.
    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Asks, runs the tools that the model calls, and goes on until it answers or fails.
    ///
    /// # Errors
    /// The gateway does not answer at all, or the model never stops calling tools.
    pub(super) async fn ask(&mut self, question: &str, form: Form) -> anyhow::Result<Vec<Seen>> {
        self.messages
            .push(json!({ "role": "user", "content": question }));
        let mut all = Vec::new();
        let mut compacted = false;
        while all.len() < MAX_CALLS {
            let (seen, said) = self.call(form, None).await?;
            all.push(seen.clone());
            if let Some(error) = seen.error {
                if error.code() == "context_length_exceeded" && !compacted {
                    compacted = true;
                    self.compact();
                    continue;
                }
                return Ok(all);
            }
            let whole = seen.ended && (form == Form::Whole || seen.done);
            ensure!(whole, "the gateway's answer breaks off without a word");
            let calls = said.calls.clone();
            self.messages.push(said.message());
            if calls.is_empty() {
                return Ok(all);
            }
            for call in calls {
                let content = run(&call);
                self.messages
                    .push(json!({ "role": "tool", "tool_call_id": call.id, "content": content }));
            }
        }
        bail!("the model calls tools without end")
    }

    /// Asks for a stream and leaves when so many events have come.
    ///
    /// # Errors
    /// The gateway does not answer at all.
    pub(super) async fn ask_and_leave(
        &mut self,
        question: &str,
        events: usize,
    ) -> anyhow::Result<Seen> {
        self.messages
            .push(json!({ "role": "user", "content": question }));
        Ok(self.call(Form::Stream, Some(events)).await?.0)
    }

    /// Forgets everything between the prompt and the last question.
    fn compact(&mut self) {
        let last = self
            .messages
            .iter()
            .rposition(|message| message.get("role").is_some_and(|role| role == "user"));
        if let Some(last) = last.filter(|last| *last > 1) {
            self.messages.drain(1..last);
        }
    }

    async fn call(&self, form: Form, leave_after: Option<usize>) -> anyhow::Result<(Seen, Said)> {
        let body = json!({
            "model": self.model,
            "stream": form == Form::Stream,
            "tools": tools(),
            "messages": self.messages,
        });
        let bearer = format!("Bearer {}", self.key.expose_secret());
        let mut call = Call::post("/v1/chat/completions", body.to_string())
            .header("host", &self.gateway.to_string())
            .header("authorization", &bearer)
            .header("user-agent", "whippletree-demo")
            .header("x-wt-task", self.task);
        call.leave_after_events = leave_after;
        let answer = call.send(self.gateway).await;
        ensure!(answer.status != 0, "the gateway does not answer its client");
        Ok(take_apart(&answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compacting_keeps_the_prompt_and_the_last_question() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut agent = Agent::new(address, &crate::keys::generate(), "m", "t");
        for (role, content) in [("user", "a"), ("assistant", "b"), ("user", "c")] {
            agent
                .messages
                .push(json!({ "role": role, "content": content }));
        }
        agent.compact();
        let roles: Vec<_> = agent.messages.iter().map(|m| &m["role"]).collect();
        assert_eq!(roles, ["system", "user"]);
        assert_eq!(agent.messages[1]["content"], "c");
    }
}
