//! Answers readers on other hosts: the same reader that a process of this host uses, and its answers
//! over the line. Arrays go in slabs, so that a large one takes little memory here.

use crate::service::Shared;
use forebay_link::Failure;
use forebay_link::Stream;
use forebay_link::frame::{Header, kind as frame};
use forebay_link::stream::{NoPlace, Received};
use forebay_store::{Answer, Reader};
use forebay_types::codec::Writer;
use forebay_types::line::kind;
use forebay_types::reading::{FRAME, MORE, Question, Wanted, put_array, put_rows};
use forebay_types::{ArrayMeta, Code, Error, Result, Selection};
use serde::Serialize;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// An array is read in parts of so many bytes.
const SLAB: u64 = 4 << 20;
/// Answers wait here up to so much before they must leave.
const GATHER: usize = 256 << 10;
/// How long a reader may not take its answers.
const STUCK: Duration = Duration::from_secs(60);

/// Serves a reader until it leaves.
pub fn serve(shared: &Shared, mut line: Stream, reader: Reader) -> Result<()> {
    let mut answering = Answering { reader, body: Vec::new() };
    while !shared.stop.given() {
        while let Some(Received { header, json, body, .. }) = line.next(&mut NoPlace)? {
            if header.kind != kind::READ {
                let text = format!("a frame of kind {} came from a reader", header.kind);
                return Err(Error::new(Code::Corrupt, text));
            }
            if let Err(e) = answering.answer(&line, header.id, &json, &body) {
                line.push(Header::new(frame::ERROR, header.id), &text(&Failure::of(&e))?, &[])?;
            }
            if line.waiting() > GATHER {
                line.flush_until(Instant::now() + STUCK)?;
            }
        }
        line.flush_until(Instant::now() + STUCK)?;
        shared.stop.wait(line.as_fd(), None)?;
    }
    Ok(())
}

struct Answering {
    reader: Reader,
    body: Vec<u8>,
}

impl Answering {
    fn answer(&mut self, line: &Stream, id: u64, json: &[u8], body: &[u8]) -> Result<()> {
        if json.is_empty() {
            return self.array(line, id, &Wanted::decode(body)?);
        }
        let question: Question = serde_json::from_slice(json).map_err(|e| {
            Error::new(
                Code::VersionMismatch,
                format!("a question is not understood: {e}; use one version on both sides"),
            )
        })?;
        let bytes = match self.reader.answer(&question)? {
            Answer::Rows(found) => rows(&found),
            answer => answer.json()?.ok_or_else(|| Error::internal("an answer of no form"))?,
        };
        send(line, id, &[&bytes], true)
    }

    fn array(&mut self, line: &Stream, id: u64, wanted: &Wanted) -> Result<()> {
        let found = self.reader.find(wanted)?;
        let shape = Selection::shape_of(&wanted.selection.resolve(&found.meta.shape)?)?;
        let part = ArrayMeta { shape, ..found.meta };
        let mut w = Writer::over(std::mem::take(&mut self.body));
        put_array(&mut w, &part, &found.units);
        self.body = w.finish();
        // Most are small: head and bytes leave together.
        if part.bytes()? <= SLAB {
            let array = found.read(&wanted.selection)?;
            return send(line, id, &[&self.body, &array.bytes], true);
        }
        send(line, id, &[&self.body], false)?;
        found.slabs(&wanted.selection, SLAB, |bytes, last| send(line, id, &[bytes], last))
    }
}

/// Bytes of an answer in frames; waits when the reader does not keep up.
fn send(line: &Stream, id: u64, parts: &[&[u8]], last: bool) -> Result<()> {
    let total: usize = parts.iter().map(|p| p.len()).sum();
    if total <= FRAME {
        let flags = if last { 0 } else { MORE };
        return line.push(Header { flags, ..Header::new(kind::DATA, id) }, b"", parts);
    }
    for (i, part) in parts.iter().enumerate() {
        let pieces = part.chunks(FRAME);
        let count = pieces.len();
        for (k, piece) in pieces.enumerate() {
            let end = last && i + 1 == parts.len() && k + 1 == count;
            let flags = if end { 0 } else { MORE };
            line.push(Header { flags, ..Header::new(kind::DATA, id) }, b"", &[piece])?;
            if line.waiting() > GATHER {
                line.flush_until(Instant::now() + STUCK)?;
            }
        }
    }
    Ok(())
}

fn text(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|e| Error::internal(format!("an answer cannot be written as JSON: {e}")))
}

fn rows(rows: &forebay_store::catalog::Rows) -> Vec<u8> {
    let mut w = Writer::new();
    put_rows(&mut w, &rows.columns, &rows.rows);
    w.finish()
}
