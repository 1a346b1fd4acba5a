//! A script of GoogleSQL.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::sql(bytes);
});
