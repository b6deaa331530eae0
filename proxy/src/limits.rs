//! Requests and tokens per minute, and requests at once, per tenant.
//!
//! Rates are counted by governor (GCRA), one direct limiter a tenant, so that each has its own
//! quota. Concurrency is a semaphore whose permit travels with the response's body and is given back
//! when that ends, not when the headers leave.
//!
//! Tokens are a bucket ([`TokenBucket`]) from which a call takes the most that it may use and to
//! which it gives the rest back at its end. A call that may use more than a minute's worth takes the
//! whole bucket: it would never be served otherwise. What a call uses beyond its reservation is
//! booked all the same, and those after it wait.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use whippletree_policies::ids::TenantId;
use whippletree_policies::limit::{Hold, TokenBucket};
use whippletree_policies::units::Tokens;

use crate::api::rejection::Rejection;
use crate::clock;
use crate::config::{Limits, Tenant};

/// The limiters of all tenants; they outlive reloads as long as the tenant's limits do not change.
#[derive(Debug, Default)]
pub struct Limiters {
    tenants: DashMap<TenantId, Arc<TenantLimiter>>,
}

/// Time since the process's start, by the clock that everything here goes by. (Governor's own reads
/// the processor's counter, for which it measures 200 ms long at every start.)
#[derive(Clone, Copy, Debug, Default)]
struct OurClock;

impl Clock for OurClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(clock::now().0)
    }
}

type Rate = RateLimiter<NotKeyed, InMemoryState, OurClock, NoOpMiddleware<Duration>>;

#[derive(Debug)]
struct TenantLimiter {
    limits: Limits,
    rate: Option<(NonZeroU32, Rate)>,
    concurrent: Option<(NonZeroU32, Arc<Semaphore>)>,
    tokens: Option<(NonZeroU32, Mutex<TokenBucket>)>,
}

/// A request's place among those at once; give it back by dropping it.
#[derive(Debug, Default)]
pub struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Tokens that a call has taken from its tenant's minute. Dropped unsettled they count as used.
#[derive(Debug)]
pub struct HeldTokens {
    limiter: Arc<TenantLimiter>,
    hold: Hold,
}

impl HeldTokens {
    /// Ends the reservation with what the call really used.
    pub fn settle(self, used: Tokens) {
        if let Some((_, bucket)) = &self.limiter.tokens {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.settle(self.hold, used, clock::now());
        }
    }
}

impl Limiters {
    /// Takes a place for one request of `tenant`.
    ///
    /// # Errors
    /// [`Rejection::RateLimited`] with the limit and when to come back.
    pub fn admit(&self, tenant: Option<&Arc<Tenant>>) -> Result<Place, Rejection> {
        let Some(tenant) = tenant.filter(|t| t.limits != Limits::default()) else {
            return Ok(Place::default());
        };
        let limiter = self.limiter(tenant);
        let permit = match &limiter.concurrent {
            Some((allowed, semaphore)) => {
                let permit = Arc::clone(semaphore).try_acquire_owned();
                Some(permit.map_err(|_| Rejection::RateLimited {
                    limit: "concurrent",
                    allowed: allowed.get(),
                    // Nobody knows when one of the others ends; a second is a polite guess.
                    retry_after: Duration::from_secs(1),
                })?)
            }
            None => None,
        };
        if let Some((allowed, rate)) = &limiter.rate {
            rate.check().map_err(|not_until| Rejection::RateLimited {
                limit: "requests_per_minute",
                allowed: allowed.get(),
                retry_after: not_until.wait_time_from(OurClock.now()),
            })?;
        }
        Ok(Place { _permit: permit })
    }

    /// Takes the tokens that one call of `tenant` may use at most; `None` where no limit is set, and
    /// then `most` is not asked for.
    ///
    /// # Errors
    /// [`Rejection::RateLimited`] with the limit and when enough will be there.
    pub fn take_tokens(
        &self,
        tenant: Option<&Arc<Tenant>>,
        most: impl FnOnce() -> Tokens,
    ) -> Result<Option<HeldTokens>, Rejection> {
        let Some(tenant) = tenant.filter(|t| t.limits.tokens_per_minute.is_some()) else {
            return Ok(None);
        };
        let limiter = self.limiter(tenant);
        let Some((allowed, bucket)) = &limiter.tokens else {
            return Ok(None);
        };
        let most = most().min(Tokens(u64::from(allowed.get())));
        let held = bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .reserve(most, clock::now());
        let hold = held.map_err(|limited| Rejection::RateLimited {
            limit: "tokens_per_minute",
            allowed: allowed.get(),
            // Never more than a minute's worth was asked for, so it always comes.
            retry_after: limited.retry_after.unwrap_or(Duration::from_mins(1)),
        })?;
        Ok(Some(HeldTokens {
            limiter: Arc::clone(&limiter),
            hold,
        }))
    }

