//! An answer as it is given, for others than the one who asked first.
//!
//! A call that may be repeated writes what it tells its client into a [`Recording`]; a client that
//! comes back reads it from the start, or from the event it saw last, and goes on as the answer does.
//! Chunks are what one write to the client is: a whole body, or one event.
//!
//! Limits: an answer keeps [`MOST_OF_ONE`] bytes and all together keep [`MOST_OF_ALL`]. What goes
//! beyond is dropped from the front; who needs it is told that it is gone.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::watch;
use whippletree_policies::ids::{RequestId, TargetId};

use crate::api::rejection::Rejection;

/// Bytes kept of one answer: some thirty thousand streamed tokens.
pub(super) const MOST_OF_ONE: usize = 8 << 20;
/// Bytes kept of all answers.
pub(super) const MOST_OF_ALL: usize = 128 << 20;

/// What an answer begins with.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// As the first client got it.
    pub(super) status: StatusCode,
    /// As the first client got them, without the identity of its request.
    pub(super) headers: HeaderMap,
    /// Who answered, and whether as a stand-in.
    pub(super) target: Option<(TargetId, bool)>,
    /// What breaks the silence of a stream, and how often; `None` for a whole answer.
    pub(super) keepalive: Option<(Bytes, Duration)>,
}

/// How a call turned out before its answer began.
#[derive(Clone, Debug)]
pub(super) enum Opening {
    /// There is an answer.
    Answer(Box<Head>),
    /// The client was turned away.
    Refused(Box<Rejection>),
    /// It was broken off because nobody waited for it.
    Dropped,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This, and whether something may follow.
    Chunk(Bytes, Follows),
    /// No more.
    End,
    /// What should come next is not kept any more, or the call was broken off.
    Lost,
}

/// Whether something may follow a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    Something,
}

/// The answer of one call.
#[derive(Debug)]
pub(super) struct Recording {
    of: RequestId,
    state: Mutex<State>,
    listeners: watch::Sender<u32>,
    kept: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    opening: Option<Opening>,
    chunks: VecDeque<Bytes>,
    /// The number of the first chunk that is still kept.
    first: u64,
    bytes: usize,
    end: Option<End>,
    waiting: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Broken,
    Said,
}

impl Recording {
    /// Of a call that has said nothing yet. `kept` counts the bytes of all recordings.
    pub(super) fn new(of: RequestId, kept: &Arc<AtomicUsize>) -> Self {
        Self {
            of,
            state: Mutex::default(),
            listeners: watch::Sender::new(0),
            kept: Arc::clone(kept),
        }
    }

    /// The request that made the call.
    pub(super) const fn of(&self) -> RequestId {
        self.of
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the call turned out. The first word counts.
    pub(super) fn open(&self, opening: Opening) {
        let mut state = self.lock();
        state.opening.get_or_insert(opening);
        state.wake();
    }

    /// Adds a chunk and returns its number.
    pub(super) fn push(&self, chunk: &[u8]) -> u64 {
        let mut state = self.lock();
        let number = self.add(&mut state, chunk);
        state.wake();
        number
    }

    /// Adds the last chunks, in one step: whoever reads them knows that they are the last.
    pub(super) fn finish<'a>(&self, chunks: impl IntoIterator<Item = &'a [u8]>) {
        let mut state = self.lock();
        for chunk in chunks {
            self.add(&mut state, chunk);
        }
        state.end.get_or_insert(End::Said);
        state.wake();
    }

    /// The call was broken off; nothing where it had ended.
    pub(super) fn break_off(&self) {
        let mut state = self.lock();
        state.opening.get_or_insert(Opening::Dropped);
        state.end.get_or_insert(End::Broken);
        state.wake();
    }

    /// Chunks are copied: a slice would keep the whole buffer alive that it was read into.
    fn add(&self, state: &mut State, chunk: &[u8]) -> u64 {
        state.chunks.push_back(Bytes::copy_from_slice(chunk));
        state.bytes += chunk.len();
        let all = self.kept.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        if state.bytes > MOST_OF_ONE || all > MOST_OF_ALL {
            self.drop_first(state);
        }
        state.first + state.chunks.len() as u64 - 1
    }

    /// Drops a quarter, so that it is not done at each chunk. The last chunk stays.
    fn drop_first(&self, state: &mut State) {
        let goal = state.bytes / 4 * 3;
        while state.bytes > goal && state.chunks.len() > 1 {
            if let Some(chunk) = state.chunks.pop_front() {
                state.first += 1;
                state.bytes -= chunk.len();
                self.kept.fetch_sub(chunk.len(), Ordering::Relaxed);
            }
        }
    }

