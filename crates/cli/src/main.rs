//! dfbq
fn main(){}
