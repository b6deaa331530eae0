//! Wire formats of Whippletree.
//!
//! Codecs between bytes and meaning: synchronous, without I/O, clocks or locks. What they mean by
//! tokens, money and failures is the vocabulary of `whippletree-policies`.
//!
//! How to read this crate, along the way of a request:
//!
//! - [`envelope`] checks a request body in one pass and edits it by splices;
//! - [`registry`] finds a vendor by name; [`provider`] is what the gateway asks of it;
//! - [`openai`] is the dialect that most vendors speak, [`openai::dialects`] who they are, and
//!   [`anthropic`] the one of Anthropic's messages;
//! - [`sse`] cuts a streamed answer into frames and [`decoder`] says what they mean, and whether the
//!   answer was whole;
//! - [`failure`] is what an error came to, [`wait`] how long it asks to wait, and [`mask`] takes
//!   credentials out of what is passed on;
//! - [`prices`] finds the price card of a call, and reads the public catalogues;
//! - [`bedrock`] signs requests to AWS, [`percent`] encodes parts of addresses;
//! - [`prompt`] cuts a body as the vendor's prompt cache sees it.

pub mod anthropic;
pub mod bedrock;
pub mod decoder;
pub mod envelope;
pub mod failure;
pub mod mask;
pub mod openai;
pub mod percent;
pub mod prices;
pub mod prompt;
pub mod provider;
pub mod registry;
pub mod sse;
pub mod wait;
