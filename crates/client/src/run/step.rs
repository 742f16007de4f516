//! Taking a snapshot: arrays go into the arena and into the log, in pieces when room is short;
//! the step is acknowledged when its end is in the log.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use forebay_types::control::{Ask, Heads, WhenFull, word};
use forebay_types::record::{Payload, Place, Record, StepBlock};
use forebay_types::watch::level::WARNING;
use forebay_types::{ArrayMeta, Code, Compression, DType, Description, Error, Result, SortBy, limits};
use serde_json::{Map, Value};

mod checks;

pub(super) use checks::check_free;
use checks::{check_piece, groups};

use super::View;
use super::axes::{About, Axes, KnownArray};
use super::core::{Core, OpenStep, WAYS_OUT};
use super::room::Placed;

/// Pieces of an array are not made smaller than this while there is something to wait for.
const PIECE: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// After so long without room the owner may release blocks of the unfinished step.
pub(super) const STUCK: Duration = Duration::from_secs(1);
/// The owner had no step to drop: so long until it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// What goes with an array of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct ArrayOptions<'a> {
    /// Unit, or empty.
    pub units: &'a str,
    /// Where this rank's array lies in the whole.
    pub place: Place,
    /// What it says of itself.
    pub about: Option<About<'a>>,
    /// How its chunks are compressed in the file of the step: not said is as the run was opened, `Some(None)` is not.
    pub compress: Option<Option<Compression>>,
}

impl Default for ArrayOptions<'_> {
    fn default() -> Self {
        ArrayOptions { units: "", place: Place::Whole, about: None, compress: None }
    }
}

impl<'a> ArrayOptions<'a> {
    /// What it says of itself, with the type that its elements had.
    fn noting(&self, original: DType) -> Description {
        let mut description = self.about.map_or_else(Description::default, |a| a.description.clone());
        description.reduced_from(original);
        description
    }

