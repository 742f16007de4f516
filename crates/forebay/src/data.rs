//! Arrays as the user gets them back.

use forebay_types::{ArrayMeta, DType, Error, Mesh, Result, Species, Stats};

/// An array as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// What it is.
    pub meta: ArrayMeta,
    /// Its bytes, dense in `meta.order`.
    pub bytes: Vec<u8>,
}

impl Array {
    /// The values, when they are of double precision.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        self.expect(DType::F64)?;
        Ok(self
            .bytes
            .chunks_exact(8)
            .map(|c| f64::from_le_bytes(c.try_into().expect("eight bytes")))
            .collect())
    }

    /// The values, when they are 64-bit integers.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        self.expect(DType::I64)?;
        Ok(self
            .bytes
            .chunks_exact(8)
            .map(|c| i64::from_le_bytes(c.try_into().expect("eight bytes")))
            .collect())
    }

    /// The text, when it is one.
    pub fn to_text(&self) -> Result<String> {
        self.expect(DType::Str)?;
        String::from_utf8(self.bytes.clone()).map_err(|e| {
            Error::new(forebay_types::Code::Corrupt, format!("the text stored is not UTF-8: {e}"))
        })
    }

    fn expect(&self, dtype: DType) -> Result<()> {
        if self.meta.dtype == dtype {
            return Ok(());
        }
        Err(Error::bad(format!("the array is {}, not {dtype}; read it as what it is", self.meta)))
    }
}

/// A data set, described.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// Its name.
    pub name: String,
    /// Its set number.
    pub set: i64,
    /// Dtype, shape and order.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// Attributes.
    pub attrs: serde_json::Map<String, serde_json::Value>,
    /// The name of each axis; empty: they have none.
    pub dims: Vec<String>,
    /// The mesh that an array of a snapshot is, or is a component of.
    pub mesh: Option<Mesh>,
    /// The species that an array of a snapshot is a record of.
    pub species: Option<Species>,
    /// How often it was put; 0 for data sets of steps, which never change.
    pub version: u64,
    /// Bytes of the whole array.
    pub nbytes: u64,
    /// Least, greatest and mean value, of numbers in snapshots.
    pub stats: Option<Stats>,
}

impl From<forebay_store::Array> for Array {
    fn from(a: forebay_store::Array) -> Array {
        Array { meta: a.meta, bytes: a.bytes }
    }
}

impl From<forebay_store::catalog::DataRow> for DataSet {
    fn from(row: forebay_store::catalog::DataRow) -> DataSet {
        let forebay_store::catalog::DataRow { name, set, meta, units, attrs, version, nbytes, .. } = row;
        DataSet {
            name,
            set,
            meta,
            units,
            attrs,
            dims: Vec::new(),
            mesh: None,
            species: None,
            version,
            nbytes,
            stats: None,
        }
    }
}
