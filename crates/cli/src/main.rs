//! dfbq
fn main() {}
