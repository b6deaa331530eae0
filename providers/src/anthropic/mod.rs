//! Anthropic's dialect: messages, whole and streamed, and the counting of their tokens.
//!
//! Where the vendor is and how it is addressed is a row of [`crate::openai::dialects`]; what its
//! errors mean is in [`crate::openai::failure`], whose codes include this vendor's. Requests pass as
//! they came but for the model's name.

mod stream;
mod usage;

use serde::Deserialize;

pub use self::stream::{MessagesDecoder, with_stop_reason};
use crate::decoder::{Progress, Verdict};

/// The version of the API that is asked for where the client names none: the one that clients of
/// every age send.
pub const VERSION: &str = "2023-06-01";

#[derive(Deserialize)]
struct Counted {
    #[serde(rename = "input_tokens")]
    _input_tokens: u64,
}

/// Reads the answer to a request to count tokens. What it counted was not used, so it is no usage.
pub(crate) fn count(body: &[u8]) -> (Progress, Verdict) {
    let counted = serde_json::from_slice::<Counted>(body).is_ok();
    let progress = Progress {
        done: true,
        malformed: !counted,
        ..Progress::default()
    };
    let verdict = if counted {
        Verdict::Complete
    } else {
        Verdict::Malformed
    };
    (progress, verdict)
}
