//! What SQL cannot say: faults, restarts, and every row exactly once.

mod fake_read;
mod fake_rest;
mod local_server;
mod read_faults;
mod read_local;
mod rest_client;
