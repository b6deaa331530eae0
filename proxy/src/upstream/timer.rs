//! A timer that is seldom armed.
//!
//! Arming a timer takes a lock and moves an entry of the runtime's wheel; a stream would do so for
//! each chunk. Deadlines mostly move later, so the timer is left where it is, and when it fires
//! too early it is moved to what the deadline is by then. One timer serves a connection for all
//! its calls.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug, Default)]
pub(super) struct LazyTimer(Option<Pin<Box<Sleep>>>);

impl LazyTimer {
    /// Ready once `deadline` has passed; otherwise wakes the caller no later than then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if super::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_is_kept_whichever_way_it_moves() {
        let start = Instant::now();
        let mut timer = LazyTimer::default();
        let at = |ms| start + Duration::from_millis(ms);
        assert!(poll_once(&mut timer, at(50)).is_pending());
        poll_fn(|cx| timer.poll(cx, at(200))).await;
        assert_eq!(start.elapsed().as_millis(), 200);
        assert!(poll_once(&mut timer, at(900)).is_pending());
        poll_fn(|cx| timer.poll(cx, at(300))).await;
        assert_eq!(start.elapsed().as_millis(), 300);
        poll_fn(|cx| timer.poll(cx, at(100))).await;
        assert_eq!(start.elapsed().as_millis(), 300);
    }

    fn poll_once(timer: &mut LazyTimer, deadline: Instant) -> Poll<()> {
        timer.poll(&mut Context::from_waker(std::task::Waker::noop()), deadline)
    }
}
