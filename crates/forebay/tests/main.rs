//! What programs and the command see, with real processes, as one program.

mod agent;
mod ahead;
mod cli;
mod closing;
mod deaths;
mod deleted;
mod elsewhere;
mod full;
mod lost;
mod network;
mod orders;
mod ranks;
mod spaces;
mod steer;
mod steering;
mod successor;
mod support;
mod versions;
mod whole_way;
