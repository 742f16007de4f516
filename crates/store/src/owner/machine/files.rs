//! Files on their way to the disk: what comes of each, which is written next, and what becomes of one that
//! cannot be written.
//!
//! A file keeps its parts, and their blocks stay in custody, until it is durable under its name. So one of
//! which anything went wrong is thrown away and written anew; above all one that could not be made durable: a
//! system that failed once to write a page has forgotten it, and says of the next fsync that all is well. Only
//! a step that is larger than the buffers gives its blocks back as soon as they are written (*early*). From
//! then on its file is all there is.
//!
//! The oldest file that has something to do is written on; the next work waits behind the one that is done, so
//! that nobody waits for a message between two. So many steps have open files at once; what comes of more waits
//! in its blocks until the step is complete, or until a rank needs the room. Of small files many are under way:
//! the drain makes them durable together, and they are listed together.
//!
//! | what goes wrong | what becomes of the file | the other files |
//! | --- | --- | --- |
//! | the disk is full | the same bytes are tried again for as long as that lasts | those that come behind it wait, and what of them is half written is thrown away: it holds the room that the first one needs. What is complete comes first, then the oldest |
//! | any other failure of the disk or the system | it is thrown away and written anew after a pause, for minutes | go on |
//! | the same for minutes | it stays in the segments, and the store ends: `recover` writes it | likewise |
//! | what was to be written is damaged | the step is given up, and told | go on |
//!
//! Nothing that was acknowledged is dropped while its bytes are in memory.

use super::Machine;
use super::event::{Action, Done, FileState, Key, Now, Part, Sealed, Stored, Ticket, Work};
use super::item::Item;
use crate::fault::{Fault, amount};
use crate::stepfile::Facts;
use forebay_types::record::HeldBlock;
use forebay_types::watch::level::WARNING;
use forebay_types::{Code, Error, Result};
use std::cell::LazyCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Most steps whose files are open at once.
const OPEN_FILES: usize = if cfg!(test) { 3 } else { 32 };
/// Most works that are under way: one that is done, and the next.
const FLIGHTS: usize = 2;
/// Most works of small files that become durable together.
pub(in crate::owner) const TOGETHER: usize = if cfg!(test) { 2 } else { 32 };
/// Most of those that are under way: what is done, and as much behind it, which is written while that is listed.
const SMALL_FLIGHTS: usize = 2 * TOGETHER;
/// Bytes up to which a file is small: more take longer than a wait for the disk.
const SMALL: u64 = 256 << 10;
/// The pause between two attempts grows up to so many times the first one.
const LONGEST: u32 = 100;

/// A file on its way.
struct File {
    /// How people know it.
    what: String,
    /// Its name in the run.
    name: String,
    /// When it came: the oldest goes first.
    order: u64,
    /// Bytes of all its parts that have come.
    bytes: u64,
    rest: VecDeque<Arc<Part>>,
    done: Vec<Arc<Part>>,
    facts: Option<Box<Facts>>,
    /// Its end is under way.
    sealing: bool,
    /// There is something of it on the disk.
    is_open: bool,
    early: bool,
    /// Some of its blocks were given back.
    gone: bool,
    ailing: Option<Ailing>,
}

/// A file that could not be written.
#[derive(Clone, Copy)]
struct Ailing {
    since: Now,
    /// When it is tried again.
    next: Now,
    pause: Duration,
}

/// What is being done.
struct Flight {
    id: u64,
    key: Key,
    parts: Vec<Arc<Part>>,
    /// Its parts that were reported one by one.
    told: usize,
    small: bool,
    /// The file is not needed any more; these blocks go back when nobody reads them.
    cancelled: bool,
    frees: Vec<(u64, HeldBlock)>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Files {
    all: BTreeMap<Key, File>,
    /// Their keys in the order in which they came.
    by_age: BTreeMap<u64, Key>,
    flights: VecDeque<Flight>,
    /// Bytes of all of them.
    waiting: u64,
    /// Works and files, counted.
    works: u64,
    count: u64,
    /// The file for which the disk has no room.
    full: Option<Key>,
    /// The catalog has no room: it comes before every file.
    catalog_waits: bool,
    /// What was told of the trouble there is.
    told: Option<Code>,
}

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The disk has no room: the same bytes are tried again, and everything waits meanwhile.
    Room,
    /// The disk has failed in another way: the bytes are tried again after a pause.
    Again,
    /// It is no failure of the disk, or what is needed to write the file anew is gone.
    None,
}

