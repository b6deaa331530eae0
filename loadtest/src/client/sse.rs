//! Server-sent events as a careful client reads them (WHATWG HTML, section 9.2.6).

use std::time::Instant;

use serde_json::Value;

use super::Piece;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty when there is none.
    pub name: String,
    /// The `data` lines joined by line feeds.
    pub data: String,
    /// How many `data` lines there were: an event without any is never dispatched by the standard,
    /// yet sloppy decoders do.
    pub data_lines: usize,
    /// The `id` field.
    pub id: Option<String>,
    /// Comment lines before it.
    pub comments: Vec<String>,
    /// When its last byte came.
    pub at: Instant,
}

impl Event {
    /// The data as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}

/// The events of a body.
pub fn events_of(pieces: &[Piece]) -> Vec<Event> {
    let mut reader = EventReader::default();
    for piece in pieces {
        reader.push(&piece.bytes, piece.at);
    }
    reader.events
}

/// Reads events from bytes cut anywhere.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
    after_cr: bool,
    open: Open,
    bare_comments: usize,
    events: Vec<Event>,
}

#[derive(Debug, Default)]
struct Open {
    name: String,
    data: Vec<String>,
    id: Option<String>,
    comments: Vec<String>,
    lines: usize,
}

impl EventReader {
    /// Takes more bytes, which came at `at`.
    pub fn push(&mut self, bytes: &[u8], at: Instant) {
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' => self.end_line(at),
                b'\r' => {
                    self.after_cr = true;
                    self.end_line(at);
                }
                _ => self.line.push(byte),
            }
        }
    }

    /// How many events have ended.
    pub fn seen(&self) -> usize {
        self.events.len()
    }

    /// The events so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How often an empty line followed comments alone: nothing to a careful decoder, an empty event
    /// to a sloppy one.
    pub fn bare_comments(&self) -> usize {
        self.bare_comments
    }

    fn end_line(&mut self, at: Instant) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            let open = std::mem::take(&mut self.open);
            // Comments alone make no event; they wait for the next one.
            if open.lines == open.comments.len() {
                self.bare_comments += usize::from(open.lines > 0);
                self.open.lines = open.lines;
                self.open.comments = open.comments;
                return;
            }
            self.events.push(Event {
                name: open.name,
                data_lines: open.data.len(),
                data: open.data.join("\n"),
                id: open.id,
                comments: open.comments,
                at,
            });
            return;
        }
        self.open.lines += 1;
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" => self.open.comments.push(value),
            "event" => self.open.name = value,
            "data" => self.open.data.push(value),
            "id" => self.open.id = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut_and_lines_end() {
        for end in ["\n", "\r\n", "\r"] {
            let text = format!(
                ": hello{end}event: a{end}data: 1{end}data: 2{end}{end}id: 7{end}data:{end}{end}data: lost"
            );
            for cut in 0..text.len() {
                let mut reader = EventReader::default();
                reader.push(&text.as_bytes()[..cut], clock::now());
                reader.push(&text.as_bytes()[cut..], clock::now());
                let seen: Vec<_> = reader
                    .events()
                    .iter()
                    .map(|e| (e.name.as_str(), e.data.as_str(), e.id.as_deref()))
                    .collect();
                assert_eq!(seen, [("a", "1\n2", None), ("", "", Some("7"))]);
                assert_eq!(reader.events()[0].comments, ["hello"]);
            }
        }
    }
}
