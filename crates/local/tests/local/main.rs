//! The embedded BigQuery seen from outside: every test talks to a server over
//! real sockets.

mod datasets;
mod harness;
mod insert_all;
mod process;
mod tabledata;
mod tables;
