//! Findings as a compiler would print them.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use whippletree_policies::lint::{Scope, Severity, Window};
use whippletree_policies::units::{Money, Tokens};

use super::judge::{Cause, Judged};

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For a terminal.
    Styled,
    /// For a file.
    Plain,
}

/// One cause.
pub fn cause(cause: &Cause, file: &str, colour: Colour) -> String {
    let finding = &cause.finding;
    let place = place(cause, file);
    let before = finding.before.as_ref().zip(cause.previous);
    let labels = Labels::of(cause);
    let spent = spent(cause);
    let help = format!(
        "{}; see `whippletree lint --explain {}`",
        finding.rule.help, finding.rule.code
    );
    let level = match finding.severity {
        Severity::Advice => Level::NOTE.with_name("advice"),
        Severity::Warning => Level::WARNING,
        Severity::Error => Level::ERROR,
    };
    let title = level
        .primary_title(finding.rule.summary)
        .id(finding.rule.code);
    // Two calls in a row are two lines.
    let both = Lines::of(cause);
    let mut group: Group<'_> = title.element(Origin::path(place.as_str()));
    if let Some(lines) = &both {
        group = group.element(lines.snippet(&labels));
    } else {
        if let Some((window, call)) = before {
            group = group.element(snippet(
                window,
                call,
                AnnotationKind::Context,
                &labels.before,
            ));
        }
        if let Some(window) = &finding.after {
            group = group.element(snippet(
                window,
                cause.request,
                AnnotationKind::Primary,
                &labels.after,
            ));
        }
    }
    if finding.after.is_none() {
        group = group.element(Level::NOTE.message(finding.message.as_str()));
    }
    if let Some(spent) = &spent {
        group = group.element(Level::NOTE.with_name("cost").message(spent.as_str()));
    }
    let allowed = cause
        .allowed
        .as_ref()
        .map(|reason| format!("allowed: {reason}"));
    if let Some(allowed) = &allowed {
        group = group.element(Level::NOTE.message(allowed.as_str()));
    }
    let group = group.element(Level::HELP.message(help.as_str()));
    let renderer = match colour {
        Colour::Plain => Renderer::plain(),
        Colour::Styled => Renderer::styled(),
    };
    let rendered = renderer.decor_style(DecorStyle::Ascii).render(&[group]);
    // Snippets without a path of their own are announced by an empty one.
    let lines = rendered
        .lines()
        .filter(|line| visible(line).trim() != ":::");
    lines.collect::<Vec<_>>().join("\n")
}

/// A line without the escapes that colour it.
fn visible(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('m').map_or(part, |(_, text)| text));
    first + &rest.collect::<String>()
}

/// The text of two calls, one a line, numbered as the calls are.
struct Lines {
    text: String,
    first: usize,
    before: Range<usize>,
    after: Range<usize>,
}

impl Lines {
    fn of(cause: &Cause) -> Option<Self> {
        let (before, after) = (
            cause.finding.before.as_ref()?,
            cause.finding.after.as_ref()?,
        );
        let first = cause
            .previous
            .filter(|previous| previous + 1 == cause.request)?;
        let second = before.text.len() + 1;
        let after_bytes = bytes(after);
        Some(Self {
            text: format!("{}\n{}", before.text, after.text),
            first,
            before: bytes(before),
            after: second + after_bytes.start..second + after_bytes.end,
        })
    }

    fn snippet<'a>(&'a self, labels: &'a Labels) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        Snippet::source(self.text.as_str())
            .line_start(self.first)
            .annotation(
                AnnotationKind::Context
                    .span(self.before.clone())
                    .label(&labels.before),
            )
            .annotation(
                AnnotationKind::Primary
                    .span(self.after.clone())
                    .label(&labels.after),
            )
    }
}

struct Labels {
    before: String,
    after: String,
}

