//! The linter offline: files of requests in, findings out.
//!
//! A file is read as whatever it is ([`trace`]): a request body, a list of them, a trace with one
//! request a line, or the session log of a harness ([`session`]). Its requests go through the same
//! linter as live traffic, in order, with all text kept ([`judge`]); findings are grouped by cause.
//! What a team has decided to live with is taken out ([`allow`], [`baseline`]), the rest is shown to
//! people ([`render`]) or to programs ([`sarif`]), and what is safe to mend is mended ([`mend`]).

pub mod allow;
pub mod baseline;
pub mod judge;
pub mod mend;
pub mod render;
pub mod sarif;
pub mod session;
pub mod trace;
