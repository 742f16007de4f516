//! Packs in the hands of the owner. A thread of its own reads and writes them; here they are listed, and the files that
//! their steps lay in go, before any number is written anew.

use super::Owner;
use super::aside;
use super::command::Command;
use super::intake::{Intake, listed_steps};
use super::open::{names, snapshots};
use crate::care::Progress;
use crate::care::pack::{PackOptions, Packer};
use crate::catalog;
use crate::disk::Disk;
use crate::layout::{Layout, PACKS, is_pack, with_end};
use crate::reader::Reader;
use crate::stepfile::{PackManifest, open_pack};
use forebay_arena::Doorbell;
use forebay_host::threads;
use forebay_types::control::{Packed, word};
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error, Result};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Steps of more bytes are not packed unasked.
const SMALL: u64 = 1 << 20;
/// So many times as many steps as make a pack are looked at.
const LOOKED_AT: u64 = 3;

/// Whoever makes packs of a run: one at a time.
#[derive(Clone, Default)]
pub(super) struct Packing {
    one: Arc<Mutex<()>>,
    stop: Arc<AtomicBool>,
}

/// The way to the intake, from another thread.
pub(super) struct ToIntake {
    pub commands: Sender<Command>,
    pub doorbell: Doorbell,
}

impl ToIntake {
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let over = || Error::new(Code::Closed, "the run is closed");
        let (tell, answer) = channel();
        self.commands.send(command(tell)).map_err(|_| over())?;
        self.doorbell.ring();
        answer.recv().map_err(|_| over())
    }

    pub fn again(&self) -> Result<ToIntake> {
        Ok(ToIntake { commands: self.commands.clone(), doorbell: self.doorbell.again()? })
    }
}

impl Packing {
    /// Nothing more is packed.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn with<T>(
        &self,
        (layout, disk): (&Layout, &dyn Disk),
        progress: &Progress,
        work: impl FnOnce(&Packer) -> Result<T>,
    ) -> Result<T> {
        let _alone = self.one.lock().unwrap_or_else(|e| e.into_inner());
        let reader = Reader::open(layout.root())?;
        work(&Packer { layout, disk, catalog: &reader, progress, stop: &self.stop })
    }
}

impl Owner {
    /// Packs small steps of one layout that follow each other; says which stay single, and why. `progress` hears how many
    /// bytes of all are done.
    pub fn pack(&self, options: &PackOptions, progress: &Progress) -> Result<Packed> {
        let mut list = |file, m: PackManifest| self.ask(|tell| Command::ListPack(file, Box::new(m), tell))?;
        self.packing.with((&self.layout, &*self.disk), progress, |packer| packer.pack(options, &mut list))
    }

    /// Writes packs anew that have steps which are listed no more; says how many.
    pub fn compact_packs(&self, progress: &Progress) -> Result<u64> {
        let mut list = |file, m: PackManifest| self.ask(|tell| Command::ListPack(file, Box::new(m), tell))?;
        let done =
            self.packing.with((&self.layout, &*self.disk), progress, |packer| packer.compact(&mut list))?;
        if done > 0 {
            self.ask(Command::SweepPacks)??;
        }
        Ok(done)
    }
}

impl Intake {
    /// A rank asks for packs: a thread makes them, and its end is told the intake.
    pub(super) fn begin_packing(&mut self, asked: Option<(u64, u64)>, options: PackOptions) -> Result<()> {
        let (layout, disk, packing) = (self.layout.clone(), self.disk.clone(), self.packing.clone());
        let to_intake = self.to_intake.again()?;
        let work = move || {
            threads::work_behind();
            let mut list =
                |file, m: PackManifest| to_intake.ask(|tell| Command::ListPack(file, Box::new(m), tell))?;
            let unheard: Progress = Arc::new(|_, _| {});
            let done = packing.with((&layout, &*disk), &unheard, |packer| packer.pack(&options, &mut list));
            let _ = to_intake.commands.send(Command::Packed(asked, done));
            to_intake.doorbell.ring();
        };
        let thread = std::thread::Builder::new().name("fb-pack".into()).spawn(work);
        self.packers.retain(|thread| !thread.is_finished());
        self.packers.push(thread.map_err(|e| Error::io("a thread of the store cannot be started", e))?);
        Ok(())
    }

    /// A step is durable: when enough have come, small ones behind it are packed.
    pub(super) fn pack_behind(&mut self, newest: i64) {
        self.unpacked += 1;
        let is_busy = self.packers.iter().any(|thread| !thread.is_finished());
        if self.pack_every == 0 || self.unpacked <= self.pack_every || is_busy || self.attached.is_empty() {
            return;
        }
        self.unpacked = 0;
        let n = self.pack_every;
        // What could not be packed is not looked at again and again.
        if let Ok((Some(first), _)) =
            catalog::newest_singles(self.catalog.conn(), n.saturating_mul(LOOKED_AT))
        {
            let (least, most) = (n as usize, n as usize);
            let steps = (first, newest.saturating_sub(1));
            let options = PackOptions { steps, least, most, largest: SMALL, meshes: false };
            // It is tried again when as many have come.
            let _ = self.begin_packing(None, options);
        }
    }

    /// What is told of packs that were made unasked: nothing, unless it failed.
    pub(super) fn not_packed(&mut self, e: &Error) {
        if e.code() != Code::Cancelled {
            let text = format!(
                "small snapshots could not be put together: {}; `forebay pack` tries again",
                e.text()
            );
            let _ = self.catalog.lazy_transaction(|tx| catalog::message(tx, 0, -1, WARNING, &text), |_| true);
        }
    }

