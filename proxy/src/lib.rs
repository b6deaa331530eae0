//! The edge of Whippletree.
