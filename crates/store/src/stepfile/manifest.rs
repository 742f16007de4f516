//! What a file of arrays says about itself, so that the catalog can be made from files alone.

use forebay_types::control::Heads;
use forebay_types::record::Overlap;
use forebay_types::{
    ArrayMeta, Code, Compression, DType, Description, Error, Order, Result, Shape, SortBy, Stats,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rank of a piece that no rank gave: its elements have the fill value of its data set.
pub const NOBODY: u32 = u32::MAX;
/// The rank of a piece of all ranks, whose elements do not lie in the order of ranks.
pub const ALL: u32 = u32::MAX - 1;

/// A rectangular piece of a data set, as one rank gave it, with the checksum of its bytes in the
/// order of the rank's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Who gave it, or [`NOBODY`], or [`ALL`].
    pub rank: u32,
    /// Index of its first element.
    pub offset: Vec<u64>,
    /// Its extents.
    pub shape: Vec<u64>,
    /// CRC-32C of its bytes.
    pub crc32c: u32,
    /// What its values come to; files of before do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
    /// Where its chunks lie, if it lies in such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Chunks>,
    /// Of a constant of the run: the file that it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// The chunks of a piece that was compressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks {
    /// How.
    pub compress: Compression,
    /// Extents of a chunk, axes as in the file.
    pub extents: Vec<u64>,
    /// The chunks, in the order of the piece's bytes.
    pub stored: Vec<StoredChunk>,
}

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u32, u32)", into = "(u64, u64, u32, u32)")]
pub struct StoredChunk {
    /// Its first byte in the file.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
    /// Filters of HDF5 that it did not go through, a bit for each.
    pub mask: u32,
    /// CRC-32C of these bytes.
    pub crc32c: u32,
}

impl From<(u64, u64, u32, u32)> for StoredChunk {
    fn from((offset, bytes, mask, crc32c): (u64, u64, u32, u32)) -> StoredChunk {
        StoredChunk { offset, bytes, mask, crc32c }
    }
}

impl From<StoredChunk> for (u64, u64, u32, u32) {
    fn from(c: StoredChunk) -> (u64, u64, u32, u32) {
        (c.offset, c.bytes, c.mask, c.crc32c)
    }
}

impl Piece {
    /// Whether it is this one. Two of one rank may begin at one index, when one of them has no elements.
    pub fn is(&self, rank: u32, offset: &Shape, local: &Shape) -> bool {
        self.rank == rank && self.offset == offset.extents() && self.shape == local.extents()
    }

    /// What it is, for people.
    pub fn called(&self) -> String {
        match self.rank {
            NOBODY => "the part that no rank put".to_owned(),
            ALL => "what all ranks put".to_owned(),
            rank => format!("the piece of rank {rank}"),
        }
    }
}

/// A data set of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Type, shape and element order, as the user sees them.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// The pieces it was put together from.
    pub pieces: Vec<Piece>,
    /// What it says of itself.
    pub about: Description,
}

impl Entry {
    /// Bytes of the data set.
    pub fn nbytes(&self) -> u64 {
        self.meta.bytes().unwrap_or(0)
    }

    /// How its chunks are compressed, if it lies in such.
    pub fn compressed(&self) -> Option<Compression> {
        self.pieces.iter().find_map(|p| p.chunks.as_ref()).map(|c| c.compress)
    }

    /// What its values come to; truth values, texts and bytes have no such sums, and files of before do not say them.
    pub fn stats(&self) -> Option<Stats> {
        let pieces = self.pieces.iter().filter(|p| !p.shape.contains(&0));
        pieces.map(|p| p.stats).try_fold(Stats::none(self.meta.dtype)?, |all, piece| all.joined(piece?))
    }
}

/// The JSON of an entry.
#[derive(Clone, Serialize, Deserialize)]
struct Plain {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    order: String,
    /// Files of before say `unit`.
    #[serde(default, alias = "unit")]
    units: String,
    offset: u64,
    nbytes: u64,
    pieces: Vec<Piece>,
    #[serde(flatten)]
    about: Description,
}

