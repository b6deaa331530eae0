//! Repairs of a body that change no meaning: another order of what has none.
//!
//! Tools are a set, and the members of a JSON object have no order (RFC 8259, section 4); a list's
//! elements do, so those stay. Numbers and strings keep their text. An object that names a key twice
//! is left alone, because parsers differ on which counts.

use bytes::Bytes;

use super::{Form, marks};
use crate::envelope::{Edits, Envelope, Span};

/// Which repairs to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Tools sorted by name. A mark on the last tool stays on the last; a mark on another one is the
    /// caller's will, and nothing is sorted.
    pub sort_tools: bool,
    /// Members of tools sorted by key, at every depth.
    pub canonical_keys: bool,
    /// A request of Anthropic's form without any mark gets the automatic one.
    pub cache_marks: bool,
}

/// The repaired body, or `None` where nothing is to be changed.
pub fn repair(envelope: &Envelope, form: Form, repairs: Repairs) -> Option<Bytes> {
    let mut edits = Edits::default();
    if let Some(tools) = tools(envelope, repairs) {
        let field = envelope.field("tools")?;
        if *tools != *field.value.of(envelope.body()) {
            edits.replace(field.value, tools);
        }
    }
    if repairs.cache_marks && form == Form::Messages && !marks::possible(envelope.body()) {
        edits.insert("cache_control", &br#"{"type":"ephemeral"}"#[..]);
    }
    (!edits.is_empty()).then(|| edits.apply(envelope).to_bytes())
}

struct Tool {
    name: String,
    text: Vec<u8>,
}

/// The list of tools, repaired.
fn tools(envelope: &Envelope, repairs: Repairs) -> Option<Vec<u8>> {
    let body = envelope.body();
    let items = envelope.items("tools");
    let (last, others) = items.split_last()?;
    let marked = |span: &Span| marks::possible(span.of(body));
    let sort = repairs.sort_tools && !others.iter().any(marked);
    let mark = (sort && marked(last))
        .then(|| mark_of(envelope, *last))
        .flatten();
    let mut tools: Vec<Tool> = items
        .iter()
        .map(|span| {
            let mut text = Vec::with_capacity(span.len());
            write(
                envelope,
                *span,
                repairs.canonical_keys,
                mark.is_some(),
                &mut text,
            );
            Tool {
                name: name(envelope, *span),
                text,
            }
        })
        .collect();
    if sort {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
    }
    if let (Some(mark), Some(tool)) = (mark, tools.last_mut()) {
        tool.text.truncate(tool.text.len().saturating_sub(1));
        tool.text.extend_from_slice(b",\"cache_control\":");
        tool.text.extend_from_slice(mark.of(body));
        tool.text.push(b'}');
    }
    let sorted_as_before = tools.iter().map(|tool| &tool.name).eq(items
        .iter()
        .map(|span| name(envelope, *span))
        .collect::<Vec<_>>()
        .iter());
    if sorted_as_before && !repairs.canonical_keys {
        return None;
    }
    let mut list = vec![b'['];
    for (at, tool) in tools.iter().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        list.extend_from_slice(&tool.text);
    }
    list.push(b']');
    Some(list)
}

/// The name of a tool; a built-in one has a type.
fn name(envelope: &Envelope, tool: Span) -> String {
    let member = |object: Span, name: &str| {
        let mut members = envelope.members(object);
        members
            .find(|member| envelope.name(member) == name)
            .map(|member| member.value)
    };
    let inner = member(tool, "function").unwrap_or(tool);
    let named = member(inner, "name").or_else(|| member(tool, "type"));
    named.map_or_else(String::new, |span| {
        String::from_utf8_lossy(span.of(envelope.body())).into_owned()
    })
}

fn mark_of(envelope: &Envelope, tool: Span) -> Option<Span> {
    let mut members = envelope.members(tool);
    members
        .find(|member| envelope.name(member) == "cache_control")
        .map(|member| member.value)
}

