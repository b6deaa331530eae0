//! Faults as people read them, and as programs do.
//!
//! A rendered fault shows the line that it is about, and a line may hold a secret. So literals that
//! stand where a secret belongs, values of unknown keys, and whatever looks like a credential are
//! blotted out before anything is rendered.

use std::fmt;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use super::document::Document;
use super::fault::{Fault, Path, Severity};

/// All faults of one file.
#[derive(Clone, Debug, Default)]
pub struct Report {
    document: Document,
    faults: Vec<Fault>,
}

/// One fault as programs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// How grave it is.
    pub severity: Severity,
    /// The file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The key that it is about.
    pub path: Path,
    /// What is wrong.
    pub message: String,
    /// What was expected.
    pub expected: Option<String>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Report {
    /// The faults of a document.
    pub fn new(mut document: Document, faults: Vec<Fault>) -> Self {
        document.text = blot_out(&document.text, &document.hidden);
        Self { document, faults }
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults, in the order of the file.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The faults as programs read them.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |fault: &Fault| {
            let (line, column) = self.document.line_and_column(fault.span.start);
            Entry {
                severity: fault.severity,
                file: self.document.name.clone(),
                line,
                column,
                path: fault.path.clone(),
                message: fault.message.clone(),
                expected: fault.expected.clone(),
                help: fault.help.clone(),
            }
        };
        self.faults.iter().map(entry).collect()
    }

    /// The faults with the lines they are about, in colours for a terminal.
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled().decor_style(DecorStyle::Ascii))
    }

    fn render(&self, renderer: &Renderer) -> String {
        let rendered: Vec<_> = self
            .faults
            .iter()
            .map(|fault| renderer.render(&[self.group(fault)]))
            .collect();
        rendered.join("\n\n")
    }

    fn group<'a>(&'a self, fault: &'a Fault) -> Group<'a> {
        let level = match fault.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut snippet = Snippet::source(self.document.text.as_str())
            .path(self.document.name.as_str())
            .annotation(
                AnnotationKind::Primary
                    .span(self.clamp(&fault.span))
                    .label(fault.expected.as_deref()),
            );
        if let Some((span, label)) = &fault.related {
            snippet =
                snippet.annotation(AnnotationKind::Context.span(self.clamp(span)).label(*label));
        }
        let group = level.primary_title(fault.message.as_str()).element(snippet);
        match &fault.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }
    }

    /// A span that lies within the text, on the boundaries of characters.
    fn clamp(&self, span: &Range<usize>) -> Range<usize> {
        let text = &self.document.text;
        let boundary = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = boundary(span.start);
        start..boundary(span.end).max(start)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain().decor_style(DecorStyle::Ascii)))
    }
}

impl std::error::Error for Report {}

/// The text with secrets made into asterisks, each byte for a byte, so that places stay.
fn blot_out(text: &str, hidden: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let looks_secret = runs(text).filter(|run| text.get(run.clone()).is_some_and(is_credential));
    for span in hidden.iter().cloned().chain(looks_secret) {
        // The quotes at a literal's ends stay, and line ends within it.
        for byte in bytes.get_mut(span).unwrap_or_default() {
            if !matches!(byte, b'"' | b'\'' | b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Runs of characters that credentials are made of.
fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'=');
    let mut at = 0;
    text.as_bytes()
        .chunk_by(move |a, b| part(*a) == part(*b))
        .map(move |run| {
            let start = at;
            at += run.len();
            start..at
        })
}

/// Whether a run of characters looks like a credential: long, letters of both cases and digits; or
/// a well-known prefix.
fn is_credential(run: &str) -> bool {
    let has = |what: fn(&u8) -> bool| run.as_bytes().iter().any(what);
    let mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let known = ["sk-", "gsk_", "xai-", "AIza", "sk_"];
    (run.len() >= 20 && mixed) || (run.len() >= 12 && known.iter().any(|p| run.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blotted_out_byte_for_byte() {
        let text = "a = \"hunter2\"\nb = \"sk-proj-abcdefghijkl\"\nc = \"é\"\n";
        let literal = text.find("\"hunter2\"").unwrap()..text.find("\nb").unwrap();
        let blotted = blot_out(text, std::slice::from_ref(&literal));
        assert_eq!(blotted.len(), text.len());
        assert_eq!(
            blotted,
            "a = \"*******\"\nb = \"********************\"\nc = \"é\"\n"
        );
    }

    #[test]
    fn names_that_people_read_are_no_credentials() {
        for name in [
            "WHIPPLETREE_ADMIN_TOKEN_2",
            "claude-sonnet-5-5-20260101",
            "requests_per_minute_per_user",
        ] {
            assert!(!is_credential(name), "{name}");
        }
        assert!(is_credential("sk-ant-api03-abcdef"));
        assert!(is_credential("Zm9vYmFyMTIzNDU2Nzg5MA"));
    }
}
