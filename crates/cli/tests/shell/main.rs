//! `dfbq` as its users run it: as a process.

mod bigquery;
mod documents;
mod errors;
mod interrupt;
mod process;
mod progress;
mod server;
mod statements;
