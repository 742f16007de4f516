//! Writing the text form.

use super::{element, has_whole_texts};
use crate::record::Cell;
use crate::{ArrayMeta, Error, Result};
use serde::Serialize;
use serde_json::Value;

/// Elements in a line, unless a row of the array is shorter.
const IN_A_LINE: u64 = 16;
/// Bytes in a line of bytes.
const BYTES_IN_A_LINE: usize = 32;

/// The line that begins a section.
pub fn section(word: &str, head: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(head).map_err(|e| Error::internal(e.to_string()))?;
    Ok(format!("{word} {json}\n"))
}

/// The line of a row.
pub fn row(cells: &[Cell]) -> String {
    let mut line = Value::Array(cells.iter().map(Cell::json).collect()).to_string();
    line.push('\n');
    line
}

/// Makes lines of the elements of an array, in the order in which they lie, as their bytes come in parts.
pub struct ElementLines {
    meta: ArrayMeta,
    /// Elements of a line.
    most: u64,
    /// Elements in the line that is not ended.
    here: u64,
    /// Bytes of a text that is not whole yet.
    rest: Vec<u8>,
}

impl ElementLines {
    /// For an array.
    pub fn new(meta: &ArrayMeta) -> ElementLines {
        let extents = meta.shape.extents();
        let row = match meta.order {
            crate::Order::C => extents.last(),
            crate::Order::F => extents.first(),
        };
        let most = row.copied().unwrap_or(1).clamp(1, IN_A_LINE);
        ElementLines { meta: *meta, most, here: 0, rest: Vec::new() }
    }

    /// Appends the lines of the bytes that come next: whole elements.
    pub fn put(&mut self, bytes: &[u8], out: &mut String) {
        if has_whole_texts(&self.meta) {
            return self.put_texts(bytes, out);
        }
        if self.meta.dtype.is_text() {
            return bytes.chunks(BYTES_IN_A_LINE).for_each(|line| put_bytes(line, out));
        }
        for one in bytes.chunks_exact(self.meta.dtype.size()) {
            if self.here > 0 {
                out.push(' ');
            }
            element::put(self.meta.dtype, one, out);
            self.here = (self.here + 1) % self.most;
            if self.here == 0 {
                out.push('\n');
            }
        }
    }

    fn put_texts(&mut self, bytes: &[u8], out: &mut String) {
        let width = self.meta.shape.extents().last().map_or(0, |n| *n as usize);
        if width == 0 {
            return;
        }
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() / width * width;
        for text in self.rest[..whole].chunks_exact(width) {
            // Those of an array are as wide as the widest one, and are filled with zeros.
            let last = || text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let end = if self.meta.shape.rank() == 1 { width } else { last() };
            match std::str::from_utf8(&text[..end]) {
                Ok(letters) => {
                    out.push_str(&Value::from(letters).to_string());
                    out.push('\n');
                }
                Err(_) => put_bytes(text, out),
            }
        }
        self.rest.drain(..whole);
    }

    /// Appends what ends the last line.
    pub fn end(self, out: &mut String) {
        if self.here > 0 {
            out.push('\n');
        }
    }
}

fn put_bytes(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push('x');
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out.push('\n');
}
