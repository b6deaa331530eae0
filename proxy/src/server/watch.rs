//! What the worker knows of a connection from outside, and the orders that it gives.
//!
//! A deadline per request would cost a timer per request. Instead each connection notes what it is
//! doing and at which tick that began; the worker looks through its connections once a tick and
//! orders those that have waited too long to end. Deadlines are exact to one tick.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// At least one request is being answered.
    Busy,
    /// Waiting for the rest of a head, of the first request, or of the handshake.
    Head,
    /// Between requests.
    Idle,
    /// Answered and closed for writing; what the client still sends is thrown away.
    Linger,
}

/// What a connection is to do, in order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    None,
    /// Finish what was begun, then close.
    Finish,
    /// Say that the head took too long, then close.
    Expire,
    /// Close now.
    Abort,
}

/// How many ticks each phase may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) head: u64,
    pub(super) idle: u64,
    pub(super) stalled_write: u64,
    pub(super) linger: u64,
    /// Of [`Phase::Linger`], once the server stops: a client that keeps its side open may not hold
    /// the stop up.
    pub(super) linger_stopping: u64,
}

/// One connection, seen from outside.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Arc<AtomicU64>,
    phase: AtomicU8,
    since: AtomicU64,
    /// The tick at which a write began to wait for the client; 0 when none does.
    stalled: AtomicU64,
    in_flight: AtomicU32,
    /// A request was answered before its body was read.
    unread: AtomicBool,
    /// A head has begun and not ended.
    partial: AtomicBool,
    /// HTTP/2, where bytes between requests mean nothing.
    multiplexed: AtomicBool,
    order: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Watch {
    /// A connection that was just accepted. `clock` counts the worker's ticks, from 1.
    pub(super) fn new(clock: Arc<AtomicU64>) -> Self {
        let now = clock.load(Ordering::Relaxed);
        Self {
            clock,
            phase: AtomicU8::new(Phase::Head as u8),
            since: AtomicU64::new(now),
            stalled: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            unread: AtomicBool::new(false),
            partial: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
            order: AtomicU8::new(Order::None as u8),
            waker: Mutex::new(None),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Busy,
            1 => Phase::Head,
            2 => Phase::Idle,
            _ => Phase::Linger,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.since
            .store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Bytes came in: an idle connection has begun a head.
    pub(super) fn bytes_came(&self) {
        let phase = self.phase();
        if phase == Phase::Busy || self.multiplexed.load(Ordering::Relaxed) {
            return;
        }
        self.partial.store(true, Ordering::Relaxed);
        if phase == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The handshake is over; a head has to come.
    pub(super) fn handshake_ended(&self) {
        self.partial.store(false, Ordering::Relaxed);
        self.enter(Phase::Head);
    }

    /// The client speaks HTTP/2: it may connect long before its first request.
    pub(super) fn multiplexes(&self) {
        self.multiplexed.store(true, Ordering::Relaxed);
        self.partial.store(false, Ordering::Relaxed);
        self.enter(Phase::Idle);
    }

    /// Whether part of a head has come.
    pub(super) fn head_begun(&self) -> bool {
        self.partial.load(Ordering::Relaxed)
    }

    pub(super) fn request_began(&self) {
        self.partial.store(false, Ordering::Relaxed);
        if self.in_flight.fetch_add(1, Ordering::Relaxed) == 0 {
            self.enter(Phase::Busy);
        }
    }

    /// Whether a request is being answered.
    pub(super) fn is_answering(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    pub(super) fn request_ended(&self) {
        if self.in_flight.fetch_sub(1, Ordering::Relaxed) == 1 && self.phase() == Phase::Busy {
            self.enter(Phase::Idle);
        }
    }

    /// A request was answered before its body was read: the client may still be sending.
    pub(super) fn body_left_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// Whether closing at once could destroy an answer on its way: a client that still sends makes
    /// the kernel answer with a reset, and a reset throws away what the client has not read yet.
    pub(super) fn must_linger(&self) -> bool {
        self.unread.load(Ordering::Relaxed) || self.head_begun()
    }

    pub(super) fn write_stalled(&self) {
        if self.stalled.load(Ordering::Relaxed) == 0 {
            let now = self.clock.load(Ordering::Relaxed);
            self.stalled.store(now.max(1), Ordering::Relaxed);
        }
    }

    pub(super) fn write_went_on(&self) {
        if self.stalled.load(Ordering::Relaxed) != 0 {
            self.stalled.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::None,
            1 => Order::Finish,
            2 => Order::Expire,
            _ => Order::Abort,
        }
    }

    /// Gives an order unless a more urgent one stands, and wakes the connection.
    pub(super) fn command(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(waker) = waker.as_ref() {
                waker.wake_by_ref();
            }
        }
    }

    /// Says whom to wake. A connection's task never changes, so once is enough.
    pub(super) fn wake_with(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Orders the connection to end if what it does takes too long.
    pub(super) fn inspect(&self, patience: &Patience) {
        let now = self.clock.load(Ordering::Relaxed);
        let age = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let stalled = self.stalled.load(Ordering::Relaxed);
        if stalled != 0 && now.saturating_sub(stalled) > patience.stalled_write {
            return self.command(Order::Abort);
        }
        let (limit, order) = match self.phase() {
            Phase::Busy => return,
            Phase::Head => (patience.head, Order::Expire),
            Phase::Idle => (patience.idle, Order::Finish),
            Phase::Linger if self.order() == Order::None => (patience.linger, Order::Abort),
            Phase::Linger => (patience.linger_stopping, Order::Abort),
        };
        if age > limit {
            self.command(order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        head: 2,
        idle: 10,
        stalled_write: 5,
        linger: 30,
        linger_stopping: 3,
    };

    fn watch() -> (Arc<AtomicU64>, Watch) {
        let clock = Arc::new(AtomicU64::new(1));
        (Arc::clone(&clock), Watch::new(clock))
    }

    fn order_after(watch: &Watch, clock: &AtomicU64, ticks: u64) -> Order {
        clock.fetch_add(ticks, Ordering::Relaxed);
        watch.inspect(&PATIENCE);
        watch.order()
    }

    #[test]
    fn a_head_that_does_not_come_expires() {
        let (clock, watch) = watch();
        assert_eq!(order_after(&watch, &clock, 2), Order::None);
        assert_eq!(order_after(&watch, &clock, 1), Order::Expire);
    }

    #[test]
    fn a_busy_connection_is_left_alone_and_an_idle_one_is_closed() {
        let (clock, watch) = watch();
        watch.request_began();
        assert_eq!(order_after(&watch, &clock, 1000), Order::None);
        watch.request_ended();
        assert_eq!(order_after(&watch, &clock, 10), Order::None);
        assert_eq!(order_after(&watch, &clock, 1), Order::Finish);
    }

    #[test]
    fn the_second_head_has_its_own_deadline() {
        let (clock, watch) = watch();
        watch.request_began();
        watch.request_ended();
        clock.fetch_add(9, Ordering::Relaxed);
        watch.bytes_came();
        assert_eq!(order_after(&watch, &clock, 2), Order::None);
        assert_eq!(order_after(&watch, &clock, 1), Order::Expire);
    }

    #[test]
    fn a_client_that_reads_nothing_is_dropped_even_while_it_is_answered() {
        let (clock, watch) = watch();
        watch.request_began();
        watch.write_stalled();
        clock.fetch_add(4, Ordering::Relaxed);
        watch.write_went_on();
        watch.write_stalled();
        assert_eq!(order_after(&watch, &clock, 5), Order::None);
        assert_eq!(order_after(&watch, &clock, 1), Order::Abort);
    }

    #[test]
    fn a_client_that_was_answered_early_has_less_time_once_the_server_stops() {
        let (clock, watch) = watch();
        watch.enter(Phase::Linger);
        assert_eq!(order_after(&watch, &clock, 4), Order::None);
        watch.command(Order::Finish);
        assert_eq!(order_after(&watch, &clock, 0), Order::Abort);
    }

    #[test]
    fn a_less_urgent_order_does_not_replace_a_more_urgent_one() {
        let (_, watch) = watch();
        watch.command(Order::Abort);
        watch.command(Order::Finish);
        assert_eq!(watch.order(), Order::Abort);
    }
}
