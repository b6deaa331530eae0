//! A failure case as it stands in `cases.jsonl`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client::Call;
use crate::vendor::{Script, expand};

/// One fault that someone reported, turned into an input.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// `C001` …
    pub id: String,
    /// `K1` retries, `K2` streams, `K3` fallback, `K4` cost, `K5` prompt cache, `K6` robustness.
    pub kind: String,
    /// What went wrong elsewhere.
    pub symptom: String,
    /// What ought to happen.
    pub right_behaviour: String,
    /// The smallest input that shows it.
    pub input: Input,
}

/// What a case is played with, and what is asserted of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Input {
    /// Suggestive names, mapped in [`super::config`].
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The request to the gateway.
    #[serde(default)]
    pub client: Client,
    /// Scripted vendors by name, each a [`Script`].
    #[serde(default)]
    pub vendors: BTreeMap<String, Value>,
    /// Assertions, steps, variants and what else there is.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A request and its modifiers.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Client {
    /// The dialect; Chat Completions when absent.
    #[serde(default)]
    pub dialect: Option<String>,
    /// POST when absent.
    #[serde(default)]
    pub method: Option<String>,
    /// The dialect's path when absent.
    #[serde(default)]
    pub path: Option<String>,
    /// The JSON body.
    #[serde(default)]
    pub body: Option<Value>,
    /// The exact body.
    #[serde(default)]
    pub raw_body: Option<String>,
    /// Request headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// So many at once.
    #[serde(default)]
    pub parallel: Option<usize>,
    /// So many one after the other.
    #[serde(default)]
    pub sequence: Option<usize>,
    /// Leaves after this time.
    #[serde(default)]
    pub disconnect_after_ms: Option<u64>,
    /// Leaves after so many events.
    #[serde(default)]
    pub disconnect_after_events: Option<usize>,
    /// Pads the first message to this size.
    #[serde(default)]
    pub body_size_mib: Option<f64>,
    /// Modifiers that only code written for the case can play.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

impl Case {
    /// Reads all cases of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a line is not a case.
    pub fn read(path: &Path) -> anyhow::Result<Vec<Self>> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("reading cases {}", path.display()))?;
        text.lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, line)| {
                serde_json::from_str(line).with_context(|| format!("case in line {}", number + 1))
            })
            .collect()
    }

    /// The scripts of its vendors.
    ///
    /// # Errors
    ///
    /// When one is not in the notation.
    pub fn scripts(&self) -> anyhow::Result<BTreeMap<String, Script>> {
        self.input
            .vendors
            .iter()
            .map(|(name, value)| {
                let script = serde_json::from_value(value.clone())
                    .with_context(|| format!("vendor {name}"))?;
                Ok((name.clone(), script))
            })
            .collect()
    }

    /// The request without its modifiers.
    pub fn call(&self) -> Call {
        let client = &self.input.client;
        let body = match (&client.raw_body, &client.body) {
            (Some(raw), _) => raw.clone(),
            (None, Some(body)) => body.to_string(),
            (None, None) => String::new(),
        };
        let path = client
            .path
            .as_deref()
            .unwrap_or(match client.dialect.as_deref() {
                Some("anthropic") => "/v1/messages",
                Some("openai-responses") => "/v1/responses",
                _ => "/v1/chat/completions",
            });
        let mut call = Call::post(path, expand(&body, 1));
        if let Some(method) = &client.method {
            call.method.clone_from(method);
        }
        for (name, value) in &client.headers {
            call = call.header(name, value);
        }
        call
    }

    /// The model that the request names.
    pub fn model(&self) -> String {
        let named = self
            .input
            .client
            .body
            .as_ref()
            .and_then(|body| body.get("model"))
            .and_then(Value::as_str);
        named.unwrap_or("m").to_owned()
    }
}

/// A chat body whose message is padded until the whole has `bytes` bytes.
pub(super) fn padded(bytes: usize) -> String {
    let start = r#"{"model":"m","messages":[{"role":"user","content":""#;
    let end = r#""}]}"#;
    let filler = bytes.saturating_sub(start.len() + end.len());
    format!("{start}{}{end}", "x".repeat(filler))
}
