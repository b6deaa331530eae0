//! Wire formats of Whippletree.
