//! Cache marks within a part of a prompt: where they are, and the part without them.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use whippletree_policies::lint::Mark;

use crate::envelope::{Envelope, Span};

const NAMES: [&str; 3] = ["cache_control", "prompt_cache_breakpoint", "cachePoint"];

static CACHE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("cache"));

/// Whether a part may carry a mark; looks at the bytes only.
pub(super) fn possible(raw: &[u8]) -> bool {
    let mut rest = raw;
    while let Some(at) = CACHE.find(rest) {
        let tail = rest.get(at + 5..).unwrap_or_default();
        let before = rest.get(..at).unwrap_or_default();
        if tail.starts_with(b"_control\"")
            || tail.starts_with(b"Point\"")
            || (tail.starts_with(b"_breakpoint\"") && before.ends_with(b"prompt_"))
        {
            return true;
        }
        rest = tail;
    }
    false
}

/// Writes the part at `span` without its marks into `out`; the mark, if there was one.
pub(super) fn strip(envelope: &Envelope, span: Span, out: &mut Vec<u8>) -> Option<Mark> {
    out.clear();
    let mut mark = None;
    copy(envelope, span, out, &mut mark, 0);
    mark
}

/// Whether a stripped part was nothing but a mark.
pub(super) fn is_point(stripped: &[u8]) -> bool {
    stripped
        .trim_ascii_start()
        .strip_prefix(b"{")
        .is_some_and(|rest| rest.trim_ascii() == b"}")
}

fn copy(envelope: &Envelope, span: Span, out: &mut Vec<u8>, mark: &mut Option<Mark>, depth: u32) {
    let raw = span.of(envelope.body());
    if depth > 8 || !possible(raw) {
        out.extend_from_slice(raw);
        return;
    }
    match raw.first() {
        Some(b'{') => {
            // What separates two members goes with the one that it introduces, so that the part
            // without its mark is, byte for byte, the part that never had one.
            let mut end = span.start() + 1;
            let mut written = false;
            for member in envelope.members(span) {
                let start = if written { end } else { member.key.start() - 1 };
                end = member.value.end();
                if NAMES.contains(&&*envelope.name(&member)) {
                    let value = member.value.of(envelope.body());
                    if value != b"null" {
                        *mark = Some(mark_of(value));
                    }
                    continue;
                }
                if !written {
                    out.push(b'{');
                }
                let before = start..member.value.start();
                out.extend_from_slice(envelope.body().get(before).unwrap_or_default());
                copy(envelope, member.value, out, mark, depth + 1);
                written = true;
            }
            if !written {
                out.push(b'{');
            }
            out.extend_from_slice(envelope.body().get(end..span.end()).unwrap_or_default());
        }
        Some(b'[') => {
            out.push(b'[');
            for (at, element) in envelope.elements(span).into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                copy(envelope, element, out, mark, depth + 1);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(raw),
    }
}

/// `{"type":"ephemeral","ttl":"1h"}`: anything that names a longer time than the usual one.
fn mark_of(value: &[u8]) -> Mark {
    let long = [&b"\"1h\""[..], b"\"12h\"", b"\"24h\""];
    if long
        .iter()
        .any(|ttl| memchr::memmem::find(value, ttl).is_some())
    {
        Mark::Long
    } else {
        Mark::Short
    }
}