impl File {
    /// Whether it may wait until other files are done.
    fn may_wait(&self) -> bool {
        !self.is_open && !self.early && self.facts.is_none()
    }

    /// Whether there is something to do. (One that failed is tried even if nothing of it is left: others wait
    /// for it to be well.)
    fn is_due(&self) -> bool {
        !self.sealing && (self.facts.is_some() || !self.rest.is_empty() || self.ailing.is_some())
    }

    /// Its turn on a full disk: what is complete can be finished, and gives its blocks back.
    fn turn(&self) -> (bool, u64) {
        (self.facts.is_none(), self.order)
    }

    /// Bytes that are yet to be written.
    fn missing(&self) -> u64 {
        self.rest.iter().map(|p| p.len).sum()
    }

    /// Whether the next work of it may be done together with others.
    fn is_small(&self) -> bool {
        self.bytes <= SMALL && !self.early && self.ailing.is_none()
    }

    fn push(&mut self, part: Part) {
        self.bytes += part.len;
        self.rest.push_back(Arc::new(part));
    }

    /// Nothing of it is on the disk any more.
    fn begin_anew(&mut self) {
        self.is_open = false;
        self.rest = self.done.drain(..).chain(self.rest.drain(..)).collect();
    }

    /// What can be done about a failure.
    fn remedy(&self, fault: Fault, state: FileState) -> Remedy {
        match fault {
            Fault::Never => Remedy::None,
            // The file is all there is of what was given back.
            _ if self.gone && state == FileState::Lost => Remedy::None,
            Fault::NoRoom => Remedy::Room,
            Fault::Again => Remedy::Again,
        }
    }

    /// Why it cannot be written anew, or nothing.
    fn why_gone(&self) -> &'static str {
        match self.gone {
            true => "; it was larger than the buffers, so what was written of it is not in memory any more",
            false => "",
        }
    }

    fn waits_for_room(&self, e: &Error) -> String {
        let needs = match self.missing() {
            0 => "has all its arrays and is to be finished".to_owned(),
            missing => format!("needs {} more", amount(missing)),
        };
        format!("{} waits for room on the disk: {} {needs}; {}", self.what, self.name, e.text())
    }

    fn is_kept(&self, e: &Error) -> String {
        format!(
            "{} ({}) cannot be written at present; it is kept in memory and tried again: {}",
            self.what,
            self.name,
            e.text()
        )
    }

    fn in_vain(&self, e: &Error, tried: Duration) -> Error {
        let text = format!(
            "{} ({}) could not be written for {:.0} s: {}",
            self.what,
            self.name,
            tried.as_secs_f64(),
            e.text()
        );
        Error::new(e.code(), text)
    }
}

impl Files {
    /// The file, begun by the first part that comes of it.
    fn of(&mut self, key: Key, what: String, name: String) -> &mut File {
        let (count, by_age) = (&mut self.count, &mut self.by_age);
        self.all.entry(key).or_insert_with(|| {
            *count += 1;
            by_age.insert(*count, key);
            File {
                what,
                name,
                order: *count,
                bytes: 0,
                rest: VecDeque::new(),
                done: Vec::new(),
                facts: None,
                sealing: false,
                is_open: false,
                early: false,
                gone: false,
                ailing: None,
            }
        })
    }

