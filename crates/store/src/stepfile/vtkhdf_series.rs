//! A file of VTKHDF over many steps, written once: images, and points with a vertex each.
//!
//! ```text
//!  one block          /VTKHDF            Type = "ImageData" or "PolyData"
//!  else               /VTKHDF            Type = "MultiBlockDataSet"     Steps: NSteps, Values
//!                     /VTKHDF/E          a block
//!                     /VTKHDF/Assembly   soft links to the blocks
//!  an image           PointData/E        (steps, z, y, x) or (steps, z, y, x, 3)
//!  points             Points             those of all steps, one behind the other; Steps says where each begins
//! ```
//!
//! Readers up to VTK 9.7 look for the steps of a collection at its root, and of a `PartitionedDataSetCollection` they take
//! whatever lies there for a block. So several blocks are a `MultiBlockDataSet`: one that is read in every way in which a
//! pipeline asks for a time. A file of one step has no `Steps`, and its arrays no axis for them, for these readers take
//! that for none.

use super::gathered::Gathered;
use super::vtkhdf::{Image, free, group, integers, ordered};
use forebay_types::{ArrayMeta, DType, Description, Error, Result, Shape};
use serde_json::Map;
use std::path::{Path, PathBuf};

const ROOT: &str = "VTKHDF";
const VERSION: [i64; 2] = [2, 1];
/// Numbers that are made at a time.
const PART: u64 = 1 << 18;

/// A file in the making.
pub struct VtkSeries {
    path: PathBuf,
    file: Gathered,
    times: Vec<f64>,
    names: Vec<String>,
    is_single: bool,
}

/// A block of it.
pub struct VtkBlock {
    path: String,
    /// Extents of its arrays, but for their components.
    extents: Vec<u64>,
    /// Where each step begins, of points.
    begins: Option<Vec<i64>>,
}

impl VtkSeries {
    /// Begins it, with so many blocks.
    pub fn create(path: &Path, times: Vec<f64>, blocks: usize) -> Result<VtkSeries> {
        let file = Gathered::create(path)?;
        let mut made = VtkSeries {
            path: path.to_owned(),
            file,
            times,
            names: vec!["Assembly".to_owned(), "Steps".to_owned()],
            is_single: blocks == 1,
        };
        if !made.is_single {
            made.file.frame().with(path, "cannot make", |file| {
                group(file, ROOT, "MultiBlockDataSet", VERSION)?;
                ordered(file, &format!("{ROOT}/Assembly")).map(drop)
            })?;
            made.steps(ROOT)?;
        }
        Ok(made)
    }

    fn has_steps(&self) -> bool {
        self.times.len() > 1
    }

    /// What says which steps there are.
    fn steps(&mut self, path: &str) -> Result<()> {
        if !self.has_steps() {
            return Ok(());
        }
        let (at, n) = (format!("{path}/Steps"), self.times.len() as i64);
        self.file.frame().with(&self.path, "cannot describe", |file| {
            integers(&file.create_group(&at)?, "NSteps", None, &[n])
        })?;
        let bytes: Vec<u8> = self.times.iter().flat_map(|t| t.to_le_bytes()).collect();
        let set = self.add(&format!("{at}/Values"), DType::F64, &[n as u64], "")?;
        self.file.write(set, 0, &bytes)
    }

    fn add(&mut self, name: &str, dtype: DType, extents: &[u64], units: &str) -> Result<usize> {
        let meta = ArrayMeta::new(dtype, Shape::new(extents)?);
        self.file.add(name, &meta, units, Description::default())
    }

    fn whole(&mut self, name: &str, extents: &[u64], values: impl Iterator<Item = i64>) -> Result<()> {
        let set = self.add(name, DType::I64, extents, "")?;
        let bytes: Vec<u8> = values.flat_map(|v| v.to_le_bytes()).collect();
        self.file.write(set, 0, &bytes)
    }

    fn block(&mut self, name: String, kind: &str) -> Result<String> {
        if self.is_single {
            self.file
                .frame()
                .with(&self.path, "cannot make", |file| group(file, ROOT, kind, VERSION).map(drop))?;
            return Ok(ROOT.to_owned());
        }
        let name = free(name, &self.names);
        let path = format!("{ROOT}/{name}");
        let index = self.names.len() as i64 - 2;
        self.file.frame().with(&self.path, "cannot make", |file| {
            integers(&group(file, &path, kind, VERSION)?, "Index", None, &[index])?;
            file.group(ROOT)?.link_soft(&format!("/{path}"), &format!("Assembly/{name}"))
        })?;
        self.names.push(name);
        Ok(path)
    }

