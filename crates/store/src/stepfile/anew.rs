//! Writing a finished file again.

use super::chunked::ChunkedSet;
use super::write::{BESIDE, Facts, Writer};
use super::{Hyperslab, Manifest, Source};
use crate::disk::Disk;
use crate::layout::FORMAT;
use forebay_arena::Lent;
use forebay_types::{Code, Error, Result, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Writes a finished file anew as its manifest describes it, with the bytes that it has, which have to be those that
/// were written. Gives the manifest of the new one, which has taken its place.
pub fn write_anew(disk: &Arc<dyn Disk>, path: &Path, m: &Manifest) -> Result<Manifest> {
    if m.format != FORMAT {
        return Err(Error::bad(format!("it is of format {}, and {FORMAT} is written", m.format)));
    }
    let unread = |e| Error::io(format!("cannot read {}", path.display()), e);
    let old = std::fs::File::open(path).map_err(unread)?;
    let mut writer = Writer::create(disk.clone(), path)?;
    for e in m.data.iter().filter(|e| e.elsewhere().is_none()) {
        match e.compressed() {
            Some(compress) => writer.lay_chunked(&e.name, &e.meta, &e.units, ChunkedSet::new(compress))?,
            None => writer.add(&e.name, &e.meta, &e.units)?,
        }
        let source = Source::of(&old, &e.meta, &e.pieces, e.offset)?;
        for p in &e.pieces {
            let (offset, local) = (Shape::new(&p.offset)?, Shape::new(&p.shape)?);
            let place = Hyperslab::new(&e.meta, &offset, &local)?;
            let mut from = 0;
            while from == 0 || from < place.bytes() {
                let n = (place.bytes() - from).min(BESIDE as u64);
                let mut bytes = Vec::with_capacity(n as usize);
                place.runs(from, n, |_, at, n| source.append(at, n as usize, &mut bytes).map(drop))?;
                writer.write(&e.name, p.rank, &offset, &local, from, Lent::of(&bytes))?;
                from += n.max(1);
            }
            if writer.sum(&e.name, p.rank, &offset, &local) != Some(p.crc32c) {
                return Err(Error::new(Code::Corrupt, format!("{:?} has another checksum", e.name)));
            }
        }
    }
    writer.finish(&Facts {
        run_id: m.run_id.clone(),
        step: m.step,
        time: m.time,
        parameters: m.parameters.clone(),
        serial: m.serial,
        backs: m.backs.clone(),
        heads: m.heads,
        dt: m.dt,
        set: m.set,
        partial: m.partial.clone(),
        said: m
            .data
            .iter()
            .filter(|e| !e.about.is_empty() || e.elsewhere().is_some())
            .map(|e| (e.name.clone(), e.as_constant().unwrap_or_else(|| e.about.clone())))
            .collect(),
        units: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::System;
    use crate::stepfile::{Check, NOBODY, read_selection};
    use forebay_types::{ArrayMeta, Compression, DType, Description, Order, Selection};

    fn sh(v: &[u64]) -> Shape {
        Shape::new(v).unwrap()
    }

    fn facts() -> Facts {
        Facts { run_id: "r".into(), step: 7, time: Some(0.7), ..Facts::default() }
    }

    #[test]
    fn what_nobody_put_has_the_value_that_was_said_with_a_checksum_and_stays_so_when_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0000000007.h5");
        let disk: Arc<dyn Disk> = Arc::new(System);
        for (order, in_chunks) in [(Order::C, false), (Order::F, false), (Order::C, true), (Order::F, true)] {
            let mut w = Writer::create(disk.clone(), &path).unwrap();
            let meta = ArrayMeta { dtype: DType::I16, shape: sh(&[40, 30]), order };
            match in_chunks {
                true => w.lay_chunked("a", &meta, "", ChunkedSet::new(Compression::Gzip)).unwrap(),
                false => w.add("a", &meta, "").unwrap(),
            }
            w.write("a", 0, &sh(&[0, 0]), &sh(&[10, 30]), 0, Lent::of(&[1; 600])).unwrap();
            w.write("a", 1, &sh(&[20, 7]), &sh(&[5, 5]), 0, Lent::of(&[1; 50])).unwrap();
            let mut about = Description::default();
            about.fill_with((-7).into(), DType::I16).unwrap();
            about.filled = Some(1200 - 325);
            let said = BTreeMap::from([("a".to_owned(), about)]);
            let m = w.finish(&Facts { said, ..facts() }).unwrap();
            for m in [&m, &write_anew(&disk, &path, &m).unwrap()] {
                let e = m.data.iter().find(|e| e.name == "a").unwrap();
                let file = std::fs::File::open(&path).unwrap();
                let all = Selection::default();
                let mut check = Check::new(&e.meta, &e.pieces, &all.resolve(&e.meta.shape).unwrap()).unwrap();
                let source = Source::of(&file, &e.meta, &e.pieces, e.offset).unwrap();
                let (_, back) = read_selection(&source, &e.meta, &all, &mut check).unwrap();
                assert_eq!(e.compressed().is_some(), in_chunks);
                assert!(check.wrong().is_none());
                let filled = back.chunks_exact(2).filter(|v| *v == (-7i16).to_le_bytes()).count();
                assert_eq!((filled, e.about.filled), (875, Some(875)));
                let nobodys: u64 = e
                    .pieces
                    .iter()
                    .filter(|p| p.rank == NOBODY)
                    .map(|p| p.shape.iter().product::<u64>())
                    .sum();
                assert_eq!(nobodys, 875);
            }
        }
    }
}
