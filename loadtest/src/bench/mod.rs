//! The gateway beside others.
