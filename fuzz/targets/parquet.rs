//! A Parquet file of a load job.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::parquet(bytes);
});
