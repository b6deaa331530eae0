//! What follows from a failure: [`table`] says what may be tried, [`backoff`] when, [`budget`] how
//! often in all.

pub mod backoff;
pub mod budget;
pub mod table;
