//! What SQL cannot say: faults, restarts, and every row exactly once.

mod fake_read;
mod fake_rest;
mod read_faults;
mod rest_client;
