//! BigQuery tables as DataFusion sees them: what is known of a live table
//! ([`metadata`]), the provider, the factory behind CREATE EXTERNAL TABLE, and
//! what SQL can say where it names a table ([`relation`], [`functions`]).

mod factory;
mod functions;
mod metadata;
mod provider;
mod relation;
mod shared;
mod version;

pub use factory::BigQueryTableFactory;
pub use provider::BigQueryTable;
pub(crate) use provider::{Origin, TableContext, other_connection, table_type};
pub(crate) use relation::BigQueryRelations;
pub(crate) use shared::Shared;
