//! NumPy's `.npy` files (format 1.0 and 2.0), for `get`, `put` and `call`.
//!
//! ```text
//!  0        6       8            10             64-byte boundary
//!  +--------+-------+------------+--------------+-----------
//!  | magic  | 1.0   | length u16 | python dict  | elements
//!  +--------+-------+------------+--------------+-----------
//! ```

use forebay::{Array, ArrayMeta, DType, Error, Order, Result, Shape};
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes of a file that holds an array.
pub fn encode(array: &Array) -> Result<Vec<u8>> {
    let meta = &array.meta;
    let (descr, extents) = match meta.dtype {
        DType::Str | DType::Bytes => {
            let kind = if meta.dtype == DType::Str { 'S' } else { 'V' };
            (format!("|{kind}{}", array.bytes.len().max(1)), Vec::new())
        }
        other => (other.numpy().to_owned(), meta.shape.extents().to_vec()),
    };
    let shape = Shape::new(&extents)?;
    let fortran = if meta.order == Order::F { "True" } else { "False" };
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let pad = 64 - (10 + dict.len() + 1) % 64;
    dict.push_str(&" ".repeat(pad % 64));
    dict.push('\n');
    let mut out = Vec::with_capacity(10 + dict.len() + array.bytes.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(dict.len() as u16).to_le_bytes());
    out.extend_from_slice(dict.as_bytes());
    out.extend_from_slice(&array.bytes);
    if array.bytes.is_empty() && matches!(meta.dtype, DType::Str | DType::Bytes) {
        out.push(0);
    }
    Ok(out)
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    decode(&bytes).map_err(|e| e.within(path.display()))
}

/// Writes a file.
pub fn write(path: &Path, array: &Array) -> Result<()> {
    std::fs::write(path, encode(array)?).map_err(|e| Error::io(format!("cannot write {}", path.display()), e))
}

/// Reads the bytes of a file.
pub fn decode(bytes: &[u8]) -> Result<Array> {
    let wrong = |why: &str| {
        Error::bad(format!("this is no .npy file that can be read: {why}; save it with numpy.save"))
    };
    if bytes.len() < 12 || &bytes[..6] != MAGIC {
        return Err(wrong("it does not begin with the magic word of NumPy"));
    }
    let (at, length): (usize, usize) = match bytes[6] {
        1 => (10, u16::from_le_bytes([bytes[8], bytes[9]]) as usize),
        2 | 3 => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
        other => return Err(wrong(&format!("format {other} is not known"))),
    };
    let end = at.checked_add(length).filter(|e| *e <= bytes.len()).ok_or_else(|| wrong("it is cut off"))?;
    let dict = std::str::from_utf8(&bytes[at..end]).map_err(|_| wrong("its head is not text"))?;
    let descr = field(dict, "descr").ok_or_else(|| wrong("its head has no descr"))?;
    let descr = descr.trim().trim_matches(['\'', '"']);
    let order = match field(dict, "fortran_order").map(str::trim) {
        Some("True") => Order::F,
        _ => Order::C,
    };
    let shape = field(dict, "shape").ok_or_else(|| wrong("its head has no shape"))?;
    let extents: Vec<u64> = shape
        .trim()
        .trim_matches(['(', ')'])
        .split(',')
        .map(str::trim)
        .filter(|t| !t.is_empty())
        .map(|t| t.parse().map_err(|_| wrong(&format!("its shape is {shape}"))))
        .collect::<Result<_>>()?;
    let dtype = DType::all()
        .find(|d| d.numpy() == descr && !matches!(d, DType::Str | DType::Bytes))
        .ok_or_else(|| wrong(&format!("its dtype is {descr:?}, which has no counterpart here")))?;
    let meta = ArrayMeta { dtype, shape: Shape::new(&extents)?, order };
    let data = &bytes[end..];
    if data.len() as u64 != meta.bytes()? {
        return Err(wrong(&format!("{meta} takes {} bytes and {} follow", meta.bytes()?, data.len())));
    }
    Ok(Array { meta, bytes: data.to_vec() })
}

/// The text of a value in the head's dictionary.
fn field<'a>(dict: &'a str, name: &str) -> Option<&'a str> {
    let at = dict.find(&format!("'{name}'"))? + name.len() + 2;
    let rest = dict[at..].trim_start().strip_prefix(':')?;
    let end = match rest.trim_start().starts_with('(') {
        true => rest.find(')')? + 1,
        false => rest.find([',', '}'])?,
    };
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(extents: &[u64], order: Order) -> Array {
        let meta = ArrayMeta { dtype: DType::F64, shape: Shape::new(extents).unwrap(), order };
        Array { meta, bytes: (0..meta.bytes().unwrap()).map(|i| i as u8).collect() }
    }

    #[test]
    fn an_array_reads_back_as_it_was_written() {
        for a in
            [array(&[2, 3], Order::C), array(&[5], Order::F), array(&[], Order::C), array(&[0, 4], Order::C)]
        {
            let file = encode(&a).unwrap();
            assert_eq!(decode(&file).unwrap(), a);
        }
        assert_eq!((encode(&array(&[3], Order::C)).unwrap().len() - 24) % 64, 0);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let good = encode(&array(&[2, 3], Order::C)).unwrap();
        for cut in [0, 5, 11, 60, good.len() - 1] {
            assert!(decode(&good[..cut]).is_err(), "{cut}");
        }
        let mut head = good.clone();
        head[8] = 0xff;
        head[9] = 0xff;
        assert!(decode(&head).is_err());
        let objects = String::from_utf8_lossy(&good[10..]).replace("<f8", "|O8");
        let mut bad = good[..10].to_vec();
        bad.extend_from_slice(objects.as_bytes());
        assert!(decode(&bad).is_err());
    }
}
