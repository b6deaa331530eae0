use proptest::prelude::*;

use super::*;

/// All frames of a stream that arrives in these chunks.
fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
    let mut framer = Framer::default();
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = framer.next_frame().unwrap() {
            frames.push(frame);
        }
    }
    while let Some(frame) = framer.finish().unwrap() {
        frames.push(frame);
    }
    frames
}

fn raw(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|frame| frame.raw.to_vec()).collect()
}

/// What a client of the stream sees.
fn events(frames: &[Frame]) -> Vec<(Option<String>, String)> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    frames
        .iter()
        .filter_map(|frame| Some((frame.name().map(text), text(frame.data()?))))
        .collect()
}

/// The rules of the standard, written down once more in the plainest way.
fn expected(stream: &str) -> Vec<(Option<String>, String)> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let (mut name, mut data): (Option<String>, Vec<String>) = (None, Vec::new());
    for line in stream.split('\n').chain([""]) {
        if line.is_empty() {
            if !data.is_empty() {
                events.push((name.take(), data.join("\n")));
            }
            (name, data) = (None, Vec::new());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "data" => data.push(value),
            "event" => name = Some(value),
            _ => {}
        }
    }
    events
}

#[test]
fn fields_are_read_as_the_standard_says() {
    let stream = "\u{feff}event: a\ndata:  two spaces\ndata\ndata:x\nid: 7\nretry: 3\nother: 1\n\n\
                  event: nothing\n\ndata: z\r\n\r\ndata: last";
    let frames = frames(&[stream.as_bytes()]);
    let seen = events(&frames);
    assert_eq!(
        seen,
        [
            (Some("a".to_owned()), " two spaces\n\nx".to_owned()),
            (None, "z".to_owned()),
            (None, "last".to_owned()),
        ]
    );
    assert_eq!(frames[0].id(), Some(&Bytes::from_static(b"7")));
    assert_eq!(
        frames.iter().map(Frame::ended).collect::<Vec<_>>(),
        [true, true, true, false]
    );
    assert_eq!(raw(&frames), stream.as_bytes());
}

#[test]
fn a_comment_is_handed_out_as_soon_as_its_line_ends() {
    let mut framer = Framer::default();
    framer.push(Bytes::from_static(b": working\n"));
    let frame = framer.next_frame().unwrap().unwrap();
    assert_eq!(
        (&frame.raw()[..], frame.data()),
        (&b": working\n"[..], None)
    );
    assert_eq!(framer.next_frame(), Ok(None));
    assert_eq!(framer.finish(), Ok(None));
}

#[test]
fn an_event_whose_lines_end_in_bare_crs_is_handed_out_at_once() {
    let mut framer = Framer::default();
    let data = |framer: &mut Framer| {
        let frame = framer.next_frame().unwrap()?;
        Some(String::from_utf8(frame.data()?.to_vec()).unwrap())
    };
    framer.push(Bytes::from_static(b"data: a\r\r"));
    assert_eq!(data(&mut framer).as_deref(), Some("a"));
    framer.push(Bytes::from_static(b"data: b\r"));
    assert_eq!(data(&mut framer), None);
    framer.push(Bytes::from_static(b"\ndata: c\r\n\r"));
    assert_eq!(data(&mut framer).as_deref(), Some("b\nc"));
    framer.push(Bytes::from_static(b"\n"));
    assert_eq!(&framer.next_frame().unwrap().unwrap().raw()[..], b"\n");
    assert_eq!(framer.finish(), Ok(None));
}

#[test]
fn an_event_of_one_chunk_shares_its_memory() {
    let chunk = Bytes::from_static(b"data: one\n\ndata: two\n\n");
    let mut framer = Framer::default();
    framer.push(chunk.clone());
    let first = framer.next_frame().unwrap().unwrap();
    let second = framer.next_frame().unwrap().unwrap();
    assert_eq!(first.raw().as_ptr(), chunk.as_ptr());
    assert_eq!(second.data().unwrap().as_ptr(), chunk[17..].as_ptr());
}

#[test]
fn a_frame_past_the_limit_is_refused_however_it_arrives() {
    let too_long = Err(FrameTooLong { limit: 20 });
    let mut framer = Framer::new(20);
    framer.push(Bytes::from_static(b"data: 1\n\ndata: 0123456789abcdef\n\n"));
    assert!(framer.next_frame().unwrap().is_some());
    assert_eq!(framer.next_frame(), too_long);
    assert_eq!(framer.next_frame(), too_long);

    let mut framer = Framer::new(20);
    for _ in 0..20 {
        framer.push(Bytes::from_static(b"x"));
        assert_eq!(framer.next_frame(), Ok(None));
    }
    framer.push(Bytes::from_static(b"x"));
    assert_eq!(framer.next_frame(), too_long);
    assert_eq!(framer.finish(), too_long);
}

#[test]
fn every_cut_in_two_or_three_gives_the_same_frames() {
    let stream = "\u{feff}: hi\r\n\r\nevent: é\r\ndata: {\"a\":\"ü😀\"}\r\n\r\ndata: b\n\ndata: c\rdata: d\r\rdata: [DONE]\n\n\r\ndata: end\r";
    let bytes = stream.as_bytes();
    let whole = frames(&[bytes]);
    assert_eq!(raw(&whole), bytes);
    assert_eq!(events(&whole), expected(stream));
    for i in 0..=bytes.len() {
        for j in i..=bytes.len() {
            assert_eq!(frames(&[&bytes[..i], &bytes[i..j], &bytes[j..]]), whole);
        }
    }
}

proptest! {
    #[test]
    fn any_text_in_any_chunks_gives_the_events_of_the_standard(
        stream in "(\u{feff})?((data|event|id|x)?:? ?[a:é\u{0}]{0,3}(\r|\n|\r\n|\r\r|\n\n|\r\n\r\n)){0,8}(data: x)?",
        sizes in prop::collection::vec(1..12_usize, 1..60),
    ) {
        let bytes = stream.as_bytes();
        let whole = frames(&[bytes]);
        prop_assert_eq!(raw(&whole), bytes);
        prop_assert_eq!(events(&whole), expected(&stream));
        let mut chunks = Vec::new();
        let mut rest = bytes;
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(frames(&chunks), whole);
    }
}