    fn limiter(&self, tenant: &Tenant) -> Arc<TenantLimiter> {
        if let Some(limiter) = self.tenants.get(&tenant.id)
            && limiter.limits == tenant.limits
        {
            return Arc::clone(&limiter);
        }
        // Under the entry's lock: of requests that come at once, all must meet the same limiter.
        let mut entry = self
            .tenants
            .entry(tenant.id.clone())
            .or_insert_with(|| Arc::new(TenantLimiter::new(tenant.limits)));
        if entry.limits != tenant.limits {
            *entry = Arc::new(TenantLimiter::new(tenant.limits));
        }
        Arc::clone(&entry)
    }
}

impl TenantLimiter {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            rate: limits.requests_per_minute.map(|n| {
                (
                    n,
                    RateLimiter::direct_with_clock(Quota::per_minute(n), OurClock),
                )
            }),
            tokens: limits
                .tokens_per_minute
                .map(|n| (n, Mutex::new(TokenBucket::new(n.into())))),
            concurrent: limits.concurrent.map(|n| {
                let permits = usize::try_from(n.get()).unwrap_or(Semaphore::MAX_PERMITS);
                (
                    n,
                    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(rate: u32, concurrent: u32) -> Arc<Tenant> {
        Arc::new(Tenant {
            id: "acme".into(),
            time_zone: jiff::tz::TimeZone::UTC,
            runaway: true,
            routes: Vec::new(),
            limits: Limits {
                requests_per_minute: NonZeroU32::new(rate),
                tokens_per_minute: None,
                concurrent: NonZeroU32::new(concurrent),
            },
        })
    }

    #[test]
    fn the_request_past_the_rate_is_told_when_to_come_back() {
        let limiters = Limiters::default();
        let tenant = tenant(2, 0);
        assert!(limiters.admit(Some(&tenant)).is_ok());
        assert!(limiters.admit(Some(&tenant)).is_ok());
        let Err(Rejection::RateLimited {
            limit,
            allowed,
            retry_after,
        }) = limiters.admit(Some(&tenant))
        else {
            panic!("admitted")
        };
        assert_eq!((limit, allowed), ("requests_per_minute", 2));
        assert!(retry_after.as_secs() <= 30 && !retry_after.is_zero());
    }

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let limiters = Limiters::default();
        let tenant = tenant(0, 1);
        let place = limiters.admit(Some(&tenant)).unwrap();
        assert!(limiters.admit(Some(&tenant)).is_err());
        drop(place);
        assert!(limiters.admit(Some(&tenant)).is_ok());
    }

    #[test]
    fn tokens_are_held_until_a_call_ends_and_the_rest_comes_back() {
        let limiters = Limiters::default();
        let mut tenant = Tenant::clone(&tenant(0, 0));
        tenant.limits.tokens_per_minute = NonZeroU32::new(1_000);
        let tenant = Arc::new(tenant);
        let take = |most| limiters.take_tokens(Some(&tenant), || Tokens(most));
        let held = take(900).unwrap().unwrap();
        let Err(Rejection::RateLimited {
            limit,
            allowed,
            retry_after,
        }) = take(900)
        else {
            panic!("admitted")
        };
        assert_eq!((limit, allowed), ("tokens_per_minute", 1_000));
        assert!(retry_after.as_secs() <= 48 && !retry_after.is_zero());
        held.settle(Tokens(50));
        let held = take(900).unwrap().unwrap();
        held.settle(Tokens::ZERO);
        // More than a minute's worth takes the whole minute, once it is there.
        assert!(take(u64::MAX).is_err());
        assert!(take(900).is_ok());
    }

    #[test]
    fn without_a_limit_no_tokens_are_held() {
        let limiters = Limiters::default();
        let unasked = || -> Tokens { panic!("nobody has to know") };
        assert!(limiters.take_tokens(None, unasked).unwrap().is_none());
        let free = tenant(1, 1);
        let held = limiters.take_tokens(Some(&free), unasked);
        assert!(held.unwrap().is_none());
    }

    #[test]
    fn calls_that_come_at_once_take_from_one_bucket() {
        for _ in 0..5_000 {
            let limiters = Limiters::default();
            let mut tenant = Tenant::clone(&tenant(0, 0));
            tenant.limits.tokens_per_minute = NonZeroU32::new(1_000);
            let tenant = Arc::new(tenant);
            let start = std::sync::Barrier::new(4);
            let admitted = std::thread::scope(|scope| {
                let calls = [(); 4].map(|()| {
                    scope.spawn(|| {
                        start.wait();
                        limiters.take_tokens(Some(&tenant), || Tokens(900)).is_ok()
                    })
                });
                calls
                    .into_iter()
                    .map(|call| call.join().unwrap())
                    .filter(|ok| *ok)
                    .count()
            });
            assert_eq!(admitted, 1);
        }
    }
}
