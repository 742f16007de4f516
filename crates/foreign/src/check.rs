//! Whether an interface file tells the truth, as far as that can be seen: symbols that are not there, and routines that
//! are called with memory around which nothing may be touched.
//!
//! Every array ends where a page begins that nobody may touch, and begins behind bytes that must stay as they are. A
//! routine that reads or writes behind an array ends the process at that very access ([`ffi::report_faults`]), which
//! is why each routine is tried in a process of its own.
//!
//! Some libraries read a vector's width beyond the end of an array, and use nothing of it. A routine that touches the first
//! bytes behind an array is tried again with slack there ([`calls`]): what it then writes is seen all the same, and so is
//! what it reads, since the slack holds other bytes before a second call.
//!
//! What goes and what comes is found out by calling twice. What only goes in must be as it was; what only comes holds other
//! bytes before the second call, and nothing else may differ after it. An argument whose last bytes are never
//! written, or make no difference to anything in any call, is a doubt: it may have another type, or be shorter.
//!
//! What is not seen: arguments of one type in the wrong order, results that are read where they make no difference.

mod returned;
mod run;
mod trials;

use std::io::Write;
use std::sync::Arc;

use forebay_idl::{Arg, Array, Expr, Kind, Library, Routine};
use forebay_types::{DType, Error, Result, Way};

use crate::call::{MOST, Scalars, extents};
use crate::chain::Chain;
use crate::elf;
use crate::ffi;
use crate::loaded::Loaded;
use crate::prepared::Prepared;
use returned::Returns;
use run::{Fill, Ran, run, untouched};
use trials::{describe, set, trials};

/// What became of the trials of a routine.
#[derive(Default)]
pub struct Verdict {
    /// How many there were.
    pub trials: usize,
    /// How many of them the library refused, telling that an argument is wrong, and what it said last.
    pub refused: (usize, String),
    /// What is wrong with the line.
    pub faults: Vec<String>,
    /// What may be wrong with it.
    pub doubts: Vec<String>,
}

impl Verdict {
    /// What happened more than once is said once.
    fn fault(&mut self, why: &str, said: &str) {
        if !self.faults.iter().any(|f| f.starts_with(why)) {
            self.faults.push(format!("{why}, called with {said}"));
        }
    }
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
    let say = |(routine, symbol): &(&Routine, &str)| {
        let alike = forebay_types::alike(symbol, &names);
        let has = match alike.is_empty() {
            true => "leave the line out, or correct `symbol`".to_owned(),
            false => format!("it has {}", alike.join(", ")),
        };
        format!("line {}: {path} has no {symbol}; {has}", routine.place.line)
    };
    Ok(missing.iter().map(say).collect())
}

/// Calls a routine with small arguments of all kinds. Before each call `out` gets a line that says what is
/// tried; a process that dies has said there what it died of. With `slack` it may read 256 bytes behind its arrays.
pub fn calls(path: &str, routine: &Routine, slack: bool, out: &mut impl Write) -> Result<Verdict> {
    if routine.args.iter().any(|arg| matches!(arg.kind, Kind::File(_))) {
        let doubts = vec!["it works on files, so it was not called; call it once at a server".to_owned()];
        return Ok(Verdict { doubts, ..Verdict::default() });
    }
    let loaded = Loaded::open(path)?;
    let symbol = loaded.symbol(&routine.symbol);
    let symbol = symbol.ok_or_else(|| Error::bad(format!("{path} has no {}", routine.symbol)))?;
    let returns = Returns::of(routine);
    let prepared = |call| {
        let mut prepared = Prepared::with(routine, 0, symbol, None, returns.probe(call))?;
        prepared.chain = Chain::of(routine, |name| loaded.symbol(name), &Arc::default())?;
        Ok::<_, Error>(prepared)
    };
    let prepared = [prepared(0)?, prepared(1)?];
    ffi::report_faults();
    let seen = routine.args.iter().map(|_| Evidence::default()).collect();
    let verdict = Verdict::default();
    let mut check = Check { prepared, slack, returns, seen, verdict, out };
    for trial in trials(routine) {
        let mut scalars = Scalars::new();
        trial.iter().enumerate().try_for_each(|(at, value)| set(&mut scalars, routine, at, *value))?;
        // Values that the line itself excludes.
        if scalars.complete(routine).is_ok() {
            check.trial(&scalars, &describe(routine, &trial))?;
        }
    }
    check.doubts()?;
    Ok(check.verdict)
}

