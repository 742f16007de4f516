//! Attributes as HDF5's own functions write them, where the crate above it has no words: the type is known when the
//! program runs, and texts end with a zero inside their length, which readers ask of the marks of a scale.
#![allow(unsafe_code)]

use hdf5::plist::DatasetCreate;
use hdf5::types::TypeDescriptor;
use hdf5::{Attribute, Container, Dataset, Datatype, Error, Location};
use hdf5_metno as hdf5;
use hdf5_metno_sys::h5::hsize_t;
use hdf5_metno_sys::h5a::{H5Aclose, H5Acreate2, H5Aread, H5Awrite};
use hdf5_metno_sys::h5d::{H5Dget_chunk_info_by_coord, H5Dread, H5Dwrite_chunk};
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::{H5P_DEFAULT, H5Pset_filter};
use hdf5_metno_sys::h5s::{H5S_ALL, H5S_class_t, H5Sclose, H5Screate, H5Screate_simple};
use hdf5_metno_sys::h5t::{
    H5T_C_S1, H5T_cset_t, H5T_str_t, H5Tarray_create2, H5Tclose, H5Tcopy, H5Tset_cset, H5Tset_size,
    H5Tset_strpad,
};
use hdf5_metno_sys::h5z::H5Z_FLAG_OPTIONAL;
use std::ffi::CString;

/// Writes texts of one length, with a zero at their end: one without an extent, or a list.
pub(super) fn write_texts(
    at: &Location,
    name: &str,
    texts: &[&str],
    extent: Option<u64>,
) -> hdf5::Result<()> {
    write_fixed(at, name, texts, extent, (H5T_cset_t::H5T_CSET_UTF8, H5T_str_t::H5T_STR_NULLTERM))
}

/// Writes texts as NumPy's `bytes_` are written, which readers of openPMD and VTKHDF ask: without a zero at the end, and as
/// ASCII where they are.
pub(super) fn write_padded(
    at: &Location,
    name: &str,
    texts: &[&str],
    extent: Option<u64>,
) -> hdf5::Result<()> {
    let letters = match texts.iter().all(|t| t.is_ascii()) {
        true => H5T_cset_t::H5T_CSET_ASCII,
        false => H5T_cset_t::H5T_CSET_UTF8,
    };
    write_fixed(at, name, texts, extent, (letters, H5T_str_t::H5T_STR_NULLPAD))
}

fn write_fixed(
    at: &Location,
    name: &str,
    texts: &[&str],
    extent: Option<u64>,
    (letters, end): (H5T_cset_t, H5T_str_t),
) -> hdf5::Result<()> {
    let texts: Vec<String> = texts.iter().map(|t| t.replace('\0', "")).collect();
    let zero = usize::from(end == H5T_str_t::H5T_STR_NULLTERM);
    let size = (texts.iter().map(String::len).max().unwrap_or(0) + zero).max(1);
    let mut bytes = Vec::with_capacity(size * texts.len());
    for (i, text) in texts.iter().enumerate() {
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize((i + 1) * size, 0);
    }
    // SAFETY: a type that is copied, changed and closed here alone.
    let kind = unsafe {
        let kind = H5Tcopy(*H5T_C_S1);
        H5Tset_size(kind, size);
        H5Tset_cset(kind, letters);
        H5Tset_strpad(kind, end);
        kind
    };
    let extents = extent.map(|n| vec![n]);
    let done = write(at, name, kind, size, extents.as_deref(), &bytes);
    // SAFETY: as above.
    unsafe { H5Tclose(kind) };
    done
}

/// Writes numbers; without extents one number. Several axes belong to the type and not to the attribute: of those the
/// netCDF library knows one, and reads nothing of a file in which an attribute has more.
pub(super) fn write_numbers(
    at: &Location,
    name: &str,
    kind: &TypeDescriptor,
    extents: Option<&[u64]>,
    bytes: &[u8],
) -> hdf5::Result<()> {
    let made = Datatype::from_descriptor(kind)?;
    let several = extents.filter(|e| e.len() > 1);
    match several.map(|e| (e, e.iter().product::<u64>())) {
        None => write(at, name, made.id(), kind.size(), extents, bytes),
        // A type has no axis without elements.
        Some((_, 0)) => write(at, name, made.id(), kind.size(), Some(&[0]), bytes),
        Some((e, count)) => {
            let dims: Vec<hsize_t> = e.to_vec();
            // SAFETY: the extents outlive the call, and the type is closed here alone.
            let array = unsafe { H5Tarray_create2(made.id(), dims.len() as u32, dims.as_ptr()) };
            let done = write(at, name, array, kind.size() * count as usize, None, bytes);
            // SAFETY: as above.
            unsafe { H5Tclose(array) };
            done
        }
    }
}

