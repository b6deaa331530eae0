//! What follows from a failure: [`table`] says what may be tried, [`backoff`] when, [`budget`] how
//! often in all, and [`twin`] which call a client's own retry belongs to.

pub mod backoff;
pub mod budget;
pub mod table;
pub mod twin;