    /// Bytes kept of it.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether the answer has been given to its end.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// One client more is interested, until the guard is dropped.
    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        self.listeners.send_modify(|count| *count += 1);
        let mut state = self.lock();
        state.next_waiter += 1;
        let id = state.next_waiter;
        drop(state);
        Listener {
            recording: Arc::clone(self),
            id,
        }
    }

    /// Ready once nobody has listened for `grace`.
    pub(super) async fn abandoned(&self, grace: Duration) {
        let mut listeners = self.listeners.subscribe();
        loop {
            // The sender lives as long as this borrow of it.
            let _ = listeners.wait_for(|count| *count == 0).await;
            let somebody = listeners.wait_for(|count| *count > 0);
            if tokio::time::timeout(grace, somebody).await.is_err() {
                return;
            }
        }
    }
}

impl State {
    fn wake(&mut self) {
        for (_, waker) in std::mem::take(&mut self.waiting) {
            waker.wake();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A client that has a share in a call.
#[derive(Debug)]
pub(super) struct Listener {
    recording: Arc<Recording>,
    id: u64,
}

impl Listener {
    /// The call's answer.
    pub(super) const fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// Waits until it is known how the call turns out.
    pub(super) async fn opening(&self) -> Opening {
        poll_fn(|cx| {
            let mut state = self.recording.lock();
            if let Some(opening) = &state.opening {
                return Poll::Ready(opening.clone());
            }
            state.waiting.insert(self.id, cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The chunk with this number.
    pub(super) fn poll(&self, number: u64, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.recording.lock();
        let Some(place) = number.checked_sub(state.first) else {
            return Poll::Ready(Next::Lost);
        };
        let chunk = usize::try_from(place)
            .ok()
            .and_then(|place| state.chunks.get(place));
        if let Some(chunk) = chunk {
            let last = place + 1 == state.chunks.len() as u64 && state.end == Some(End::Said);
            let follows = if last {
                Follows::Nothing
            } else {
                Follows::Something
            };
            return Poll::Ready(Next::Chunk(chunk.clone(), follows));
        }
        match state.end {
            Some(End::Said) => Poll::Ready(Next::End),
            Some(End::Broken) => Poll::Ready(Next::Lost),
            None => {
                state.waiting.insert(self.id, cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.recording.lock().waiting.remove(&self.id);
        self.recording
            .listeners
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> (Arc<Recording>, Arc<AtomicUsize>) {
        let kept = Arc::default();
        (Arc::new(Recording::new(RequestId([0; 16]), &kept)), kept)
    }

    async fn all(listener: &Listener, mut number: u64) -> (String, bool) {
        let mut text = String::new();
        loop {
            match poll_fn(|cx| listener.poll(number, cx)).await {
                Next::Chunk(chunk, follows) => {
                    text.push_str(std::str::from_utf8(&chunk).unwrap());
                    number += 1;
                    if follows == Follows::Nothing {
                        return (text, true);
                    }
                }
                Next::End => return (text, true),
                Next::Lost => return (text, false),
            }
        }
    }

    #[tokio::test]
    async fn a_late_reader_gets_all_and_one_who_knows_where_it_was_gets_the_rest() {
        let (recording, _) = recording();
        recording.push(b"a");
        let late = recording.listen();
        let reader = tokio::spawn(async move { all(&late, 0).await });
        tokio::task::yield_now().await;
        recording.push(b"b");
        recording.finish([&b"c"[..], b"d"]);
        assert_eq!(reader.await.unwrap(), ("abcd".to_owned(), true));
        let again = recording.listen();
        assert_eq!(all(&again, 2).await, ("cd".to_owned(), true));
        assert_eq!(all(&again, 4).await, (String::new(), true));
    }

    #[tokio::test]
    async fn memory_is_bounded_and_what_is_gone_is_said_to_be_gone() {
        let (recording, kept) = recording();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            recording.push(&chunk);
            assert!(recording.bytes() <= MOST_OF_ONE);
            assert_eq!(kept.load(Ordering::Relaxed), recording.bytes());
        }
        let listener = recording.listen();
        assert_eq!(all(&listener, 0).await, (String::new(), false));
        drop(listener);
        drop(recording);
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_abandoned_when_nobody_comes_back_within_the_grace() {
        let (recording, _) = recording();
        let first = recording.listen();
        let began = tokio::time::Instant::now();
        let waiting = tokio::spawn({
            let recording = Arc::clone(&recording);
            async move { recording.abandoned(Duration::from_secs(10)).await }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(first);
        tokio::time::sleep(Duration::from_secs(9)).await;
        let second = recording.listen();
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(second);
        waiting.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 5 + 9 + 60 + 10);
    }

    #[tokio::test]
    async fn whoever_waits_hears_that_a_call_was_broken_off() {
        let (recording, _) = recording();
        let listener = recording.listen();
        recording.break_off();
        assert!(matches!(listener.opening().await, Opening::Dropped));
        assert_eq!(all(&listener, 0).await, (String::new(), false));
        recording.finish([&b"late"[..]]);
        assert!(recording.has_ended());
    }
}
