//! OpenAI's dialect, spoken by most vendors.
//!
//! [`dialects`] lists who speaks it and where they differ; [`failure`] reads their errors.

pub mod dialects;
pub mod failure;
