//! How the story is told: as text for a person, or as JSON lines for a program.
//!
//! Each teller of the story says both forms at the same place, and the page prints the one that was
//! asked for. Text is at most [`WIDTH`] columns wide and coloured only at a terminal.

use std::io::{self, IsTerminal as _};

use serde_json::{Value, json};

use super::say;

/// Columns of text.
const WIDTH: usize = 100;

/// What stands to the left of everything below a title.
const INDENT: &str = "   ";

/// Where the story goes.
#[derive(Debug)]
pub(super) struct Page {
    json: bool,
    colour: bool,
    act: u8,
}

/// How a table's column stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    /// Text.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
}

/// The colour of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It went well.
    Well,
    /// It failed.
    Ill,
    /// Neither.
    Plain,
}

/// A row of a table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) mood: Mood,
}

#[derive(Clone, Copy, Debug)]
enum Ink {
    Bold,
    Faint,
    Green,
    Yellow,
}

impl Page {
    pub(super) const fn json() -> Self {
        Self {
            json: true,
            colour: false,
            act: 0,
        }
    }

    pub(super) fn text() -> Self {
        Self {
            json: false,
            colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            act: 0,
        }
    }

    /// Begins an act.
    pub(super) fn act(&mut self, title: &str, about: &str) -> anyhow::Result<()> {
        self.act = self.act.saturating_add(1);
        self.title(&format!("{}  {title}", self.act))?;
        self.text_line(about)
    }

    pub(super) fn title(&self, title: &str) -> anyhow::Result<()> {
        self.blank()?;
        self.print(&self.inked(Ink::Bold, title))
    }

    /// A paragraph of the story.
    pub(super) fn text_line(&self, text: &str) -> anyhow::Result<()> {
        for line in wrap(text, WIDTH - INDENT.len()) {
            self.print(&format!("{INDENT}{line}"))?;
        }
        Ok(())
    }

    /// The same, behind an empty line: something new begins.
    pub(super) fn scene(&self, text: &str) -> anyhow::Result<()> {
        self.blank()?;
        self.text_line(text)
    }

    /// What must not be overlooked.
    pub(super) fn note(&self, text: &str) -> anyhow::Result<()> {
        for line in wrap(text, WIDTH - INDENT.len()) {
            self.print(&self.inked(Ink::Yellow, &format!("{INDENT}{line}")))?;
        }
        Ok(())
    }

    pub(super) fn entry(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let name = self.inked(Ink::Faint, &format!("{name:10}"));
        self.print(&format!("{INDENT}{name}{value}"))
    }

    pub(super) fn blank(&self) -> anyhow::Result<()> {
        self.print("")
    }

    /// Text as it is.
    pub(super) fn verbatim(&self, text: &str) -> anyhow::Result<()> {
        self.print(text.trim_end_matches('\n'))
    }

    pub(super) fn table(&self, columns: &[Column], rows: &[Row]) -> anyhow::Result<()> {
        let names: Vec<String> = columns
            .iter()
            .map(|(Column::Left(name) | Column::Right(name))| (*name).to_owned())
            .collect();
        let widths: Vec<usize> = names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let cells = rows.iter().filter_map(|row| row.cells.get(index));
                cells.chain([name]).map(|c| c.chars().count()).max()
            })
            .map(Option::unwrap_or_default)
            .collect();
        let line = |cells: &[String]| {
            let cells = cells.iter().zip(columns).zip(&widths);
            let padded: Vec<_> = cells
                .map(|((cell, column), &width)| match column {
                    Column::Left(_) => format!("{cell:<width$}"),
                    Column::Right(_) => format!("{cell:>width$}"),
                })
                .collect();
            format!("{INDENT}  {}", padded.join("  "))
                .trim_end()
                .to_owned()
        };
        self.print(&self.inked(Ink::Faint, &line(&names)))?;
        for row in rows {
            let text = line(&row.cells);
            self.print(&match row.mood {
                Mood::Ill => self.inked(Ink::Yellow, &text),
                Mood::Plain => text,
                Mood::Well => self.inked(Ink::Green, &text),
            })?;
        }
        Ok(())
    }

    /// The same for a program: an object with what is told.
    pub(super) fn fact(&self, name: &str, value: Value) -> anyhow::Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut line = json!({ "fact": name });
        if let (Value::Object(line), Value::Object(value)) = (&mut line, value) {
            if self.act > 0 {
                line.insert("act".to_owned(), self.act.into());
            }
            line.extend(value);
        }
        say(line)
    }

    fn print(&self, line: &str) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { say(line) }
    }

    fn inked(&self, ink: Ink, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Bold => 1,
            Ink::Faint => 2,
            Ink::Green => 32,
            Ink::Yellow => 33,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Lines of whole words, each at most `width` columns unless one word is longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A count with its thousands apart.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("indivisible a", 4), ["indivisible", "a"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0, 12, 999, 1000, 1_234_567].map(count),
            ["0", "12", "999", "1,000", "1,234,567"]
        );
    }
}