    /// Bytes of files that are not durable yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting
    }

    fn remove(&mut self, key: Key) -> Option<File> {
        let file = self.all.remove(&key)?;
        self.by_age.remove(&file.order);
        self.waiting -= file.bytes;
        Some(file)
    }

    fn of_step(&mut self, step: i64) -> &mut File {
        self.of(Key::Step(step), format!("step {step}"), crate::layout::step_file(step))
    }

    /// A part of a step came. Parts are written in the order in which they come.
    pub fn push(&mut self, step: i64, part: Part) {
        self.waiting += part.len;
        self.of_step(step).push(part);
    }

    /// All of a step came.
    pub fn complete(&mut self, step: i64, facts: Box<Facts>) {
        self.of_step(step).facts = Some(facts);
    }

    /// All that is here of a step that lacks ranks.
    pub fn partial(&mut self, step: i64, parts: Vec<Part>, facts: Box<Facts>) {
        self.waiting += parts.iter().map(|part| part.len).sum::<u64>();
        let what = format!("what is here of step {step}");
        let file = self.of(Key::Partial(step), what, crate::layout::partial_file(step));
        parts.into_iter().for_each(|part| file.push(part));
        file.facts = Some(facts);
    }

    /// A large data set outside steps: all of it is there.
    pub fn put(&mut self, part: Part, set: i64, facts: Box<Facts>) {
        let (what, (session, seq)) = (format!("the data set {:?}", part.name), part.ticket);
        let name = crate::layout::data_file(&part.name, set, session, seq);
        let file = self.of(Key::Put(part.ticket), what, name);
        let len = part.len;
        file.push(part);
        file.facts = Some(facts);
        self.waiting += len;
    }

    /// A rank needs the room that a step takes: from now on its blocks go back as soon as they are
    /// written. Those that are.
    pub fn hurry(&mut self, step: i64) -> Vec<Ticket> {
        let file = self.of_step(step);
        file.early = true;
        file.gone |= !file.done.is_empty();
        std::mem::take(&mut file.done).iter().map(|p| p.ticket).collect()
    }

    /// Whether something of a step was written, is being written, or is written next.
    pub fn has_begun(&self, step: i64) -> bool {
        let key = Key::Step(step);
        self.full == Some(key)
            || self.flights.iter().any(|f| f.key == key)
            || self.all.get(&key).is_some_and(|f| f.is_open)
    }

    /// Gives a block back when nobody reads it any more: at once, if so.
    pub fn free(&mut self, ticket: Ticket, block: HeldBlock) -> Option<Action> {
        let reads = |f: &&mut Flight| f.parts.iter().any(|p| p.ticket == ticket);
        // Two works name it where the one before them failed: they are done in their order.
        match self.flights.iter_mut().rev().find(reads) {
            Some(flight) => {
                flight.frees.push((ticket.0, block));
                None
            }
            None => Some(Action::Free { session: ticket.0, block }),
        }
    }

    /// Whether blocks of a session go back when a work has ended: till then their records stay in the ring,
    /// where a successor finds them.
    pub fn owes(&self, session: u64) -> bool {
        self.flights.iter().any(|f| f.frees.iter().any(|(of, _)| *of == session))
    }

    /// Whether any do.
    pub fn owes_any(&self) -> bool {
        self.flights.iter().any(|f| !f.frees.is_empty())
    }

    /// There is no room for this file. Of several the others wait for the one whose turn is first.
    fn fills(&mut self, key: Key) {
        let known = self.full.and_then(|full| self.all.get(&full));
        if !known.is_some_and(|file| self.is_before(file, key)) {
            self.full = Some(key);
        }
    }

    /// When something is to be tried again.
    pub fn wake(&self) -> Option<Now> {
        let tried = self.all.iter().filter(|(key, f)| !self.waits_for_another(**key, f));
        tried.filter_map(|(_, f)| Some(f.ailing?.next)).min()
    }

    /// Whether the disk has no room for another file, whose turn it is.
    fn waits_for_another(&self, key: Key, file: &File) -> bool {
        self.full.is_some_and(|full| full != key && !self.is_before(file, full))
    }

    fn is_before(&self, file: &File, than: Key) -> bool {
        self.all.get(&than).is_some_and(|other| file.turn() < other.turn())
    }

    /// The last one behind this one, or of all, that is half written and can be written anew.
    fn last_behind(&self, key: Option<Key>) -> Option<Key> {
        let turn = key.and_then(|key| self.all.get(&key)).map(File::turn);
        let is_written = |key: &Key| self.flights.iter().any(|f| f.key == *key && !f.cancelled);
        let may_go =
            |(key, f): &(&Key, &File)| Some(f.turn()) > turn && f.is_open && !f.gone && !is_written(key);
        self.all.iter().filter(may_go).max_by_key(|(_, f)| f.turn()).map(|(key, _)| *key)
    }

    /// The file that is written on next.
    fn next(&self, now: Now) -> Option<Key> {
        let open = LazyCell::new(|| self.all.values().filter(|f| f.is_open).count());
        let may_go_on = |key: &Key| {
            let Some(file) = self.all.get(key) else { return false };
            let rests = file.ailing.is_some_and(|a| a.next > now);
            let waits = rests
                || self.waits_for_another(*key, file)
                || self.catalog_waits && file.facts.is_none() && !file.early;
            file.is_due() && !waits && !(file.may_wait() && *open >= OPEN_FILES)
        };
        self.by_age.values().copied().find(may_go_on)
    }
}

