//! Totals in the forms that people and tools read.

pub mod usage;
