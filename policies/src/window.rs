//! Two counts over a sliding window.
//!
//! The window is ten slots that are reused in turn, so its memory is constant and its edge moves in
//! steps of a tenth. Nothing has to run when time passes: a slot remembers which tenth it belongs
//! to, and old ones are passed over.

use core::time::Duration;

use crate::time::Instant;

const SLOTS: usize = 10;

/// Two sums, such as requests and failures, of the recent past.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    slot_ns: u64,
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: u64,
    first: u32,
    second: u32,
}

impl Window {
    /// A window of at least ten nanoseconds.
    pub(crate) fn new(length: Duration) -> Self {
        let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Self {
            slot_ns: (ns / SLOTS as u64).max(1),
            slots: [Slot::default(); SLOTS],
        }
    }

    /// Adds to both sums.
    pub(crate) fn add(&mut self, first: u32, second: u32, now: Instant) {
        let number = now.0 / self.slot_ns;
        let index = usize::try_from(number % SLOTS as u64).unwrap_or(0);
        if let Some(slot) = self.slots.get_mut(index) {
            if slot.number != number {
                *slot = Slot {
                    number,
                    ..Slot::default()
                };
            }
            slot.first = slot.first.saturating_add(first);
            slot.second = slot.second.saturating_add(second);
        }
    }

    /// Both sums over the window that ends now.
    pub(crate) fn totals(&self, now: Instant) -> (u64, u64) {
        let number = now.0 / self.slot_ns;
        let live = |slot: &&Slot| slot.number.saturating_add(SLOTS as u64) > number;
        self.slots
            .iter()
            .filter(live)
            .fold((0, 0), |(first, second), slot| {
                (
                    first + u64::from(slot.first),
                    second + u64::from(slot.second),
                )
            })
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.slots = [Slot::default(); SLOTS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn counts_leave_the_window_after_its_length() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(3, 1, at(100));
        window.add(2, 2, at(105));
        assert_eq!(window.totals(at(105)), (5, 3));
        assert_eq!(window.totals(at(109)), (5, 3));
        assert_eq!(window.totals(at(110)), (2, 2));
        assert_eq!(window.totals(at(115)), (0, 0));
        window.add(1, 0, at(120));
        assert_eq!(window.totals(at(120)), (1, 0));
    }

    #[test]
    fn a_clock_that_starts_at_zero_counts_too() {
        let mut window = Window::new(Duration::from_secs(1));
        window.add(1, 1, at(0));
        assert_eq!(window.totals(at(0)), (1, 1));
        assert_eq!(window.totals(at(2)), (0, 0));
    }
}
