//! What is wrong with a piece of a snapshot before it is sent.

use forebay_types::record::Place;
use forebay_types::{ArrayMeta, Error, Name, Result};

use super::ArrayOptions;
use crate::run::axes::check_unit;

/// What stands before the slashes of a name.
pub(super) fn groups(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// Names at the root of a step that are ours, or those of formats.
const TAKEN: [&str; 3] = ["forebay", "data", "VTKHDF"];

/// Whether a name is free in a step, as far as it does not depend on what else is there.
pub(in crate::run) fn check_free(name: &str) -> Result<()> {
    match TAKEN.iter().find(|taken| name.split('/').next() == Some(**taken)) {
        None => Ok(()),
        Some(taken) => Err(Error::bad(format!(
            "the name {name:?} is not free: what is called {taken:?} in a step belongs to Forebay and to the formats that others read; choose another one"
        ))),
    }
}

/// Whether a piece may be put under that name, as far as it can be told here.
pub(super) fn check_piece(name: &str, meta: &ArrayMeta, piece: &ArrayOptions) -> Result<()> {
    Name::new(name)?;
    check_free(name)?;
    check_unit(piece.units)?;
    if let (Some(Some(compress)), Some(_)) = (piece.compress, piece.place.overlap()) {
        return Err(Error::bad(format!(
            "{name:?} is not compressed where blocks of ranks may lie over each other; leave out compress = {:?}, or overlap",
            compress.name()
        )));
    }
    let fills = piece.about.is_some_and(|about| about.description.filled.is_some());
    if fills && piece.place.block().is_none() {
        return Err(Error::bad(format!(
            "fill says what stands in {name:?} where no rank puts anything; give the offset of this piece and the shape of the whole with it"
        )));
    }
    match &piece.place {
        Place::Whole => Ok(()),
        Place::Append if meta.shape.rank() == 0 => Err(Error::bad(format!(
            "{name:?} is a scalar; only arrays can be appended along their first axis"
        ))),
        Place::Append | Place::Alike { .. } => Ok(()),
        Place::At { offset, global } | Place::Over { offset, global, .. } => {
            let local = meta.shape;
            let fits = local.rank() == global.rank()
                && offset.rank() == global.rank()
                && local
                    .extents()
                    .iter()
                    .zip(offset.extents())
                    .zip(global.extents())
                    .all(|((n, at), all)| at.checked_add(*n).is_some_and(|end| end <= *all));
            if fits {
                return Ok(());
            }
            Err(Error::bad(format!(
                "the piece of {name:?} of shape {local} at {offset} leaves the whole of shape {global}; offset + shape must stay within it on every axis"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{DType, Shape};

    #[test]
    fn a_piece_that_leaves_the_whole_is_refused_before_it_is_sent() {
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[4, 2]).unwrap());
        let at = |offset: &[u64], global: &[u64]| ArrayOptions {
            units: "V",
            place: Place::At { offset: Shape::new(offset).unwrap(), global: Shape::new(global).unwrap() },
            about: None,
            compress: None,
        };
        assert!(check_piece("E", &meta, &at(&[4, 0], &[8, 2])).is_ok());
        for bad in [at(&[5, 0], &[8, 2]), at(&[0], &[8]), at(&[u64::MAX >> 2, 0], &[8, 2])] {
            assert!(check_piece("E", &meta, &bad).unwrap_err().text().contains("\"E\""));
        }
        assert!(check_unit(&"m".repeat(65)).is_err());
    }
}
