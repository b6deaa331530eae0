//! Budgets: what may be spent, what was, and what is promised to calls under way.
//!
//! Problem: calls run side by side and tell their price only at the end, so a check of what was
//! spent lets any number of them through at once. Idea: before a call is sent, the most it can cost
//! is reserved in every account it touches, in all or in none; at its end the real cost is settled
//! and the rest released. So `spent + reserved ≤ limit` holds in every account at every instant, as
//! long as no call costs more than was reserved for it. One that does is booked in full all the same
//! (the money is gone), and told as [`Settled::excess`].
//!
//! A reservation whose call never reports back expires and is charged in full: money is never lost
//! in silence. When a window ends, what was spent in it is forgotten and what is reserved stays
//! reserved, to be settled in the window that is open by then.
//!
//! Time is the wall clock. Windows only ever move forward, so a clock set back opens nothing twice.
//!
//! This is the specification that every store of budgets is tested against.

mod account;
mod window;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use self::account::Account;
pub use self::account::{Amount, Measure, Quantity, Standing, Terms};
pub use self::window::{Span, Window};
use crate::ids::RequestId;
use crate::time::UnixTime;
use crate::units::{Money, Ratio, Tokens};

/// The name of an account: a budget, and whose it is where it is one of many.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(Arc<str>);

impl AccountId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for AccountId {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All accounts, and what is reserved in them.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_id: BTreeMap<AccountId, Account>,
    reservations: BTreeMap<RequestId, Reservation>,
    expiries: BTreeSet<(UnixTime, RequestId)>,
}

#[derive(Clone, Debug)]
struct Reservation {
    accounts: Vec<AccountId>,
    amount: Amount,
    expires: UnixTime,
}

/// What a settlement did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// By how much the call cost more than was reserved for it; zero unless an estimate was wrong.
    pub excess: Amount,
    /// Thresholds that were passed.
    pub crossed: Vec<Crossed>,
}

/// A soft threshold that spending has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// In this account.
    pub account: AccountId,
    /// The highest one passed, as a share of the limit.
    pub threshold: Ratio,
}

/// Why a reservation was refused. Nothing was reserved then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no reservation to extend: it was settled, released or has expired.
    #[error("request {0} holds no reservation")]
    NoReservation(RequestId),
    /// No such account was opened.
    #[error("there is no budget \"{0}\"")]
    NoAccount(AccountId),
    /// An account has not enough left.
    #[error(transparent)]
    OverBudget(Box<OverBudget>),
}

/// An account has not enough left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "budget \"{account}\": {wanted} wanted, {} of {} spent and {} reserved",
    standing.spent, standing.limit, standing.reserved
)]
pub struct OverBudget {
    /// Which.
    pub account: AccountId,
    /// What the call may cost at most, in the account's measure.
    pub wanted: Quantity,
    /// How the account stands.
    pub standing: Standing,
    /// Where only reservations stand in the way: when the next of them ends at the latest.
    pub next_release: Option<UnixTime>,
}

/// There is no such reservation: it was settled, released or has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request {0} holds no reservation")]
pub struct NoReservation(pub RequestId);

/// What several accounts together leave for one call; `None` where none of them has this measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affordable {
    /// Money.
    pub money: Option<Money>,
    /// Tokens.
    pub tokens: Option<Tokens>,
}

impl Accounts {
    /// No accounts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an account, or changes the terms of one. What is spent and reserved stays, unless the
    /// measure or the window changes: then nothing is spent yet.
    pub fn open(&mut self, id: &AccountId, terms: Terms, now: UnixTime) {
        match self.by_id.get_mut(id) {
            Some(account) => account.change(terms, now),
            None => {
                self.by_id.insert(id.clone(), Account::new(terms, now));
            }
        }
    }