    /// Lists a pack that is durable; gives the files that its steps lay in, which are gone.
    pub(super) fn list_pack(&mut self, file: &str, m: &PackManifest) -> Result<Vec<String>> {
        let before = self.catalog.transaction(|tx| catalog::list_pack(tx, file, m))?;
        for s in self.attached.values() {
            s.segment.word(word::COMMITS).fetch_add(1, Ordering::SeqCst);
        }
        crate::views::pack(&self.layout, &before, file, m);
        // Those that stay are swept at the next opening.
        for single in before.iter().filter(|file| !is_pack(file)) {
            if let Ok(path) = self.layout.file(single) {
                let _ = self.disk.remove(&path);
            }
        }
        let _ = self.disk.sync_dir(&self.layout.steps());
        Ok(before)
    }

    /// Waits for whoever makes packs; they stop at once.
    pub(super) fn end_packing(&mut self) {
        self.packing.end();
        self.packers.drain(..).for_each(|thread: JoinHandle<()>| drop(thread.join()));
    }

    /// Packs of which no step is listed: those that a dead owner had not listed yet go, for the files of their steps are
    /// there; and what a catalog lacks that is older than they are is listed. Gives what is to be told of that.
    pub(super) fn sweep_packs(&mut self) -> Result<Vec<i64>> {
        let known: HashMap<String, u64> = catalog::packs(self.catalog.conn())?.into_iter().collect();
        let dropped = catalog::dropped(self.catalog.conn())?;
        let there: Vec<String> =
            names(&self.layout.packs()).into_iter().filter(|name| name.ends_with(".h5")).collect();
        let mut listed = Vec::new();
        for name in &there {
            let (path, file) = (self.layout.packs().join(name), format!("{PACKS}/{name}"));
            if known.get(&file).is_some_and(|steps| *steps > 0) || dropped.contains(&file) {
                continue;
            }
            match open_pack(&path).ok().filter(|m| m.run_id == self.run_id) {
                Some(m) => listed.extend(self.settle_pack(&path, &file, &m)?),
                None => drop(self.disk.rename(&path, &with_end(&path, ".bad"))),
            }
        }
        if !listed.is_empty() {
            let all = listed_steps(&self.catalog)?;
            self.feed(all);
        }
        let is_there = |file: &String| there.iter().any(|name| *file == format!("{PACKS}/{name}"));
        let gone: Vec<&String> = known
            .iter()
            .filter(|(file, steps)| **steps == 0 && !is_there(file))
            .map(|(file, _)| file)
            .collect();
        if !gone.is_empty() {
            self.catalog.transaction(|tx| gone.iter().try_for_each(|file| catalog::forget_pack(tx, file)))?;
        }
        Ok(listed)
    }

    fn settle_pack(&mut self, path: &Path, file: &str, m: &PackManifest) -> Result<Vec<i64>> {
        let (layout, is_older) = (&self.layout, self.older.lacks_steps);
        let (lacking, is_aside) = self.catalog.transaction(|tx| {
            let fate = |slot| fate_of(tx, layout, (file, m, slot), is_older);
            let fates = (0..m.steps.len()).map(fate).collect::<Result<Vec<_>>>()?;
            let of =
                |fate: SlotFate| (0..m.steps.len()).filter(|slot| fates[*slot] == fate).collect::<Vec<_>>();
            let lacking = of(SlotFate::Lacking);
            match lacking.is_empty() {
                true => catalog::forget_pack(tx, file)?,
                false => catalog::note_pack(tx, file, m)?,
            }
            lacking.iter().try_for_each(|slot| catalog::adopt_slot(tx, file, m, *slot))?;
            Ok((lacking, !of(SlotFate::Aside).is_empty()))
        })?;
        match (lacking.is_empty(), is_aside) {
            (false, _) => {}
            (true, true) => drop(aside::rename(&*self.disk, path)),
            (true, false) => drop(self.disk.remove(path)),
        }
        let _ = self.disk.sync_dir(&self.layout.packs());
        Ok(lacking.into_iter().map(|slot| m.steps[slot].step).collect())
    }

    /// What was listed from packs, for people.
    pub(super) fn of_packs(listed: &[i64]) -> Option<String> {
        (!listed.is_empty()).then(|| format!("{}, which are listed", snapshots(listed)))
    }
}

/// What becomes of a step in a pack that is not listed from there.
#[derive(Clone, Copy, PartialEq)]
enum SlotFate {
    /// The run has it elsewhere, or has given it up.
    Needless,
    /// It is listed from here.
    Lacking,
    /// It was put aside, or is not what is listed: it is kept, out of the way.
    Aside,
}

fn fate_of(
    conn: &Connection,
    layout: &Layout,
    (file, m, slot): (&str, &PackManifest, usize),
    is_older: bool,
) -> Result<SlotFate> {
    let of = &m.steps[slot];
    let Some(row) = catalog::step_row(conn, of.step)? else {
        return Ok(match () {
            () if catalog::is_aside(conn, &m.manifest_of(slot))? => SlotFate::Aside,
            () if catalog::dropped_slots(conn, file)?.contains(&of.step) => SlotFate::Needless,
            () if is_older => SlotFate::Lacking,
            // It was dropped while the pack was made, which nobody was told of.
            () => SlotFate::Aside,
        });
    };
    let serial = catalog::serial_of(conn, of.step)?;
    let is_there = || layout.file(&row.file).is_ok_and(|path| path.exists());
    Ok(match serial.cmp(&of.serial) {
        std::cmp::Ordering::Equal if is_there() => SlotFate::Needless,
        std::cmp::Ordering::Equal => SlotFate::Lacking,
        _ => SlotFate::Aside,
    })
}
