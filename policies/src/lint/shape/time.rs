//! Dates and times of day, in any usual notation.
//!
//! The text around a place is cut into numbers, words and marks; a small set of patterns over those
//! covers ISO 8601, the numeric orders of days and months, month names in ten languages, Chinese,
//! Japanese and Korean units, Chinese numerals, and digits of other scripts. A date and a time close
//! together are one moment.

use alloc::vec::Vec;
use core::ops::Range;

use super::calendar::{digit, is_beside_time, is_month, is_weekday, numeral};
use crate::lint::words::floor_boundary;

/// A date, a time of day, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Where it stands in the text.
    pub(crate) range: Range<usize>,
    /// It says at least the month or the day.
    pub(crate) date: bool,
    /// It says at least the hour.
    pub(crate) time: bool,
    /// It says the second.
    pub(crate) seconds: bool,
}

/// The moment that covers a place, if there is one.
pub(crate) fn moment_at(text: &str, place: &Range<usize>) -> Option<Moment> {
    const AROUND: usize = 64;
    let start = floor_boundary(text, place.start.saturating_sub(AROUND));
    let mut end = (place.end + AROUND).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    moments(text.get(start..end)?, start)
        .into_iter()
        .find(|moment| {
            moment.range.start < place.end.max(place.start + 1) && place.start < moment.range.end
        })
}

/// All moments in a text that begins at offset `base`.
pub(crate) fn moments(text: &str, base: usize) -> Vec<Moment> {
    let pieces = cut(text);
    let mut found: Vec<Moment> = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let rest = pieces.get(at..).unwrap_or_default();
        let here = date(rest)
            .map(|length| (length, true, false, false))
            .or_else(|| time(rest).map(|(length, seconds)| (length, false, true, seconds)));
        let Some((length, is_date, is_time, seconds)) = here else {
            at += 1;
            continue;
        };
        let start = rest.first().map_or(0, |piece| piece.range.start);
        let end = rest.get(length - 1).map_or(start, |piece| piece.range.end);
        let moment = Moment {
            range: base + start..base + end,
            date: is_date,
            time: is_time,
            seconds,
        };
        let between = found.last().map(|last| last.range.end - base..start);
        match (found.last_mut(), between) {
            (Some(last), Some(between))
                if (last.date != is_date || last.time != is_time)
                    && joins(text.get(between.clone()).unwrap_or_default()) =>
            {
                last.range.end = moment.range.end;
                last.date |= is_date;
                last.time |= is_time;
                last.seconds |= seconds;
            }
            _ => found.push(moment),
        }
        at += length;
    }
    found
}

/// Whether what stands between a date and a time makes one moment of them.
fn joins(between: &str) -> bool {
    between.len() <= 24
        && between
            .split(|c: char| !c.is_alphanumeric())
            .all(|word| word.is_empty() || is_beside_time(word) || is_weekday(word))
        && !between.contains('\n')
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece<'a> {
    what: What<'a>,
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What<'a> {
    Mark(char),
    Number {
        value: u64,
        digits: u32,
        chinese: bool,
    },
    Space,
    Word(&'a str),
}

/// Units that follow a number without space.
const UNITS: [char; 16] = [
    '年', '月', '日', '号', '號', '时', '時', '点', '點', '分', '秒', '년', '월', '일', '시', '분',
];

fn cut(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let mut end = at + character.len_utf8();
        let what = if let Some(first) = digit(character) {
            let (mut value, mut digits) = (u64::from(first), 1);
            while let Some((next, more)) =
                rest.peek().and_then(|(next, c)| Some((*next, digit(*c)?)))
            {
                value = value.saturating_mul(10).saturating_add(u64::from(more));
                digits += 1;
                end = next + rest.next().map_or(0, |(_, c)| c.len_utf8());
            }
            What::Number {
                value,
                digits,
                chinese: false,
            }
        } else if numeral(character).is_some() {
            let mut run = Vec::from([character]);
            while let Some((next, c)) = rest.peek().copied().filter(|(_, c)| numeral(*c).is_some())
            {
                run.push(c);
                end = next + c.len_utf8();
                rest.next();
            }
            What::Number {
                value: spoken(&run),
                digits: u32::try_from(run.len()).unwrap_or(u32::MAX),
                chinese: true,
            }
        } else if character.is_whitespace() {
            What::Space
        } else if character.is_alphabetic() && !UNITS.contains(&character) && character != '초' {
            while let Some((next, c)) = rest
                .peek()
                .copied()
                .filter(|(_, c)| c.is_alphabetic() && !UNITS.contains(c) && numeral(*c).is_none())
            {
                end = next + c.len_utf8();
                rest.next();
            }
            What::Word(text.get(at..end).unwrap_or_default())
        } else {
            What::Mark(character)
        };
        pieces.push(Piece {
            what,
            range: at..end,
        });
    }
    pieces
}

