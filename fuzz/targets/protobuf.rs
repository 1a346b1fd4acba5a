//! A byte for the method of the Storage API, then its request.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bigquery_local::fuzzing::protobuf(bytes);
});
