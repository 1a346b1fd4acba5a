//! What the chapters run on: sessions as users build them, over an embedded
//! BigQuery with the `nycflights13` tables.
//!
//! | module | what |
//! |---|---|
//! | [`chapters`] | finding chapters and running or completing them |
//! | [`database`] | statements in a session |
//! | [`cells`] | results as text |

pub mod cells;
pub mod chapters;
pub mod database;
#[cfg(test)]
mod over_files;
