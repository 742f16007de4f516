//! Whether an interface file tells the truth, as far as that can be seen: symbols that are not there, and routines that
//! are called with memory around which nothing may be touched.
//!
//! Every array ends where a page begins that nobody may touch, and begins behind bytes that must stay as they are. A
//! routine that reads or writes behind an array ends the process at that very access ([`ffi::report_faults`]), which
//! is why each routine is tried in a process of its own.
//!
//! Some libraries read a vector's width beyond the end of an array, and use nothing of it. A routine that touches the first
//! bytes behind an array is tried again with slack there ([`calls`]): what it then writes is seen all the same.
//!
//! What is not seen: an extent that is larger than the library wants, `in` and `out` mixed up for memory that the routine
//! does not look at, arguments of one type in the wrong order.

use std::io::Write;

use forebay_idl::{Array, Kind, Library, Routine, Type};
use forebay_types::{DType, ElementKind, Error, Result, Scalar, counted};

use crate::call::{MOST, Places, Scalars, extents, invoke, provide_lengths};
use crate::elf;
use crate::ffi::{self, Guarded};
use crate::loaded::Loaded;
use crate::prepared::Prepared;

/// How large the integers of a trial are.
const SIZES: [i64; 4] = [0, 1, 3, 7];
/// Most trials of one routine.
const TRIALS: usize = 4_096;

/// What became of the trials of a routine.
pub struct Verdict {
    /// How many there were.
    pub trials: usize,
    /// How many of them the library refused, telling that an argument is wrong, and what it said last.
    pub refused: (usize, String),
    /// What is wrong with the line.
    pub faults: Vec<String>,
}

/// Loads a library and says which symbols it lacks, and which it has that are alike.
pub fn symbols(path: &str, library: &Library) -> Result<Vec<String>> {
    let before = elf::mapped();
    let loaded = Loaded::open(path)?;
    let missing = loaded.missing(library);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let own = elf::mapped().into_iter().filter(|p| !before.contains(p));
    let names: Vec<String> =
        own.filter_map(|p| std::fs::read(p).ok()).flat_map(|file| elf::names(&file)).collect();
    let say = |routine: &&Routine| {
        let alike = elf::alike(&routine.symbol, &names);
        let has = match alike.is_empty() {
            true => "leave the line out, or correct `symbol`".to_owned(),
            false => format!("it has {}", alike.join(", ")),
        };
        format!("line {}: {path} has no {}; {has}", routine.place.line, routine.symbol)
    };
    Ok(missing.iter().map(say).collect())
}

/// Calls a routine with small arguments of all kinds. Before each call `out` gets a line that says what is
/// tried; a process that dies has said there what it died of. With `slack` it may read 256 bytes behind its arrays.
pub fn calls(path: &str, routine: &Routine, slack: bool, out: &mut impl Write) -> Result<Verdict> {
    let loaded = Loaded::open(path)?;
    let symbol = loaded.symbol(routine);
    let symbol = symbol.ok_or_else(|| Error::bad(format!("{path} has no {}", routine.symbol)))?;
    let prepared = Prepared::new(routine, 0, symbol, None)?;
    ffi::report_faults();
    let mut verdict = Verdict { trials: 0, refused: (0, String::new()), faults: Vec::new() };
    for trial in trials(routine) {
        let mut scalars = Scalars::new();
        trial.iter().enumerate().try_for_each(|(at, value)| set(&mut scalars, routine, at, *value))?;
        // Values that the line itself excludes.
        if scalars.complete(routine).is_err() {
            continue;
        }
        let said = describe(routine, &trial);
        writeln!(out, "trial {said}").and_then(|()| out.flush()).map_err(|e| Error::io("cannot tell", e))?;
        verdict.trials += 1;
        if let Some(why) = try_once(&prepared, &mut scalars, slack, &mut verdict)? {
            let text = format!("{why}, called with {said}");
            if !verdict
                .faults
                .iter()
                .any(|f| f.split(", called with").next() == text.split(", called with").next())
            {
                verdict.faults.push(text);
            }
        }
    }
    Ok(verdict)
}

