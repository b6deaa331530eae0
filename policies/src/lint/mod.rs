//! Prefix stability: which byte breaks the vendor's cache, why, and what it costs.
//!
//! Vendors reuse a prompt's prefix while it is byte-identical, at a tenth of the price and of the
//! wait, and say nothing when it is not. [`Lint`] remembers what was sent (`history`), finds for
//! each request the longest prefix known and the conversation that it goes on from, without any
//! session id, lays the two beside each other (`align`), and lets the rules (`rules`) name what
//! they recognise. A pattern alone is no finding: a text must differ between two requests, and the
//! difference must have broken something.
//!
//! The caller cuts the body into a [`Prompt`] outside any lock (that is where the time goes, about
//! 10 µs for 105 KB), then calls [`Lint::observe`] under a short one: a request that only appends
//! costs a few look-ups. [`Lint::settle`] tells what the vendor counted.
//!
//! Limits: text is compared only as far as it is kept (see [`Bounds`]); a divergence beyond is placed
//! by segment and explained in general terms.

mod align;
mod difference;
mod engine;
mod finding;
mod fingerprint;
mod fleet;
mod habits;
mod history;
mod json;
mod prompt;
mod registry;
mod report;
mod rules;
mod scene;
mod shape;
mod tally;
mod vendor;
mod window;
mod words;

pub use self::engine::{Lint, Observed, Ticket};
pub use self::finding::{Family, Finding, Fix, Meta, Scope, Severity, Spot, Status, Window};
pub use self::fingerprint::{Fingerprint, Fingerprinter};
pub use self::history::Bounds;
pub use self::prompt::{Address, Call, Chain, Kind, List, Mark, Place, Prompt, Segment, Tier};
pub use self::registry::{catalogue, reference, rule};
pub use self::tally::{Tallied, Tally};
pub use self::vendor::{Caching, Entries, caching};
