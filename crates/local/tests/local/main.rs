//! The embedded BigQuery seen from outside: every test talks to a server over
//! real sockets.

mod append;
mod append_rows;
mod capture;
mod copies;
mod datasets;
mod durable;
mod faults;
mod gcs;
mod harness;
mod hostile;
mod insert_all;
mod jobs;
mod loads;
mod loads_gs;
mod memory;
mod process;
mod queries;
mod quotas;
mod read;
mod restarts;
mod tabledata;
mod tables;
mod uploads;
mod write_streams;
