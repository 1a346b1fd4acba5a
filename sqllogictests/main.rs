//! slt
fn main(){}
