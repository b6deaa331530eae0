//! Budgets: what holds at every instant, for any order of what calls do.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test may panic as the test itself may"
)]

use std::time::Duration;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use whippletree_policies::budget::{
    AccountId, Accounts, Amount, OverBudget, Quantity, Refusal, Terms, Window,
};
use whippletree_policies::ids::RequestId;
use whippletree_policies::time::UnixTime;
use whippletree_policies::units::{Money, MoneySum, Ratio, Tokens};

const HOUR: i64 = 3_600_000;

fn id(name: &str) -> AccountId {
    AccountId::from(name)
}

fn request(n: u64) -> RequestId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    RequestId(bytes)
}

const fn dollars(cents: i64) -> Amount {
    Amount {
        money: Money::from_pico(cents * 10_000_000_000),
        tokens: Tokens(0),
    }
}

fn money(cents: i64, window: Window) -> Terms {
    Terms {
        limit: Quantity::Money(MoneySum::from_pico(i128::from(cents) * 10_000_000_000)),
        window,
        zone: TimeZone::UTC,
        soft: vec!["0.5".parse().unwrap(), "0.8".parse().unwrap()],
    }
}

fn over(refusal: Refusal) -> OverBudget {
    match refusal {
        Refusal::OverBudget(over) => *over,
        other => panic!("expected to be over budget, not {other:?}"),
    }
}

const NOON: UnixTime = UnixTime(1_796_040_000_000);

const fn at(ms: i64) -> UnixTime {
    UnixTime(NOON.0 + ms)
}

/// <https://github.com/candelahq/candela/issues/634>: a dollar left, forty cents at
/// most for each of fifty requests at once.
#[test]
fn c121_only_as_many_are_admitted_as_can_be_paid_at_worst() {
    let mut accounts = Accounts::new();
    accounts.open(&id("month"), money(100, Window::Month), NOON);
    let admitted = (0..50)
        .filter(|n| {
            let (worst, expires) = (dollars(40), at(HOUR));
            accounts
                .reserve(request(*n), &[id("month")], worst, expires, NOON)
                .is_ok()
        })
        .count();
    assert_eq!(admitted, 2);
}

#[test]
fn a_request_fits_in_all_its_budgets_or_in_none() {
    let mut accounts = Accounts::new();
    accounts.open(&id("tenant"), money(100, Window::Month), NOON);
    accounts.open(&id("task"), money(10, Window::Lifetime), NOON);
    let both = [id("tenant"), id("task")];
    let refusal = accounts.reserve(request(1), &both, dollars(20), at(HOUR), NOON);
    let over = over(refusal.unwrap_err());
    assert_eq!(over.account, id("task"));
    assert_eq!(over.next_release, None, "no release would help");
    let tenant = accounts.standing(&id("tenant"), NOON).unwrap();
    assert_eq!(tenant.reserved, Quantity::Money(MoneySum::ZERO));
}

