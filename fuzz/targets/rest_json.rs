//! A REST request: a line with method and path, then the body.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::rest_json(bytes);
});
