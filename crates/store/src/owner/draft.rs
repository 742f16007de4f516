//! A draft: a file on its way to the disk, with the parts that came of it.
//!
//! Its parts stay here, and their blocks in custody, until the file is durable under its name. So a
//! file of which anything went wrong is thrown away and written anew; above all one that could not be
//! made durable: a system that failed once to write a page has forgotten it, and says of the next
//! fsync that all is well.
//!
//! Only a step that is larger than the buffers gives its blocks back as soon as they are written
//! (*early*). From then on its file is all there is.

use super::drain::{Data, LargePut, Part};
use crate::disk::Disk;
use crate::layout::{Layout, data_file, step_file};
use crate::stepfile::{Facts, Manifest, Writer};
use forebay_arena::Lent;
use forebay_types::{Code, Error, Result, Shape};
use std::collections::VecDeque;
use std::sync::Arc;

/// Session and number of a record.
pub(super) type Ticket = (u64, u64);

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The disk has no room: the same bytes are tried again, and everything waits meanwhile.
    Room,
    /// The same bytes are tried again after a pause.
    Again,
    /// It is no failure of the disk, or what is needed to write the file anew is gone.
    None,
}

/// The file.
pub(super) struct Draft {
    /// How people know it.
    pub what: String,
    /// Its name in the run.
    pub file: String,
    rest: VecDeque<Part>,
    done: Vec<Part>,
    facts: Option<Facts>,
    writer: Option<Writer>,
    early: bool,
    /// Some of its blocks were given back.
    gone: bool,
}

impl Draft {
    /// Of a step.
    pub fn of_step(step: i64) -> Draft {
        Draft::new(format!("step {step}"), step_file(step))
    }

    /// Of a large data set outside steps: all of it is there.
    pub fn of_put(put: LargePut) -> Result<Draft> {
        let file = data_file(&put.name, put.set, put.session, put.seq);
        let mut draft = Draft::new(format!("the data set {:?}", put.name), file);
        draft.facts = Some(Facts { run_id: put.run_id, set: Some((put.set, 0)), ..Facts::default() });
        draft.push(Part {
            name: put.name,
            unit: put.unit,
            meta: put.meta,
            rank: 0,
            offset: Shape::new(&vec![0; put.meta.shape.rank()])?,
            local: put.meta.shape,
            from: 0,
            len: put.meta.bytes()?,
            data: put.data,
            ticket: (put.session, put.seq),
        });
        Ok(draft)
    }

    fn new(what: String, file: String) -> Draft {
        let (rest, done) = (VecDeque::new(), Vec::new());
        Draft { what, file, rest, done, facts: None, writer: None, early: false, gone: false }
    }

    /// A part of it came. Parts are written in the order in which they come.
    pub fn push(&mut self, part: Part) {
        self.rest.push_back(part);
    }

    /// All of it came.
    pub fn complete(&mut self, facts: Facts) {
        self.facts = Some(facts);
    }

    /// From now on its blocks go back as soon as they are written; those that are.
    pub fn hurry(&mut self) -> Vec<Ticket> {
        self.early = true;
        self.gone |= !self.done.is_empty();
        std::mem::take(&mut self.done).into_iter().map(|p| p.ticket).collect()
    }

    /// Whether its file is open.
    pub fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// Whether it may wait until other files are done.
    pub fn may_wait(&self) -> bool {
        !self.is_open() && !self.early && self.facts.is_none()
    }

    /// Whether there is something to do.
    pub fn is_due(&self) -> bool {
        self.facts.is_some() || !self.rest.is_empty()
    }

    /// Bytes that are yet to be written.
    pub fn missing(&self) -> u64 {
        self.rest.iter().map(|p| p.len).sum()
    }

    /// Writes what is there; the manifest when the file is durable under its name. After a failure with
    /// a remedy it may be called again.
    pub fn write(
        &mut self,
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        mut let_go: impl FnMut(Ticket),
    ) -> Result<Option<Manifest>> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Writer::create(disk.clone(), &layout.file(&self.file)?)?),
        };
        while let Some(part) = self.rest.front() {
            part.write(writer)?;
            let Some(part) = self.rest.pop_front() else { break };
            match self.early {
                true => {
                    self.gone = true;
                    let_go(part.ticket);
                }
                false => self.done.push(part),
            }
        }
        self.facts.as_ref().map(|facts| writer.finish(facts)).transpose()
    }

    /// What can be done about a failure. The file is thrown away where it can be written anew.
    pub fn remedy(&mut self, e: &Error) -> Remedy {
        if !crate::disk::may_pass(e) {
            return Remedy::None;
        }
        let full = crate::disk::is_full(e);
        if self.gone {
            // The file is all there is of what was given back.
            let lost = self.writer.as_ref().is_some_and(Writer::is_lost);
            return if lost { Remedy::None } else { Remedy::of(full) };
        }
        if !full || !self.writer.as_ref().is_some_and(Writer::is_sound) {
            self.writer = None;
            self.rest = self.done.drain(..).chain(self.rest.drain(..)).collect();
        }
        Remedy::of(full)
    }

    /// Whether nothing of it is on the disk.
    pub fn is_blank(&self) -> bool {
        self.writer.is_none() && !self.gone
    }

    /// Why it cannot be written anew, or nothing.
    pub fn why_gone(&self) -> &'static str {
        match self.gone {
            true => "; it was larger than the buffers, so what was written of it is not in memory any more",
            false => "",
        }
    }
}

impl Remedy {
    fn of(full: bool) -> Remedy {
        if full { Remedy::Room } else { Remedy::Again }
    }
}

impl Part {
    fn write(&self, writer: &mut Writer) -> Result<()> {
        writer.add(&self.name, &self.meta, &self.unit)?;
        let bytes = self.data.bytes().part(0, self.len as usize).ok_or_else(|| {
            Error::new(Code::Corrupt, format!("{:?} announces more bytes than its block has", self.name))
        })?;
        writer.write(&self.name, self.rank, &self.offset, &self.local, self.from, bytes)
    }
}

impl Data {
    pub fn bytes(&self) -> Lent<'_> {
        match self {
            Data::Inline(b) => Lent::of(b),
            Data::Block(b) => b.lent(),
        }
    }
}
