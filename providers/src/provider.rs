//! What is common to all providers: the interfaces of their APIs and how each is authorised.

use std::fmt;

/// A form of request, with its path and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// Chat completions (OpenAI).
    Chat,
    /// Text completions (OpenAI's legacy form).
    Completions,
    /// Embeddings (OpenAI).
    Embeddings,
    /// Responses (OpenAI).
    Responses,
}

impl Api {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
        }
    }

    /// The path below a vendor's base URL.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
            Self::Responses => "/responses",
        }
    }

    /// The interface of that name.
    pub fn named(name: &str) -> Option<Self> {
        [
            Self::Chat,
            Self::Completions,
            Self::Embeddings,
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
