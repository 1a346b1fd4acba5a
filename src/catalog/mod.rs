//! A project as a catalog: `SELECT … FROM bq.dataset.table` without DDL.
//!
//! Tables are looked up one by one when a query names them. SHOW TABLES and
//! information_schema list when they are planned ([`information_schema`]); other
//! listings, which cannot fail, are kept for a minute and renewed in the
//! background ([`listing`]).

mod dataset;
mod information_schema;
mod listing;
mod project;

pub(crate) use information_schema::Listings;
pub use project::BigQueryCatalog;
