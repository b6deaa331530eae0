//! A streamed answer: wherever it is cut, it says the same; nothing that a vendor sends is a panic.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use whippletree_policies::time::UnixTime;
use whippletree_providers::decoder::{Progress, Verdict};
use whippletree_providers::openai::dialects::DIALECTS;
use whippletree_providers::openai::stream::decoder;
use whippletree_providers::provider::Api;
use whippletree_providers::sse::Framer;

const NOW: UnixTime = UnixTime(1_790_000_000_000);

fn read(stream: &[u8], chunk: usize, dialect: usize, api: Api) -> Option<(Progress, Verdict)> {
    let mut framer = Framer::default();
    let mut decoder = decoder(DIALECTS.get(dialect % DIALECTS.len())?, api)?;
    for chunk in stream.chunks(chunk) {
        framer.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = framer.next_frame().ok()? {
            decoder.read(&frame, NOW);
        }
    }
    while let Some(frame) = framer.finish().ok()? {
        decoder.read(&frame, NOW);
    }
    Some((decoder.progress().clone(), decoder.verdict()))
}

fuzz_target!(|data: &[u8]| {
    let [how, cut, stream @ ..] = data else {
        return;
    };
    let api = match how & 3 {
        0 => Api::Chat,
        1 => Api::Responses,
        _ => Api::Messages,
    };
    let dialect = usize::from(how >> 2);
    let whole = read(stream, stream.len().max(1), dialect, api);
    let apart = read(stream, usize::from(*cut) + 1, dialect, api);
    assert_eq!(whole, apart, "the cut changed the answer");
    // What `policies::usage` promises its readers.
    if let Some(usage) = whole.and_then(|(progress, _)| progress.usage) {
        let parts = [usage.cache_read, usage.cache_write_5m, usage.cache_write_1h];
        let parts = parts.into_iter().flatten();
        let sum = parts.fold(0_u64, |sum, tokens| sum.saturating_add(tokens.0));
        assert!(sum <= usage.input.0, "more cached than read");
        assert!(
            usage.reasoning.unwrap_or_default() <= usage.output,
            "more reasoned than written"
        );
    }
});
