//! A row restriction of a read session.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::restriction(bytes);
});
