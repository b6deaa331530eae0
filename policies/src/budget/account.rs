//! One budget: its terms, its window, and the two sums.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

use jiff::tz::TimeZone;

use super::window::{Span, Window};
use crate::ids::RequestId;
use crate::time::UnixTime;
use crate::units::{Money, MoneySum, Ratio, Tokens};

/// What a call costs, or may cost at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Money.
    pub money: Money,
    /// Tokens read and written.
    pub tokens: Tokens,
}

impl Amount {
    pub(super) fn not_negative(self) -> Self {
        Self {
            money: self.money.max(Money::ZERO),
            ..self
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let pico = self.money.pico().saturating_add(other.money.pico());
        Self {
            money: Money::from_pico(pico),
            tokens: self.tokens.plus(other.tokens),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        let pico = self.money.pico().saturating_sub(other.money.pico());
        Self {
            money: Money::from_pico(pico.max(0)),
            tokens: self.tokens.minus(other.tokens),
        }
    }
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Money.
    Money,
    /// Tokens read and written.
    Tokens,
}

/// A sum in a budget's measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Money.
    Money(MoneySum),
    /// Tokens.
    Tokens(Tokens),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Money(sum) => write!(f, "${sum}"),
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
        }
    }
}

/// What a budget allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How much; its kind is what the budget counts.
    pub limit: Quantity,
    /// In which time.
    pub window: Window,
    /// Whose calendar.
    pub zone: TimeZone,
    /// Shares of the limit at which people want to be told.
    pub soft: Vec<Ratio>,
}

impl Terms {
    /// What the budget counts.
    pub const fn measure(&self) -> Measure {
        match self.limit {
            Quantity::Money(_) => Measure::Money,
            Quantity::Tokens(_) => Measure::Tokens,
        }
    }

    fn limit(&self) -> i128 {
        match self.limit {
            Quantity::Money(sum) => sum.pico(),
            Quantity::Tokens(tokens) => i128::from(tokens.0),
        }
    }
}

/// How a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it allows in its window.
    pub limit: Quantity,
    /// What was spent in its window.
    pub spent: Quantity,
    /// What is promised to calls under way.
    pub reserved: Quantity,
    /// When it is empty again; `None` for one that is for life, or that rolls.
    pub resets_at: Option<UnixTime>,
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    terms: Terms,
    span: Option<Span>,
    spent: Spent,
    reserved: i128,
    /// When its reservations end at the latest.
    pub(super) expiries: BTreeSet<(UnixTime, RequestId)>,
}

#[derive(Clone, Debug)]
enum Spent {
    /// Since the window began.
    Fixed(i128),
    /// By steps of a sixtieth of the window: the number of the step and what was spent in it. One
    /// step more than the window is kept, so that nothing is forgotten too early.
    Rolling {
        step_ms: i64,
        steps: Vec<(i64, i128)>,
    },
}

const STEPS: i64 = 60;

impl Account {
    pub(super) fn new(terms: Terms, now: UnixTime) -> Self {
        let spent = match terms.window {
            Window::Rolling(length) => {
                let length = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
                Spent::Rolling {
                    step_ms: (length / STEPS).max(1),
                    steps: Vec::new(),
                }
            }
            _ => Spent::Fixed(0),
        };
        Self {
            span: terms.window.span(now, &terms.zone),
            terms,
            spent,
            reserved: 0,
            expiries: BTreeSet::new(),
        }
    }

    pub(super) fn change(&mut self, terms: Terms, now: UnixTime) {
        self.roll(now);
        let same_measure = self.terms.measure() == terms.measure();
        if same_measure && self.terms.window == terms.window {
            self.span = terms.window.span(now, &terms.zone);
            self.terms = terms;
        } else {
            let fresh = Self::new(terms, now);
            let reserved = if same_measure { self.reserved } else { 0 };
            let expiries = core::mem::take(&mut self.expiries);
            *self = Self {
                reserved,
                expiries,
                ..fresh
            };
        }
    }