#[cfg(test)]
impl Files {
    /// What there is, for a story that fails.
    pub fn state(&self) -> String {
        let file = |(key, f): (&Key, &File)| {
            format!(
                "{key:?} {} parts, open {}, sealing {}, ailing {:?}",
                f.rest.len(),
                f.is_open,
                f.sealing,
                f.ailing.map(|a| a.next)
            )
        };
        let files: Vec<String> = self.all.iter().map(file).collect();
        let flights: Vec<u64> = self.flights.iter().map(|f| f.id).collect();
        format!("{files:?}, flights {flights:?}, full {:?}", self.full)
    }
}

impl Machine {
    /// Bytes of files that are not durable yet.
    pub fn waiting_bytes(&self) -> u64 {
        self.files.waiting_bytes()
    }

    /// Has the next work done, if there is one.
    pub(super) fn write_on(&mut self) {
        while self.files.flights.len() < SMALL_FLIGHTS && self.lost.is_none() {
            let Some(key) = self.files.next(self.now) else { return };
            let flights = &self.files.flights;
            let Some(file) = self.files.all.get_mut(&key) else { return };
            let small = file.is_small();
            if flights.len() >= FLIGHTS && !(small && flights.iter().all(|f| f.small)) {
                return;
            }
            let facts = file.facts.clone();
            (file.is_open, file.sealing) = (true, facts.is_some());
            let parts: Vec<Arc<Part>> = file.rest.drain(..).collect();
            self.files.works += 1;
            let (id, name, tell_each) = (self.files.works, file.name.clone(), file.early);
            let same = |f: &&Flight| f.key == key && !f.cancelled;
            let behind = self.files.flights.iter().rev().find(same).map(|f| f.id);
            let work = Work { id, key, behind, file: name, parts: parts.clone(), facts, tell_each, small };
            let flight = Flight { id, key, parts, told: 0, small, cancelled: false, frees: Vec::new() };
            self.files.flights.push_back(flight);
            self.act(Action::Work(Box::new(work)));
        }
    }

    /// A part of an early step is in its file.
    pub(super) fn written(&mut self, id: u64, ticket: Ticket) {
        let flight = self.files.flights.iter_mut().find(|f| f.id == id && !f.cancelled);
        let Some(flight) = flight else { return };
        flight.told += 1;
        let key = flight.key;
        if let Some(file) = self.files.all.get_mut(&key) {
            file.gone = true;
        }
        if let Key::Step(step) = key {
            self.let_go(step, ticket);
        }
    }

