//! The bench's numbers, brought to medians and a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

/// What is measured, in the order of the report: name, unit, and whether the direct way's value is
/// taken off to give what the proxy adds.
const ROWS: [(&str, &str, Shown); 15] = [
    ("chat p50", "µs", Shown::Added),
    ("chat p99", "µs", Shown::Added),
    ("chat cpu", "µs/request", Shown::Ratio),
    ("agent p50", "µs", Shown::Added),
    ("agent p99", "µs", Shown::Added),
    ("agent cpu", "µs/request", Shown::Ratio),
    ("stream first token p50", "µs", Shown::Added),
    ("stream lateness p50", "µs", Shown::Added),
    ("stream lateness p99", "µs", Shown::Added),
    ("stream cpu", "µs/event", Shown::Ratio),
    ("memory idle", "KiB", Shown::Plain),
    ("memory after load", "KiB", Shown::Plain),
    ("memory per idle stream", "KiB", Shown::Ratio),
    ("failed", "requests", Shown::Plain),
    ("broken streams", "streams", Shown::Plain),
];

/// The most resident memory of an idle gateway, in KiB: 30 MB.
const IDLE_KIB: f64 = 30e6 / 1024.0;

/// The most for each open and silent stream, in KiB: 60 KB.
const STREAM_KIB: f64 = 60e3 / 1024.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Added,
    Plain,
    Ratio,
}

/// Every measurement, by subject and name, one value a round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    subjects: Vec<&'static str>,
    values: BTreeMap<&'static str, BTreeMap<&'static str, Vec<f64>>>,
}

/// A bound and whether it holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// What is bounded.
    pub name: String,
    /// What was measured; `None` when it could not be.
    pub got: Option<f64>,
    /// The most that is allowed.
    pub most: f64,
}

impl Verdict {
    /// Whether it was measured and holds.
    pub fn holds(&self) -> bool {
        self.got.is_some_and(|got| got <= self.most)
    }
}

impl Report {
    /// A report on these, in this order.
    pub fn on(subjects: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            subjects: subjects.into_iter().collect(),
            values: BTreeMap::new(),
        }
    }

    /// Notes one round's value.
    pub fn note(&mut self, subject: &'static str, name: &'static str, value: f64) {
        if !self.subjects.contains(&subject) {
            self.subjects.push(subject);
        }
        self.values
            .entry(name)
            .or_default()
            .entry(subject)
            .or_default()
            .push(value);
    }

    /// The median over the rounds.
    pub fn median(&self, subject: &str, name: &str) -> Option<f64> {
        let mut values = self.values.get(name)?.get(subject)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        if values.len().is_multiple_of(2) {
            return values
                .get(middle.checked_sub(1)?)
                .map(|lower| f64::midpoint(*lower, upper));
        }
        Some(upper)
    }

    /// The gateway's processor time against nginx's, and its memory.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let ratio = |name| Verdict {
            name: format!("{name}: whippletree / nginx"),
            got: self.ratio("whippletree", name),
            most: 2.0,
        };
        let weight = |name, most| Verdict {
            name: format!("{name}: whippletree (KiB)"),
            got: self.median("whippletree", name),
            most,
        };
        vec![
            ratio("chat cpu"),
            ratio("agent cpu"),
            weight("memory idle", IDLE_KIB),
            weight("memory per idle stream", STREAM_KIB),
        ]
    }

    fn ratio(&self, subject: &str, name: &str) -> Option<f64> {
        let nginx = self.median("nginx", name)?;
        (nginx > 0.0).then_some(self.median(subject, name)? / nginx)
    }

    /// The table in Markdown: medians, what is added to the direct way, ratios to nginx.
    pub fn markdown(&self) -> String {
        let mut out = String::from("| measured |");
        for subject in &self.subjects {
            // Writing to a string cannot fail; so below.
            let _ = write!(out, " {subject} |");
        }
        out.push_str("\n|---|");
        out.push_str(&"---:|".repeat(self.subjects.len()));
        out.push('\n');
        for (name, unit, shown) in ROWS {
            if !self.values.contains_key(name) {
                continue;
            }
            let _ = write!(out, "| {name} ({unit}) |");
            for subject in &self.subjects {
                let _ = write!(out, " {} |", self.cell(subject, name, shown));
            }
            out.push('\n');
        }
        for verdict in self.verdicts() {
            let got = verdict
                .got
                .map_or("not measured".to_owned(), |got| format!("{got:.2}"));
            let word = if verdict.holds() { "pass" } else { "FAIL" };
            let _ = write!(
                out,
                "\n{word}: {} is {got}, at most {:.2} wanted",
                verdict.name, verdict.most
            );
        }
        out.push('\n');
        out
    }

    fn cell(&self, subject: &str, name: &str, shown: Shown) -> String {
        let Some(value) = self.median(subject, name) else {
            return "–".to_owned();
        };
        let beside = match shown {
            Shown::Plain => None,
            Shown::Ratio => self
                .ratio(subject, name)
                .map(|ratio| format!(" ({ratio:.2}×)")),
            Shown::Added => {
                let direct = self.median("direct", name).filter(|_| subject != "direct");
                direct.map(|direct| format!(" ({:+.0})", value - direct))
            }
        };
        format!("{value:.1}{}", beside.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_are_of_the_rounds() {
        let mut report = Report::default();
        for (nginx, ours) in [(10.0, 15.0), (12.0, 90.0), (10.0, 18.0)] {
            report.note("nginx", "chat cpu", nginx);
            report.note("whippletree", "chat cpu", ours);
        }
        assert_eq!(report.median("whippletree", "chat cpu"), Some(18.0));
        let verdicts = report.verdicts();
        assert_eq!(verdicts[0].got, Some(1.8));
        assert!(verdicts[0].holds() && !verdicts[1].holds());
        assert!(
            report
                .markdown()
                .contains("| chat cpu (µs/request) | 10.0 (1.00×) | 18.0 (1.80×) |")
        );
    }
}
