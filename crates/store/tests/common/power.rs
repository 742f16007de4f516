//! A disk that notes what is written, named and made durable, and gives what a loss of power may leave:
//! of all that is not durable yet any part.
//!
//! SQLite and HDF5 write beside the seam: what they changed is seen by comparing their files before
//! and after. A commit makes its files durable, a lazy one nothing.

use super::faults::Tree;
use forebay_arena::Lent;
use forebay_store::disk::{Disk, Foreign, System};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const PAGE: usize = 4096;
/// Images of each epoch whose writes are chosen by the seed.
const SEEDS: u64 = 50;

type Id = usize;

/// What happened, in the order of time.
#[derive(Clone)]
enum Event {
    Write(Id, u64, Vec<u8>),
    Size(Id, u64),
    /// A directory, or a file that is made or renamed: it is found there now, and no more there.
    Name(PathBuf, Option<Id>, Option<PathBuf>),
    Gone(PathBuf),
    /// These files are durable.
    Sync(Vec<Id>),
    /// The names in a directory, or one name, are durable.
    SyncNames(PathBuf),
    /// The test has come so far: so many acts are durable, so many begun.
    Told(usize, usize),
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// Files by path, as they are now.
    ids: BTreeMap<PathBuf, Id>,
    /// Their bytes.
    bytes: Vec<Vec<u8>>,
}

impl State {
    fn write(&mut self, id: Id, at: u64, bytes: &[u8]) {
        put(&mut self.bytes[id], at, bytes);
        self.events.push(Event::Write(id, at, bytes.to_vec()));
    }

    fn size(&mut self, id: Id, len: u64) {
        self.bytes[id].resize(len as usize, 0);
        self.events.push(Event::Size(id, len));
    }

    fn id(&mut self, path: &Path) -> Id {
        if let Some(id) = self.ids.get(path) {
            return *id;
        }
        let id = self.bytes.len();
        self.bytes.push(Vec::new());
        self.ids.insert(path.to_owned(), id);
        self.events.push(Event::Name(path.to_owned(), Some(id), None));
        id
    }

