//! A project as a catalog: `SELECT … FROM bq.dataset.table` without DDL.
//!
//! Tables are looked up one by one when a query names them. Listings, which
//! SHOW TABLES and information_schema need, are asked for only by those, kept
//! for a minute and renewed in the background.

mod dataset;
mod listing;
mod project;

pub use project::BigQueryCatalog;
