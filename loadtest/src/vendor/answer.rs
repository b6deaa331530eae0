//! Which reply a request gets.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};

use super::generate::Generating;
use super::plan::{Plan, Step};
use super::record::{Record, Recording};
use super::script::{Reply, Script, ScriptError};
use super::stub;

/// The script being played, and the memory of what came.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) record: Record,
    play: RwLock<Arc<Play>>,
    /// Replies that come before the play goes on.
    first: Mutex<VecDeque<Ready>>,
}

#[derive(Debug)]
enum Play {
    Generate(Box<Generating>),
    Replies {
        replies: Vec<Ready>,
        next: AtomicUsize,
    },
}

#[derive(Debug)]
enum Ready {
    /// Rendered once.
    Fixed(Arc<Plan>),
    /// Holds a placeholder.
    Rendered(Box<Reply>),
    /// Depends on the request.
    Stub(Box<Reply>),
}

/// A reply that was picked for a request whose body may still be coming.
#[derive(Debug)]
pub(super) struct Picked {
    play: Arc<Play>,
    index: usize,
}

/// The parts of a request that an answer may depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) number: u64,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) body: &'a Bytes,
}

impl Stage {
    pub(super) fn new(script: Script, recording: Recording) -> Result<Self, ScriptError> {
        Ok(Self {
            record: Record::new(recording),
            play: RwLock::new(Arc::new(Play::new(script)?)),
            first: Mutex::default(),
        })
    }

    pub(super) fn play_first(&self, replies: Vec<Reply>) -> Result<(), ScriptError> {
        let ready = replies
            .into_iter()
            .map(Ready::new)
            .collect::<Result<_, _>>()?;
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = ready;
        Ok(())
    }

    pub(super) fn set(&self, script: Script) -> Result<(), ScriptError> {
        let play = Arc::new(Play::new(script)?);
        *self.play.write().unwrap_or_else(PoisonError::into_inner) = play;
        Ok(())
    }

    /// What the first reply's body says, where it is the same for every request.
    pub(super) fn first_body(&self) -> Bytes {
        let play = self.play.read().unwrap_or_else(PoisonError::into_inner);
        let Play::Replies { replies, .. } = &**play else {
            return Bytes::new();
        };
        let Some(Ready::Fixed(plan)) = replies.first() else {
            return Bytes::new();
        };
        let mut body = BytesMut::new();
        for step in &plan.steps {
            if let Step::Send(bytes) = step {
                body.extend_from_slice(bytes);
            }
        }
        body.freeze()
    }

    /// The next reply; `None` when the script has none at all.
    pub(super) fn pick(&self) -> Option<Picked> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = first.pop_front() {
            let play = Arc::new(Play::replies(vec![reply]));
            return Some(Picked { play, index: 0 });
        }
        drop(first);
        let play = Arc::clone(&self.play.read().unwrap_or_else(PoisonError::into_inner));
        let index = match &*play {
            Play::Generate(_) => 0,
            Play::Replies { replies, next } => {
                let last = replies.len().checked_sub(1)?;
                next.fetch_add(1, Ordering::Relaxed).min(last)
            }
        };
        Some(Picked { play, index })
    }
}

impl Play {
    fn new(script: Script) -> Result<Self, ScriptError> {
        if let Some(generator) = script.generate
            && script.replies.is_empty()
        {
            return Ok(Self::Generate(Box::new(Generating::new(generator))));
        }
        let replies = script
            .replies
            .into_iter()
            .map(Ready::new)
            .collect::<Result<_, _>>()?;
        Ok(Self::replies(replies))
    }

    fn replies(replies: Vec<Ready>) -> Self {
        Self::Replies {
            replies,
            next: AtomicUsize::new(0),
        }
    }
}

impl Ready {
    fn new(reply: Reply) -> Result<Self, ScriptError> {
        if let Some(name) = &reply.stub {
            stub::check(name)?;
            return Ok(Self::Stub(Box::new(reply)));
        }
        let plan = Plan::render(&reply, 0)?;
        Ok(if Plan::varies(&reply) {
            Self::Rendered(Box::new(reply))
        } else {
            Self::Fixed(Arc::new(plan))
        })
    }
}

impl Picked {
    /// Whether the answer comes before the request's body was read.
    pub(super) fn before_body(&self) -> bool {
        match &*self.play {
            Play::Replies { replies, .. } => match replies.get(self.index) {
                Some(Ready::Fixed(plan)) => plan.before_body,
                Some(Ready::Rendered(reply) | Ready::Stub(reply)) => reply.before_body,
                None => false,
            },
            Play::Generate(_) => false,
        }
    }

    /// What is to be played for this request.
    pub(super) fn plan(&self, asked: Asked<'_>) -> Arc<Plan> {
        let reply = match &*self.play {
            Play::Generate(generating) => generating.answer(asked),
            Play::Replies { replies, .. } => match replies.get(self.index) {
                Some(Ready::Fixed(plan)) => return Arc::clone(plan),
                Some(Ready::Rendered(reply)) => reply.as_ref().clone(),
                Some(Ready::Stub(reply)) => stub::answer(reply, asked),
                None => Reply::default(),
            },
        };
        // Scripts were rendered once when they were set, and what is made here holds no hex write:
        // the fallback is never reached.
        Arc::new(Plan::render(&reply, asked.number).unwrap_or_else(|_| Plan::empty()))
    }
}
