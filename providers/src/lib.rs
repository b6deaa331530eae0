//! Wire formats of Whippletree.
//!
//! Codecs between bytes and meaning: synchronous, without I/O, clocks or locks. [`envelope`] reads
//! and edits request bodies; [`sse`] cuts streamed answers into events.

pub mod envelope;
pub mod sse;
