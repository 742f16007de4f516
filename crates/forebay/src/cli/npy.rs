//! NumPy's `.npy` files (format 1.0 and 2.0), for `get`, `put` and `call`.
//!
//! ```text
//!  0        6       8            10             64-byte boundary
//!  +--------+-------+------------+--------------+-----------
//!  | magic  | 1.0   | length u16 | python dict  | elements
//!  +--------+-------+------------+--------------+-----------
//! ```

use forebay::{Array, ArrayMeta, DType, Error, Order, Result, Shape, Strided};
use std::borrow::Cow;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// The bytes of a file that holds an array. Texts become NumPy's, `<U`, and arrays of bytes `|S`.
pub fn encode(array: &Array) -> Result<Vec<u8>> {
    let meta = &array.meta;
    let extents = meta.shape.extents();
    let of_letters = extents.split_last().map_or(&[][..], |(_, outer)| outer);
    let texts;
    let (descr, extents, elements): (String, &[u64], &[u8]) = match meta.dtype {
        DType::Str => {
            let found = letters(array)?;
            let chars: Vec<Vec<char>> =
                found.iter().map(|t| String::from_utf8_lossy(t).chars().collect()).collect();
            let width = chars.iter().map(Vec::len).max().unwrap_or(0).max(1);
            let padded = |text: Vec<char>| {
                let mut codes: Vec<u32> = text.into_iter().map(u32::from).collect();
                codes.resize(width, 0);
                codes.into_iter().flat_map(u32::to_le_bytes)
            };
            texts = chars.into_iter().flat_map(padded).collect::<Vec<u8>>();
            (format!("<U{width}"), of_letters, &texts)
        }
        DType::Bytes if extents.len() > 1 => {
            texts = row_major(array)?.into_owned();
            (format!("|S{}", extents[extents.len() - 1]), of_letters, &texts)
        }
        DType::Bytes if array.bytes.is_empty() => ("|V1".into(), &[], &[0]),
        DType::Bytes => (format!("|V{}", array.bytes.len()), &[], &array.bytes),
        other => (other.numpy().to_owned(), extents, &array.bytes),
    };
    let fortran = if meta.order == Order::F && !meta.dtype.is_text() { "True" } else { "False" };
    let mut out = head(&descr, fortran, &Shape::new(extents)?)?;
    out.extend_from_slice(elements);
    Ok(out)
}

/// What stands in front of the elements.
pub fn head(descr: &str, fortran: &str, shape: &Shape) -> Result<Vec<u8>> {
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let pad = 64 - (10 + dict.len() + 1) % 64;
    dict.push_str(&" ".repeat(pad % 64));
    dict.push('\n');
    let length =
        u16::try_from(dict.len()).map_err(|_| Error::internal("the head of an array is too long"))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), dict.as_bytes()].concat())
}

/// The elements with the last index running fastest.
fn row_major(array: &Array) -> Result<Cow<'_, [u8]>> {
    if array.meta.order == Order::C {
        return Ok(Cow::Borrowed(&array.bytes));
    }
    let apart = Strided::dense(&array.meta)?;
    let mut out = vec![0; apart.bytes()];
    apart.gather(&array.bytes, &mut out);
    Ok(Cow::Owned(out))
}

/// The texts of an array of texts, or the one that it is. Those of an array are padded with zeros.
fn letters(array: &Array) -> Result<Vec<Vec<u8>>> {
    let Some((width, outer)) = array.meta.shape.extents().split_last().filter(|(_, outer)| !outer.is_empty())
    else {
        return Ok(vec![array.bytes.clone()]);
    };
    let (bytes, width) = (row_major(array)?, *width as usize);
    let count = outer.iter().product::<u64>() as usize;
    Ok((0..count).map(|i| unpadded(&bytes[i * width..(i + 1) * width]).to_vec()).collect())
}

/// Without the zeros that fill an element of an array of texts.
pub fn unpadded(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    decode(&bytes).map_err(|e| e.within(path.display()))
}

/// Writes a file.
pub fn write(path: &Path, array: &Array) -> Result<()> {
    save(path, &encode(array)?)
}