    /// Reserves an amount in all these accounts, or in none. A repeated call for the same request
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal::OverBudget`] names the first account that has not enough left;
    /// [`Refusal::NoAccount`] one that was never opened.
    pub fn reserve(
        &mut self,
        request: RequestId,
        accounts: &[AccountId],
        amount: Amount,
        expires: UnixTime,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        if self.reservations.contains_key(&request) {
            return Ok(());
        }
        let mut accounts = accounts.to_vec();
        accounts.sort_unstable();
        accounts.dedup();
        let amount = amount.not_negative();
        self.check(&accounts, amount, now)?;
        for id in &accounts {
            if let Some(account) = self.by_id.get_mut(id) {
                account.hold(amount);
                account.expiries.insert((expires, request));
            }
        }
        self.expiries.insert((expires, request));
        let reservation = Reservation {
            accounts,
            amount,
            expires,
        };
        self.reservations.insert(request, reservation);
        Ok(())
    }

    /// Reserves more for a request, before a further attempt.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`]; the reservation is then as it was. [`Refusal::NoReservation`] when
    /// there is none.
    pub fn extend(
        &mut self,
        request: RequestId,
        more: Amount,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let more = more.not_negative();
        let Some(reservation) = self.reservations.get(&request) else {
            return Err(Refusal::NoReservation(request));
        };
        let accounts = reservation.accounts.clone();
        self.check(&accounts, more, now)?;
        for id in &accounts {
            if let Some(account) = self.by_id.get_mut(id) {
                account.hold(more);
            }
        }
        if let Some(reservation) = self.reservations.get_mut(&request) {
            reservation.amount = reservation.amount.plus(more);
        }
        Ok(())
    }

    /// Ends a reservation with what the request really cost.
    ///
    /// # Errors
    ///
    /// [`NoReservation`] when it has ended before; nothing is charged twice.
    pub fn settle(
        &mut self,
        request: RequestId,
        used: Amount,
        now: UnixTime,
    ) -> Result<Settled, NoReservation> {
        let reservation = self.reservations.remove(&request);
        let reservation = reservation.ok_or(NoReservation(request))?;
        let expiry = (reservation.expires, request);
        self.expiries.remove(&expiry);
        let used = used.not_negative();
        let mut settled = Settled {
            excess: used.minus(reservation.amount),
            crossed: Vec::new(),
        };
        for id in reservation.accounts {
            if let Some(account) = self.by_id.get_mut(&id) {
                account.expiries.remove(&expiry);
                account.let_go(reservation.amount);
                if let Some(threshold) = account.spend(used, now) {
                    let account = id;
                    settled.crossed.push(Crossed { account, threshold });
                }
            }
        }
        Ok(settled)
    }

    /// Ends a reservation of a request that was never sent.
    ///
    /// # Errors
    ///
    /// [`NoReservation`] when it has ended before.
    pub fn release(&mut self, request: RequestId, now: UnixTime) -> Result<(), NoReservation> {
        self.settle(request, Amount::default(), now).map(|_| ())
    }

    /// Charges in full what should have been settled by now.
    pub fn expire(&mut self, now: UnixTime) -> Vec<(RequestId, Settled)> {
        let mut expired = Vec::new();
        while let Some((expires, request)) = self.expiries.first().copied()
            && expires <= now
        {
            self.expiries.remove(&(expires, request));
            let reserved = self.reservations.get(&request).map(|r| r.amount);
            if let Some(amount) = reserved
                && let Ok(settled) = self.settle(request, amount, now)
            {
                expired.push((request, settled));
            }
        }
        expired
    }

    /// Books an amount that was not reserved: from the ledger at start-up, or to set something
    /// right. A negative amount gives back.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoAccount`] for an account that was never opened; nothing was booked then.
    pub fn adjust(
        &mut self,
        accounts: &[AccountId],
        amount: Amount,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        let missing = accounts.iter().find(|id| !self.by_id.contains_key(id));
        if let Some(id) = missing {
            return Err(Refusal::NoAccount(id.clone()));
        }
        for id in accounts {
            if let Some(account) = self.by_id.get_mut(id) {
                account.spend(amount, now);
            }
        }
        Ok(())
    }

    /// How an account stands; `None` for one that was never opened.
    pub fn standing(&mut self, id: &AccountId, now: UnixTime) -> Option<Standing> {
        let account = self.by_id.get_mut(id)?;
        account.roll(now);
        Some(account.standing(now))
    }

    /// What all these accounts together leave for one call: how far its output can be clamped.
    pub fn affordable(&mut self, accounts: &[AccountId], now: UnixTime) -> Affordable {
        let mut least = Affordable::default();
        for id in accounts {
            let Some(account) = self.by_id.get_mut(id) else {
                continue;
            };
            account.roll(now);
            match account.left(now) {
                Quantity::Money(left) => {
                    let pico = i64::try_from(left.pico()).unwrap_or(i64::MAX);
                    let left = Money::from_pico(pico);
                    least.money = Some(least.money.map_or(left, |money| money.min(left)));
                }
                Quantity::Tokens(left) => {
                    least.tokens = Some(least.tokens.map_or(left, |tokens| tokens.min(left)));
                }
            }
        }
        least
    }

    /// Forgets accounts in which nothing is spent or reserved, so that accounts per user or task do
    /// not pile up. They may be opened again.
    pub fn forget_empty(&mut self, now: UnixTime) {
        self.by_id.retain(|_, account| {
            account.roll(now);
            !account.is_empty(now)
        });
    }

    fn check(
        &mut self,
        accounts: &[AccountId],
        amount: Amount,
        now: UnixTime,
    ) -> Result<(), Refusal> {
        for id in accounts {
            let Some(account) = self.by_id.get_mut(id) else {
                return Err(Refusal::NoAccount(id.clone()));
            };
            account.roll(now);
            if !account.has_room(amount, now) {
                let next = account.expiries.first().map(|(expires, _)| *expires);
                return Err(Refusal::OverBudget(Box::new(OverBudget {
                    account: id.clone(),
                    wanted: account.quantity_of(amount),
                    standing: account.standing(now),
                    next_release: next.filter(|_| account.would_have_room(amount, now)),
                })));
            }
        }
        Ok(())
    }
}
