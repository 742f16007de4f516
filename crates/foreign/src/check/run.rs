//! One call of a routine, in memory around which nothing may be touched, and what it left there.

use forebay_idl::{Array, Kind, Routine};
use forebay_types::{DType, Error, Order, Result, Way};

use crate::call::{MOST, Places, Scalars, extents, invoke, provide_lengths};
use crate::ffi::{self, CANARY, Guarded};
use crate::prepared::{Prepared, passed_dtype};

/// What lies in memory before a call.
#[derive(Clone, Copy, Default)]
pub(super) struct Fill {
    /// Arguments that only come, one bit each, which hold other bytes than usually.
    pub other: u128,
    /// Arguments behind which other bytes lie than usually, one bit each.
    pub behind: u128,
    /// An argument, and how many of its last bytes are changed.
    pub changed: Option<(usize, usize)>,
}

/// Bytes of what only comes: as numbers of any type they are of a usual size, and the two have no bit pattern in common.
const REAL: [u8; 2] = [0x40, 0xbf];
const INTEGER: [u8; 2] = [0, 1];
/// Bytes of real numbers that are changed: larger than all others.
const CHANGED: u8 = 0x42;

/// An argument that lies in memory.
pub(super) struct Held {
    pub at: usize,
    pub way: Way,
    pub dtype: DType,
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

impl Held {
    /// Bytes that are not what they were.
    pub fn changes(&self) -> usize {
        self.before.iter().zip(&self.after).filter(|(b, a)| b != a).count()
    }
}

/// What a call has left.
pub(super) struct Ran {
    pub held: Vec<Held>,
    /// What is wrong with what it touched around its arguments.
    pub touched: Option<String>,
    pub returned: [u8; 32],
    /// The library has said that an argument is wrong.
    pub refused: Option<String>,
}

impl Ran {
    fn refused(e: &Error) -> Ran {
        Ran { held: Vec::new(), touched: None, returned: [0; 32], refused: Some(e.text().to_owned()) }
    }

    pub fn of(&self, at: usize) -> Option<&Held> {
        self.held.iter().find(|h| h.at == at)
    }

    /// Whether what came back is not the same. What neither call has touched does not count.
    pub fn differs(&self, other: &Ran, returned: usize) -> bool {
        let byte = |((b, a), (d, c)): ((&u8, &u8), (&u8, &u8))| a != c && !(a == b && c == d);
        let one = |(x, y): (&Held, &Held)| {
            let (x, y) = (x.before.iter().zip(&x.after), y.before.iter().zip(&y.after));
            x.zip(y).any(byte)
        };
        self.returned[..returned] != other.returned[..returned]
            || self.held.iter().zip(&other.held).filter(|(h, _)| h.way.comes()).any(one)
    }
}

/// How many bytes at the end of an argument two calls have left as they were.
pub(super) fn untouched(x: &Held, y: &Held) -> usize {
    let (x, y) = (x.before.iter().zip(&x.after), y.before.iter().zip(&y.after));
    x.zip(y).rev().take_while(|((b, a), (d, c))| a == b && c == d).count()
}

/// Memory of a call.
struct Memory<'a> {
    prepared: &'a Prepared,
    slack: bool,
    fill: Fill,
    places: Places<MOST>,
    rooms: Vec<(Held, Guarded)>,
}