/// 二〇二六 is 2026, 十一 is 11, 三十 is 30.
fn spoken(run: &[char]) -> u64 {
    let has_ten = run.iter().any(|c| matches!(c, '十' | '廿'));
    run.iter()
        .fold(0, |value, c| match numeral(*c).unwrap_or(0) {
            ten @ (10 | 20) => {
                if value == 0 {
                    u64::from(ten)
                } else {
                    value * 10
                }
            }
            units if has_ten => value + u64::from(units),
            digit => value * 10 + u64::from(digit),
        })
}

/// Walks over pieces; each step is `None` once something else stands there.
#[derive(Clone, Copy)]
struct Walk<'p, 'a> {
    pieces: &'p [Piece<'a>],
    at: usize,
}

impl<'a> Walk<'_, 'a> {
    fn what(&self) -> Option<What<'a>> {
        self.pieces.get(self.at).map(|piece| piece.what)
    }

    fn number(&mut self, values: core::ops::RangeInclusive<u64>, most_digits: u32) -> Option<u64> {
        match self.what()? {
            What::Number { value, digits, .. }
                if values.contains(&value) && digits <= most_digits =>
            {
                self.at += 1;
                Some(value)
            }
            _ => None,
        }
    }

    fn year(&mut self) -> Option<u64> {
        match self.what()? {
            What::Number {
                value: value @ 1900..=2199,
                digits: 4,
                ..
            } => {
                self.at += 1;
                Some(value)
            }
            _ => None,
        }
    }

    fn mark(&mut self, marks: &[char]) -> Option<char> {
        match self.what()? {
            What::Mark(mark) if marks.contains(&mark) => {
                self.at += 1;
                Some(mark)
            }
            _ => None,
        }
    }

    fn word(&mut self, belongs: impl Fn(&str) -> bool) -> Option<()> {
        match self.what()? {
            What::Word(word) if belongs(word) => {
                self.at += 1;
                Some(())
            }
            _ => None,
        }
    }

    fn space(&mut self) {
        while self.what() == Some(What::Space) {
            self.at += 1;
        }
    }
}

/// How many pieces a date takes.
fn date(pieces: &[Piece<'_>]) -> Option<usize> {
    let start = Walk { pieces, at: 0 };
    year_first(start)
        .or_else(|| year_last(start))
        .or_else(|| units(start))
        .or_else(|| compact(start))
        .or_else(|| month_first(start))
        .or_else(|| day_first(start))
        .map(|walk| walk.at)
}

const SEPARATORS: [char; 3] = ['-', '/', '.'];

fn year_first<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    walk.year()?;
    let separator = walk.mark(&SEPARATORS)?;
    walk.number(1..=12, 2)?;
    walk.mark(&[separator])?;
    walk.number(1..=31, 2)?;
    Some(walk)
}

fn year_last<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    walk.number(1..=31, 2)?;
    let separator = walk.mark(&SEPARATORS)?;
    walk.number(1..=31, 2)?;
    walk.mark(&[separator])?;
    if separator == '/' && walk.number(0..=99, 2).is_some() {
        return Some(walk);
    }
    walk.year()?;
    Some(walk)
}

fn units<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    const YEAR: [char; 2] = ['年', '년'];
    const MONTH: [char; 2] = ['月', '월'];
    const DAY: [char; 4] = ['日', '号', '號', '일'];
    let first = walk.number(1..=9999, 4)?;
    walk.space();
    let mut last = None;
    if walk.mark(&YEAR).is_some() {
        last = Some(walk);
        walk.space();
        if walk.number(1..=12, 3).is_none() {
            return last.filter(|_| first > 100);
        }
        walk.space();
    } else if first > 12 {
        return None;
    }
    walk.mark(&MONTH).or_else(|| last.map(|_| ' '))?;
    last = last.or(Some(walk)).map(|_| walk);
    walk.space();
    if walk.number(1..=31, 3).is_some() {
        walk.space();
        if walk.mark(&DAY).is_some() {
            return Some(walk);
        }
    }
    last
}

/// 20261130, 202611301000, 20261130100001.
fn compact<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    let Some(What::Number {
        value,
        digits,
        chinese: false,
    }) = walk.what()
    else {
        return None;
    };
    let day = match digits {
        8 => value,
        12 => value / 10_000,
        14 => value / 1_000_000,
        _ => return None,
    };
    let (year, month, day) = (day / 10_000, day / 100 % 100, day % 100);
    walk.at += 1;
    ((1990..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day))
        .then_some(walk)
}