    /// A work has ended.
    pub(super) fn work_done(&mut self, done: Done) {
        let Some(at) = self.files.flights.iter().position(|f| f.id == done.id) else { return };
        let Some(flight) = self.files.flights.remove(at) else { return };
        self.figures.hidden += done.took;
        self.figures.written += done.bytes;
        if !flight.frees.is_empty() {
            let free = flight.frees.into_iter().map(|(session, block)| Action::Free { session, block });
            self.out.extend(free);
            self.release_rings();
        }
        let key = flight.key;
        let Some(file) = self.files.all.get_mut(&key).filter(|_| !flight.cancelled) else { return };
        let mut let_go = Vec::new();
        for part in flight.parts.iter().take(done.written).skip(flight.told) {
            match file.early {
                // It became early while it was written.
                true => {
                    file.gone = true;
                    let_go.push(part.ticket);
                }
                false => file.done.push(part.clone()),
            }
        }
        if done.result.is_err() {
            // The work behind it is not done either: what it has comes again, in its order.
            let mut again: VecDeque<Arc<Part>> = flight.parts.iter().skip(done.written).cloned().collect();
            for behind in self.files.flights.iter_mut().filter(|f| f.key == key && !f.cancelled) {
                behind.cancelled = true;
                again.extend(behind.parts.iter().cloned());
            }
            again.append(&mut file.rest);
            file.rest = again;
            file.sealing = false;
        }
        if let Key::Step(step) = key {
            let_go.into_iter().for_each(|ticket| self.let_go(step, ticket));
        }
        match done.result {
            Ok(None) => self.is_well(key),
            Ok(Some(sealed)) => {
                let file = self.files.remove(key);
                self.was_ailing(key, file.as_ref().is_some_and(|f| f.ailing.is_some()));
                self.sealed(key, sealed, file.map(|f| f.name).unwrap_or_default());
            }
            Err(e) => self.is_ill(key, e, done.file),
        }
    }

    /// A file is durable under its name.
    fn sealed(&mut self, key: Key, sealed: Sealed, file: String) {
        match (key, sealed) {
            (Key::Put((session, seq)), Sealed::Put(stored)) => self.put_done(session, seq, Ok(stored)),
            (Key::Step(step), Sealed::Step(manifest, unequal, remarks)) => {
                let mut sessions = Vec::new();
                if let Some(known) = self.steps.get_mut(&step) {
                    known.sealed = true;
                    sessions = known.sessions();
                }
                self.hear_disputes(step, &sessions, unequal);
                let session = sessions.first().copied().unwrap_or_default();
                for text in remarks {
                    self.out.push(Action::Say { session, level: WARNING, step, text: text.clone() });
                    self.group.push(Item::Note { session, step, level: WARNING, text });
                }
                self.group.push(Item::Step { manifest, file });
            }
            (Key::Partial(step), Sealed::Partial(manifest)) => {
                if let Some(known) = self.steps.get_mut(&step) {
                    known.sealed = true;
                }
                self.group.push(Item::Partial { manifest, file });
            }
            _ => {}
        }
    }

    /// Nothing is wrong with a file any more.
    fn is_well(&mut self, key: Key) {
        let ailing = self.files.all.get_mut(&key).and_then(|f| f.ailing.take());
        self.was_ailing(key, ailing.is_some());
    }

    /// A file that was ill is well, or is no more.
    fn was_ailing(&mut self, key: Key, ailing: bool) {
        if !ailing {
            return;
        }
        if self.files.full == Some(key) {
            self.files.full = None;
        }
        if self.files.all.values().all(|f| f.ailing.is_none()) && self.files.told.take().is_some() {
            self.figures.drain_waits = false;
            self.trouble_is_over();
        }
    }

    /// A file could not be written.
    fn is_ill(&mut self, key: Key, e: Error, state: FileState) {
        let (now, first) = (self.now, self.patience);
        let Some(file) = self.files.all.get_mut(&key) else { return };
        let remedy = file.remedy(Fault::of(&e), state);
        if remedy == Remedy::None {
            let why = Error::new(e.code(), format!("{}{}", e.text(), file.why_gone()));
            let why = why.within(format!("{} ({})", file.what, file.name));
            return self.give_file_up(key, why);
        }
        // It is written anew where that is possible, but for a want of room alone.
        if !file.gone && (remedy != Remedy::Room || state != FileState::Sound) {
            file.begin_anew();
            self.out.push(Action::Discard(key));
        }
        let made_room = remedy == Remedy::Room && self.throw_away(Some(key));
        if self.keeps
            && remedy == Remedy::Room
            && !self.group.iter().any(|item| matches!(item, Item::MakeRoom { .. }))
        {
            let coming = self.steps.values().filter(|step| step.is_complete()).count().max(1) as u64;
            self.group.push(Item::MakeRoom { coming });
        }
        let Some(file) = self.files.all.get_mut(&key) else { return };
        let known = file.ailing.get_or_insert(Ailing { since: now, next: now, pause: first });
        known.next = now + if made_room { Now::ZERO } else { known.pause };
        let text = match remedy {
            Remedy::Room => {
                known.since = now;
                let text = file.waits_for_room(&e);
                self.files.fills(key);
                text
            }
            _ => {
                known.pause = (known.pause * 2).min(first * LONGEST);
                let tried = now.saturating_sub(known.since);
                if self.files.full == Some(key) {
                    self.files.full = None;
                }
                if tried >= self.files_limit {
                    let lost = file.in_vain(&e, tried);
                    return self.lose(lost);
                }
                file.is_kept(&e)
            }
        };
        if self.files.told.replace(e.code()) != Some(e.code()) {
            self.figures.drain_waits = true;
            self.trouble(Error::new(e.code(), text));
        }
    }

