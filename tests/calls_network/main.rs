//! The same calls between real processes as in `tests/calls`, over the network, and what only the
//! network does: strangers, hosts that vanish, cables that are cut.

const OVER_NETWORK: bool = true;
const SHARED_MEMORY: bool = false;

#[path = "../calls/bags.rs"]
mod bags;
#[path = "../calls/basics.rs"]
mod basics;
#[path = "../calls/closing.rs"]
mod closing;
#[path = "../calls/crowds.rs"]
mod crowds;
#[path = "../calls/cuts.rs"]
mod cuts;
#[path = "../calls/deaths.rs"]
mod deaths;
#[path = "../calls/failures.rs"]
mod failures;
#[path = "../calls/files.rs"]
mod files;
#[path = "../../crates/link/tests/frames/mod.rs"]
mod frames;
mod hostile;
mod hosts;
#[path = "../calls/large_arrays.rs"]
mod large_arrays;
mod net;
mod order;
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
