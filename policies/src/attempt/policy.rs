//! How far the attempts of a route may go.

use core::time::Duration;

use crate::retry::backoff::Backoff;

/// How far the attempts of a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    max_attempts: u32,
    backoff: Backoff,
    max_wait: Duration,
    patience: Duration,
    min_attempt: Duration,
    ambiguous: Ambiguous,
    content_policy: ContentPolicy,
}

impl RetryPolicy {
    /// At most `max_attempts` over all targets, with no wait longer than `max_wait`.
    ///
    /// Ambiguous outcomes are tried once more, and a refusal by content policy is final.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when there is no attempt at all.
    pub fn new(
        max_attempts: u32,
        backoff: Backoff,
        max_wait: Duration,
    ) -> Result<Self, InvalidRetryPolicy> {
        if max_attempts == 0 {
            return Err(InvalidRetryPolicy);
        }
        Ok(Self {
            max_attempts,
            backoff,
            max_wait,
            patience: max_wait.min(Duration::from_secs(2)),
            min_attempt: Duration::from_millis(100),
            ambiguous: Ambiguous::Once,
            content_policy: ContentPolicy::Return,
        })
    }

    /// The same with another rule for ambiguous outcomes.
    #[must_use]
    pub const fn with_ambiguous(mut self, ambiguous: Ambiguous) -> Self {
        self.ambiguous = ambiguous;
        self
    }

    /// The same with another rule for refusals by content policy.
    #[must_use]
    pub const fn with_content_policy(mut self, content_policy: ContentPolicy) -> Self {
        self.content_policy = content_policy;
        self
    }

    /// The same with a single attempt, for a request whose retries somebody else owns.
    #[must_use]
    pub const fn with_one_attempt(mut self) -> Self {
        self.max_attempts = 1;
        self
    }

    /// Attempts over all targets; at least 1.
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The waits between attempts at one target.
    pub const fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// A vendor's hint, or a cool-down, beyond this is not waited for.
    pub const fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// How long a target that cools is waited for although another is ready. Two seconds, or
    /// `max_wait` where that is less: a vendor that asks for half a second should not cost a
    /// conversation its model and its cache.
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// An attempt with less time than this before the deadline is not begun. A tenth of a second.
    pub const fn min_attempt(&self) -> Duration {
        self.min_attempt
    }

    /// What follows an outcome that may have been a success.
    pub const fn ambiguous(&self) -> Ambiguous {
        self.ambiguous
    }

    /// What follows a refusal by content policy.
    pub const fn content_policy(&self) -> ContentPolicy {
        self.content_policy
    }
}

impl Default for RetryPolicy {
    /// Four attempts, the default back-off, and no wait beyond 30 s.
    fn default() -> Self {
        Self {
            max_attempts: 4,
            backoff: Backoff::default(),
            max_wait: Duration::from_secs(30),
            patience: Duration::from_secs(2),
            min_attempt: Duration::from_millis(100),
            ambiguous: Ambiguous::Once,
            content_policy: ContentPolicy::Return,
        }
    }
}

/// Whether a request that a vendor may have served and billed is sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ambiguous {
    /// As often as the other bounds allow.
    Always,
    /// Not at all.
    Never,
    /// Once more in all.
    #[default]
    Once,
}

/// Whether another target is tried after a refusal by content policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContentPolicy {
    /// Yes.
    FallBack,
    /// No: the gateway does not shop for a model that complies.
    #[default]
    Return,
}

/// A policy without any attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("max_attempts = 0: expected at least 1")]
pub struct InvalidRetryPolicy;
