//! The `whippletree` program.

fn main() {}