fn ordinal(word: &str) -> bool {
    ["st", "nd", "rd", "th", "er", "º", "ª"]
        .iter()
        .any(|end| word.eq_ignore_ascii_case(end))
}

fn month_first<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    walk.word(is_month)?;
    walk.mark(&['.']);
    walk.mark(&['-']);
    walk.space();
    walk.number(1..=31, 2)?;
    let mut with_ordinal = walk;
    if with_ordinal.word(ordinal).is_some() {
        walk = with_ordinal;
    }
    Some(then_year(walk))
}

fn day_first<'p, 'a>(mut walk: Walk<'p, 'a>) -> Option<Walk<'p, 'a>> {
    walk.number(1..=31, 2)?;
    walk.word(ordinal);
    walk.mark(&['.', '-']);
    walk.space();
    if walk
        .word(|word| matches!(word, "de" | "of" | "do"))
        .is_some()
    {
        walk.space();
    }
    walk.word(is_month)?;
    Some(then_year(walk))
}

/// A year after a month, if there is one.
fn then_year<'p, 'a>(walk: Walk<'p, 'a>) -> Walk<'p, 'a> {
    let mut ahead = walk;
    ahead.mark(&[',', '.', '-']);
    ahead.space();
    if ahead
        .word(|word| matches!(word, "de" | "г" | "del"))
        .is_some()
    {
        ahead.space();
    }
    if ahead.year().is_some() { ahead } else { walk }
}

/// How many pieces a time of day takes, and whether it says the second.
fn time(pieces: &[Piece<'_>]) -> Option<(usize, bool)> {
    let start = Walk { pieces, at: 0 };
    colons(start)
        .or_else(|| spoken_time(start))
        .or_else(|| half_day(start))
        .or_else(|| compact_time(start))
}

fn colons(mut walk: Walk<'_, '_>) -> Option<(usize, bool)> {
    walk.number(0..=24, 2)?;
    walk.mark(&[':', '：'])?;
    let two = |walk: &mut Walk<'_, '_>| match walk.what()? {
        What::Number {
            value: 0..=60,
            digits: 2,
            ..
        } => {
            walk.at += 1;
            Some(())
        }
        _ => None,
    };
    two(&mut walk)?;
    let mut ahead = walk;
    let mut seconds = false;
    if ahead.mark(&[':', '：']).is_some() && two(&mut ahead).is_some() {
        walk = ahead;
        seconds = true;
        if ahead.mark(&['.', ',']).is_some() && ahead.number(0..=u64::MAX, 9).is_some() {
            walk = ahead;
        }
    }
    let mut ahead = walk;
    ahead.space();
    if ahead
        .word(|word| word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm"))
        .is_some()
        || (walk.at == ahead.at && ahead.word(|word| word == "Z").is_some())
    {
        walk = ahead;
    }
    let mut ahead = walk;
    if ahead.mark(&['+', '-']).is_some() && ahead.number(0..=1400, 4).is_some() {
        walk = ahead;
        if ahead.mark(&[':']).is_some() && ahead.number(0..=59, 2).is_some() {
            walk = ahead;
        }
    }
    Some((walk.at, seconds))
}

/// 10时00分01秒, 10点05分, 10시 5분, 10h05, 10 Uhr.
fn spoken_time(mut walk: Walk<'_, '_>) -> Option<(usize, bool)> {
    const HOUR: [char; 5] = ['时', '時', '点', '點', '시'];
    walk.number(0..=24, 2)?;
    let mut named = walk;
    named.space();
    let spoken = named.word(|word| word == "h" || word.eq_ignore_ascii_case("uhr"));
    if walk.mark(&HOUR).is_none() {
        spoken?;
        walk = named;
    }
    let mut last = walk;
    walk.space();
    let mut seconds = false;
    if walk.number(0..=59, 3).is_some() {
        last = walk;
        walk.space();
        if walk.mark(&['分', '분']).is_some() {
            last = walk;
            walk.space();
            if walk.number(0..=59, 3).is_some() && walk.mark(&['秒', '초']).is_some() {
                last = walk;
                seconds = true;
            }
        }
    }
    Some((last.at, seconds))
}

/// T100001, after a compact date.
fn compact_time(mut walk: Walk<'_, '_>) -> Option<(usize, bool)> {
    walk.word(|word| word == "T")?;
    walk.number(0..=235_959, 6)?;
    Some((walk.at, true))
}

/// 10 pm.
fn half_day(mut walk: Walk<'_, '_>) -> Option<(usize, bool)> {
    walk.number(1..=12, 2)?;
    walk.space();
    walk.word(|word| word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm"))?;
    Some((walk.at, false))
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