/// The values of the scalars in every trial, by argument.
fn trials(routine: &Routine) -> Vec<Vec<i64>> {
    let count = routine.args.len();
    let mut all: Vec<Vec<i64>> = SIZES.iter().map(|n| vec![*n; count]).collect();
    all.push((0..count as i64).map(|i| 3 + i % 5).collect());
    for (at, arg) in routine.args.iter().enumerate() {
        let choices: Vec<i64> = match &arg.kind {
            Kind::Scalar(s) => match (&s.one_of, s.of) {
                (Some(known), _) => known.clone(),
                (None, Type::Char) => b"NTULV".iter().map(|b| i64::from(*b)).collect(),
                (None, _) if is_increment(routine, at) => vec![1, 2, -1],
                (None, _) => continue,
            },
            Kind::Increment(..) => vec![1, 2, -1],
            _ => continue,
        };
        if all.len() * choices.len() > TRIALS {
            all.iter_mut().enumerate().for_each(|(i, t)| t[at] = choices[i % choices.len()]);
            continue;
        }
        let with = |t: &Vec<i64>| {
            let put = |v: &i64| {
                let mut t = t.clone();
                t[at] = *v;
                t
            };
            choices.iter().map(put).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

fn is_increment(routine: &Routine, at: usize) -> bool {
    routine.args.iter().any(|a| matches!(&a.kind, Kind::Array(a) if a.inc == Some(at)))
}

fn set(scalars: &mut Scalars<MOST>, routine: &Routine, at: usize, value: i64) -> Result<()> {
    match &routine.args[at].kind {
        Kind::Scalar(s) => {
            let dtype = s.of.dtype();
            let scalar = match dtype.kind() {
                ElementKind::Float | ElementKind::Complex => Scalar::from(0.5).convert(dtype)?,
                ElementKind::Bool => Scalar::from(value % 2 != 0),
                _ => Scalar::from(value).convert(dtype)?,
            };
            scalars.set(at, scalar);
            Ok(())
        }
        Kind::Increment(..) => scalars.put(routine, at, value),
        _ => Ok(()),
    }
}

/// What is tried, in words.
fn describe(routine: &Routine, trial: &[i64]) -> String {
    let word = |(at, arg): (usize, &forebay_idl::Arg)| match &arg.kind {
        Kind::Scalar(s) if s.of == Type::Char => {
            Some(format!("{}={:?}", arg.name, char::from(trial[at] as u8)))
        }
        Kind::Scalar(s) if s.of.dtype().is_integer() && s.way.goes() => {
            Some(format!("{}={}", arg.name, trial[at]))
        }
        Kind::Increment(..) if trial[at] != 1 => Some(format!("{}={}", arg.name, trial[at])),
        _ => None,
    };
    let words: Vec<String> = routine.args.iter().enumerate().filter_map(word).collect();
    if words.is_empty() { "no scalars".into() } else { words.join(" ") }
}

/// One call; what it did that it should not have.
fn try_once(
    prepared: &Prepared,
    scalars: &mut Scalars<MOST>,
    slack: bool,
    verdict: &mut Verdict,
) -> Result<Option<String>> {
    let routine = &prepared.routine;
    let mut places = Places::new();
    let mut memory: Vec<(usize, Guarded)> = Vec::new();
    let guarded = |bytes: u64| {
        Guarded::new(bytes as usize, slack)
            .ok_or_else(|| Error::bad(format!("there is no memory for {bytes} bytes")))
    };
    for (at, arg) in routine.args.iter().enumerate() {
        let Kind::Array(array) = &arg.kind else { continue };
        let shape = extents(routine, scalars, at, array)?;
        places.len[at] = shape.len() as usize;
        let step = array.inc.map_or(1, |inc| scalars.value(inc).unsigned_abs());
        let elements = if shape.is_empty() { 0 } else { (shape.len() - 1) * step + 1 };
        let mut room = guarded(elements * array.dtype.size() as u64)?;
        let rows = shape.extents().first().copied().unwrap_or(1).max(1);
        fill(room.bytes(), array, rows);
        places.at[at] = room.bytes().as_mut_ptr();
        memory.push((at, room));
        if let Some(ld) = array.ld {
            let axis = if array.order == forebay_types::Order::F { 0 } else { 1 };
            let own = shape.extents().get(axis).copied().unwrap_or(1).max(1) as i64;
            let own = own.max(if matches!(routine.args[ld].kind, Kind::Leading(..)) {
                scalars.value(ld)
            } else {
                0
            });
            scalars.put(routine, ld, own)?;
        }
    }
    let mut texts: Vec<(usize, Guarded)> = Vec::new();
    for (at, _) in routine.args.iter().enumerate().filter(|(_, a)| a.kind == Kind::Str) {
        let mut room = guarded(5)?;
        room.bytes().copy_from_slice(b"text\0");
        (places.at[at], places.len[at]) = (room.bytes().as_mut_ptr(), 4);
        texts.push((at, room));
    }
    let works = match provide_lengths(prepared, scalars, &mut places) {
        Ok(works) => works,
        Err(e) => {
            verdict.refused = (verdict.refused.0 + 1, e.text().to_owned());
            return Ok(None);
        }
    };
    for (at, dtype, elements) in works {
        let mut room = guarded(elements * dtype.size() as u64)?;
        places.at[at] = room.bytes().as_mut_ptr();
        memory.push((at, room));
    }
    memory.extend(texts);
    ffi::watch_guards(memory.iter().map(|(at, room)| (room.behind(), *at as u32)));
    invoke(prepared, scalars, &places);
    ffi::watch_guards(std::iter::empty());
    if let Some(note) = ffi::take_note() {
        verdict.refused.0 += 1;
        verdict.refused.1 =
            format!("{} says that argument {} is wrong", String::from_utf8_lossy(note.name()), note.info);
    }
    let touched = memory.iter_mut().find_map(|(at, room)| match room.changed() {
        (0, 0) => None,
        (0, n) => Some((*at, n, "behind")),
        (n, _) => Some((*at, n, "before")),
    });
    Ok(touched.map(|(at, bytes, where_)| {
        let arg = &routine.args[at];
        format!(
            "{}: {} {where_} {} changed; is the extent right, and the type?",
            arg.name,
            counted(bytes, "byte"),
            routine.kind_of(arg)
        )
    }))
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

/// Whether a process that died of a forbidden access was so near behind an array that slack may help.
pub fn was_near(told: &str) -> bool {
    let offset = told.split_ascii_whitespace().nth(2).and_then(|word| word.parse::<usize>().ok());
    offset.is_some_and(|offset| offset < ffi::CANARY)
}

/// What a process that died of a forbidden access has told in its last line, in words.
pub fn fault_in_words(routine: &Routine, told: &str) -> String {
    let mut numbers = told.split_ascii_whitespace().skip(1).map(str::parse::<usize>);
    let (Some(Ok(at)), Some(Ok(offset))) = (numbers.next(), numbers.next()) else {
        return "it touched memory that is not its own".into();
    };
    let Some(arg) = routine.args.get(at) else { return "it touched memory that is not its own".into() };
    format!(
        "{}: it touched byte {offset} behind {}; is the extent right, and the type?",
        arg.name,
        routine.kind_of(arg)
    )
}