    /// Moves on to the window of `now`, never back.
    pub(super) fn roll(&mut self, now: UnixTime) {
        if let Some(span) = self.span
            && now >= span.to
        {
            self.span = self.terms.window.span(now, &self.terms.zone);
            self.spent = Spent::Fixed(0);
        }
        if let Spent::Rolling { step_ms, steps } = &mut self.spent {
            let oldest = now.0.div_euclid(*step_ms) - STEPS - 1;
            steps.retain(|(step, _)| *step > oldest);
        }
    }

    pub(super) fn hold(&mut self, amount: Amount) {
        self.reserved = self.reserved.saturating_add(self.part(amount));
    }

    pub(super) fn let_go(&mut self, amount: Amount) {
        self.reserved = (self.reserved - self.part(amount)).max(0);
    }

    /// Books what was spent. Some: the highest soft threshold that it passed.
    pub(super) fn spend(&mut self, amount: Amount, now: UnixTime) -> Option<Ratio> {
        self.roll(now);
        let before = self.spent(now);
        let part = self.part(amount);
        match &mut self.spent {
            Spent::Fixed(spent) => *spent = spent.saturating_add(part),
            Spent::Rolling { step_ms, steps } => {
                let step = now.0.div_euclid(*step_ms);
                match steps.iter_mut().find(|(number, _)| *number == step) {
                    Some((_, spent)) => *spent = spent.saturating_add(part),
                    None => steps.push((step, part)),
                }
            }
        }
        let (after, limit) = (self.spent(now), self.terms.limit());
        let passed = |ratio: &&Ratio| {
            let at = ratio.of_pico(limit).unwrap_or(i128::MAX);
            before < at && at <= after
        };
        self.terms.soft.iter().filter(passed).max().copied()
    }

    pub(super) fn has_room(&self, amount: Amount, now: UnixTime) -> bool {
        let taken = self.spent(now).saturating_add(self.reserved);
        taken.saturating_add(self.part(amount)) <= self.terms.limit()
    }

    /// Whether it would have room if nothing were reserved.
    pub(super) fn would_have_room(&self, amount: Amount, now: UnixTime) -> bool {
        self.spent(now).saturating_add(self.part(amount)) <= self.terms.limit()
    }

    pub(super) fn left(&self, now: UnixTime) -> Quantity {
        let taken = self.spent(now).saturating_add(self.reserved);
        self.quantity((self.terms.limit() - taken).max(0))
    }

    pub(super) fn standing(&self, now: UnixTime) -> Standing {
        Standing {
            limit: self.terms.limit,
            spent: self.quantity(self.spent(now)),
            reserved: self.quantity(self.reserved),
            resets_at: self.span.map(|span| span.to),
        }
    }

    pub(super) fn is_empty(&self, now: UnixTime) -> bool {
        self.reserved == 0 && self.expiries.is_empty() && self.spent(now) == 0
    }

    pub(super) fn quantity_of(&self, amount: Amount) -> Quantity {
        self.quantity(self.part(amount))
    }

    fn spent(&self, now: UnixTime) -> i128 {
        match &self.spent {
            Spent::Fixed(spent) => *spent,
            Spent::Rolling { step_ms, steps } => {
                let oldest = now.0.div_euclid(*step_ms) - STEPS - 1;
                let live = steps.iter().filter(|(step, _)| *step > oldest);
                live.map(|(_, spent)| *spent).sum()
            }
        }
    }

    /// The part of an amount that this budget counts.
    fn part(&self, amount: Amount) -> i128 {
        match self.terms.measure() {
            Measure::Money => i128::from(amount.money.pico()),
            Measure::Tokens => i128::from(amount.tokens.0),
        }
    }

    fn quantity(&self, sum: i128) -> Quantity {
        match self.terms.measure() {
            Measure::Money => Quantity::Money(MoneySum::from_pico(sum)),
            Measure::Tokens => Quantity::Tokens(Tokens(u64::try_from(sum).unwrap_or_default())),
        }
    }
}