impl Labels {
    fn of(cause: &Cause) -> Self {
        let finding = &cause.finding;
        let call = |number: usize| format!("call {number}");
        Self {
            before: cause.previous.map(call).unwrap_or_default(),
            after: format!("{}: {}", call(cause.request), finding.message),
        }
    }
}

fn place(cause: &Cause, file: &str) -> String {
    let finding = &cause.finding;
    let byte = finding
        .spot
        .offset
        .map(|at| format!(", byte {at}"))
        .unwrap_or_default();
    format!(
        "{file}:{}: call {}, {}{byte}",
        cause.line, cause.request, finding.spot.path
    )
}

fn snippet<'a>(
    window: &'a Window,
    call: usize,
    kind: AnnotationKind,
    label: &'a str,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    Snippet::source(window.text.as_str())
        .line_start(call)
        .annotation(kind.span(bytes(window)).label(label))
}

/// The marked characters as bytes.
fn bytes(window: &Window) -> Range<usize> {
    let offset = |character: usize| {
        let mut places = window.text.char_indices().map(|(at, _)| at);
        places.nth(character).unwrap_or(window.text.len())
    };
    let start = offset(window.from);
    start..offset(window.to).max(start)
}

/// What a cause cost, in one sentence.
fn spent(cause: &Cause) -> Option<String> {
    let times = cause.requests.len();
    let calls = if times == 1 {
        "1 call".to_owned()
    } else {
        format!("{times} calls")
    };
    let across = if cause.finding.scope == Scope::Across {
        ", between conversations"
    } else {
        ""
    };
    if cause.lost_tokens == Tokens::ZERO {
        return (times > 1).then(|| format!("seen in {calls}{across}"));
    }
    let money = cause
        .lost_usd
        .map(|lost| format!(", {}", dollars(lost)))
        .unwrap_or_default();
    let tokens = grouped(cause.lost_tokens.0);
    Some(format!(
        "{tokens} tokens not read from the cache in {calls}{across}{money}"
    ))
}

/// `$0.0041`: two significant digits below a cent, cents above.
pub fn dollars(money: Money) -> String {
    const CENT: i64 = 10_000_000_000;
    let pico = money.pico();
    if pico >= CENT {
        let cents = (pico + CENT / 2) / CENT;
        return format!("${}.{:02}", cents / 100, cents % 100);
    }
    let micro = (pico + 500_000) / 1_000_000;
    format!("${}.{:06}", micro / 1_000_000, micro % 1_000_000)
        .trim_end_matches('0')
        .to_owned()
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The last line.
pub fn summary(judged: &Judged) -> String {
    let count = |severity: Severity, noun: &str| {
        let shown = judged
            .causes
            .iter()
            .filter(|cause| cause.finding.severity == severity && cause.allowed.is_none());
        let new = shown.filter(|cause| !cause.known).count();
        (new > 0).then(|| plural(new, noun))
    };
    let found: Vec<String> = [
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let found = if found.is_empty() {
        "no findings".to_owned()
    } else {
        found.join(", ")
    };
    let advice = count(Severity::Advice, "advice")
        .map(|text| format!(", {}", text.replace("advices", "advice")))
        .unwrap_or_default();
    let lost: i128 = judged
        .causes
        .iter()
        .filter(|cause| cause.allowed.is_none())
        .filter_map(|cause| cause.lost_usd)
        .map(|lost| i128::from(lost.pico()))
        .sum();
    let money = i64::try_from(lost)
        .ok()
        .filter(|pico| *pico > 0)
        .map(|pico| format!("; lost {}", dollars(Money::from_pico(pico))))
        .unwrap_or_default();
    let hundred = judged.expected_cached.0.saturating_mul(100);
    let share = hundred.checked_div(judged.tokens.0).unwrap_or(0);
    format!(
        "{found}{advice} in {}, {}; {share} % of {} tokens should come from the cache{money}",
        plural(judged.requests, "request"),
        plural(judged.conversations, "conversation"),
        grouped(judged.tokens.0),
    )
}

fn plural(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}
