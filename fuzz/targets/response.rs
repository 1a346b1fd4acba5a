//! A response of the Storage Read API, as the library reads it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    datafusion_bigquery::client::read::fuzzing::response(bytes);
});
