//! The edge of Whippletree: all input and output, and the wiring between the parts.
//!
//! Read [`pipeline`] first: a request's path stands there from top to bottom. [`config`] says what
//! may be configured, [`server`] and [`upstream`] own the sockets, [`store`] keeps the record,
//! [`admin`] shows it, [`telemetry`] tells it to others.

pub mod admin;
pub mod api;
pub mod boot;
pub mod cli;
pub mod clock;
pub mod config;
pub mod credentials;
pub mod exchange;
pub mod explain;
pub mod gateway;
pub mod json;
pub mod keys;
pub mod limits;
pub mod lint;
pub mod pipeline;
pub mod prices;
pub mod report;
pub mod server;
pub mod state;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod upstream;
