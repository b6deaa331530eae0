//! Wire formats of Whippletree.
//!
//! Codecs between bytes and meaning: synchronous, without I/O, clocks or locks. [`envelope`] reads
//! and edits request bodies; [`sse`] cuts streamed answers into events.

pub mod decoder;
pub mod envelope;
pub mod failure;
pub mod mask;
pub mod openai;
pub mod provider;
pub mod registry;
pub mod sse;
pub mod wait;
