//! it

