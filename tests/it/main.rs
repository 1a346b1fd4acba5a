//! What SQL cannot say: faults, restarts, and every row exactly once.

mod catalog;
mod external_tables;
mod fake_read;
mod fake_rest;
mod field_bugs;
mod flights;
mod harness;
mod hostile_responses;
mod late_filters;
mod late_filters_random;
mod layers;
mod queries;
mod random_tables;
mod read_faults;
mod read_local;
mod reading;
mod rest_client;
mod round_trip;
mod scan_faults;
mod scan_memory;
mod scan_metrics;
mod sink_faults;
mod sink_insert;
mod soundness;
mod write_round_trip;
