//! bigquery-local
fn main(){}
