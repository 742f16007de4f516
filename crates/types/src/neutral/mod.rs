//! The text form of a run: lines of UTF-8 that say all that a run holds, to the bit, on any machine. `spec/text-form.md`
//! is its description.
//!
//! ```text
//!  forebay-text 2
//!  run {"attrs": {...}}
//!  dataset {"name": "a/pi", "dtype": "f64", "shape": [2], "units": "rad"}
//!  3.25 nan:7ff8000000000001
//!  end
//!  table {"name": "history", "columns": [{"name": "step", "dtype": "i64", "units": ""}]}
//!  [1]
//!  end
//!  snapshot {"step": 600, "time": 60.0}
//!  array {"name": "E", "dtype": "f32", "shape": [2, 3], "dims": ["x", "y"]}
//!  ...
//!  end
//!  end of run
//! ```

pub mod element;
mod read;
mod write;

pub use read::{Section, SectionReader};
pub use write::{ElementLines, row, section};

use crate::control::Column;
use crate::{ArrayMeta, DType, Description, Error, Mesh, Order, Result, Shape, Species, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The first line.
pub const FIRST: &str = "forebay-text 2";
/// That of the version before: what it says means the same.
const BEFORE: &str = "forebay-text 1";
/// The line behind the elements of an array and the rows of a table.
pub const END: &str = "end";
/// The last line.
pub const LAST: &str = "end of run";

/// What is said of the run itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHead {
    /// Its attributes.
    #[serde(default)]
    pub attrs: Map<String, Value>,
}

/// What is said of a data set, or of an array of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayHead {
    /// Its name.
    pub name: String,
    /// Its set number; of arrays of snapshots 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub set: i64,
    /// The name of its dtype.
    pub dtype: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// `F` where the first index runs fastest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Unit, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub units: String,
    /// The names of its axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dims: Vec<String>,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attrs: Map<String, Value>,
    /// The mesh that it is, or is a component of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<Mesh>,
    /// The species that it is a record of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub species: Option<Species>,
}

impl ArrayHead {
    /// Of an array without units, names of axes and attributes.
    pub fn new(name: &str, meta: &ArrayMeta) -> ArrayHead {
        ArrayHead {
            name: name.to_owned(),
            set: 0,
            dtype: meta.dtype.name().to_owned(),
            shape: meta.shape.extents().to_vec(),
            order: (meta.order == Order::F).then(|| "F".to_owned()),
            units: String::new(),
            dims: Vec::new(),
            attrs: Map::new(),
            mesh: None,
            species: None,
        }
    }

    /// What it says of itself beside type, shape and units.
    pub fn description(&self) -> Description {
        Description {
            dims: self.dims.clone(),
            attrs: self.attrs.clone(),
            mesh: self.mesh.clone(),
            species: self.species.clone(),
            // Every element comes with the text, those that a fill value stood for, too.
            filled: None,
            compress: None,
            sort: None,
            constant: None,
        }
    }

    /// What the array is.
    pub fn meta(&self) -> Result<ArrayMeta> {
        let order = match self.order.as_deref() {
            None | Some("C") => Order::C,
            Some("F") => Order::F,
            Some(other) => {
                return Err(Error::bad(format!("{other:?} is no order of elements; write \"C\" or \"F\"")));
            }
        };
        let meta = ArrayMeta { dtype: DType::parse(&self.dtype)?, shape: Shape::new(&self.shape)?, order };
        meta.bytes().map(|_| meta)
    }
}

/// What is said of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableHead {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Whether its rows go when a restart goes back.
    #[serde(default)]
    pub history: bool,
    /// Whether each row has one value more at its end: the step that it was made in.
    #[serde(default, skip_serializing_if = "is_false")]
    pub steps: bool,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attrs: Map<String, Value>,
}

/// What is said of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotHead {
    /// Its number.
    pub step: i64,
    /// Its time, if it was given; a number, or the tag of one that JSON cannot write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Value>,
    /// Values of the parameters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

fn is_false(b: &bool) -> bool {
    !*b
}

/// Whether the texts of an array are written as texts: a single one; of several those whose letters lie together, and
/// that are not so wide that a short text would ask for much memory.
fn has_whole_texts(meta: &ArrayMeta) -> bool {
    let is_narrow = || meta.shape.extents().last().is_some_and(|width| *width <= limits::SMALL_BYTES as u64);
    match (meta.dtype, meta.shape.rank()) {
        (DType::Str, 0) => false,
        (DType::Str, 1) => true,
        (DType::Str, _) => meta.order == Order::C && is_narrow(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
