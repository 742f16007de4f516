//! What tests and benchmarks of the whole have in common.

pub mod broker;