fn write(
    at: &Location,
    name: &str,
    kind: hid_t,
    size: usize,
    extents: Option<&[u64]>,
    bytes: &[u8],
) -> hdf5::Result<()> {
    let count = extents.map_or(1, |e| e.iter().product::<u64>());
    if (bytes.len() as u64) != count * size as u64 {
        return Err(Error::from(format!(
            "the attribute {name:?} has {} bytes for {count} elements",
            bytes.len()
        )));
    }
    let named = CString::new(name).map_err(|_| Error::from("the name of an attribute has a zero"))?;
    let extents: Option<Vec<hsize_t>> = extents.map(<[u64]>::to_vec);
    // SAFETY: names and extents outlive the calls, and as many bytes are read as type and extents say.
    unsafe {
        let space = match &extents {
            Some(e) => H5Screate_simple(e.len() as i32, e.as_ptr(), std::ptr::null()),
            None => H5Screate(H5S_class_t::H5S_SCALAR),
        };
        let attribute = H5Acreate2(at.id(), named.as_ptr(), kind, space, H5P_DEFAULT, H5P_DEFAULT);
        let written = if attribute < 0 { -1 } else { H5Awrite(attribute, kind, bytes.as_ptr().cast()) };
        // What the library says of a failure is asked before anything else is called.
        let outcome = if written < 0 { Err(Error::query()) } else { Ok(()) };
        if attribute >= 0 {
            H5Aclose(attribute);
        }
        H5Sclose(space);
        outcome.map_err(|e| e.unwrap_or_else(|e| e))
    }
}

/// How a data set is made whose chunks have gone through these filters, each with its settings. Whether the library has them
/// is not asked: it does not use them.
pub(super) fn filtered(filters: &[(i32, Vec<u32>)]) -> hdf5::Result<DatasetCreate> {
    let made = DatasetCreate::try_new()?;
    for (filter, settings) in filters {
        // SAFETY: the properties live, and as many settings are read as there are.
        outcome(unsafe {
            H5Pset_filter(made.id(), *filter, H5Z_FLAG_OPTIONAL, settings.len(), settings.as_ptr())
        })?;
    }
    Ok(made)
}

/// Writes a chunk that has gone through the filters, but for those in the mask; where it lies then, and its length.
pub(super) fn write_chunk(
    set: &Dataset,
    mask: u32,
    offset: &[u64],
    bytes: &[u8],
) -> hdf5::Result<(u64, u64)> {
    if offset.len() != set.ndim() {
        return Err(Error::from("a chunk has an index of another rank than its array"));
    }
    let (mut found, mut address, mut size) = (0, 0, 0);
    // SAFETY: offset and bytes outlive the calls; the offset has as many numbers as the array has axes.
    outcome(unsafe {
        H5Dwrite_chunk(set.id(), H5P_DEFAULT, mask, offset.as_ptr(), bytes.len(), bytes.as_ptr().cast())
    })?;
    // SAFETY: as above, and what is found is written to variables of its types.
    outcome(unsafe {
        H5Dget_chunk_info_by_coord(set.id(), offset.as_ptr(), &mut found, &mut address, &mut size)
    })?;
    Ok((address, size))
}

/// Reads all elements of an array whose type is known when the program runs: as many as there is room for.
pub(super) fn read(set: &Dataset, kind: &TypeDescriptor, out: &mut [u8]) -> hdf5::Result<()> {
    let memory = fitting(set, kind, out)?;
    // SAFETY: the elements are as many, and of that size, as `fitting` has found room for; of such types none is a pointer.
    let read =
        unsafe { H5Dread(set.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.as_mut_ptr().cast()) };
    outcome(read)
}

/// The same of an attribute.
pub(super) fn read_attribute(at: &Attribute, kind: &TypeDescriptor, out: &mut [u8]) -> hdf5::Result<()> {
    let memory = fitting(at, kind, out)?;
    // SAFETY: as above.
    let read = unsafe { H5Aread(at.id(), memory.id(), out.as_mut_ptr().cast()) };
    outcome(read)
}

fn fitting(of: &Container, kind: &TypeDescriptor, out: &[u8]) -> hdf5::Result<Datatype> {
    let memory = Datatype::from_descriptor(kind)?;
    let is_plain = !matches!(
        kind,
        TypeDescriptor::VarLenArray(_) | TypeDescriptor::VarLenAscii | TypeDescriptor::VarLenUnicode
    );
    match is_plain && of.size().checked_mul(memory.size()) == Some(out.len()) {
        true => Ok(memory),
        false => Err(Error::from(format!("there is no room of {} bytes for what is to be read", out.len()))),
    }
}

fn outcome(done: i32) -> hdf5::Result<()> {
    match done < 0 {
        true => Err(Error::query().unwrap_or_else(|e| e)),
        false => Ok(()),
    }
}