impl From<Entry> for Plain {
    fn from(e: Entry) -> Plain {
        Plain {
            nbytes: e.nbytes(),
            dtype: e.meta.dtype.name().to_owned(),
            shape: e.meta.shape.extents().to_vec(),
            order: if e.meta.order == Order::F { "F" } else { "C" }.to_owned(),
            name: e.name,
            units: e.units,
            offset: e.offset,
            pieces: e.pieces,
            about: e.about,
        }
    }
}

impl TryFrom<Plain> for Entry {
    type Error = Error;

    fn try_from(p: Plain) -> Result<Entry> {
        let order = match p.order.as_str() {
            "C" => Order::C,
            "F" => Order::F,
            other => return Err(Error::new(Code::Corrupt, format!("{other:?} is no element order"))),
        };
        let meta = ArrayMeta { dtype: DType::parse(&p.dtype)?, shape: Shape::new(&p.shape)?, order };
        let Plain { name, units, offset, pieces, about, .. } = p;
        Ok(Entry { name, meta, units, offset, pieces, about })
    }
}

/// A time that the run went back to a checkpoint: steps behind that of it, of a serial up to that
/// one, were put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Back {
    /// The step it went back to.
    pub step: i64,
    /// The highest serial there was.
    pub serial: u64,
}

/// What a file says that holds what some ranks put of a step which lacks others: its arrays are
/// `forebay/parts/RANK/NAME`, each as its rank gave it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// Number of ranks.
    pub size: u32,
    /// Ranks that lack, and the sessions in whose memory their parts are.
    pub missing: BTreeMap<u32, u64>,
    /// Ranks whose parts are here.
    pub given: BTreeMap<u32, Given>,
    /// Where each array belongs in the whole.
    pub places: Vec<Placed>,
    /// What each rank says of arrays, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub said: BTreeMap<String, BTreeMap<u32, Description>>,
    /// How arrays of the whole step are to be compressed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compress: BTreeMap<String, Compression>,
    /// Which arrays each rank puts of particles that are to lie in order in the whole step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sort: BTreeMap<String, BTreeMap<u32, SortBy>>,
}

/// By whom a part was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The session.
    pub session: u64,
    /// The record by which it began the step.
    pub began: u64,
    /// Where a loop may go on, if the number does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<Heads>,
}

/// Where an array of a part belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Whose.
    pub rank: u32,
    /// Its name in the step.
    pub name: String,
    /// Which piece of that name it is among those of its rank.
    #[serde(default, skip_serializing_if = "is_first")]
    pub piece: u32,
    /// Where.
    #[serde(flatten)]
    pub place: Within,
}

fn is_first(piece: &u32) -> bool {
    *piece == 0
}

/// The place of a piece in a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "place", rename_all = "lowercase")]
pub enum Within {
    /// It is the data set.
    Whole,
    /// A block of it.
    At {
        /// Index of its first element.
        offset: Vec<u64>,
        /// Extents of the data set.
        whole: Vec<u64>,
    },
    /// A block of it, over which those of other ranks may lie.
    Over {
        /// Index of its first element.
        offset: Vec<u64>,
        /// Extents of the data set.
        whole: Vec<u64>,
        /// What holds there.
        rule: Overlap,
    },
    /// Behind the pieces of lower ranks.
    Append,
    /// It is the data set, as any other rank has it that says it.
    Alike,
}

impl Partial {
    /// Where a piece of a rank lies in the file.
    pub fn name_of(rank: u32, piece: u32, name: &str) -> String {
        match piece {
            0 => format!("forebay/parts/{rank}/{name}"),
            _ => format!("forebay/parts/{rank}.{piece}/{name}"),
        }
    }
}

/// Everything a file says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the run.
    pub format: u32,
    /// Identity of the run.
    pub run_id: String,
    /// The step; meaningless in a file of a data set outside steps.
    pub step: i64,
    /// Its time, if given.
    pub time: Option<f64>,
    /// Values of the parameters.
    #[serde(default)]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The number of this file among all steps of the run, in the order they were finished; one that
    /// was written anew has another one. 0 in data sets outside steps, and in format 1.
    #[serde(default)]
    pub serial: u64,
    /// The times that the run went back to a checkpoint before.
    #[serde(default)]
    pub backs: Vec<Back>,
    /// Where a loop may go on from this step, if its number does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<Heads>,
    /// Of a step with meshes or particles: the time since the step before, by as many steps as there are between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dt: Option<f64>,
    /// For a data set outside steps: set number and version.
    #[serde(default)]
    pub set: Option<(i64, u64)>,
    /// For what is here of a step that lacks ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<Partial>>,
    /// The data sets.
    pub data: Vec<Entry>,
}