/// Calls a routine. The error is about this process, not about the routine.
pub(super) fn run(prepared: &Prepared, scalars: &Scalars<MOST>, slack: bool, fill: Fill) -> Result<Ran> {
    let mut scalars = scalars.clone();
    let mut memory = Memory { prepared, slack, fill, places: Places::new(), rooms: Vec::new() };
    memory.arrays(&mut scalars)?;
    for at in 0..prepared.routine.args.len() {
        if prepared.routine.args[at].kind == Kind::Str {
            memory.add((at, Way::In, DType::U8), b"text\0".to_vec())?;
            memory.places.len[at] = 4;
        }
    }
    let works = match provide_lengths(prepared, &mut scalars, &mut memory.places) {
        Ok(works) => works,
        Err(e) => return Ok(Ran::refused(&e)),
    };
    for (at, dtype, elements) in works {
        memory.add((at, Way::InOut, dtype), vec![0; elements as usize * dtype.size()])?;
    }
    memory.scalars(&scalars)?;
    ffi::watch_guards(memory.rooms.iter().map(|(held, room)| (room.behind(), held.at as u32)));
    let returned = invoke(prepared, &mut scalars, &memory.places);
    ffi::watch_guards(std::iter::empty());
    let returned = match returned {
        Ok(returned) => returned,
        Err(e) => return Ok(Ran::refused(&e)),
    };
    let says = |note: ffi::Note| {
        format!("{} says that argument {} is wrong", String::from_utf8_lossy(note.name()), note.info)
    };
    Ok(memory.left(returned, ffi::take_note().map(says)))
}

