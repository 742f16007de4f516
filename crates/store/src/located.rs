//! An array that the catalog knows: where its bytes lie, and reading them. What is read whole is compared
//! with the checksums that were made when it was written.

use crate::ahead;
use crate::catalog::{self, Bytes, StepRow};
use crate::layout::Layout;
use crate::stepfile::{Check, Entry, Hyperslab, Piece, Source, read_selection};
use forebay_types::{ArrayMeta, Code, Error, Result, Selection, Shape, crc32c};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether somebody reads an array of a step just now; what is on another host as far as its file system tells.
pub(crate) fn is_read(path: &Path) -> bool {
    let tried = File::open(path).map(|file| flock(&file, FlockOperation::NonBlockingLockExclusive));
    matches!(tried, Ok(Err(Errno::WOULDBLOCK)))
}

/// A part of an array, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type, shape and element order of what was read.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    /// The bytes, little endian, dense in that order.
    pub bytes: Vec<u8>,
}

/// An array of a run, not read yet. One that is put again meanwhile is still the one that was found.
pub struct Located<'a> {
    /// Type, shape and element order of the whole.
    pub meta: ArrayMeta,
    /// Unit, or empty.
    pub units: String,
    pieces: Vec<Piece>,
    pub(crate) bytes: Storage,
    layout: &'a Layout,
    owner: Belonging<'a>,
}

/// Where the bytes of an array are.
pub(crate) enum Storage {
    Here(Vec<u8>),
    There(Arc<File>, u64),
}

/// What an array belongs to, for the text of an error.
enum Belonging<'a> {
    Set { name: &'a str, set: i64, file: Option<String> },
    Step { name: String, step: i64, file: String },
}

impl<'a> Located<'a> {
    /// A data set outside steps. Its file may have been replaced since the look into the catalog: then
    /// this is `NotFound`, unless it is the `last` look.
    pub(crate) fn outside(
        layout: &'a Layout,
        found: catalog::StoredSet,
        (name, set): (&'a str, i64),
        last: bool,
    ) -> Result<Located<'a>> {
        let catalog::StoredSet { meta, units, crc, bytes } = found;
        let extents = meta.shape.extents();
        let whole = Piece {
            offset: vec![0; extents.len()],
            shape: extents.to_vec(),
            crc32c: crc,
            ..Piece::default()
        };
        let mut located = Located {
            meta,
            units,
            pieces: vec![whole],
            bytes: Storage::Here(Vec::new()),
            layout,
            owner: Belonging::Set { name, set, file: None },
        };
        match bytes {
            Bytes::Small(bytes) => located.bytes = Storage::Here(bytes),
            Bytes::File(file, offset) => {
                located.owner = Belonging::Set { name, set, file: Some(file) };
                located.open(offset, last)?;
            }
        }
        Ok(located)
    }

    /// A data set of a step.
    pub(crate) fn in_step(layout: &'a Layout, entry: Entry, row: StepRow) -> Result<Located<'a>> {
        let elsewhere = entry.elsewhere().map(str::to_owned);
        let Entry { name, meta, units, offset, pieces, .. } = entry;
        let owner = Belonging::Step { name, step: row.step, file: elsewhere.unwrap_or(row.file) };
        let mut located = Located { meta, units, pieces, bytes: Storage::Here(Vec::new()), layout, owner };
        located.check_pieces()?;
        located.open(offset, true)?;
        Ok(located)
    }

    /// A data set of a step whose file is open.
    pub(crate) fn in_file(
        layout: &'a Layout,
        entry: Entry,
        (step, file): (i64, &str),
        opened: Arc<File>,
    ) -> Result<Located<'a>> {
        let Entry { name, meta, units, offset, pieces, .. } = entry;
        let owner = Belonging::Step { name, step, file: file.to_owned() };
        let located = Located { meta, units, pieces, bytes: Storage::There(opened, offset), layout, owner };
        located.check_pieces().map(|()| located)
    }

    /// Its file, if it lies in one.
    pub(crate) fn file(&self) -> Option<&Arc<File>> {
        match &self.bytes {
            Storage::There(file, _) => Some(file),
            Storage::Here(_) => None,
        }
    }

    /// An array whose shape is not that of its pieces: what lies behind them in the file is another one's.
    fn check_pieces(&self) -> Result<()> {
        let fits = |p: &Piece| {
            let (offset, local) = (Shape::new(&p.offset)?, Shape::new(&p.shape)?);
            Hyperslab::new(&self.meta, &offset, &local).map(|_| ())
        };
        match self.pieces.iter().find_map(|p| fits(p).err()) {
            None => Ok(()),
            Some(e) => {
                Err(self.damaged(&format!("holds something else than catalog.sqlite says: {}", e.text())))
            }
        }
    }

    fn open(&mut self, offset: u64, last: bool) -> Result<()> {
        let path = self.path()?;
        self.bytes = match File::open(&path) {
            Ok(file) => {
                if let Belonging::Step { .. } = self.owner {
                    // Where there are no locks, or it is just looked whether anybody reads, it is read all the same.
                    let _ = flock(&file, FlockOperation::NonBlockingLockShared);
                }
                Storage::There(Arc::new(file), offset)
            }
            Err(e) if last && e.kind() == ErrorKind::NotFound => return Err(self.damaged("is not there")),
            Err(e) => return Err(Error::io(format!("cannot read {}", path.display()), e)),
        };
        Ok(())
    }

