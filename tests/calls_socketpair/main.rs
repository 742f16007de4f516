//! The same calls between real processes as in `tests/calls`, by a way that is written in the tests of the link
//! (`crates/link/tests/socketpair.rs`).

const OVER_NETWORK: bool = false;
const SHARED_MEMORY: bool = false;

#[path = "../calls/bags.rs"]
mod bags;
#[path = "../calls/basics.rs"]
mod basics;
#[path = "../calls/crowds.rs"]
mod crowds;
#[path = "../calls/cuts.rs"]
mod cuts;
#[path = "../calls/deaths.rs"]
mod deaths;
#[path = "../calls/failures.rs"]
mod failures;
#[path = "../calls/large_arrays.rs"]
mod large_arrays;
#[path = "../calls/placement.rs"]
mod placement;
#[path = "../calls/references.rs"]
mod references;
#[path = "../calls/roles.rs"]
mod roles;
#[path = "../calls/transfer.rs"]
mod transfer;
#[path = "../calls/waits.rs"]
mod waits;
