//! A call that others than its first client may have a share in.
//!
//! A client leaves for one of two reasons: it has lost interest, or its timer was shorter than the
//! vendor's work and it is about to ask again. The first should stop the vendor; the second must
//! not, or the same work is paid twice. [`Leaving`] tells them apart by what the client said when it
//! came, and says how long a call goes on without it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use whippletree_policies::ids::RequestId;
use whippletree_policies::retry::twin::{Claim, Ending, Finding, Fingerprint, Twins};
use whippletree_policies::time::Instant;

use super::recording::{Head, Listener, MOST_OF_ALL, Opening, Recording};
use crate::api::rejection::Rejection;
use crate::clock;
use crate::config::OnDisconnect;
use crate::gateway::Gateway;

/// How long a client that named its request by a key is waited for.
const KEY_GRACE: Duration = Duration::from_secs(10);
/// How long a client that can resume its stream is waited for.
const RESUME_GRACE: Duration = Duration::from_secs(30);
/// What is added to the back-off of an SDK's retry before it is given up.
const RETRY_MARGIN: Duration = Duration::from_secs(2);
/// How long an answer is read on for its usage report alone.
pub(super) const DRAIN_TIME: Duration = Duration::from_mins(2);
/// How much of it is.
pub(super) const DRAIN_BYTES: usize = 16 << 20;

/// The calls that may be repeated, and what they keep.
#[derive(Debug, Default)]
pub struct Calls {
    twins: Mutex<Twins<Arc<Recording>>>,
    kept: Arc<AtomicUsize>,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Twins<Arc<Recording>>> {
        self.twins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty recording; makes room for it where memory is short.
    pub(super) fn record(&self, of: RequestId) -> Arc<Recording> {
        if self.kept.load(Ordering::Relaxed) > MOST_OF_ALL / 4 * 3 {
            self.lock().make_room();
        }
        Arc::new(Recording::new(of, &self.kept))
    }

    pub(super) fn begin(
        &self,
        claim: &Claim,
        recording: &Arc<Recording>,
    ) -> Finding<Arc<Recording>> {
        self.lock().begin(claim, recording, clock::now())
    }

    /// Makes a call known under the name that the ids of its events have.
    pub(super) fn resumable(
        &self,
        call: Option<u64>,
        name: Fingerprint,
        body: Fingerprint,
        recording: &Arc<Recording>,
    ) -> u64 {
        let mut twins = self.lock();
        match call {
            Some(call) => {
                twins.name(call, name);
                call
            }
            None => twins.open(name, body, recording),
        }
    }

    pub(super) fn find(&self, name: Fingerprint, body: Fingerprint) -> Option<Arc<Recording>> {
        self.lock().find(name, body, clock::now())
    }
}

/// What a client said that tells whether it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// It named its request by an idempotency key.
    Key,
    /// Nothing that is known.
    Nothing,
    /// It counts its retries; this many so far, each when its timer had run so long.
    Retry { count: u32, timer: Option<Duration> },
}

/// What happens to a call when its client leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) expected: Expected,
    pub(super) on_disconnect: OnDisconnect,
    pub(super) resume: bool,
    pub(super) since: Instant,
}

impl Leaving {
    /// How long a client that left before its answer began is waited for.
    fn grace_before(&self, now: Instant) -> Option<Duration> {
        match self.expected {
            Expected::Key => Some(KEY_GRACE),
            Expected::Nothing => None,
            Expected::Retry { count, timer } => {
                // Who leaves long before its timer has run out has another reason.
                let ran_out = timer.is_none_or(|timer| now.since(self.since) >= timer / 10 * 9);
                let backoff = Duration::from_millis(500).saturating_mul(1 << count.min(4));
                ran_out.then_some(backoff + RETRY_MARGIN)
            }
        }
    }

    /// The same behind the beginning: SDKs raise what happens there and do not retry.
    fn grace_behind(&self) -> Option<Duration> {
        match self.expected {
            _ if self.resume => Some(RESUME_GRACE),
            Expected::Key => Some(KEY_GRACE),
            Expected::Nothing | Expected::Retry { .. } => None,
        }
    }
}

/// Where a call is when its client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Its answer has not begun.
    Before,
    /// Part of it was told.
    Behind,
}

/// A call that may outlive its client's connection.
#[derive(Debug)]
pub struct Share {
    gateway: Arc<Gateway>,
    call: Option<u64>,
    recording: Option<Arc<Recording>>,
    leaving: Leaving,
    /// Its first client is gone.
    left: AtomicBool,
    /// Nobody is waited for any more: only what runs is read to its end.
    draining: AtomicBool,
    attempts_left: AtomicU32,
}