    /// An image; the arrays on it come after.
    pub fn image(&mut self, name: String, image: &Image, is_turned: bool) -> Result<VtkBlock> {
        let path = self.block(name, "ImageData")?;
        self.file
            .frame()
            .with(&self.path, "cannot describe", |file| image.describe(&file.group(&path)?, is_turned))?;
        self.steps(&path)?;
        let mut extents: Vec<u64> = image.extents.iter().rev().copied().collect();
        if self.has_steps() {
            extents.insert(0, self.times.len() as u64);
        }
        Ok(VtkBlock { path, extents, begins: None })
    }

    /// Points of so many at each step; gives their coordinates, three for each, as an array to be written.
    pub fn points(
        &mut self,
        name: String,
        counts: &[u64],
        dtype: DType,
        units: &str,
    ) -> Result<(VtkBlock, usize)> {
        let path = self.block(name, "PolyData")?;
        let (steps, total) = (counts.len() as u64, counts.iter().sum::<u64>());
        let count = || counts.iter().map(|n| *n as i64);
        let begins: Vec<i64> = count()
            .scan(0, |next, n| {
                let begin = *next;
                *next += n;
                Some(begin)
            })
            .collect();
        let points = self.add(&format!("{path}/Points"), dtype, &[total, 3], units)?;
        self.whole(&format!("{path}/NumberOfPoints"), &[steps], count())?;
        self.vertices(&path, counts)?;
        for cells in ["Lines", "Polygons", "Strips"] {
            for none in ["NumberOfCells", "NumberOfConnectivityIds", "Offsets"] {
                self.whole(&format!("{path}/{cells}/{none}"), &[steps], counts.iter().map(|_| 0))?;
            }
            self.whole(&format!("{path}/{cells}/Connectivity"), &[0], std::iter::empty())?;
        }
        if self.has_steps() {
            self.steps(&path)?;
            let at = format!("{path}/Steps");
            self.whole(&format!("{at}/NumberOfParts"), &[steps], counts.iter().map(|_| 1))?;
            self.whole(&format!("{at}/PartOffsets"), &[steps], 0..steps as i64)?;
            self.whole(&format!("{at}/PointOffsets"), &[steps], begins.iter().copied())?;
            // Of the four kinds of cells there are vertices alone.
            let cells = || begins.iter().flat_map(|begin| [*begin, 0, 0, 0]);
            self.whole(&format!("{at}/CellOffsets"), &[steps, 4], cells())?;
            self.whole(&format!("{at}/ConnectivityIdOffsets"), &[steps, 4], cells())?;
        }
        Ok((VtkBlock { path, extents: vec![total], begins: Some(begins) }, points))
    }

    /// A vertex for each point.
    fn vertices(&mut self, path: &str, counts: &[u64]) -> Result<()> {
        let (steps, total) = (counts.len() as u64, counts.iter().sum::<u64>());
        let at = format!("{path}/Vertices");
        for number in ["NumberOfCells", "NumberOfConnectivityIds"] {
            self.whole(&format!("{at}/{number}"), &[steps], counts.iter().map(|n| *n as i64))?;
        }
        for (what, more) in [("Connectivity", 0), ("Offsets", 1)] {
            let set = self.add(&format!("{at}/{what}"), DType::I64, &[total + more * steps], "")?;
            let mut done = 0;
            for n in counts.iter().map(|n| n + more) {
                for from in (0..n).step_by(PART as usize) {
                    let numbers = from..n.min(from + PART);
                    let bytes: Vec<u8> = numbers.flat_map(|v| (v as i64).to_le_bytes()).collect();
                    self.file.write(set, done, &bytes)?;
                    done += bytes.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// An array with a value, or three, for each point of a block, over all steps.
    pub fn array(
        &mut self,
        block: &VtkBlock,
        name: &str,
        dtype: DType,
        components: u64,
        units: &str,
    ) -> Result<usize> {
        let mut extents = block.extents.clone();
        extents.extend((components > 1).then_some(components));
        if let (Some(begins), true) = (&block.begins, self.has_steps()) {
            let at = format!("{}/Steps/PointDataOffsets/{name}", block.path);
            self.whole(&at, &[begins.len() as u64], begins.iter().copied())?;
        }
        self.add(&format!("{}/PointData/{name}", block.path), dtype, &extents, units)
    }

    /// Writes bytes of an array, from byte `at` of it on.
    pub fn write(&self, set: usize, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write(set, at, bytes)
    }

    /// Completes it.
    pub fn finish(self) -> Result<()> {
        match self.is_single || self.names.len() > 2 {
            true => self.file.finish(&Map::new()),
            false => Err(Error::internal("a file of VTKHDF without a block")),
        }
    }
}