/// What the trials have shown of an argument.
#[derive(Default)]
struct Evidence {
    /// Its last bytes are written, or make a difference.
    is_used: bool,
    /// It was changed.
    is_changed: bool,
    /// The first call that has left it as it was, though it comes.
    left: Option<String>,
    /// The call with most of it: its scalars, what is said of them, how many bytes at its end nobody used, and of how many.
    most: Option<(Scalars<MOST>, String, usize, usize)>,
}

struct Check<'a, W> {
    /// For the first call of a trial, and for the second.
    prepared: [Prepared; 2],
    slack: bool,
    returns: Returns,
    /// By argument.
    seen: Vec<Evidence>,
    verdict: Verdict,
    out: &'a mut W,
}

impl<W: Write> Check<'_, W> {
    fn run(&mut self, which: usize, scalars: &Scalars<MOST>, fill: Fill, said: &str) -> Result<Ran> {
        writeln!(self.out, "trial {said}")
            .and_then(|()| self.out.flush())
            .map_err(|e| Error::io("cannot tell", e))?;
        run(&self.prepared[which], scalars, self.slack, fill)
    }

    fn args(&self) -> Vec<(usize, Arg)> {
        self.prepared[0].routine.args.iter().cloned().enumerate().collect()
    }

    fn trial(&mut self, scalars: &Scalars<MOST>, said: &str) -> Result<()> {
        self.verdict.trials += 1;
        let first = self.run(0, scalars, Fill::default(), said)?;
        first.touched.iter().for_each(|why| self.verdict.fault(why, said));
        self.kept(&first, said);
        if let Some(why) = first.refused {
            self.verdict.refused = (self.verdict.refused.0 + 1, why);
            return Ok(());
        }
        let behind = if self.slack { u128::MAX } else { 0 };
        let other = Fill { other: self.that_come(), behind, ..Fill::default() };
        let second = self.run(1, scalars, other, &format!("{said} and other bytes in what comes back"))?;
        self.returns.look(&first.returned, &second.returned);
        if first.differs(&second, self.returns.compared()) {
            self.find_read(&first, scalars, said)?;
        }
        for (at, arg) in self.args() {
            self.look(at, &arg, (&first, &second), scalars, said)?;
        }
        Ok(())
    }

    /// The arguments that only come, one bit each.
    fn that_come(&self) -> u128 {
        let comes = |arg: &Arg| way_of(arg) == Some(Way::Out);
        self.prepared[0]
            .routine
            .args
            .iter()
            .enumerate()
            .filter(|(_, a)| comes(a))
            .map(|(at, _)| 1 << at)
            .sum()
    }

    /// What only goes in is to be as it was.
    fn kept(&mut self, ran: &Ran, said: &str) {
        let routine = &self.prepared[0].routine;
        for held in ran.held.iter().filter(|h| h.way == Way::In && h.changes() > 0) {
            let arg = &routine.args[held.at];
            let remedy = match way_of(arg) {
                Some(_) => "write inout",
                None => "are the arguments in the right order?",
            };
            let why = format!(
                "{}: the routine has changed {}, which only goes in; {remedy}",
                arg.name,
                routine.kind_of(arg)
            );
            self.verdict.fault(&why, said);
        }
    }

    /// Two calls that differ by what lay in arguments that only come, and behind all of them, have given other results:
    /// which one is read?
    fn find_read(&mut self, first: &Ran, scalars: &Scalars<MOST>, said: &str) -> Result<()> {
        let again = self.run(0, scalars, Fill::default(), said)?;
        let compared = self.returns.compared();
        if first.differs(&again, compared) {
            self.returns.is_unsteady = true;
            return Ok(());
        }
        let faults = self.verdict.faults.len();
        for (at, arg) in self.args() {
            let kind = self.prepared[0].routine.kind_of(&arg);
            let mut looks = Vec::new();
            if way_of(&arg) == Some(Way::Out) {
                let why = format!("what {kind} held before, so it goes in, too; write inout");
                looks.push((Fill { other: 1 << at, ..Fill::default() }, why));
            }
            if self.slack {
                let why = format!("what lies behind {kind}; is {} right, and the type?", run::asked(&arg));
                looks.push((Fill { behind: 1 << at, ..Fill::default() }, why));
            }
            for (fill, why) in looks {
                let ran =
                    self.run(0, scalars, fill, &format!("{said} and other bytes in or behind {}", arg.name))?;
                if first.differs(&ran, compared) {
                    self.verdict.fault(&format!("{}: results depend on {why}", arg.name), said);
                }
            }
        }
        self.returns.is_foreign |=
            faults == self.verdict.faults.len() && self.that_come() == 0 && !self.slack;
        Ok(())
    }

    /// Whether the end of an argument is used.
    fn look(
        &mut self,
        at: usize,
        arg: &Arg,
        (first, second): (&Ran, &Ran),
        scalars: &Scalars<MOST>,
        said: &str,
    ) -> Result<()> {
        let (Some(way), Some(held)) = (way_of(arg), first.of(at)) else { return Ok(()) };
        let total = held.before.len();
        self.seen[at].is_changed |= held.changes() > 0;
        let is_left = || second.of(at).is_some_and(|other| untouched(held, other) == total);
        if way == Way::Out && total > 0 && self.seen[at].left.is_none() && is_left() {
            self.seen[at].left = Some(format!("{said}{}", self.status_in_words(first)));
        }
        let is_told = match &arg.kind {
            Kind::Array(array) => self.tells(at, array, scalars)?,
            _ => way == Way::Out,
        };
        if total == 0 || self.seen[at].is_used || !is_told {
            return Ok(());
        }
        let unused = match way {
            Way::Out => second.of(at).map_or(0, |other| untouched(held, other)),
            _ => {
                let last = run::smallest(held.dtype);
                if self.matters((at, last), first, scalars, said)? { 0 } else { last }
            }
        };
        let seen = &mut self.seen[at];
        seen.is_used = unused == 0;
        if seen.most.as_ref().is_none_or(|most| most.3 < total) {
            seen.most = Some((scalars.clone(), said.to_owned(), unused, total));
        }
        Ok(())
    }

    /// The status with which a call has ended, if there is one and it is not 0.
    fn status_in_words(&self, ran: &Ran) -> String {
        let routine = &self.prepared[0].routine;
        let told = routine.args.iter().enumerate().find_map(|(at, arg)| match &arg.kind {
            Kind::Scalar(s) if s.status.is_some() => Some((&arg.name, ran.of(at)?.after.first_chunk::<4>()?)),
            _ => None,
        });
        match told.map(|(name, bytes)| (name, i32::from_le_bytes(*bytes))) {
            Some((name, value)) if value != 0 => format!(", where {name} is {value}"),
            _ => String::new(),
        }
    }

    /// Whether the end of an array tells anything of its extents: one of a single element is as long as another one.
    fn tells(&self, at: usize, array: &Array, scalars: &Scalars<MOST>) -> Result<bool> {
        let shape = extents(&self.prepared[0].routine, scalars, at, array)?;
        let is_fixed = |e: &Expr| matches!(e, Expr::Number(_));
        Ok(shape.extents().iter().zip(&array.extents).all(|(n, e)| *n != 1 || is_fixed(e)))
    }

    /// Whether it makes a difference to anything what the last bytes of an argument are, or whether they are written.
    fn matters(
        &mut self,
        (at, bytes): (usize, usize),
        first: &Ran,
        scalars: &Scalars<MOST>,
        said: &str,
    ) -> Result<bool> {
        let fill = Fill { changed: Some((at, bytes)), ..Fill::default() };
        let name = self.prepared[0].routine.args[at].name.clone();
        let ran = self.run(0, scalars, fill, &format!("{said} and another end of {name}"))?;
        let is_written = |ran: &Ran| {
            ran.of(at).is_some_and(|held| {
                let from = held.before.len() - bytes;
                held.before[from..] != held.after[from..]
            })
        };
        Ok(ran.refused.is_some()
            || first.differs(&ran, self.returns.compared())
            || is_written(first)
            || is_written(&ran))
    }

    /// What is left at the end.
    fn doubts(&mut self) -> Result<()> {
        for (at, arg) in self.args() {
            let seen = std::mem::take(&mut self.seen[at]);
            let (Some(way), Some((scalars, said, unused, total))) = (way_of(&arg), seen.most) else {
                continue;
            };
            let kind = self.prepared[0].routine.kind_of(&arg);
            if seen.is_used {
                if way == Way::InOut && !seen.is_changed {
                    self.verdict.doubts.push(format!("{}: {kind} was never changed; is it in?", arg.name));
                }
                if let Some(said) = seen.left {
                    self.verdict.doubts.push(format!(
                        "{}: {kind} is left as it is by some calls, and callers get 0 then; if what they held counts, write \
                         inout; called with {said}",
                        arg.name
                    ));
                }
                continue;
            }
            let unused = if way.goes() { self.unused(at, total, &scalars, &said)? } else { unused };
            // Of many algorithms the last element is not looked at, as the last row of a factorisation.
            if way.goes() && unused <= arg_dtype(&arg).map_or(1, DType::size) && unused < total {
                continue;
            }
            let what = if way.goes() { "made no difference in any call" } else { "were never written" };
            let text = match unused == total {
                true => format!(
                    "{}: the {total} bytes of {kind} {what}; {}, called with {said}",
                    arg.name,
                    whole(way)
                ),
                false => format!(
                    "{}: the last {unused} of {total} bytes of {kind} {what}; {}, called with {said}",
                    arg.name,
                    smaller(arg_dtype(&arg), unused, total)
                ),
            };
            self.verdict.doubts.push(text);
        }
        let results = self.prepared[0].routine.args.iter().filter_map(way_of).any(Way::comes);
        self.verdict.faults.extend(self.returns.faults());
        self.verdict.doubts.extend(self.returns.doubts(results));
        Ok(())
    }

    /// How many bytes at the end of an argument make no difference.
    fn unused(&mut self, at: usize, total: usize, scalars: &Scalars<MOST>, said: &str) -> Result<usize> {
        let first = self.run(0, scalars, Fill::default(), said)?;
        let size = first.of(at).map_or(1, |held| run::smallest(held.dtype));
        let mut unused = 0;
        while unused < total && !self.matters((at, unused + size), &first, scalars, said)? {
            unused += size;
        }
        Ok(unused)
    }
}

/// Which way an argument travels that callers see.
fn way_of(arg: &Arg) -> Option<Way> {
    match &arg.kind {
        Kind::Array(a) => Some(a.way),
        Kind::Scalar(s) => Some(s.way),
        _ => None,
    }
}

fn arg_dtype(arg: &Arg) -> Option<DType> {
    match &arg.kind {
        Kind::Array(a) => Some(a.dtype),
        kind => kind.scalar_type().map(forebay_idl::Type::dtype),
    }
}

fn whole(way: Way) -> &'static str {
    match way {
        Way::Out => "is it in, or another argument?",
        _ => "is it out, or another argument?",
    }
}

/// What an argument may be of which only a part is used.
fn smaller(dtype: Option<DType>, unused: usize, total: usize) -> String {
    let half = match dtype {
        Some(DType::F64) => "f32",
        Some(DType::C128) => "c64 or f64",
        Some(DType::C64) => "f32",
        Some(DType::I64) => "i32",
        Some(DType::U64) => "u32",
        Some(DType::I32) => "i16",
        _ => "",
    };
    match 2 * unused == total && !half.is_empty() {
        true => format!("is it {half}, or is the extent smaller?"),
        false => "is the extent smaller, or the type?".into(),
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
