//! The REST interface, version 2.

pub mod model;
mod tables;
mod transport;

pub(crate) use transport::Transport;
