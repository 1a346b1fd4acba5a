//! Writing over the Storage Write API.
//!
//! [`default`] appends to the default stream of a table, sends again what was not
//! answered and tells what became of each request. `connection` is one call,
//! `message` its requests, `status` what refusals mean.

mod connection;
pub mod default;
pub(crate) mod message;
mod status;

pub use message::{RequestRows, WriterSchema};
