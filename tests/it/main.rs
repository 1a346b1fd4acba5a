//! What SQL cannot say: faults, restarts, and every row exactly once.

mod catalog;
mod external_tables;
mod fake_read;
mod fake_rest;
mod flights;
mod harness;
mod late_filters;
mod late_filters_random;
mod layers;
mod random_tables;
mod read_faults;
mod read_local;
mod reading;
mod rest_client;
mod round_trip;
mod scan_faults;