    /// Notes what somebody else did to a file.
    fn compare(&mut self, path: &Path) {
        let Ok(now) = std::fs::read(path) else {
            if self.ids.remove(path).is_some() {
                self.events.push(Event::Gone(path.to_owned()));
            }
            return;
        };
        let id = self.id(path);
        if self.bytes[id].len() != now.len() {
            self.size(id, now.len() as u64);
        }
        for (n, page) in now.chunks(PAGE).enumerate() {
            let at = n * PAGE;
            if self.bytes[id][at..at + page.len()] != *page {
                self.write(id, at as u64, page);
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, new: &[u8]) {
    let (at, end) = (at as usize, at as usize + new.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(new);
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// The disk.
#[derive(Default)]
pub struct Noting {
    state: Mutex<State>,
    /// Nothing gets a new name that holds this.
    refused: Option<&'static str>,
}

impl Noting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// One on which nothing can be given a name that holds this.
    pub fn refusing(part: &'static str) -> Noting {
        Noting { refused: Some(part), ..Noting::default() }
    }

    /// So many acts of the script are durable, so many were begun.
    pub fn tell(&self, durable: usize, begun: usize) {
        self.lock().events.push(Event::Told(durable, begun));
    }

    /// A file that somebody else has made.
    pub fn look(&self, path: &Path) {
        self.lock().compare(path);
    }

    /// What a loss of power may leave under a directory, at any time: so many images of all there are.
    pub fn images(&self, root: &Path, seed: u64, most: usize) -> Vec<Image> {
        let events = std::mem::take(&mut self.lock().events);
        let mut world = World { root: root.to_owned(), dice: seed, ..World::default() };
        let told = |world: &mut World, visit: &mut dyn FnMut(&World, String, BTreeSet<usize>)| {
            for event in &events {
                if matches!(event, Event::Sync(_) | Event::SyncNames(_)) {
                    world.imagine(visit);
                }
                world.take(event);
            }
            world.imagine(visit);
        };
        let mut whats = Vec::new();
        told(&mut world, &mut |_, what, _| whats.push(what));
        let chosen = choose(&whats, most);
        let mut world = World { root: root.to_owned(), dice: seed, ..World::default() };
        let (mut images, mut n) = (Vec::new(), 0);
        told(&mut world, &mut |world, what, kept| {
            n += 1;
            if chosen.contains(&(n - 1)) {
                images.push(world.image(what, &kept));
            }
        });
        println!("{n} images, {} chosen", images.len());
        images
    }
}

/// Half of them those that keep or lack one change alone, evenly over the time; half of the others.
fn choose(whats: &[String], most: usize) -> BTreeSet<usize> {
    let seeded = |n: &usize| whats[*n].starts_with("seed");
    let (others, single): (Vec<usize>, Vec<usize>) = (0..whats.len()).partition(seeded);
    let some = |of: Vec<usize>| {
        let by = (of.len() * 2).div_ceil(most).max(1);
        of.into_iter().step_by(by)
    };
    some(single).chain(some(others)).collect()
}

fn path_of(fd: BorrowedFd) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

impl Disk for Noting {
    fn open(&self, path: &Path, how: &OpenOptions) -> io::Result<File> {
        let mut state = self.lock();
        let file = System.open(path, how)?;
        state.compare(path);
        Ok(file)
    }
    fn write(&self, fd: BorrowedFd, bytes: Lent, at: u64) -> io::Result<usize> {
        let mut state = self.lock();
        let n = System.write(fd, bytes, at)?;
        let id = state.id(&path_of(fd));
        for (i, page) in bytes.split_at(n).0.chunks(PAGE).enumerate() {
            state.write(id, at + (i * PAGE) as u64, &page.to_vec());
        }
        Ok(n)
    }
    fn reserve(&self, fd: BorrowedFd, at: u64, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        System.reserve(fd, at, len)?;
        state.compare(&path_of(fd));
        Ok(())
    }
    fn cut(&self, fd: BorrowedFd, len: u64) -> io::Result<()> {
        let mut state = self.lock();
        System.cut(fd, len)?;
        let id = state.id(&path_of(fd));
        state.size(id, len);
        Ok(())
    }
    fn sync(&self, fd: BorrowedFd) -> io::Result<()> {
        let mut state = self.lock();
        state.compare(&path_of(fd));
        let id = state.id(&path_of(fd));
        state.events.push(Event::Sync(vec![id]));
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.refused.is_some_and(|part| to.to_string_lossy().contains(part)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let mut state = self.lock();
        System.rename(from, to)?;
        let id = state.ids.remove(from);
        if let Some(id) = id {
            state.ids.insert(to.to_owned(), id);
            state.events.push(Event::Name(to.to_owned(), Some(id), Some(from.to_owned())));
        }
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        System.remove(path)?;
        state.compare(path);
        Ok(())
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        System.make_dir(path)?;
        state.events.push(Event::Name(path.to_owned(), None, None));
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().events.push(Event::SyncNames(dir.to_owned()));
        Ok(())
    }
    fn free(&self, dir: &Path) -> io::Result<u64> {
        System.free(dir)
    }
    fn patience(&self) -> Duration {
        Duration::from_micros(200)
    }
    fn after(&self, what: Foreign, path: &Path) {
        let mut state = self.lock();
        if what == Foreign::Frame || what == Foreign::Segment {
            return state.compare(path);
        }
        let log = log_of(path);
        let ids = |state: &State, files: &[&Path]| {
            files.iter().filter_map(|p| state.ids.get(*p).copied()).collect::<Vec<Id>>()
        };
        let now = std::fs::read(path).ok();
        if state.ids.get(path).map(|id| &state.bytes[*id]) != now.as_ref() {
            // SQLite makes the log durable before it moves it into the file, and that before it
            // begins the log anew.
            let before = Event::Sync(ids(&state, &[&log]));
            state.events.push(before);
            state.compare(path);
            let moved = Event::Sync(ids(&state, &[path]));
            state.events.push(moved);
        }
        state.compare(&log);
        if what == Foreign::Commit {
            let done = Event::Sync(ids(&state, &[&log]));
            state.events.push(done);
            state.events.extend([path.to_owned(), log].map(Event::SyncNames));
        }
    }
}

/// What is there after a loss of power.
pub struct Image {
    /// Which of the writes it kept.
    pub what: String,
    /// Acts that were durable, and begun.
    pub durable: usize,
    pub begun: usize,
    pub tree: Tree,
}

/// The disk as the events make it.
#[derive(Default)]
struct World {
    root: PathBuf,
    dice: u64,
    count: usize,
    /// The first event of this epoch.
    since: usize,
    told: (usize, usize),
    disk: Contents,
    /// What is not durable.
    pending: BTreeMap<usize, Event>,
}

#[derive(Clone, Default)]
struct Contents {
    bytes: HashMap<Id, Arc<Vec<u8>>>,
    names: BTreeMap<PathBuf, Option<Id>>,
}

impl Contents {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write(id, at, new) => put(self.file(*id), *at, new),
            Event::Size(id, len) => self.file(*id).resize(*len as usize, 0),
            Event::Name(to, id, from) => {
                if let Some(from) = from.as_ref().filter(|f| self.names.get(*f) == Some(id)) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *id);
            }
            Event::Gone(path) => drop(self.names.remove(path)),
            Event::Sync(_) | Event::SyncNames(_) | Event::Told(..) => {}
        }
    }

    fn file(&mut self, id: Id) -> &mut Vec<u8> {
        Arc::make_mut(self.bytes.entry(id).or_default())
    }
}

impl World {
    fn take(&mut self, event: &Event) {
        self.count += 1;
        let covered: Vec<usize> = match event {
            Event::Told(durable, begun) => {
                self.told = (self.told.0.max(*durable), self.told.1.max(*begun));
                return;
            }
            Event::Sync(ids) => self.those(|e| match e {
                Event::Write(id, ..) | Event::Size(id, _) => ids.contains(id),
                _ => false,
            }),
            Event::SyncNames(of) => self.those(|e| match e {
                Event::Name(path, ..) | Event::Gone(path) => path == of || path.parent() == Some(of),
                _ => false,
            }),
            _ => {
                self.pending.insert(self.count, event.clone());
                return;
            }
        };
        for n in covered {
            if let Some(event) = self.pending.remove(&n) {
                self.disk.apply(&event);
            }
        }
        self.since = self.count;
    }

    fn those(&self, which: impl Fn(&Event) -> bool) -> Vec<usize> {
        self.pending.iter().filter(|(_, e)| which(e)).map(|(n, _)| *n).collect()
    }

    /// The images of the time since the last sync: which of the changes are kept.
    fn imagine(&mut self, visit: &mut dyn FnMut(&World, String, BTreeSet<usize>)) {
        let all: BTreeSet<usize> = self.pending.keys().copied().collect();
        visit(self, "nothing".into(), BTreeSet::new());
        visit(self, "all".into(), all.clone());
        for n in all.range(self.since..) {
            visit(self, format!("only {n}"), [*n].into());
            visit(self, format!("all but {n}"), all.iter().filter(|m| *m != n).copied().collect());
        }
        for n in 0..if all.len() > 1 { SEEDS } else { 0 } {
            let kept = all.iter().filter(|_| throw(&mut self.dice)).copied().collect();
            visit(self, format!("seed {n}"), kept);
        }
    }

    fn image(&self, what: String, kept: &BTreeSet<usize>) -> Image {
        let mut disk = self.disk.clone();
        kept.iter().for_each(|n| disk.apply(&self.pending[n]));
        let file = |id: Id| disk.bytes.get(&id).cloned().unwrap_or_default();
        let below = |path: &PathBuf| path.strip_prefix(&self.root).ok().map(Path::to_owned);
        let tree = disk.names.iter().filter_map(|(path, id)| Some((below(path)?, id.map(file)))).collect();
        Image { what, durable: self.told.0, begun: self.told.1, tree }
    }
}

/// A coin, from a seed.
fn throw(dice: &mut u64) -> bool {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *dice >> 63 == 1
}
