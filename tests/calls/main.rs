//! Calls between real processes: what goes through, what is refused before it is sent, and what
//! happens when servers and brokers die, stop or talk nonsense.

/// Which way calls go; `tests/calls_network` runs the same over the network.
const OVER_NETWORK: bool = false;
/// Whether client and server share memory.
const SHARED_MEMORY: bool = true;

mod again;
mod bags;
mod basics;
mod closing;
mod crowds;
mod cuts;
mod deaths;
mod direct;
mod failures;
mod files;
#[path = "../../crates/link/tests/frames/mod.rs"]
mod frames;
mod hostile;
mod large_arrays;
mod placement;
mod references;
mod roles;
mod transfer;
mod usage;
mod waits;