    /// The same with another description.
    pub(super) fn saying(self, description: &'a Description) -> ArrayOptions<'a> {
        let coordinates = self.about.map_or(&[][..], |about| about.coordinates);
        ArrayOptions { about: Some(About { description, coordinates }), ..self }
    }
}

fn words(sort: Option<&SortBy>) -> String {
    sort.map_or_else(|| "without sort_by".to_owned(), |by| format!("with sort_by = {:?}", by.record))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Given up because the policy says so when buffers are full.
    Dropped,
    Discarded,
    Ended,
}

struct Reserved {
    name: String,
    units: String,
    meta: ArrayMeta,
    place: Place,
    placed: Arc<Placed>,
}

struct State {
    phase: Phase,
    records: u32,
    /// Of its arrays so far.
    bytes: u64,
    names: HashMap<String, KnownArray>,
    /// What stands before a slash in them.
    groups: HashSet<String>,
    /// Axes that have names.
    axes: Box<Axes>,
    reserved: VecDeque<Reserved>,
    /// The order in which the particles of each species are to lie, if they are.
    sorted: BTreeMap<String, Option<SortBy>>,
    /// Why it could not be ended.
    refused: Option<Error>,
}

/// A snapshot being taken. Dropped before its end it is discarded.
pub struct StepWriter {
    core: Arc<Core>,
    step: i64,
    /// Where a loop goes on from it, if its number does not say it.
    heads: Option<Heads>,
    /// False: the step stands already, and nothing is done.
    taken: bool,
    /// Whether the places it handed out are no longer the user's.
    over: Arc<AtomicBool>,
    state: Mutex<State>,
}

/// A place in the arena for an array of a snapshot: filled in place, it costs no copy.
#[derive(Clone)]
pub struct Allocated {
    meta: ArrayMeta,
    memory: Backing,
    over: Arc<AtomicBool>,
}

#[derive(Clone)]
enum Backing {
    Placed(Arc<Placed>),
    /// Of a snapshot that stands already: nobody reads it.
    Scratch(Arc<[AtomicU64]>),
}

impl Backing {
    fn scratch(bytes: u64) -> Backing {
        let words = (bytes + PAGE) as usize / 8 + 1;
        Backing::Scratch((0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Allocated {
    /// What the array is.
    pub fn meta(&self) -> ArrayMeta {
        self.meta
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.meta.bytes().unwrap_or(0) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte, 64-byte aligned (page aligned from 4 KiB on). Valid as long as this object or
    /// a clone of it lives; arrays of other languages keep one. After the end of the snapshot the memory is used
    /// again: who writes there then damages other arrays.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        match &self.memory {
            Backing::Placed(placed) => placed.block.as_ptr(),
            Backing::Scratch(words) => {
                let first = words.as_ptr().cast::<u8>();
                first.wrapping_add(first.align_offset(PAGE as usize)).cast_mut()
            }
        }
    }

    /// Writes bytes at an offset; refused after the end of the snapshot.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        if self.over.load(Ordering::Acquire) {
            return Err(Error::new(
                Code::Closed,
                format!(
                    "the snapshot of this array {} is over, and its memory is used again; allocate one in the next snapshot",
                    self.meta
                ),
            ));
        }
        let end = offset.checked_add(bytes.len()).filter(|end| *end <= self.len());
        if end.is_none() {
            return Err(Error::bad(format!(
                "{} bytes at {offset} leave the array {} of {} bytes",
                bytes.len(),
                self.meta,
                self.len()
            )));
        }
        if let Backing::Placed(placed) = &self.memory {
            placed.block.write_from(offset as u64, bytes);
        }
        Ok(())
    }
}

impl StepWriter {
    /// Begins a snapshot; one at a time in a session.
    pub(super) fn begin(core: &Arc<Core>, step: i64, time: Option<f64>) -> Result<StepWriter> {
        let _visible = core.visible();
        core.enter()?;
        core.follow()?;
        if core.is_mixing().is_some() {
            core.follow_surely()?;
        }
        if let Some(last) = core.is_mixing() {
            core.remark_standing();
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "the run has complete steps up to {last}, and snapshot {step} is not added to them; {WAYS_OUT}"
                ),
            ));
        }
        if let Some(time) = time.filter(|time| time.is_infinite()) {
            return Err(Error::bad(format!(
                "{time} is no time of a snapshot; give a finite number, or NaN or nothing for one without a time"
            )));
        }
        let place = core.place();
        core.may_keep(step, &place)?;
        let taken = core.numbers().judge(step, &place)?;
        if taken {
            core.makes_again()?;
        }
        let mut open = core.open_step();
        if let Some(OpenStep { step: other, .. }) = *open {
            return Err(Error::new(
                Code::Conflict,
                format!("the snapshot {other} is not ended yet; end or discard it before snapshot {step}"),
            ));
        }
        if taken {
            let (time, head, stride) = (time.unwrap_or(f64::NAN), place.position.unwrap_or(-1), place.stride);
            core.publish(&Record::StepBegin { step, time, head, stride })?;
            *open = Some(OpenStep { step, early: false });
        } else {
            core.stood.store(step, Ordering::Relaxed);
        }
        if let Some(time) = time {
            core.time.store(time.to_bits(), Ordering::Relaxed);
        }
        let state = State {
            phase: Phase::Open,
            records: 0,
            bytes: 0,
            names: HashMap::new(),
            groups: HashSet::new(),
            axes: Box::default(),
            reserved: VecDeque::new(),
            sorted: BTreeMap::new(),
            refused: None,
        };
        let heads = place.heads(step);
        let over = Arc::new(AtomicBool::new(false));
        Ok(StepWriter { core: core.clone(), step, heads, taken, over, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Its number.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// Whether it is taken. It is not when the state of that number is kept already, by Save or by the bottom of
    /// the body before, or is the one that the run went back to: then nothing is done, and everything is right.
    pub fn taken(&self) -> bool {
        self.taken
    }

    /// Whether it is being taken, neither ended nor given up yet, in a run that is open.
    pub fn is_open(&self) -> bool {
        self.taken && self.core.life.good() && self.lock().phase == Phase::Open
    }

    /// Copies an array into the snapshot.
    pub fn put(&self, name: &str, view: View, piece: ArrayOptions) -> Result<()> {
        self.put_sorted(name, view, piece, None)
    }

    /// Copies an array into the snapshot, of a species that is to lie in an order if it is one.
    pub(super) fn put_sorted(
        &self,
        name: &str,
        view: View,
        piece: ArrayOptions,
        sort: Option<&SortBy>,
    ) -> Result<()> {
        let _visible = self.core.visible();
        self.core.enter()?;
        let noted = view.original().map(|original| piece.noting(original));
        let piece = match &noted {
            Some(description) => piece.saying(description),
            None => piece,
        };
        let mut state = self.lock();
        if !self.admit(&mut state, name, view.meta(), &piece)? || !self.taken {
            return Ok(());
        }
        self.say_before(name, view.meta(), &piece, sort)?;
        if !self.send(&mut state, name, view, piece.units, piece.place)? {
            return Ok(());
        }
        match piece.about {
            Some(about) => self.say(&mut state, name, view.meta(), &piece, about),
            None => Ok(()),
        }
    }

    /// The order of a species in this snapshot: as the first call said that put some of it, which others have to say too.
    pub(super) fn order_of(&self, species: &str, said: Option<Option<&SortBy>>) -> Result<Option<SortBy>> {
        let mut state = self.lock();
        let known = state.sorted.entry(species.to_owned()).or_insert_with(|| said.flatten().cloned()).clone();
        match said {
            Some(said) if said != known.as_ref() => Err(Error::bad(format!(
                "the species {species:?} is put {} first, and {} now; give the same sort_by with all of it in a snapshot",
                words(known.as_ref()),
                words(said)
            ))),
            _ => Ok(known),
        }
    }

    /// Changes attributes of an array that is in the snapshot already; null values delete.
    pub fn set_attrs(&self, name: &str, change: Map<String, Value>) -> Result<()> {
        let _visible = self.core.visible();
        self.core.enter()?;
        let mut state = self.lock();
        if !self.is_admitting(&state, name)? {
            return Ok(());
        }
        let Some(dtype) = state.names.get(name).map(KnownArray::dtype) else {
            let text = format!("there is no array {name:?} in snapshot {}; put it first", self.step);
            return Err(Error::new(Code::NotFound, text));
        };
        let json = state.axes.change(name, dtype, change)?;
        match self.taken {
            true => {
                self.core.publish(&Record::StepDescribe { step: self.step, name, json: &json }).map(|_| ())
            }
            false => Ok(()),
        }
    }

    /// Says before the bytes of an array that they are to be compressed, or put in an order.
    fn say_before(
        &self,
        name: &str,
        meta: &ArrayMeta,
        piece: &ArrayOptions,
        sort: Option<&SortBy>,
    ) -> Result<()> {
        let compress = match piece.compress {
            Some(said) => said,
            // What is said of all does not concern those that cannot be compressed, nor those that are small for sure.
            None if piece.place.overlap().is_some() || meta.dtype.is_text() => None,
            None if piece.place != Place::Append && piece.place.whole(meta).bytes()? < Compression::LEAST => {
                None
            }
            None => self.core.compress.get().copied(),
        };
        if compress.is_none() && sort.is_none() {
            return Ok(());
        }
        let json = Description { compress, sort: sort.cloned().map(Box::new), ..Description::default() }
            .to_json()?;
        self.core.publish(&Record::StepDescribe { step: self.step, name, json: &json }).map(|_| ())
    }

    /// Sends what an array says of itself, and the coordinates that are not in the snapshot yet.
    fn say(
        &self,
        state: &mut State,
        name: &str,
        meta: &ArrayMeta,
        piece: &ArrayOptions,
        about: About,
    ) -> Result<()> {
        let (json, coordinates) = state.axes.note(name, meta, &piece.place, about)?;
        if let Some(json) = json {
            self.core.publish(&Record::StepDescribe { step: self.step, name, json: &json })?;
            for text in state.axes.remarks(name, piece.units, meta, &about) {
                self.core.remark_once(WARNING, text)?;
            }
        }
        for (path, coordinate, sum) in coordinates {
            state.names.insert(path.clone(), KnownArray::of(coordinate.view.meta(), &Place::Whole));
            state.groups.extend(groups(&path).map(str::to_owned));
            if !self.send(state, &path, coordinate.view, coordinate.units, Place::Alike { sum })? {
                break;
            }
        }
        Ok(())
    }

    /// Sends an array; false when the snapshot is given up for it, as the policy says.
    fn send(&self, state: &mut State, name: &str, view: View, units: &str, place: Place) -> Result<bool> {
        let bytes = view.nbytes() as u64;
        self.core.counts.snapshot_bytes.fetch_add(bytes, Ordering::Relaxed);
        let block = |part: u64, payload| {
            Record::StepBlock(StepBlock {
                step: self.step,
                name,
                units,
                meta: *view.meta(),
                place,
                part,
                payload,
            })
        };
        if bytes <= limits::INLINE_BYTES as u64 {
            let (elements, lost) = view.bytes_and_lost();
            self.core.publish(&block(0, Payload::Inline(&elements)))?;
            state.records += 1;
            return self.tell_lost(name, &view, lost).map(|()| true);
        }
        let (mut part, mut lost) = (0, 0);
        while part < bytes {
            let Some(placed) = self.place(name, bytes - part, true)? else {
                return self.give_up(state, Phase::Dropped).map(|()| false);
            };
            let end = part + placed.block.len();
            self.core.counts.copied(end - part, || lost += view.fill(&placed.block, part as usize));
            self.core.publish(&block(part, Payload::Block(placed.reference())))?;
            self.core.rooms().of_step += 1;
            state.records += 1;
            part = end;
        }
        state.bytes += bytes;
        self.core.expect(state.bytes);
        self.tell_lost(name, &view, lost).map(|()| true)
    }

    /// Counts finite values that have become infinite, and tells people.
    fn tell_lost(&self, name: &str, view: &View, lost: u64) -> Result<()> {
        if lost == 0 {
            return Ok(());
        }
        self.core.counts.lost_range.fetch_add(lost, Ordering::Relaxed);
        let text = format!(
            "snapshot {}: {lost} finite values of {name:?} are beyond {}, as which it is kept, and are infinite there",
            self.step,
            view.meta().dtype
        );
        self.core.remark_once(WARNING, text)
    }

    /// A place in the arena for an array; it becomes part of the snapshot at its end.
    pub fn allocate(&self, name: &str, meta: ArrayMeta, piece: ArrayOptions) -> Result<Allocated> {
        self.allocate_sorted(name, meta, piece, None)
    }

    /// A place in the arena for an array, of a species that is to lie in an order if it is one.
    pub(super) fn allocate_sorted(
        &self,
        name: &str,
        meta: ArrayMeta,
        piece: ArrayOptions,
        sort: Option<&SortBy>,
    ) -> Result<Allocated> {
        let _visible = self.core.visible();
        self.core.enter()?;
        let mut state = self.lock();
        let bytes = meta.bytes()?;
        if !self.admit(&mut state, name, &meta, &piece)? {
            return Err(Error::new(
                Code::Full,
                format!("the snapshot {} was dropped since the buffers are full; skip it", self.step),
            ));
        }
        if !self.taken {
            return Ok(Allocated { meta, memory: Backing::scratch(bytes), over: self.over.clone() });
        }
        let Some(placed) = self.place(name, bytes.max(1), false)? else {
            self.give_up(&mut state, Phase::Dropped)?;
            return Err(Error::new(
                Code::Full,
                format!(
                    "the buffers are full, so the snapshot {} is dropped as the policy \"drop_newest\" says",
                    self.step
                ),
            ));
        };
        self.core.counts.snapshot_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.core.rooms().unpublished += 1;
        state.bytes += bytes;
        self.core.expect(state.bytes);
        self.say_before(name, &meta, &piece, sort)?;
        if let Some(about) = piece.about {
            self.say(&mut state, name, &meta, &piece, about)?;
        }
        let placed = Arc::new(placed);
        state.reserved.push_back(Reserved {
            name: name.to_owned(),
            units: piece.units.to_owned(),
            meta,
            place: piece.place,
            placed: placed.clone(),
        });
        Ok(Allocated { meta, memory: Backing::Placed(placed), over: self.over.clone() })
    }

    /// Whether the snapshot takes arrays still; false when it is dropped already.
    fn is_admitting(&self, state: &State, name: &str) -> Result<bool> {
        match state.phase {
            Phase::Open => Ok(true),
            Phase::Dropped => Ok(false),
            Phase::Ended | Phase::Discarded => Err(Error::new(
                Code::Closed,
                format!("the snapshot {} is ended; {name:?} comes too late", self.step),
            )),
        }
    }

    /// Checks an array before anything of it is sent; false when the snapshot is dropped already.
    fn admit(&self, state: &mut State, name: &str, meta: &ArrayMeta, piece: &ArrayOptions) -> Result<bool> {
        if !self.is_admitting(state, name)? {
            return Ok(false);
        }
        check_piece(name, meta, piece)?;
        self.core.beside_constants(name)?;
        let held = KnownArray::of(meta, &piece.place);
        if let Some(about) = &piece.about {
            state.axes.check(name, meta, &piece.place, about, &state.names, &state.groups)?;
        }
        state.axes.admit(name, &held, self.step)?;
        let clash = groups(name).find(|group| state.names.contains_key(*group)).map(str::to_owned);
        if let Some(group) = clash.or_else(|| state.groups.contains(name).then(|| name.to_owned())) {
            return Err(Error::bad(format!(
                "{group:?} is an array of snapshot {} and a group that holds others, {name:?} among them: it cannot be both; rename one",
                self.step
            )));
        }
        state.groups.extend(groups(name).map(str::to_owned));
        match state.names.insert(name.to_owned(), held) {
            Some(before) if !(before.is_part() && held.is_part()) => Err(Error::bad(format!(
                "{name:?} is in snapshot {} already; use another name, or give each piece its offset",
                self.step
            ))),
            _ => Ok(true),
        }
    }

    /// Room for `bytes`, or for a part of them; `None` when the policy gives the snapshot up.
    fn place(&self, name: &str, bytes: u64, parts: bool) -> Result<Option<Placed>> {
        let core = &self.core;
        let mut patience = core.patience();
        let began = Instant::now();
        let mut asked: Option<Instant> = None;
        let mut looked = began;
        loop {
            let found = {
                let mut rooms = core.rooms();
                rooms.alloc(bytes).or_else(|| {
                    let most = rooms.largest() / PAGE * PAGE;
                    let piece = if most >= PIECE { most / PIECE * PIECE } else { most };
                    let worth = piece >= PIECE || (piece > 0 && !rooms.any_out());
                    (parts && worth && piece < bytes).then(|| rooms.alloc(piece)).flatten()
                })
            };
            if let Some(placed) = found {
                core.note_placed(&placed);
                core.counts.waited_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                return Ok(Some(placed));
            }
            if core.overflow(bytes)? {
                continue;
            }
            match core.open.full {
                WhenFull::DropNewest => return Ok(None),
                WhenFull::DropOldest if asked.is_none_or(|at| at.elapsed() > ASK_AGAIN) => {
                    asked = Some(Instant::now());
                    let dropped: Option<i64> = core.ask(&Ask::DropOldest)?;
                    if dropped.is_some() {
                        asked = None;
                        continue;
                    }
                }
                _ => {}
            }
            if looked.elapsed() > STUCK {
                looked = Instant::now();
                self.give_way()?;
            }
            self.make_room(name, bytes, parts, patience.so_far())?;
            patience.pause("room in the buffer")?;
        }
    }

    /// Who is to end does not wait for a disk that has no room or fails: the next head may never come.
    fn give_way(&self) -> Result<()> {
        if !self.core.is_to_end() {
            return Ok(());
        }
        let Some(why) = self.core.waits_for_disk()? else { return Ok(()) };
        let (step, run) = (self.step, &self.core.open.path);
        Err(Error::new(
            Code::Full,
            format!(
                "SIGTERM came while snapshot {step} waits for room, which waits for the disk ({why}): it is given up, and the program is to end; what was taken before is kept, `forebay recover {run}` finishes it"
            ),
        ))
    }

    /// Sees to it that room will come, or says that it cannot.
    fn make_room(&self, name: &str, bytes: u64, parts: bool, waited: Duration) -> Result<()> {
        let early = self.core.open_step().as_ref().is_some_and(|open| open.early);
        let mut rooms = self.core.rooms();
        if !rooms.any_out() || (!parts && bytes > rooms.capacity_and_high_water().0) {
            return Err(self.core.too_large(&format!("the array {name:?}"), bytes, &mut rooms));
        }
        if !early && (!rooms.earlier_out() || waited > STUCK) {
            drop(rooms);
            self.core.publish(&Record::StepEarly { step: self.step })?;
            self.core.open_step().iter_mut().for_each(|open| open.early = true);
        }
        Ok(())
    }

    /// Buffered when it returns: it survives the death of this process.
    pub fn end(&self) -> Result<()> {
        let _visible = self.core.visible();
        let mut state = self.lock();
        let ended = self.end_once(&mut state);
        state.refused = ended.as_ref().err().cloned();
        ended
    }

    fn end_once(&self, state: &mut State) -> Result<()> {
        if state.phase != Phase::Open {
            self.leave(state, None);
            return Ok(());
        }
        self.core.enter()?;
        // Before anything of them is published: from then on they are the owner's.
        self.over.store(true, Ordering::Release);
        if !self.taken {
            state.phase = Phase::Ended;
            return Ok(());
        }
        if !self.bear_constants(state)? {
            return Ok(());
        }
        while let Some(r) = state.reserved.pop_front() {
            let record = Record::StepBlock(StepBlock {
                step: self.step,
                name: &r.name,
                units: &r.units,
                meta: r.meta,
                place: r.place,
                part: 0,
                payload: Payload::Block(forebay_types::record::HeldBlock {
                    bytes: r.meta.bytes()?,
                    ..r.placed.reference()
                }),
            });
            self.core.publish(&record)?;
            state.records += 1;
            self.core.rooms().publish(r.placed);
        }
        self.core.publish(&Record::StepEnd { step: self.step, blocks: state.records })?;
        self.core.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.core.numbers().take(self.step, self.heads);
        self.core.last_ended.store(self.step, Ordering::Relaxed);
        let early = self.leave(state, Some(Phase::Ended));
        if early {
            // Blocks of the step may be gone from the arena already, so only the disk can vouch.
            let vouched = self.core.ask(&Ask::WaitStep { step: self.step });
            // A step in whose arrays ranks differ is kept, and so is one that was there before.
            if vouched.as_ref().is_err_and(|e| e.code() != Code::Conflict) {
                self.core.numbers().lose(self.step);
            }
            return vouched;
        }
        Ok(())
    }

    /// The constants of the run are in it, too; false when the snapshot is given up for one.
    fn bear_constants(&self, state: &mut State) -> Result<bool> {
        for constant in self.core.constants_at(self.step) {
            if let Some((view, place)) = constant.copy()?
                && !self.send(state, &constant.name, view, &constant.units, place)?
            {
                return Ok(false);
            }
            if let Some(record) = constant.says(self.step) {
                self.core.publish(&record)?;
            }
        }
        Ok(true)
    }

    /// Gives it up, as if it had never begun. After its end this does nothing.
    pub fn discard(&self) -> Result<()> {
        let mut state = self.lock();
        self.over.store(true, Ordering::Release);
        match state.phase {
            Phase::Open if self.taken => self.give_up(&mut state, Phase::Discarded),
            Phase::Open => {
                state.phase = Phase::Discarded;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn give_up(&self, state: &mut State, how: Phase) -> Result<()> {
        if self.core.life.is_child() {
            // Its blocks are the parent's, and are in use there.
            state.phase = how;
            return Ok(());
        }
        let sent = self.core.publish(&Record::StepDiscard { step: self.step });
        let mut rooms = self.core.rooms();
        for r in state.reserved.drain(..) {
            rooms.unpublished -= 1;
            rooms.give_back(r.placed);
        }
        drop(rooms);
        let dropped = how == Phase::Dropped;
        if sent.is_err() && self.core.closing.load(Ordering::Relaxed) != 0 {
            // The closing has overtaken it, finds it open and tells of it.
            state.phase = how;
            self.core.rooms().of_step = 0;
        } else {
            self.leave(state, Some(how));
        }
        sent?;
        if dropped {
            self.core.counts.dropped.fetch_add(1, Ordering::Relaxed);
            let text = format!(
                "the snapshot {} is dropped: the buffers had no room for it, as the policy \"drop_newest\" says",
                self.step
            );
            self.core.publish(&Record::Message { level: WARNING, step: self.step, text: &text })?;
        }
        Ok(())
    }

    /// The snapshot is no longer the open one; a dropped one stays open for its user until `end`.
    /// Says whether the owner was told to let go of it early.
    fn leave(&self, state: &mut State, phase: Option<Phase>) -> bool {
        if let Some(phase) = phase {
            state.phase = phase;
            self.core.rooms().of_step = 0;
        }
        let ours = self.core.open_step().take_if(|open| open.step == self.step);
        ours.is_some_and(|open| open.early)
    }

    /// Waits until the snapshot is durable on all ranks.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        self.core.enter()?;
        let (phase, refused) = {
            let state = self.lock();
            (state.phase, state.refused.clone())
        };
        match phase {
            Phase::Ended => {}
            Phase::Open => {
                let not_yet =
                    || Error::bad(format!("the snapshot {} is not ended yet; end it, then wait", self.step));
                return Err(refused.unwrap_or_else(not_yet));
            }
            Phase::Dropped => {
                let text = format!(
                    "step {} was dropped: the buffers had no room for it, as the policy \"drop_newest\" says",
                    self.step
                );
                return Err(Error::new(Code::Full, text));
            }
            Phase::Discarded => {
                return Err(Error::new(Code::NotFound, format!("the snapshot {} was given up", self.step)));
            }
        }
        if self.core.open.size == 1
            && !self.core.went_back.load(Ordering::Relaxed)
            && self.core.segment.word(word::DURABLE).load(Ordering::Acquire) == self.step as u64 + 1
        {
            return Ok(());
        }
        self.core.ask_within(&Ask::WaitStep { step: self.step }, timeout)
    }
}

impl Drop for StepWriter {
    fn drop(&mut self) {
        if self.is_open() {
            let text =
                format!("the snapshot {} was let go of before its end; it is not in the run", self.step);
            let _ = self.core.message(WARNING, &text);
        }
        // Nothing to tell anybody if it fails: an owner that is gone discards the step itself.
        let _ = self.discard();
    }
}
