//! The schema of a read session, as the library reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    datafusion_bigquery::client::read::fuzzing::session_schema(bytes);
});
