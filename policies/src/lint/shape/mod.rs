//! What a run of text looks like: a moment, an identifier, a path, a count, a secret.
//!
//! A shape alone is no finding. These recognisers only name what two requests differ in, or what a
//! single request would be likely to change next time.

pub(crate) mod calendar;
pub(crate) mod secret;
pub(crate) mod time;
pub(crate) mod token;