impl Memory<'_> {
    fn routine(&self) -> &Routine {
        &self.prepared.routine
    }

    fn add(&mut self, (at, way, dtype): (usize, Way, DType), before: Vec<u8>) -> Result<()> {
        let other = usize::from(self.fill.behind & 1 << at != 0);
        let align = match &self.routine().args[at].kind {
            Kind::Array(array) => array.align.unwrap_or(1),
            _ => 1,
        };
        let slack = if self.slack { CANARY } else { 0 };
        let slack = (before.len() + slack).next_multiple_of(align) - before.len();
        let room = Guarded::new(before.len(), slack, ffi::SLACK[other]);
        let mut room =
            room.ok_or_else(|| Error::bad(format!("there is no memory for {} bytes", before.len())))?;
        room.bytes().copy_from_slice(&before);
        self.places.at[at] = room.bytes().as_mut_ptr();
        self.rooms.push((Held { at, way, dtype, before, after: Vec::new() }, room));
        Ok(())
    }

    fn arrays(&mut self, scalars: &mut Scalars<MOST>) -> Result<()> {
        let prepared = self.prepared;
        let routine = &prepared.routine;
        let arrays = || {
            routine.args.iter().enumerate().filter_map(|(at, arg)| match &arg.kind {
                Kind::Array(array) => Some((at, array)),
                _ => None,
            })
        };
        // Two arrays may have one leading dimension: the largest is that of both.
        let mut leading = [1; MOST];
        for (at, array) in arrays() {
            let shape = extents(routine, scalars, at, array)?;
            let axis = if array.order == Order::F { 0 } else { 1 };
            let rows = shape.extents().get(axis).copied().unwrap_or(1).max(1) as i64;
            if let Some(ld) = array.ld {
                leading[ld] = rows.max(leading[ld]);
                scalars.put(routine, ld, leading[ld])?;
            }
        }
        for (at, array) in arrays() {
            let shape = extents(routine, scalars, at, array)?;
            self.places.len[at] = shape.len() as usize;
            let rows = shape.extents().first().copied().unwrap_or(1).max(1);
            let step = array.inc.map_or(1, |inc| scalars.value(inc).unsigned_abs());
            let step_of_rows = array.ld.map_or(rows, |ld| leading[ld] as u64);
            let elements = match (array.ld, shape.len()) {
                (_, 0) => 0,
                (Some(_), n) => {
                    let fast = if array.order == Order::F { rows } else { n / rows };
                    (n / fast - 1) * step_of_rows + fast
                }
                (None, n) => (n - 1) * step + 1,
            };
            let mut before = vec![0; elements as usize * array.dtype.size()];
            match array.way.goes() {
                true => fill(&mut before, array, step_of_rows),
                false => self.unlike(&mut before, at, array.dtype),
            }
            self.change(&mut before, at, array.dtype);
            self.add((at, array.way, array.dtype), before)?;
        }
        Ok(())
    }

    /// Scalars that are passed by address.
    fn scalars(&mut self, scalars: &Scalars<MOST>) -> Result<()> {
        let prepared = self.prepared;
        for (at, arg) in prepared.routine.args.iter().enumerate() {
            let of = match (&arg.kind, arg.kind.scalar_type()) {
                (Kind::Length(_), _) => DType::U64,
                (_, Some(of)) => passed_dtype(of, prepared.routine.convention),
                _ => continue,
            };
            if arg.by_value {
                continue;
            }
            let way = if let Kind::Scalar(s) = &arg.kind { s.way } else { Way::In };
            let mut before = match &arg.kind {
                Kind::Length(of) => self.places.len[*of].to_le_bytes().to_vec(),
                _ => scalars.bytes(at)[..of.size()].to_vec(),
            };
            if !way.goes() {
                self.unlike(&mut before, at, of);
            }
            self.add((at, way, of), before)?;
        }
        Ok(())
    }

    /// Bytes of what only comes.
    fn unlike(&self, bytes: &mut [u8], at: usize, dtype: DType) {
        let other = usize::from(self.fill.other & 1 << at != 0);
        bytes.fill(if is_real(dtype) { REAL[other] } else { INTEGER[other] });
    }

    /// Changes the last bytes of what goes.
    fn change(&self, bytes: &mut [u8], at: usize, dtype: DType) {
        let Some((_, count)) = self.fill.changed.filter(|(changed, _)| *changed == at) else { return };
        let first = bytes.len().saturating_sub(count);
        if is_real(dtype) {
            return bytes[first..].fill(CHANGED);
        }
        // Numbers that are good as indices, too.
        for number in bytes[first..].chunks_exact_mut(dtype.size()) {
            number[0] = if number[0] == 1 { 2 } else { 1 };
        }
    }

    fn left(mut self, returned: [u8; 32], refused: Option<String>) -> Ran {
        let routine = &self.prepared.routine;
        let around = |(held, room): &mut (Held, Guarded)| match room.changed() {
            (0, 0) => None,
            (0, n) => Some((held.at, n, "behind")),
            (n, _) => Some((held.at, n, "before")),
        };
        let touched = self.rooms.iter_mut().find_map(around).map(|(at, bytes, side)| {
            let arg = &routine.args[at];
            let bytes = forebay_types::counted(bytes, "byte");
            let kind = routine.kind_of(arg);
            format!("{}: {bytes} {side} {kind} changed; is {} right, and the type?", arg.name, asked(arg))
        });
        let is_seen = |at: usize| !matches!(self.routine().args[at].kind, Kind::Work { .. });
        let seen: Vec<bool> = self.rooms.iter().map(|(held, _)| is_seen(held.at)).collect();
        let mut held = Vec::new();
        for ((mut one, mut room), seen) in self.rooms.into_iter().zip(seen) {
            one.after = room.bytes().to_vec();
            if seen {
                held.push(one);
            }
        }
        Ran { held, touched, returned, refused }
    }
}

/// What of an argument is doubted besides its type.
pub(super) fn asked(arg: &forebay_idl::Arg) -> &'static str {
    if matches!(arg.kind, Kind::Array(_)) { "the extent" } else { "the argument" }
}

/// The smallest part of an element that is changed by itself, in bytes: a number may be half as long as a line says.
pub(super) fn smallest(dtype: DType) -> usize {
    if is_real(dtype) { 4 } else { dtype.size() }
}

pub(super) fn is_real(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128)
}

/// Numbers with which most routines do what they do with a good matrix: a heavy diagonal; indices that count from 1.
fn fill(bytes: &mut [u8], array: &Array, rows: u64) {
    let (size, rows) = (array.dtype.size(), rows as usize);
    for (i, to) in bytes.chunks_exact_mut(size).enumerate() {
        let heavy = i % (rows + 1) == 0;
        let real = if heavy { 8.0 } else { 1.0 / (2.0 + (i % 7) as f64) };
        match array.dtype {
            DType::F32 | DType::C64 => to[..4].copy_from_slice(&(real as f32).to_le_bytes()),
            DType::F64 | DType::C128 => to[..8].copy_from_slice(&real.to_le_bytes()),
            _ => to[0] = (i % 100 + 1) as u8,
        }
    }
}
