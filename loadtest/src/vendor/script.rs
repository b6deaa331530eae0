//! What a scripted vendor answers, as it is written down.
//!
//! The notation is that of `cases/README.md`: replies in order, the last one repeats; a reply is a
//! status, headers and a body or a list of writes, and an end. A script may name a generator
//! instead (see [`super::generate`]). It is read from JSON or TOML.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use super::generate::Generator;

/// Why a script could not be read.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The text is not JSON of this form.
    #[error("script is not valid JSON")]
    Json(#[from] serde_json::Error),
    /// The text is not TOML of this form.
    #[error("script is not valid TOML")]
    Toml(#[from] toml::de::Error),
    /// A hex write holds something else.
    #[error("hex write {0:?} has an odd length or a digit that is none")]
    Hex(String),
    /// A stub that does not exist.
    #[error("no stub vendor is called {0:?}")]
    UnknownStub(String),
}

/// What a vendor does: replies in order, or a generator.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The wire dialect it speaks: `openai`, `openai-responses`, `anthropic`, `gemini`, `bedrock`.
    #[serde(default)]
    pub dialect: Option<String>,
    /// Where it listens; port 0 and loopback when absent.
    #[serde(default)]
    pub listen: Option<String>,
    /// Given in order; the last one repeats. Without any, connections are closed unanswered.
    #[serde(default)]
    pub replies: Vec<Reply>,
    /// Answers as a model would, where no replies are given.
    #[serde(default)]
    pub generate: Option<Generator>,
}

impl Script {
    /// A vendor that gives these replies.
    pub fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: replies.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A vendor that answers as a model would.
    pub fn generate(generator: Generator) -> Self {
        Self {
            generate: Some(generator),
            ..Self::default()
        }
    }

    /// Reads a script written in JSON.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Json`] when the text has another form.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Reads a script written in TOML.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Toml`] when the text has another form.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        Ok(toml::from_str(text)?)
    }
}

/// One answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The HTTP status; 0 means that no HTTP answer is given at all.
    #[serde(default = "ok")]
    pub status: u16,
    /// Sent as they stand and in this order. `content-length` and `transfer-encoding` given here
    /// are obeyed even where they lie.
    #[serde(default)]
    pub headers: Headers,
    /// A JSON body, written compactly.
    #[serde(default)]
    pub body: Option<Value>,
    /// A body's exact text.
    #[serde(default)]
    pub text: Option<String>,
    /// The body as flushed writes.
    #[serde(default)]
    pub writes: Option<Vec<Write>>,
    /// What happens behind the last byte.
    #[serde(default)]
    pub end: End,
    /// Milliseconds before the first byte of the answer.
    #[serde(default)]
    pub sleep_ms: u64,
    /// Answers when the head has come, without waiting for the request's body.
    #[serde(default)]
    pub before_body: bool,
    /// Compresses the body with gzip, flushed at each write, and says so in a header.
    #[serde(default)]
    pub gzip: bool,
    /// A stub vendor's answer instead: `openai_ok`, `anthropic_ok`, …
    #[serde(default, rename = "ref")]
    pub stub: Option<String>,
    /// The usage that a stub reports.
    #[serde(default)]
    pub usage: Option<Value>,
    /// For `gemini_ok`: refuse schema keywords that Gemini's strict form does not know.
    #[serde(default)]
    pub strict_schema: bool,
    /// For the reader.
    #[serde(default)]
    pub note: Option<String>,
}

const fn ok() -> u16 {
    200
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: 200,
            headers: Headers::default(),
            body: None,
            text: None,
            writes: None,
            end: End::Clean,
            sleep_ms: 0,
            before_body: false,
            gzip: false,
            stub: None,
            usage: None,
            strict_schema: false,
            note: None,
        }
    }
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            headers: Headers::of([("content-type", "application/json")]),
            body: Some(body),
            ..Self::default()
        }
    }

    /// An event stream, each item one write.
    pub fn events<S: Into<String>>(events: impl IntoIterator<Item = S>) -> Self {
        Self {
            headers: Headers::of([("content-type", "text/event-stream")]),
            writes: Some(
                events
                    .into_iter()
                    .map(|event| Write::Text(event.into()))
                    .collect(),
            ),
            ..Self::default()
        }
    }

    /// No HTTP answer, but this end.
    pub fn none(end: End) -> Self {
        Self {
            status: 0,
            end,
            ..Self::default()
        }
    }

    /// The smallest valid answer in a dialect: `openai_ok`, `anthropic_ok`, …
    pub fn stub(name: &str) -> Self {
        Self {
            stub: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// The same answer with another end.
    #[must_use]
    pub fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same answer, later.
    #[must_use]
    pub fn after_ms(mut self, ms: u64) -> Self {
        self.sleep_ms = ms;
        self
    }
}

/// One flushed write, or a pause.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Write {
    /// UTF-8 bytes.
    Text(String),
    /// Raw bytes.
    Hex {
        /// Two digits a byte.
        hex: String,
    },
    /// Nothing for a while.
    Sleep {
        /// Milliseconds.
        sleep_ms: u64,
    },
    /// The same bytes again and again. In the text, `{i}` is the number of the repetition and `{t}`
    /// the nanoseconds since the vendor started, both at the moment of writing.
    Repeat {
        /// Milliseconds between the writes' due times; 0 writes as fast as the peer reads.
        repeat_every_ms: u64,
        /// The bytes.
        write: String,
        /// How often.
        times: u64,
    },
}

/// What happens behind the last byte of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The body is properly ended.
    #[default]
    Clean,
    /// The socket is closed without the final chunk.
    Cut,
    /// The socket stays open, silent.
    Hang,
    /// The connection is reset (RST).
    Reset,
}

/// Header names and values in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Headers from pairs.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Headers;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a table of headers or a list of [name, value]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    pairs.push((name, value));
                }
                Ok(Headers(pairs))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = list.next_element()? {
                    pairs.push(pair);
                }
                Ok(Headers(pairs))
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_alike_from_json_and_toml() {
        let json = Script::from_json(
            r#"{"replies":[{"status":200,"headers":{"content-type":"text/event-stream"},
                "writes":["a",{"hex":"00ff"},{"sleep_ms":5},{"repeat_every_ms":1,"write":"x","times":3}],"end":"cut"},
                {"status":0,"end":"reset","note":"gone"}]}"#,
        )
        .unwrap();
        let toml = Script::from_toml(
            r#"
            [[replies]]
            headers = { content-type = "text/event-stream" }
            writes = ["a", { hex = "00ff" }, { sleep_ms = 5 }, { repeat_every_ms = 1, write = "x", times = 3 }]
            end = "cut"
            [[replies]]
            status = 0
            end = "reset"
            note = "gone"
            "#,
        )
        .unwrap();
        assert_eq!(format!("{json:?}"), format!("{toml:?}"));
        assert_eq!(json.replies[1].end, End::Reset);
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        assert!(Script::from_json(r#"{"replies":[{"statsu":200}]}"#).is_err());
    }
}