    /// Throws away what others have written of theirs behind this file, or behind the catalog: it holds the room that
    /// is needed. Says whether there was anything.
    fn throw_away(&mut self, behind: Option<Key>) -> bool {
        let last = self.files.last_behind(behind);
        if let Some(file) = last.and_then(|key| self.files.all.get_mut(&key)) {
            file.begin_anew();
        }
        self.out.extend(last.map(Action::Discard));
        last.is_some()
    }

    /// The catalog has no room, or has it again. Says whether it may have some at once.
    pub(super) fn catalog_waits_for_room(&mut self, waits: bool) -> bool {
        self.files.catalog_waits = waits;
        waits && self.throw_away(None)
    }

    /// What came of a file is of no use.
    fn give_file_up(&mut self, key: Key, error: Error) {
        match key {
            Key::Step(step) | Key::Partial(step) => {
                self.spoil(step, error);
                self.discard(key);
            }
            Key::Put((session, seq)) => {
                self.discard(key);
                self.put_done(session, seq, Err(error));
            }
        }
    }

    /// A file is not needed any more: what is written of it goes.
    pub(super) fn discard(&mut self, key: Key) {
        self.files.flights.iter_mut().filter(|f| f.key == key).for_each(|f| f.cancelled = true);
        let Some(file) = self.files.remove(key) else { return };
        if file.is_open {
            self.act(Action::Discard(key));
        }
        self.was_ailing(key, file.ailing.is_some());
    }
}

