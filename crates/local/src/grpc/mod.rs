//! The Storage API over gRPC: one module per service.

mod read;
mod serve;
pub(crate) mod status;
pub(crate) mod write;

pub use read::{Clock, ReadSessions, SessionRecord};
pub(crate) use read::{avro_rows, avro_schema};
pub use serve::serve;
pub(crate) use serve::services;

/// Google's messages.
pub(crate) mod proto {
    pub(crate) use googleapis_storage::google::cloud::bigquery::storage::v1::*;
}

/// The service traits that `build.rs` describes.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    tonic::include_proto!("google.cloud.bigquery.storage.v1.BigQueryRead");
    tonic::include_proto!("google.cloud.bigquery.storage.v1.BigQueryWrite");
}
