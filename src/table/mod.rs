//! BigQuery tables as DataFusion sees them: what is known of a live table
//! ([`metadata`]), the provider, the factory behind CREATE EXTERNAL TABLE, what SQL
//! can say where it names a table ([`relation`], [`functions`]), and what INSERT
//! means ([`insert`], [`exact_cast`]) and writes to ([`writing`]).

mod digest;
mod exact_cast;
mod factory;
mod functions;
mod insert;
mod metadata;
mod provider;
mod relation;
mod shared;
mod version;
mod writing;

pub use factory::BigQueryTableFactory;
pub(crate) use insert::PlanInserts;
pub use provider::BigQueryTable;
pub(crate) use provider::{Origin, TableContext, other_connection, table_type};
pub(crate) use relation::BigQueryRelations;
pub(crate) use shared::Shared;