/// Writes a value, its members sorted if asked for, its own mark left out if asked for.
fn write(envelope: &Envelope, span: Span, sorted: bool, without_mark: bool, out: &mut Vec<u8>) {
    let raw = span.of(envelope.body());
    match raw.first() {
        Some(b'{') if sorted || without_mark => {
            let mut members: Vec<_> = envelope.members(span).collect();
            if without_mark {
                members.retain(|member| envelope.name(member) != "cache_control");
            }
            if sorted {
                let names: Vec<_> = members
                    .iter()
                    .map(|member| envelope.name(member).into_owned())
                    .collect();
                let unique: std::collections::BTreeSet<_> = names.iter().collect();
                if unique.len() < names.len() {
                    out.extend_from_slice(raw);
                    return;
                }
                members.sort_by_cached_key(|member| envelope.name(member).into_owned());
            }
            out.push(b'{');
            for (at, member) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.push(b'"');
                out.extend_from_slice(member.key.of(envelope.body()));
                out.extend_from_slice(b"\":");
                write(envelope, member.value, sorted, false, out);
            }
            out.push(b'}');
        }
        Some(b'[') if sorted => {
            out.push(b'[');
            for (at, element) in envelope.elements(span).into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(envelope, element, sorted, false, out);
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(body: &str, form: Form, repairs: Repairs) -> Option<String> {
        let envelope = Envelope::parse(Bytes::from(body.to_owned())).unwrap();
        repair(&envelope, form, repairs).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    const ALL: Repairs = Repairs {
        sort_tools: true,
        canonical_keys: true,
        cache_marks: true,
    };

    #[test]
    fn tools_and_their_members_are_sorted_and_lists_and_numbers_stay() {
        let body = r#"{"model":"m","tools":[{"type":"function","function":{"name":"b"}},{"function":{"parameters":{"required":["y","x"],"minimum":1.0},"name":"a"},"type":"function"}],"x":1}"#;
        let after = repaired(body, Form::Chat, ALL).unwrap();
        assert_eq!(
            after,
            r#"{"model":"m","tools":[{"function":{"name":"a","parameters":{"minimum":1.0,"required":["y","x"]}},"type":"function"},{"function":{"name":"b"},"type":"function"}],"x":1}"#
        );
        assert_eq!(
            repaired(&after, Form::Chat, ALL),
            None,
            "a repaired body needs no repair"
        );
    }

    #[test]
    fn a_mark_on_the_last_tool_stays_last_and_one_on_another_forbids_sorting() {
        let sort = Repairs {
            sort_tools: true,
            ..Repairs::default()
        };
        let last = r#"{"tools":[{"name":"b"},{"name":"a","cache_control":{"type":"ephemeral"}}]}"#;
        assert_eq!(
            repaired(last, Form::Messages, sort).unwrap(),
            r#"{"tools":[{"name":"a"},{"name":"b","cache_control":{"type":"ephemeral"}}]}"#
        );
        let first = r#"{"tools":[{"name":"b","cache_control":{"type":"ephemeral"}},{"name":"a"}]}"#;
        assert_eq!(repaired(first, Form::Messages, sort), None);
    }

    #[test]
    fn an_object_with_a_key_twice_is_left_alone() {
        let body = r#"{"tools":[{"name":"a","z":1,"b":2,"z":3}]}"#;
        assert_eq!(repaired(body, Form::Chat, ALL), None);
    }

    #[test]
    fn a_mark_is_placed_only_where_there_is_none() {
        let bare = r#"{"model":"claude","messages":[]}"#;
        let marked = repaired(bare, Form::Messages, ALL).unwrap();
        assert!(marked.contains(r#""cache_control":{"type":"ephemeral"}"#));
        assert_eq!(repaired(&marked, Form::Messages, ALL), None);
        assert_eq!(repaired(bare, Form::Chat, ALL), None);
    }
}
