//! A limit on everything. Whoever meets a larger value refuses it with `BadArgument` or `Full`
//! and names the limit.

/// Longest name of a data set, table, service, diagram or parameter, in bytes.
pub const NAME_BYTES: usize = 255;
/// Longest name of a file that goes with a call, in bytes.
pub const FILE_NAME_BYTES: usize = 255;
/// Highest rank (number of dimensions) of an array.
pub const RANK: usize = 8;
/// Longest unit, in bytes.
pub const UNIT_BYTES: usize = 64;
/// Largest buffer of a process, which is the area of blocks of its segment: 64 TiB, more than any memory.
pub const BUFFER_BYTES: u64 = 1 << 46;
/// Largest JSON descriptor (attributes, declarations), in bytes.
pub const JSON_BYTES: usize = 64 * 1024;
/// Largest JSON of what one array of a snapshot says of itself (names of axes, attributes), in bytes.
pub const DESCRIPTION_BYTES: usize = 192 * 1024;
/// Largest record in a ring, in bytes, header included.
pub const RECORD_BYTES: usize = 256 * 1024;
/// Arrays of snapshots up to this size travel inside the record; larger ones in a block of the arena.
pub const INLINE_BYTES: usize = 8 * 1024;
/// Data sets outside steps up to this size travel inside the record and live in the catalog; larger
/// ones get a file, which is slower below some hundred KiB and spares the catalog above.
pub const SMALL_BYTES: usize = 64 * 1024;
/// Most columns of a table.
pub const COLUMNS: usize = 256;
/// Most parameters of a service.
pub const PARAMETERS: usize = 64;
/// Most ranks of one run.
pub const RANKS: usize = 65_536;
/// Most clients beside the ranks of one run.
pub const CLIENTS: usize = 1024;
/// Most diagrams of one run.
pub const DIAGRAMS: usize = 256;
/// Most curves of one diagram.
pub const CURVES: usize = 16;
/// Most steps of one act `Step`.
pub const STEPS: u64 = 1 << 40;
/// Longest text of a parameter, in bytes.
pub const TEXT_BYTES: usize = 1024;
/// Most points kept of one curve: what exceeds it is reduced before it leaves the simulation.
pub const POINTS: usize = 16_384;
