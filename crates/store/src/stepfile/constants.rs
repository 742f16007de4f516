//! Constants of the run in the file of a step: the manifest says in which file of `data/` they lie, and a link of HDF5 leads
//! there.

use super::hdf::Frame;
use super::manifest::{Entry, Manifest, Piece};
use forebay_types::{Description, Elsewhere, Result};
use std::borrow::Cow;
use std::path::Path;

impl Entry {
    /// The file that its bytes lie in, if it is another one.
    pub fn elsewhere(&self) -> Option<&str> {
        self.pieces.first().and_then(|p| p.file.as_deref())
    }

    /// The entry of a constant, if this is what is said of one.
    pub(super) fn of_constant(name: &str, about: &Description) -> Option<Entry> {
        let Elsewhere { file, offset, crc32c, meta, units } = *about.constant.clone()?;
        let shape = meta.shape.extents().to_vec();
        let piece =
            Piece { offset: vec![0; shape.len()], shape, crc32c, file: Some(file), ..Piece::default() };
        let about = Description { constant: None, ..about.clone() };
        Some(Entry { name: name.to_owned(), meta, units, offset, pieces: vec![piece], about })
    }

    /// What was said of it, when it is a constant.
    pub(super) fn as_constant(&self) -> Option<Description> {
        let elsewhere = Elsewhere {
            file: self.elsewhere()?.to_owned(),
            offset: self.offset,
            crc32c: self.pieces.first()?.crc32c,
            meta: self.meta,
            units: self.units.clone(),
        };
        Some(Description { constant: Some(Box::new(elsewhere)), ..self.about.clone() })
    }
}

/// A manifest without what lies in other files, and that.
pub(super) fn parted(m: &Manifest) -> (Cow<'_, Manifest>, Vec<&Entry>) {
    let linked: Vec<&Entry> = m.data.iter().filter(|e| e.elsewhere().is_some()).collect();
    if linked.is_empty() {
        return (Cow::Borrowed(m), linked);
    }
    let data = m.data.iter().filter(|e| e.elsewhere().is_none()).cloned().collect();
    (Cow::Owned(Manifest { data, ..m.clone() }), linked)
}

/// Links them.
pub(super) fn link(frame: &Frame, path: &Path, linked: &[&Entry]) -> Result<()> {
    linked.iter().try_for_each(|e| {
        let (name, file) = (&e.name, e.elsewhere().unwrap_or_default());
        frame.with(path, &format!("cannot link {name:?} in"), |all| {
            if let Some((group, _)) = name.rsplit_once('/')
                && !all.link_exists(group)
            {
                all.create_group(group)?;
            }
            all.link_external(&format!("../{file}"), &format!("/{name}"), name)
        })
    })
}