/// Writes a file of these bytes; where there is no directory for it, that is said.
pub fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|e| {
        let above = path.parent().filter(|_| e.kind() == std::io::ErrorKind::NotFound);
        let e = Error::io(format!("cannot write {}", path.display()), e);
        match above {
            Some(above) => e.with_remedy(format_args!("make {} first", above.display())),
            None => e,
        }
    })
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
    let element = Element::parse(descr)?;
    let shape = Shape::new(&extents)?;
    let data = &bytes[end..];
    let takes = shape.len().checked_mul(element.size as u64);
    if takes != Some(data.len() as u64) {
        return Err(wrong(&format!(
            "its shape {shape} of {descr} and the {} bytes that follow do not agree",
            data.len()
        )));
    }
    element.array(shape, order, data)
}

/// What a file says of its elements: `<f8`, `>i4`, `<U12`.
struct Element {
    big: bool,
    kind: char,
    size: usize,
    dtype: DType,
}

impl Element {
    fn parse(descr: &str) -> Result<Element> {
        let refused = |remedy: &str| {
            let shown = if descr.starts_with('[') { "a structured dtype" } else { descr };
            Error::bad(format!("its dtype, {shown}, is not kept; {remedy}"))
        };
        let mut letters = descr.chars();
        let big = letters.next() == Some('>');
        let kind = letters.next();
        if let Some('M' | 'm') = kind {
            return Err(refused("save a.astype('i8') and say the unit with --units"));
        }
        let (kind, size) = match (kind, letters.as_str().parse::<usize>()) {
            (Some(kind), Ok(size)) => (kind, size),
            _ if descr.starts_with('[') => return Err(refused("save each field as an array of its own")),
            _ => return Err(refused("save an array of numbers, texts or bytes")),
        };
        let (dtype, size) = match kind {
            'U' => (Some(DType::Str), size.checked_mul(4)),
            'S' | 'V' => (Some(DType::Bytes), Some(size)),
            _ => (u8::try_from(kind).ok().and_then(|kind| DType::of_numpy(kind, size)), Some(size)),
        };
        match (dtype, size, kind) {
            (Some(dtype), Some(size), _) => Ok(Element { big, kind, size, dtype }),
            (.., 'f') => Err(refused("save a.astype('f8')")),
            (.., 'c') => Err(refused("save a.astype('c16')")),
            _ => Err(refused("save an array of numbers, texts or bytes")),
        }
    }

    /// The array, its elements in the byte order of ours.
    fn array(&self, shape: Shape, order: Order, data: &[u8]) -> Result<Array> {
        if !matches!(self.kind, 'U' | 'S' | 'V') {
            let mut bytes = data.to_vec();
            if self.big {
                self.dtype.turn(&mut bytes);
            }
            return Ok(Array { meta: ArrayMeta { dtype: self.dtype, shape, order }, bytes });
        }
        // In the order of their indices, whatever that of the file is.
        let strides = shape.strides(order).map(|n| (n * self.size as u64) as i64);
        let apart = Strided::new(self.size, 0, shape, &strides[..shape.rank()], data.len() as u64)?;
        let mut together = vec![0; apart.bytes()];
        apart.gather(data, &mut together);
        let one = |at: usize| &together[at * self.size..(at + 1) * self.size];
        let texts: Vec<Vec<u8>> =
            (0..shape.len() as usize).map(|at| self.text(one(at))).collect::<Result<_>>()?;
        // As Python puts them: the letters are the last axis, and at least one; a single text is as long as it is.
        let longest = texts.iter().map(Vec::len).max().unwrap_or(0);
        let width = if shape.rank() == 0 { longest } else { longest.max(1) };
        let mut bytes = Vec::with_capacity(texts.len() * width);
        for mut text in texts {
            text.resize(width, 0);
            bytes.extend(text);
        }
        let extents = [shape.extents(), &[width as u64]].concat();
        Ok(Array { meta: ArrayMeta::new(self.dtype, Shape::new(&extents)?), bytes })
    }

