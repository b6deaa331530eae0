//! What the gateway asks of a provider, in one small trait for each concern.
//!
//! All are object-safe: the registry hands out `&'static dyn Provider`, and a call costs one virtual
//! call, no more.

use std::fmt;

use http::{HeaderMap, StatusCode};
use whippletree_policies::time::UnixTime;

use crate::decoder::{Answer, StreamDecoder};
use crate::envelope::{Edits, Envelope, OutputLimit};
use crate::failure::Failure;

/// A form of request, with its path and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// Chat completions (OpenAI).
    Chat,
    /// Text completions (OpenAI's legacy form).
    Completions,
    /// The size of a message, without an answer (Anthropic).
    CountTokens,
    /// Embeddings (OpenAI).
    Embeddings,
    /// Messages (Anthropic).
    Messages,
    /// Responses (OpenAI).
    Responses,
}

impl Api {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::CountTokens => "count_tokens",
            Self::Embeddings => "embeddings",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// The path below a vendor's base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::CountTokens => "/messages/count_tokens",
            Self::Embeddings => "/embeddings",
            Self::Messages => "/messages",
            Self::Responses => "/responses",
        }
    }

    /// The interface of that name.
    pub fn named(name: &str) -> Option<Self> {
        [
            Self::Chat,
            Self::Completions,
            Self::CountTokens,
            Self::Embeddings,
            Self::Messages,
            Self::Responses,
        ]
        .into_iter()
        .find(|api| api.as_str() == name)
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// The key alone, in a header of this name.
    Header(&'static str),
}

/// What to do with the chunk of usage at the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageChunk {
    /// Pass it on: the client asked, or the vendor sends none of its own.
    Keep,
    /// Take it out: only the gateway asked.
    Remove,
}

/// Where a vendor is and how it is addressed.
pub trait Endpoint {
    /// The vendor's name in the configuration.
    fn kind(&self) -> &'static str;

    /// Where it is reached unless the configuration says otherwise.
    fn base_url(&self) -> Option<&'static str>;

    /// The environment variable that its own SDK reads the key from.
    fn key_env(&self) -> Option<&'static str>;

    /// The APIs that it is known to speak.
    fn apis(&self) -> &'static [Api];

    /// How its key is sent.
    fn auth(&self) -> Auth;

    /// The URL of a call. `base_url` has no slash at its end; `model` is the vendor's name.
    fn url(&self, base_url: &str, api: Api, model: &str) -> String;
}

/// How a request is made fit for a vendor that speaks the client's dialect.
pub trait Encode {
    /// Adds the changes that the vendor needs, and says what to do with the usage chunk they cause.
    fn prepare(&self, api: Api, envelope: &Envelope, model: &str, edits: &mut Edits) -> UsageChunk;

    /// The field that limits the output of a call.
    fn output_limit(&self, api: Api) -> OutputLimit;
}

/// How a vendor's answers are read.
pub trait Decode {
    /// A decoder for a stream of that API; `None` where it has none.
    fn stream_decoder(&self, api: Api) -> Option<Box<dyn StreamDecoder>>;

    /// Reads a whole answer of any status.
    fn answer(
        &self,
        api: Api,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: UnixTime,
    ) -> Answer;

    /// The meaning of an answer with an error status.
    fn failure(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: UnixTime,
    ) -> Failure;
}

/// All that the gateway needs of a vendor.
pub trait Provider: Endpoint + Encode + Decode + fmt::Debug + Send + Sync {}

impl<T: Endpoint + Encode + Decode + fmt::Debug + Send + Sync> Provider for T {}
