//! Wire formats of Whippletree.
//!
//! Codecs between bytes and meaning: synchronous, without I/O, clocks or locks. [`envelope`] reads
//! and edits request bodies.

pub mod envelope;
