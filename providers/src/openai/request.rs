//! What a request in OpenAI's dialect needs before one of its vendors gets it.

use super::dialects::{Dialect, StreamOptionsSupport};
use crate::envelope::{Edits, Envelope};
use crate::provider::{Api, UsageChunk};

/// Names the vendor's model and asks for usage at the end of a stream, where the vendor knows how to
/// be asked.
pub fn prepare(
    dialect: &Dialect,
    api: Api,
    envelope: &Envelope,
    model: &str,
    edits: &mut Edits,
) -> UsageChunk {
    edits.set_model(envelope, model);
    let has_chunk = envelope.stream() && matches!(api, Api::Chat | Api::Completions);
    match dialect.stream_options {
        StreamOptionsSupport::Yes if has_chunk => {
            edits.ask_for_usage(envelope);
            if envelope.asks_for_usage() {
                UsageChunk::Keep
            } else {
                UsageChunk::Remove
            }
        }
        StreamOptionsSupport::Yes => UsageChunk::Keep,
        StreamOptionsSupport::No => {
            // A vendor that does not know the field may refuse the request for it.
            if let Some(field) = envelope.field("stream_options") {
                edits.remove(field);
            }
            UsageChunk::Keep
        }
    }
}
