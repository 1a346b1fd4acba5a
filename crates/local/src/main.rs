//! bigquery-local
fn main() {}