/// Where a large data set lies, by what its file says about itself.
impl Sealed {
    /// Of a data set outside steps.
    pub fn of_put(file: &str, manifest: &crate::stepfile::Manifest) -> Result<Sealed> {
        let entry = manifest.data.first().ok_or_else(|| Error::internal("a file without its data set"))?;
        let crc = entry.pieces.first().map_or(0, |p| p.crc32c);
        Ok(Sealed::Put(Stored { file: file.to_owned(), offset: entry.offset, crc }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::super::scene::*;
    use super::*;
    use forebay_types::control::Ask;

    fn keys(works: &[Work]) -> Vec<Key> {
        works.iter().map(|work| work.key).collect()
    }

    #[test]
    fn of_whole_steps_the_oldest_of_which_nothing_is_written_is_dropped() {
        let mut scene = Scene::of(1);
        (1..=4).for_each(|step| scene.whole(1, step));
        scene.turn();
        scene.describe();
        assert_eq!(keys(&scene.works()), [Key::Step(1), Key::Step(2)]);
        let asked = scene.ask(1, &Ask::DropOldest);
        assert_eq!(scene.answer(1, asked).unwrap().unwrap(), 3);
    }

    #[test]
    fn a_step_of_which_something_is_written_is_not_dropped() {
        let mut scene = Scene::of(1);
        scene.begin(1, 1);
        scene.block(1, 1, "x");
        scene.turn();
        let work = scene.work();
        scene.done(&work);
        scene.end(1, 1, 1);
        scene.turn();
        let asked = scene.ask(1, &Ask::DropOldest);
        assert!(scene.answer(1, asked).unwrap().unwrap().is_null());
    }

    #[test]
    fn the_ring_of_a_rank_whose_blocks_are_still_read_is_given_back_behind_them_and_those_of_others_at_once()
    {
        let mut scene = Scene::of(2);
        scene.begin(1, 1);
        scene.begin(2, 1);
        scene.block(1, 1, "x");
        scene.turn();
        let work = scene.work();
        scene.discard(2, 1);
        (1..=2).for_each(|n| scene.hang(n));
        scene.turn();
        scene.commit();
        scene.turn();
        scene.commit();
        assert_eq!((scene.released(), scene.freed(), scene.closed()), (vec![2], vec![], vec![2]));
        scene.done(&work);
        assert_eq!((scene.freed(), scene.released()), (vec![1], vec![1]));
        scene.settle();
        assert_eq!(scene.closed(), [2, 1]);
    }

    /// Two steps that are being written.
    fn two() -> (Scene, Vec<Work>) {
        let mut scene = Scene::of(1);
        for step in [1, 2] {
            scene.begin(1, step);
            scene.block(1, step, "x");
        }
        scene.turn();
        let works = scene.works();
        assert_eq!(keys(&works), [Key::Step(1), Key::Step(2)]);
        (scene, works)
    }

    #[test]
    fn on_a_full_disk_the_oldest_file_goes_first_whichever_was_refused_first() {
        for order in [[0, 1], [1, 0]] {
            let (mut scene, works) = two();
            order.iter().for_each(|n| scene.fails(&works[*n], Code::Full, FileState::Sound));
            let is_first = |work: &Work| work.key == Key::Step(1);
            scene.turn_after(PAUSE);
            // What the others had written may have made room at once.
            for _ in 0..2 {
                let works = scene.works();
                assert!(works.iter().all(is_first), "{order:?}");
                works.iter().for_each(|work| scene.fails(work, Code::Full, FileState::Sound));
            }
            assert!(scene.works().is_empty(), "{order:?}");
            scene.turn_after(PAUSE);
            let first = scene.works();
            assert!(!first.is_empty() && first.iter().all(is_first), "{order:?}");
            first.iter().for_each(|work| scene.done(work));
            scene.turn_after(PAUSE);
            assert!(keys(&scene.works()).contains(&Key::Step(2)), "{order:?}");
        }
    }

    #[test]
    fn what_of_others_is_half_written_goes_for_want_of_room_and_for_no_other_fault() {
        for (code, goes) in [(Code::Full, Key::Step(2)), (Code::Io, Key::Step(1))] {
            let (mut scene, works) = two();
            works.iter().for_each(|work| scene.done(work));
            scene.block(1, 1, "y");
            scene.turn();
            let more = scene.work();
            scene.fails(&more, code, FileState::Sound);
            assert_eq!(scene.discarded(), [goes], "{code:?}");
        }
    }

    #[test]
    fn the_work_of_a_step_that_was_given_up_says_nothing_of_the_one_that_takes_its_number() {
        let mut scene = Scene::of(1);
        scene.begin(1, 1);
        scene.early(1, 1);
        let block = scene.block(1, 1, "x");
        scene.turn();
        let old = scene.work();
        scene.discard(1, 1);
        scene.begin(1, 1);
        scene.block(1, 1, "x");
        scene.turn();
        scene.commit();
        let new = scene.work();
        scene.feed(Event::Written { id: old.id, ticket: (1, block) });
        scene.fails(&new, Code::Io, FileState::Lost);
        assert!(scene.late().is_empty(), "all of it is in memory");
        scene.turn_after(PAUSE);
        assert_eq!(scene.work().key, Key::Step(1));
    }

    #[test]
    fn a_block_of_a_step_larger_than_the_buffers_goes_back_as_soon_as_it_is_written() {
        let mut scene = Scene::of(1);
        scene.begin(1, 1);
        scene.early(1, 1);
        let block = scene.block(1, 1, "x");
        scene.turn();
        let work = scene.work();
        assert!(scene.freed().is_empty());
        scene.feed(Event::Written { id: work.id, ticket: (1, block) });
        assert_eq!(scene.freed(), [1]);
    }
}
