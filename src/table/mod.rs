//! BigQuery tables as DataFusion sees them: what is known of a live table
//! ([`metadata`]), the provider, the one of tables that take changes ([`change_table`]),
//! the factory behind CREATE EXTERNAL TABLE, what SQL
//! can say where it names a table ([`relation`], [`functions`]), literals beside its
//! columns ([`fit_literals`]), what INSERT means ([`insert`], [`values`],
//! [`exact_cast`]) and writes to ([`writing`]), and what MERGE does ([`merge`],
//! [`same_value`]).

mod change_table;
mod digest;
mod exact_cast;
mod factory;
mod fit_literals;
mod functions;
mod insert;
mod merge;
mod metadata;
mod provider;
mod relation;
mod same_value;
mod shared;
mod values;
mod version;
mod writing;

pub use change_table::BigQueryChangeTable;
pub use factory::BigQueryTableFactory;
pub(crate) use fit_literals::FitLiterals;
pub(crate) use insert::PlanInserts;
pub use provider::BigQueryTable;
pub(crate) use provider::{Origin, TableContext, other_connection, table_type};
pub(crate) use relation::BigQueryRelations;
pub(crate) use shared::Shared;
