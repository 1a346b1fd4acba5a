//! The REST interface, version 2.

pub mod bulk_jobs;
pub mod create;
pub mod job_model;
pub mod jobs;
pub mod model;
mod paths;
pub mod rows;
mod tables;
pub mod temporary;
pub(super) mod transport;

pub(crate) use transport::Transport;
