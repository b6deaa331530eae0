//! What clients are told, and what vendors are asked, when something goes wrong: a whole gateway
//! between a client that sees every byte and a vendor that does as it is told.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests; what fails is the test"
)]

mod amplification;
mod charges;
mod disconnect;
mod doubtful;
mod health;
mod held;
mod resume;
mod runaway;
mod tokens;
mod twins;
mod world;