#[test]
fn a_refusal_tells_spent_from_reserved_and_when_to_come_back() {
    let mut accounts = Accounts::new();
    accounts.open(&id("day"), money(100, Window::Day), NOON);
    let day = [id("day")];
    accounts
        .reserve(request(1), &day, dollars(30), at(HOUR), NOON)
        .unwrap();
    accounts.settle(request(1), dollars(25), NOON).unwrap();
    accounts
        .reserve(request(2), &day, dollars(60), at(2 * HOUR), NOON)
        .unwrap();
    let refusal = accounts
        .reserve(request(3), &day, dollars(20), at(HOUR), NOON)
        .unwrap_err();
    insta::assert_snapshot!(refusal, @r#"budget "day": $0.2 wanted, $0.25 of $1 spent and $0.6 reserved"#);
    let over = over(refusal);
    assert_eq!(over.next_release, Some(at(2 * HOUR)));
    assert_eq!(over.standing.resets_at, Some(at(12 * HOUR)));
}

#[test]
fn what_is_not_used_is_given_back() {
    let mut accounts = Accounts::new();
    accounts.open(&id("b"), money(100, Window::Lifetime), NOON);
    let b = [id("b")];
    for n in 0..20 {
        accounts
            .reserve(request(n), &b, dollars(90), at(HOUR), NOON)
            .unwrap();
        accounts.settle(request(n), dollars(1), NOON).unwrap();
        // A settlement that comes twice changes nothing.
        assert!(accounts.settle(request(n), dollars(1), NOON).is_err());
        if n >= 10 {
            break;
        }
    }
    let left = accounts.affordable(&b, NOON);
    assert_eq!(left.money, Some(dollars(89).money));
    assert_eq!(left.tokens, None);
}

#[test]
fn a_repeated_reservation_counts_once() {
    let mut accounts = Accounts::new();
    accounts.open(&id("b"), money(100, Window::Lifetime), NOON);
    let twice = [id("b"), id("b")];
    for _ in 0..2 {
        accounts
            .reserve(request(1), &twice, dollars(60), at(HOUR), NOON)
            .unwrap();
    }
    assert_eq!(
        accounts.affordable(&twice, NOON).money,
        Some(dollars(40).money)
    );
}

#[test]
fn a_further_attempt_needs_room_of_its_own() {
    let mut accounts = Accounts::new();
    accounts.open(&id("b"), money(100, Window::Lifetime), NOON);
    let b = [id("b")];
    accounts
        .reserve(request(1), &b, dollars(60), at(HOUR), NOON)
        .unwrap();
    assert!(accounts.extend(request(1), dollars(50), NOON).is_err());
    accounts.extend(request(1), dollars(40), NOON).unwrap();
    assert_eq!(accounts.affordable(&b, NOON).money, Some(Money::ZERO));
    let settled = accounts.settle(request(1), dollars(70), NOON).unwrap();
    assert_eq!(settled.excess, Amount::default());
    let refusal = accounts.extend(request(1), dollars(1), NOON);
    assert_eq!(refusal, Err(Refusal::NoReservation(request(1))));
}

#[test]
fn a_call_that_never_reports_back_is_charged_in_full() {
    let mut accounts = Accounts::new();
    accounts.open(&id("b"), money(100, Window::Lifetime), NOON);
    let b = [id("b")];
    accounts
        .reserve(request(1), &b, dollars(60), at(HOUR), NOON)
        .unwrap();
    assert!(accounts.expire(at(HOUR - 1)).is_empty());
    assert_eq!(accounts.expire(at(HOUR)).len(), 1);
    let standing = accounts.standing(&id("b"), at(HOUR)).unwrap();
    assert_eq!(
        standing.spent,
        Quantity::Money(MoneySum::from_pico(600_000_000_000))
    );
    assert!(accounts.settle(request(1), dollars(1), at(HOUR)).is_err());
}

#[test]
fn thresholds_are_told_once_and_the_highest_of_several() {
    let mut accounts = Accounts::new();
    accounts.open(&id("b"), money(100, Window::Lifetime), NOON);
    let b = [id("b")];
    let crossed: Vec<Option<Ratio>> = [20, 29, 1, 45, 5]
        .into_iter()
        .enumerate()
        .map(|(n, cents)| {
            let request = request(u64::try_from(n).unwrap());
            accounts
                .reserve(request, &b, dollars(cents), at(HOUR), NOON)
                .unwrap();
            let settled = accounts.settle(request, dollars(cents), NOON).unwrap();
            settled.crossed.first().map(|c| c.threshold)
        })
        .collect();
    let half = "0.5".parse().ok();
    let most = "0.8".parse().ok();
    assert_eq!(crossed, [None, None, half, most, None]);
}

#[test]
fn a_new_window_forgets_what_was_spent_and_keeps_what_is_reserved() {
    let mut accounts = Accounts::new();
    accounts.open(&id("hour"), money(100, Window::Hour), NOON);
    let hour = [id("hour")];
    accounts
        .reserve(request(1), &hour, dollars(50), at(2 * HOUR), NOON)
        .unwrap();
    accounts.settle(request(1), dollars(50), NOON).unwrap();
    accounts
        .reserve(request(2), &hour, dollars(40), at(2 * HOUR), NOON)
        .unwrap();
    assert_eq!(
        accounts.affordable(&hour, at(HOUR)).money,
        Some(dollars(60).money)
    );
    accounts.settle(request(2), dollars(30), at(HOUR)).unwrap();
    assert_eq!(
        accounts.affordable(&hour, at(HOUR)).money,
        Some(dollars(70).money)
    );
    // A clock set back reopens nothing.
    assert_eq!(
        accounts.affordable(&hour, NOON).money,
        Some(dollars(70).money)
    );
}

#[test]
fn tokens_and_money_are_counted_apart() {
    let mut accounts = Accounts::new();
    accounts.open(&id("money"), money(100, Window::Lifetime), NOON);
    let tokens = Terms {
        limit: Quantity::Tokens(Tokens(1_000)),
        ..money(0, Window::Day)
    };
    accounts.open(&id("tokens"), tokens, NOON);
    let both = [id("money"), id("tokens")];
    let amount = Amount {
        tokens: Tokens(900),
        ..dollars(5)
    };
    accounts
        .reserve(request(1), &both, amount, at(HOUR), NOON)
        .unwrap();
    let left = accounts.affordable(&both, NOON);
    assert_eq!(left.money, Some(dollars(95).money));
    assert_eq!(left.tokens, Some(Tokens(100)));
    let refusal = accounts
        .reserve(request(2), &both, amount, at(HOUR), NOON)
        .unwrap_err();
    assert_eq!(over(refusal).wanted, Quantity::Tokens(Tokens(900)));
}

#[test]
fn empty_accounts_can_be_forgotten_and_others_cannot() {
    let mut accounts = Accounts::new();
    for name in ["spent", "reserved", "idle"] {
        accounts.open(&id(name), money(100, Window::Day), NOON);
    }
    accounts.adjust(&[id("spent")], dollars(1), NOON).unwrap();
    let expires = at(48 * HOUR);
    accounts
        .reserve(request(1), &[id("reserved")], dollars(1), expires, NOON)
        .unwrap();
    accounts.forget_empty(NOON);
    assert!(accounts.standing(&id("idle"), NOON).is_none());
    assert!(accounts.standing(&id("spent"), NOON).is_some());
    accounts.forget_empty(at(13 * HOUR));
    assert!(accounts.standing(&id("spent"), at(13 * HOUR)).is_none());
    assert!(accounts.standing(&id("reserved"), at(13 * HOUR)).is_some());
    let refusal = accounts.adjust(&[id("idle")], dollars(1), NOON);
    assert_eq!(refusal, Err(Refusal::NoAccount(id("idle"))));
}

#[derive(Clone, Debug)]
enum Operation {
    Reserve {
        accounts: u8,
        money: i64,
        tokens: u64,
    },
    Extend {
        which: usize,
        money: i64,
    },
    Settle {
        which: usize,
        percent: u64,
    },
    Release {
        which: usize,
    },
    Pass {
        ms: i64,
    },
    Back {
        ms: i64,
    },
    Expire,
    Reopen {
        which: usize,
    },
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let which = || any::<prop::sample::Index>().prop_map(|i| i.index(64));
    prop_oneof![
        6 => (1..16_u8, 0..60_i64, 0..60_u64)
            .prop_map(|(accounts, money, tokens)| Operation::Reserve { accounts, money, tokens }),
        2 => (which(), 0..30_i64).prop_map(|(which, money)| Operation::Extend { which, money }),
        4 => (which(), 0..=100_u64)
            .prop_map(|(which, percent)| Operation::Settle { which, percent }),
        1 => which().prop_map(|which| Operation::Release { which }),
        2 => (0..3 * HOUR).prop_map(|ms| Operation::Pass { ms }),
        1 => (0..HOUR).prop_map(|ms| Operation::Back { ms }),
        1 => Just(Operation::Expire),
        1 => (0..4_usize).prop_map(|which| Operation::Reopen { which }),
    ]
}

fn taken(quantity: Quantity) -> i128 {
    match quantity {
        Quantity::Money(sum) => sum.pico(),
        Quantity::Tokens(tokens) => i128::from(tokens.0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn spent_and_reserved_never_pass_the_limit(
        operations in proptest::collection::vec(any_operation(), 1..120),
    ) {
        let names = ["tenant", "user", "task", "tokens"].map(id);
        let tokens = Terms {
            limit: Quantity::Tokens(Tokens(120)),
            ..money(0, Window::Hour)
        };
        let rolling = Window::Rolling(Duration::from_hours(2));
        let terms = [
            money(200, Window::Day),
            money(120, rolling),
            money(150, Window::Lifetime),
            tokens,
        ];
        let mut accounts = Accounts::new();
        let (mut now, mut latest) = (NOON, NOON);
        for (name, terms) in names.iter().zip(&terms) {
            accounts.open(name, terms.clone(), now);
        }
        // What this test knows: open reservations, and all that was spent, by account and instant.
        let mut open: Vec<(u64, Amount, u8, UnixTime)> = Vec::new();
        let mut spent: Vec<(UnixTime, u8, Amount)> = Vec::new();
        let mut next = 0;
        for operation in operations {
            match operation {
                Operation::Reserve { accounts: mask, money, tokens } => {
                    next += 1;
                    let amount = Amount { tokens: Tokens(tokens), ..dollars(money) };
                    let chosen: Vec<AccountId> = (0..4)
                        .filter(|bit| mask & (1 << bit) != 0)
                        .map(|bit| names[bit].clone())
                        .collect();
                    let expires = UnixTime(now.0 + HOUR);
                    if accounts.reserve(request(next), &chosen, amount, expires, now).is_ok() {
                        open.push((next, amount, mask, expires));
                    }
                }
                Operation::Extend { which, money } => {
                    if let Some(held) = open.len().checked_sub(1).map(|last| which % (last + 1)) {
                        let more = dollars(money);
                        if accounts.extend(request(open[held].0), more, now).is_ok() {
                            let sum = open[held].1.money.checked_add(more.money);
                            open[held].1.money = sum.unwrap();
                        }
                    }
                }
                Operation::Settle { which, percent } => {
                    if !open.is_empty() {
                        let (n, amount, mask, _) = open.swap_remove(which % open.len());
                        let pico = amount.money.pico() * i64::try_from(percent).unwrap() / 100;
                        let used = Amount {
                            money: Money::from_pico(pico),
                            tokens: Tokens(amount.tokens.0 * percent / 100),
                        };
                        let settled = accounts.settle(request(n), used, now).unwrap();
                        prop_assert_eq!(settled.excess, Amount::default());
                        spent.push((now, mask, used));
                    }
                }
                Operation::Release { which } => {
                    if !open.is_empty() {
                        let (n, ..) = open.swap_remove(which % open.len());
                        accounts.release(request(n), now).unwrap();
                    }
                }
                Operation::Pass { ms } => now = UnixTime(now.0 + ms),
                Operation::Back { ms } => now = UnixTime(now.0 - ms),
                Operation::Expire => {
                    let expired = accounts.expire(now);
                    let (gone, still): (Vec<_>, Vec<_>) =
                        open.into_iter().partition(|(_, _, _, expires)| *expires <= now);
                    prop_assert_eq!(expired.len(), gone.len());
                    for (_, amount, mask, _) in gone {
                        spent.push((now, mask, amount));
                    }
                    open = still;
                }
                Operation::Reopen { which } => {
                    accounts.open(&names[which], terms[which].clone(), now);
                }
            }
            latest = latest.max(now);
            for (bit, name) in names.iter().enumerate() {
                let standing = accounts.standing(name, now).unwrap();
                let (limit, used) = (taken(standing.limit), taken(standing.spent));
                let reserved = taken(standing.reserved);
                prop_assert!(used + reserved <= limit, "{name}: {standing:?}");
                let mine = |mask: u8| mask & (1 << bit) != 0;
                let part = |amount: &Amount| match standing.limit {
                    Quantity::Money(_) => i128::from(amount.money.pico()),
                    Quantity::Tokens(_) => i128::from(amount.tokens.0),
                };
                let held = open.iter().filter(|(_, _, mask, _)| mine(*mask));
                prop_assert_eq!(held.map(|(_, a, ..)| part(a)).sum::<i128>(), reserved);
                let all = spent.iter().filter(|(_, mask, _)| mine(*mask));
                match bit {
                    1 => {
                        // Whatever the last two hours held is still counted.
                        let recent = all.filter(|(then, ..)| latest.0 - then.0 < 2 * HOUR);
                        prop_assert!(recent.map(|(_, _, a)| part(a)).sum::<i128>() <= used);
                    }
                    2 => prop_assert_eq!(all.map(|(_, _, a)| part(a)).sum::<i128>(), used),
                    _ => {}
                }
            }
        }
    }
}