    /// One element as the bytes that are kept of it.
    fn text(&self, element: &[u8]) -> Result<Vec<u8>> {
        if self.kind != 'U' {
            return Ok(element.to_vec());
        }
        let code = |four: &[u8]| {
            let four = four.try_into().unwrap_or_default();
            if self.big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        let letter = |four: &[u8]| {
            char::from_u32(code(four)).ok_or_else(|| {
                Error::bad(format!(
                    "a text of it has {:#x}, which is no letter; save what can be written in UTF-8",
                    code(four)
                ))
            })
        };
        let text: String = element.chunks_exact(4).map(letter).collect::<Result<_>>()?;
        Ok(unpadded(text.as_bytes()).to_vec())
    }
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
    fn an_array_of_every_dtype_is_written_and_read_as_what_numpy_has_for_it() {
        for dtype in DType::all() {
            let meta = ArrayMeta { dtype, ..array(&[2, 3], Order::C).meta };
            let a = Array { meta, bytes: vec![1; meta.bytes().unwrap() as usize] };
            let back = decode(&encode(&a).unwrap()).unwrap();
            assert_eq!((back.meta.shape, &back.bytes), (a.meta.shape, &a.bytes), "{dtype}");
            assert_eq!(back.meta.dtype.numpy(), dtype.numpy());
        }
    }

    /// A file as `numpy.save` writes it.
    fn saved(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
        let fortran = if fortran { "True" } else { "False" };
        let dict = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        [MAGIC, &[1, 0], &(dict.len() as u16).to_le_bytes(), dict.as_bytes(), elements].concat()
    }

    fn utf32(text: &str) -> Vec<u8> {
        text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect()
    }

    #[test]
    fn the_byte_order_of_another_machine_is_turned() {
        let bytes = [1.5f64.to_be_bytes(), (-2.0f64).to_be_bytes()].concat();
        let found = decode(&saved("'>f8'", false, "(2,)", &bytes)).unwrap();
        assert_eq!(found.bytes, [1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat());
        let found = decode(&saved("'>c16'", false, "()", &bytes)).unwrap();
        assert_eq!(found.bytes, [1.5f64.to_le_bytes(), (-2.0f64).to_le_bytes()].concat());
    }

    #[test]
    fn texts_are_read_and_come_back_as_numpys_own() {
        let letters = utf32("a\0bcä\0xy");
        let found = decode(&saved("'<U2'", false, "(2, 2)", &letters)).unwrap();
        assert_eq!((found.meta.dtype, found.meta.shape.extents()), (DType::Str, &[2, 2, 2][..]));
        assert_eq!(found.bytes, "a\0bcäxy".as_bytes());
        assert_eq!(decode(&encode(&found).unwrap()).unwrap(), found);
        let columns = decode(&saved("'<U2'", true, "(2, 2)", &letters)).unwrap();
        assert_eq!(columns.bytes, "a\0äbcxy".as_bytes());
        let one = decode(&saved("'<U3'", false, "()", &utf32("abc"))).unwrap();
        assert_eq!((one.meta.shape.extents(), one.to_text().unwrap().as_str()), (&[3][..], "abc"));
        assert_eq!(decode(&encode(&one).unwrap()).unwrap(), one);
        let bytes = decode(&saved("'|S2'", false, "(2,)", b"a\0bc")).unwrap();
        assert_eq!((bytes.meta.dtype, bytes.meta.shape.extents()), (DType::Bytes, &[2, 2][..]));
        assert_eq!(decode(&encode(&bytes).unwrap()).unwrap(), bytes);
    }

    #[test]
    fn a_dtype_that_is_not_kept_is_refused_with_what_to_save() {
        for (descr, remedy) in [
            ("'<f16'", "<f16, is not kept; save a.astype('f8')"),
            ("'<M8[ns]'", "save a.astype('i8')"),
            ("'|O'", "save an array of numbers"),
            ("[('a', '<f8')]", "a structured dtype, is not kept; save each field"),
        ] {
            let e = decode(&saved(descr, false, "(0,)", &[])).unwrap_err();
            assert!(e.text().contains(remedy), "{e}");
        }
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
