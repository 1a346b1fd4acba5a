//! The parts of `dfbq`, the DataFusion command line with BigQuery in it.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | flags |
//! | [`server`] | which BigQuery the flags mean |
//! | [`session`] | the session behind the shell |
//! | [`files`] | files as tables |
//! | [`demo`] | the `nycflights13` tables |
//! | [`shell`] | running statements and the shell's own commands |
//! | [`definitions`] | refusing to define things in BigQuery |
//! | [`statements`] | cutting a text into statements |
//! | [`repl`] | reading statements from a terminal |
//! | [`piped`] | reading statements from standard input |
//! | [`progress`] | the line that says how far a long statement has read or written |
//! | [`report`] | errors as one line |
//! | `hints` | what to do about errors of DataFusion |
//! | [`unset`] | the catalog `bq` without a project |

pub mod args;
pub mod definitions;
pub mod demo;
pub mod files;
mod hints;
pub mod piped;
pub mod progress;
pub mod repl;
pub mod report;
pub mod server;
pub mod session;
pub mod shell;
pub mod statements;
pub mod unset;
