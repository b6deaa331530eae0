//! OpenAI's dialect, spoken by most vendors.
//!
//! [`dialects`] lists who speaks it and where they differ; [`stream`] reads their streams and
//! [`failure`] their errors.

pub mod dialects;
pub mod failure;
pub mod stream;
mod usage;
