//! BigQuery tables as DataFusion sees them: what is known of a live table
//! ([`metadata`]), the provider, and the factory behind CREATE EXTERNAL TABLE.

mod factory;
mod metadata;
mod provider;
mod shared;

pub use factory::BigQueryTableFactory;
pub use provider::BigQueryTable;
pub(crate) use provider::{TableContext, table_type};
pub(crate) use shared::Shared;
