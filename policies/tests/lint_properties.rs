//! The linter's memory beside a simple model of it, over random traffic.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail by panicking"
)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use whippletree_policies::lint::{
    Address, Bounds, Call, Chain, Fingerprinter, Kind, Lint, List, Mark, Place, Prompt, Tier,
    caching,
};
use whippletree_policies::time::Instant;

/// One request: the pieces of its prompt, by number; equal numbers are equal texts.
#[derive(Clone, Debug)]
struct Sent {
    pieces: Vec<u8>,
    marks: Vec<usize>,
    gap_s: u64,
    claude: bool,
}

/// Requests that often go on from an earlier one: a cut at some point, and new pieces.
fn traffic() -> impl Strategy<Value = Vec<Sent>> {
    let step = (
        any::<prop::sample::Index>(),
        0_usize..12,
        prop::collection::vec(any::<u8>(), 0..5),
        prop::collection::vec(0_usize..14, 0..3),
        0_u64..400,
        any::<bool>(),
    );
    prop::collection::vec(step, 1..40).prop_map(|steps| {
        let mut sent: Vec<Sent> = Vec::new();
        for (from, keep, new, marks, gap_s, claude) in steps {
            let mut pieces = if sent.is_empty() {
                Vec::new()
            } else {
                sent[from.index(sent.len())].pieces.clone()
            };
            pieces.truncate(keep);
            pieces.extend(new);
            sent.push(Sent {
                pieces,
                marks,
                gap_s,
                claude,
            });
        }
        sent
    })
}

fn body(pieces: &[u8]) -> (Vec<u8>, Vec<std::ops::Range<usize>>) {
    let mut body = Vec::new();
    let mut spans = Vec::new();
    for piece in pieces {
        let start = body.len();
        let words = format!("word {piece} ").repeat(usize::from(*piece) % 40 + 4);
        body.extend_from_slice(format!("{{\"role\":\"user\",\"content\":\"{words}\"}}").as_bytes());
        spans.push(start..body.len());
    }
    (body, spans)
}

fn prompt<'a>(
    sent: &Sent,
    print: &Fingerprinter,
    body: &'a [u8],
    spans: &[std::ops::Range<usize>],
) -> Prompt<'a> {
    let mut chain = Chain::new(print, model(sent));
    for (at, span) in spans.iter().enumerate() {
        let (tier, kind) = match at {
            0 => (Tier::Tools, Kind::Tool),
            1 => (Tier::System, Kind::System),
            at if at % 2 == 0 => (Tier::Messages, Kind::User),
            _ => (Tier::Messages, Kind::Assistant),
        };
        let address = Address {
            list: List::Messages,
            item: u32::try_from(at).ok(),
            block: None,
        };
        let mark = sent.marks.contains(&at).then_some(Mark::Short);
        chain.push(
            (tier, kind, address),
            span.clone(),
            &body[span.clone()],
            mark,
        );
    }
    Prompt {
        body,
        segments: chain.finish(),
        marks: u32::try_from(sent.marks.len()).unwrap(),
        ..Prompt::default()
    }
}

fn model(sent: &Sent) -> &'static str {
    if sent.claude {
        "claude-sonnet-4-5"
    } else {
        "gpt-4.1"
    }
}

/// Feeds traffic to a linter; after each request, whatever `check` wants to see.
fn feed(traffic: &[Sent], bounds: Bounds, mut check: impl FnMut(&Sent, usize, &Lint, u64)) {
    let print = Fingerprinter::new(&[3; 32]);
    let mut lint = Lint::new(bounds);
    let mut now = 1_000;
    for (number, sent) in traffic.iter().enumerate() {
        now += sent.gap_s;
        let (body, spans) = body(&sent.pieces);
        let prompt = prompt(sent, &print, &body, &spans);
        let rules = caching(model(sent));
        let call = Call {
            number: number as u64,
            model: model(sent),
            caching: &rules,
            card: None,
            task: None,
            place: Place::default(),
        };
        let observed = lint.observe(&prompt, &call, Instant(now * 1_000_000_000));
        check(
            sent,
            observed.reused_segments,
            &lint,
            observed.expected_cached.0,
        );
        assert!(observed.expected_cached <= observed.prompt_tokens);
        for finding in &observed.findings {
            assert!(finding.spot.from <= finding.spot.to && finding.spot.to <= body.len().max(1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_longest_known_prefix_is_found(traffic in traffic()) {
        let mut known: BTreeSet<(bool, Vec<u8>)> = BTreeSet::new();
        feed(&traffic, Bounds::default(), |sent, reused, _, _| {
            let longest = (0..=sent.pieces.len())
                .rev()
                .find(|count| *count == 0 || known.contains(&(sent.claude, sent.pieces[..*count].to_vec())))
                .unwrap();
            assert_eq!(reused, longest, "{sent:?}");
            for count in 1..=sent.pieces.len() {
                known.insert((sent.claude, sent.pieces[..count].to_vec()));
            }
        });
    }

    #[test]
    fn memory_stays_within_its_bounds(traffic in traffic()) {
        let bounds = Bounds {
            conversations: 3,
            segments: 12,
            text_of_one: 300,
            text_of_all: 600,
        };
        feed(&traffic, bounds, |sent, _, lint, _| {
            assert!(lint.conversations() <= 3);
            // One conversation may be longer than all should be together; it alone remains.
            let longest = traffic.iter().map(|sent| sent.pieces.len()).max().unwrap_or(0) as u64;
            assert!(lint.memory() < 20_000 + longest * 20 * 250, "{} {sent:?}", lint.memory());
        });
    }

    #[test]
    fn the_same_traffic_gives_the_same_answers(traffic in traffic()) {
        let run = || {
            let mut seen = Vec::new();
            feed(&traffic, Bounds::default(), |_, reused, _, expected| seen.push((reused, expected)));
            seen
        };
        prop_assert_eq!(run(), run());
    }
}
