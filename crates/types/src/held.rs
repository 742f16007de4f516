//! Arrays that a server holds for a client, who refers to them by number.
//!
//! Making, filling, reading and removing them are calls like any other, of services that every
//! server has and none announces. A part of an array is given as it lies in the array's bytes:
//! offset of the first element, shape, and strides in bytes ([`crate::Strided`]); the data travel
//! dense, the last index running fastest. In `put` and `get` the array itself stands for its
//! bytes, and is passed as every reference is: at the place [`crate::call::Location::Held`].
//!
//! All arrays of a client lie in one segment of the server's, which a client of the same host may ask for
//! ([`crate::call::ServerRequest::Arrays`]): it then writes and reads them there by itself, while no call of its own uses
//! them.
//!
//! An array lives until it is removed or the client's connection ends.

/// Names that begin so belong to Forebay.
pub const OWN: &str = "forebay/";
/// Makes an array; all zero if that is wished, else of undefined content. What comes back is the number of its block in
/// the segment of this client's arrays.
pub const CREATE: &str = "forebay/array/create(in number:u64, in dtype:u8, in order:u8, in zero:bool, in shape:u64[rank], out block:u32)";
/// Writes a part.
pub const PUT: &str = "forebay/array/put(in item:u64, in offset:u64, in shape:u64[rank], in strides:i64[rank], inout array:u8[m], in data:u8[n])";
/// Reads a part.
pub const GET: &str = "forebay/array/get(in item:u64, in offset:u64, in shape:u64[rank], in strides:i64[rank], in array:u8[m], out data:u8[n])";
/// Removes an array; calls that came before it still have it.
pub const KILL: &str = "forebay/array/kill(in number:u64)";
/// Most arrays that a server holds for one client.
pub const ARRAYS: u32 = 16_384;
