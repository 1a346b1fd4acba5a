//! Entry points for bytes of any kind, one per input that the server reads. Not
//! part of the interface: the crate's fuzz targets and its tests call them.
//!
//! Each works on a service of its own in memory, goes through what a request goes
//! through, and panics if anything panicked on the way, on whatever thread, or if
//! there was no end.

mod load;
mod rpc;
mod storage;
mod text;
mod watch;
mod world;

pub use load::{avro, csv, newline_json, parquet};
pub use rpc::protobuf;
pub use storage::storage;
pub use text::{rest_json, restriction, sql};

/// What the server made of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did what it was asked to.
    Accepted,
    /// It answered an error.
    Refused,
}

impl Verdict {
    fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Accepted,
            Err(_) => Self::Refused,
        }
    }
}