/// What stands before the checksum at the end of the JSON.
const CHECK: &[u8] = b",\"check\":";

impl Manifest {
    /// Its JSON, which ends with the checksum of all before it.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        sealed(self)
    }

    /// Reads it; one that is not as it was written is refused. Those of before have no checksum.
    pub fn from_json(json: &[u8]) -> Result<Manifest> {
        unsealed(json)
    }
}

/// The JSON of what a file says of itself, which ends with the checksum of all before it.
pub(super) fn sealed<T: Serialize>(told: &T) -> Result<Vec<u8>> {
    let mut json = serde_json::to_vec(told).map_err(|e| Error::internal(e.to_string()))?;
    json.pop();
    let sum = forebay_types::crc32c(&json);
    json.extend_from_slice(CHECK);
    json.extend_from_slice(format!("{sum}}}").as_bytes());
    Ok(json)
}

/// Reads it; one that is not as it was written is refused.
pub(super) fn unsealed<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    let wrong = |why: String| Error::new(Code::Corrupt, why);
    let tail = json.len().saturating_sub(CHECK.len() + 11);
    let at = json[tail..].windows(CHECK.len()).position(|w| w == CHECK).map(|at| tail + at);
    if let Some(at) = at {
        let told = json[at + CHECK.len()..].strip_suffix(b"}").unwrap_or(b"");
        if told != forebay_types::crc32c(&json[..at]).to_string().as_bytes() {
            return Err(wrong("its manifest is not what was written: its checksum is another one".into()));
        }
    }
    serde_json::from_slice(json).map_err(|e| match at {
        // It is what was written, in words that are not known here.
        Some(_) => Error::new(
            Code::VersionMismatch,
            format!(
                "its manifest says what this Forebay does not know ({e}); read it with the one that wrote it"
            ),
        ),
        None => wrong(format!("its manifest cannot be read: {e}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Mesh;

    #[test]
    fn a_manifest_reads_back_and_refuses_nonsense() {
        let meta = ArrayMeta { dtype: DType::C128, shape: Shape::new(&[3, 4]).unwrap(), order: Order::F };
        let piece = Piece { rank: 0, offset: vec![0, 0], shape: vec![3, 4], crc32c: 7, ..Piece::default() };
        let about = Description {
            dims: vec!["x".into(), "y".into()],
            attrs: serde_json::from_str(r#"{"k": 1.0, "n": {"$": "nan"}}"#).unwrap(),
            mesh: Some(Mesh { name: "a/b".into(), spacing: vec![0.1, 0.2], ..Mesh::default() }),
            ..Description::default()
        };
        let pieces = vec![piece];
        let entry = Entry { name: "a/b".into(), meta, units: "V".into(), offset: 4096, pieces, about };
        let m = Manifest { format: 1, step: -2, time: Some(0.1), data: vec![entry], ..Manifest::default() };
        let text = serde_json::to_string(&m).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), m);
        assert!(serde_json::from_str::<Manifest>(&text.replace("c128", "float")).is_err());
        assert_eq!(Manifest::from_json(text.as_bytes()).unwrap(), m, "of before there were checksums");
    }

    #[test]
    fn a_manifest_with_one_byte_changed_is_none() {
        let m = Manifest {
            format: 2,
            run_id: "ab".into(),
            step: 5,
            time: Some(5.0),
            serial: 6,
            ..Manifest::default()
        };
        let json = m.to_json().unwrap();
        assert_eq!(Manifest::from_json(&json).unwrap(), m);
        let own = json.windows(CHECK.len()).position(|w| w == CHECK).unwrap();
        for at in 0..json.len() {
            for bit in 0..8 {
                let mut bytes = json.clone();
                bytes[at] ^= 1 << bit;
                // Where the word for the checksum is damaged all that it is for is not.
                match Manifest::from_json(&bytes) {
                    Ok(read) => assert!(read == m && (own..own + CHECK.len()).contains(&at), "{at}"),
                    Err(e) => assert_eq!(e.code(), Code::Corrupt),
                }
            }
        }
    }
}
