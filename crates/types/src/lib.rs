//! The words of Forebay: names, dtypes, shapes, signatures, records and errors. Pure values;
//! this crate does no input or output and knows no other crate.
//!
//! Everything that two processes must agree on about the *meaning* of bytes stands here; how
//! the bytes travel is the business of `forebay-arena` and `forebay-link`.
//!
//! ```
//! use forebay_types::{DType, Name, Shape};
//! let name = Name::new("electrons/beam1/x").unwrap();
//! let shape = Shape::new(&[1000, 3]).unwrap();
//! assert_eq!(shape.bytes(DType::F64).unwrap(), 24_000);
//! assert_eq!(name.leaf(), "x");
//! ```
#![forbid(unsafe_code)]

mod alike;
mod array;
mod attribute_array;
mod attributes;
pub mod call;
mod check;
pub mod codec;
pub mod columns;
mod compression;
pub mod control;
mod cost;
mod counts;
mod description;
pub mod directory;
mod dtype;
mod element;
mod error;
pub mod file;
pub mod held;
mod keep;
pub mod limits;
pub mod line;
mod mesh;
mod name;
pub mod neutral;
pub mod pack;
pub mod reading;
pub mod record;
pub mod signature;
mod stats;
mod strided;
mod sum;
mod text;
mod units;
pub mod usage;
mod value;
pub mod watch;

pub use alike::alike;
pub use array::{ArrayMeta, Order, Selection, Shape, Slice};
pub use attribute_array::{
    array_of_attribute, attribute_among, attribute_in, attribute_of_array, check_attribute_array,
};
pub use attributes::{attributes, number_of_attribute, real_attribute};
pub use check::Given;
pub use compression::Compression;
pub use cost::{Cost, MOST_COST};
pub use counts::counted;
pub use description::{Description, Elsewhere, Native, ORIGINAL_DTYPE, axes, axis_path, native, unit_among};
pub use dtype::{DType, ElementKind, to_odd};
pub use element::Element;
pub use error::{CODES, Code, CodeInfo, Error, Result};
pub use keep::Keep;
pub use mesh::{Constant, Mesh, SortBy, Species, uniform};
pub use name::Name;
pub use signature::{Param, Signature, Way};
pub use stats::{Stats, Tally};
pub use strided::Strided;
pub use sum::{Crc32, crc32c, crc32c_append};
pub use text::{beginning, ending};
pub use units::Unit;
pub use value::{Number, Scalar};
