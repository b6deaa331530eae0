//! The framer: the frames of a stream, one after the other, are that stream, wherever it is cut.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use whippletree_providers::sse::{Frame, Framer};

const LIMIT: usize = 64 * 1024;

fn frames(chunks: &[&[u8]]) -> Option<Vec<Frame>> {
    let mut framer = Framer::new(LIMIT);
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = framer.next_frame().ok()? {
            frames.push(frame);
        }
    }
    while let Some(frame) = framer.finish().ok()? {
        frames.push(frame);
    }
    Some(frames)
}

fuzz_target!(|data: &[u8]| {
    let Some((&at, stream)) = data.split_first() else {
        return;
    };
    let (Some(whole), Some(apart)) = (
        frames(&[stream]),
        frames(&stream.chunks(usize::from(at) + 1).collect::<Vec<_>>()),
    ) else {
        return;
    };
    let joined: Vec<u8> = whole
        .iter()
        .flat_map(|frame| frame.raw().to_vec())
        .collect();
    assert_eq!(joined, stream, "bytes were lost");
    let said = |frames: &[Frame]| -> Vec<_> {
        frames
            .iter()
            .filter_map(|frame| frame.data().cloned())
            .collect()
    };
    assert_eq!(said(&whole), said(&apart), "the cut changed what was said");
});
