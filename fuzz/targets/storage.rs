//! A request of Cloud Storage: a line with method and path, headers, then the body.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::storage(bytes);
});
