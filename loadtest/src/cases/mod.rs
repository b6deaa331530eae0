//! Failure cases played against a gateway.