impl Share {
    pub(super) fn new(
        gateway: &Arc<Gateway>,
        call: Option<u64>,
        recording: Option<Arc<Recording>>,
        leaving: Leaving,
    ) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            call,
            recording,
            leaving,
            left: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            attempts_left: AtomicU32::new(0),
        }
    }

    /// Whether the one who asked first is gone.
    pub(super) fn client_has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether the call is only read on for its usage report.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether its events carry ids.
    pub(super) const fn resumes(&self) -> bool {
        self.leaving.resume
    }

    /// So many attempts may still be made.
    pub(super) fn attempts_left(&self, left: u32) {
        self.attempts_left.store(left, Ordering::Relaxed);
    }

    /// A place among those who listen, for the first client.
    pub(super) fn listen(&self) -> Option<Listener> {
        self.recording.as_ref().map(Recording::listen)
    }

    /// The answer begins.
    pub(super) fn opened(&self, head: Head) {
        if let Some(recording) = &self.recording {
            recording.open(Opening::Answer(Box::new(head)));
        }
    }

    /// The client was turned away.
    pub(super) fn refused(&self, rejection: &Rejection) {
        let Some(recording) = &self.recording else {
            return;
        };
        let left = self.attempts_left.load(Ordering::Relaxed);
        recording.open(Opening::Refused(Box::new(rejection.clone())));
        recording.finish([]);
        self.end(Ending::Failed { left, bytes: 0 });
    }

    /// Part of the answer goes out; returns its number.
    pub(super) fn said(&self, chunk: &[u8]) -> u64 {
        self.recording
            .as_ref()
            .map_or(0, |recording| recording.push(chunk))
    }

    /// The end of the answer goes out.
    pub(super) fn finished<'a>(&self, chunks: impl IntoIterator<Item = &'a [u8]>) {
        if let Some(recording) = &self.recording {
            recording.finish(chunks);
            let bytes = recording.bytes();
            self.end(Ending::Answered { bytes });
        }
    }

    /// The answer has broken; what tells the client goes out.
    pub(super) fn interrupted(&self, event: &[u8]) {
        if let Some(recording) = &self.recording {
            recording.finish([event]);
            let left = self.attempts_left.load(Ordering::Relaxed);
            let bytes = recording.bytes();
            self.end(Ending::Failed { left, bytes });
        }
    }

    fn end(&self, ending: Ending) {
        if let Some(call) = self.call {
            self.gateway.calls.lock().end(call, ending, clock::now());
        }
    }

    /// The first client leaves. Says whether the call goes on; if so, [`Self::given_up`] is to be
    /// watched.
    pub(super) fn leave(&self, place: Place) -> bool {
        let goes_on = self.grace(place).is_some() || self.drains();
        if goes_on {
            self.left.store(true, Ordering::Relaxed);
        }
        goes_on
    }

    fn grace(&self, place: Place) -> Option<Duration> {
        self.recording.as_ref()?;
        match place {
            Place::Before => self.leaving.grace_before(clock::now()),
            Place::Behind => self.leaving.grace_behind(),
        }
    }

    fn drains(&self) -> bool {
        self.leaving.on_disconnect == OnDisconnect::Drain
    }

    /// Ready once the call is to be broken off. `grace` as it was when the client left.
    pub(super) async fn given_up(&self, grace: Option<Duration>) {
        if let (Some(recording), Some(grace)) = (&self.recording, grace) {
            recording.abandoned(grace).await;
        }
        if self.drains() {
            self.draining.store(true, Ordering::Relaxed);
            tokio::time::sleep(DRAIN_TIME).await;
        }
    }

    /// How long a client that leaves now is waited for.
    pub(super) fn patience(&self, place: Place) -> Option<Duration> {
        self.grace(place)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(recording) = &self.recording else {
            return;
        };
        if recording.has_ended() {
            return;
        }
        let left = self.attempts_left.load(Ordering::Relaxed);
        if let Some(call) = self.call {
            let mut twins = self.gateway.calls.lock();
            if left > 0 {
                let ending = Ending::Failed { left, bytes: 0 };
                twins.end(call, ending, clock::now());
            } else {
                // Whoever asks after the grace asks anew.
                twins.forget(call);
            }
        }
        // Whoever waits for it looks the request up anew, so it has to be out of the way by now.
        recording.break_off();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(expected: Expected) -> Leaving {
        Leaving {
            expected,
            on_disconnect: OnDisconnect::Cancel,
            resume: false,
            since: Instant(0),
        }
    }

    #[test]
    fn an_sdk_is_waited_for_when_its_timer_has_run_out_and_not_when_it_leaves_before() {
        let counted = leaving(Expected::Retry {
            count: 1,
            timer: Some(Duration::from_secs(20)),
        });
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        assert_eq!(counted.grace_before(at(5)), None);
        assert_eq!(counted.grace_before(at(20)), Some(Duration::from_secs(3)));
        assert_eq!(counted.grace_behind(), None);
        assert_eq!(leaving(Expected::Nothing).grace_before(at(20)), None);
        assert_eq!(leaving(Expected::Key).grace_behind(), Some(KEY_GRACE));
    }
}