    fn path(&self) -> Result<PathBuf> {
        match &self.owner {
            Belonging::Set { file: None, .. } => Ok(self.layout.catalog()),
            Belonging::Set { file: Some(file), .. } | Belonging::Step { file, .. } => self.layout.file(file),
        }
    }

    fn source(&self) -> Result<Source<'_>> {
        match &self.bytes {
            Storage::Here(bytes) => Ok(Source::Memory(bytes)),
            Storage::There(file, offset) => {
                Source::of(file, &self.meta, &self.pieces, *offset).map_err(|e| self.failed(e))
            }
        }
    }

    /// Has it read into memory, without waiting for it.
    pub(crate) fn fetch(self) {
        let (Ok(mut bytes), Storage::There(file, mut offset)) = (self.meta.bytes(), self.bytes) else {
            return;
        };
        // Chunks lie one behind the other as they were written, with little between.
        let chunks = self.pieces.iter().filter_map(|p| p.chunks.as_ref()).flat_map(|c| &c.stored);
        let spans = chunks.map(|chunk| (chunk.offset, chunk.offset.saturating_add(chunk.bytes)));
        if let Some((first, end)) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            (offset, bytes) = (first, end - first);
        }
        if let Some(file) = Arc::into_inner(file) {
            ahead::fetch(file, offset, bytes);
        }
    }

    /// The part of it that a selection picks.
    pub fn read(self, sel: &Selection) -> Result<Array> {
        if let Storage::Here(all) = &self.bytes {
            // All of it is here: it is compared whatever part is wanted.
            let right = all.len() as u64 == self.meta.bytes()? && self.pieces[0].crc32c == crc32c(all);
            if !right {
                return Err(self.damaged("holds other bytes than were written"));
            }
        }
        match self.bytes {
            Storage::Here(bytes) if sel.0.is_empty() => {
                Ok(Array { meta: self.meta, units: self.units, bytes })
            }
            _ => {
                let mut check = Check::new(&self.meta, &self.pieces, &sel.resolve(&self.meta.shape)?)?;
                let read = read_selection(&self.source()?, &self.meta, sel, &mut check);
                let (shape, bytes) = read.map_err(|e| self.failed(e))?;
                self.compare(&check)?;
                Ok(Array { meta: ArrayMeta { shape, ..self.meta }, units: self.units, bytes })
            }
        }
    }

    /// Reads what a selection picks in parts of at most `most` bytes, and gives them to `take` in their order, each
    /// with whether it is the last one. The last one comes when all of them are known to be right.
    pub fn slabs(
        &self,
        sel: &Selection,
        most: u64,
        mut take: impl FnMut(&[u8], bool) -> Result<()>,
    ) -> Result<()> {
        let mut check = Check::new(&self.meta, &self.pieces, &sel.resolve(&self.meta.shape)?)?;
        let slabs = sel.slabs(&self.meta, most)?;
        let (mut at, source) = (0, self.source()?);
        for (i, slab) in slabs.iter().enumerate() {
            let read = read_selection(&source, &self.meta, slab, &mut Check::default());
            let (_, bytes) = read.map_err(|e| self.failed(e))?;
            check.feed(at, &bytes);
            at += bytes.len() as u64;
            let last = i + 1 == slabs.len();
            if last {
                self.compare(&check)?;
            }
            take(&bytes, last)?;
        }
        Ok(())
    }

    fn compare(&self, check: &Check) -> Result<()> {
        match check.wrong() {
            None => Ok(()),
            Some(_) if self.pieces.len() == 1 => Err(self.damaged("holds other bytes than were written")),
            Some(p) => Err(self.damaged(&format!("holds other bytes than were written in {}", p.called()))),
        }
    }

    fn failed(&self, e: Error) -> Error {
        match e.code() {
            Code::Corrupt => self.damaged(&format!("cannot be used: {}", e.text())),
            Code::Io => match self.path() {
                Ok(path) => e.within(path.display()),
                Err(_) => e,
            },
            _ => e,
        }
    }

    /// Refuses what is compressed: its bytes are nowhere in the file.
    pub(crate) fn lies_as_it_is(&self) -> Result<()> {
        if self.pieces.iter().all(|p| p.chunks.is_none()) {
            return Ok(());
        }
        let called = match &self.owner {
            Belonging::Set { name, set, .. } => format!("{name:?} set {set}"),
            Belonging::Step { name, step, .. } => format!("{name:?} of step {step}"),
        };
        Err(Error::bad(format!(
            "{called} is compressed, and no memory over its file; read it, or a selection of it"
        )))
    }

    pub(crate) fn damaged(&self, how: &str) -> Error {
        let path = self.path().unwrap_or_default();
        let (path, run) = (path.display(), self.layout.root().display());
        let text = match &self.owner {
            Belonging::Set { name, set, .. } => format!(
                "{name:?} set {set} is damaged: {path} {how}; put it again, or delete it with `forebay rm {run} {name}`"
            ),
            Belonging::Step { name, step, .. } => format!(
                "{name:?} of step {step} is damaged: {path} {how}; `forebay repair {run}` marks what is damaged, so that a restart passes it over, and `forebay drop {run} {step}` gives the step up"
            ),
        };
        Error::new(Code::Corrupt, text)
    }
}
