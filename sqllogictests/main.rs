//! slt
fn main() {}
