//! Acts on a run and a model of what they do, to compare a run with after something went wrong.

use super::{Rank, f64s, shape, wait_for};
use forebay_store::{Owner, Reader, verify};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, TableInfo};
use forebay_types::record::{Cell, Place, Record};
use forebay_types::{Code, Error, Result, Selection};
use std::collections::BTreeMap;
use std::path::Path;

/// One act. Data sets and steps are known by a small number.
#[derive(Clone, Debug)]
pub enum Act {
    /// A row of a table.
    Row(i64),
    /// A data set: name, number of values, seed.
    Put(u8, u64, u64),
    Delete(u8),
    Rename(u8, u8),
    Copy(u8, u8),
    /// A step of both ranks: number, values of each rank, seed.
    Step(i64, u64, u64),
    /// A step that rank 1 discards.
    Discard(i64),
    /// Everything before is durable.
    Flush,
}

fn name(n: u8) -> String {
    format!("set{n}")
}

/// What a run holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub sets: BTreeMap<String, Vec<u8>>,
    pub rows: Vec<i64>,
    /// Number of values of each rank, and seed.
    pub steps: BTreeMap<i64, (u64, u64)>,
}

impl Model {
    /// After the first acts.
    pub fn after(acts: &[Act]) -> Model {
        let mut m = Model::default();
        acts.iter().for_each(|a| m.apply(a));
        m
    }

    fn apply(&mut self, act: &Act) {
        match act {
            Act::Row(n) => self.rows.push(*n),
            Act::Put(n, len, seed) => drop(self.sets.insert(name(*n), f64s(*len, *seed))),
            Act::Delete(n) => drop(self.sets.remove(&name(*n))),
            Act::Rename(a, b) => {
                if self.sets.contains_key(&name(*a)) && !self.sets.contains_key(&name(*b)) {
                    let bytes = self.sets.remove(&name(*a)).unwrap();
                    self.sets.insert(name(*b), bytes);
                }
            }
            Act::Copy(a, b) => {
                if let (Some(bytes), false) = (self.sets.get(&name(*a)), self.sets.contains_key(&name(*b))) {
                    self.sets.insert(name(*b), bytes.clone());
                }
            }
            Act::Step(step, len, seed) => drop(self.steps.entry(*step).or_insert((*len, *seed))),
            Act::Discard(_) | Act::Flush => {}
        }
    }
}

/// Two ranks that carry out acts.
pub struct Driver {
    ranks: [Rank; 2],
    table: TableInfo,
}

/// How far the acts have come: all before are durable, all before are begun.
pub type Tell<'a> = &'a dyn Fn(usize, usize);

impl Driver {
    pub fn open(owner: &Owner) -> Result<Driver> {
        let mut ranks = [Rank::try_open(owner, 0, 2, 2 << 20)?, Rank::try_open(owner, 1, 2, 2 << 20)?];
        let columns = vec![Column { name: "n".into(), dtype: "i64".into(), ..Default::default() }];
        let table = ranks[0].ask(&Ask::Table { name: "rows".into(), columns, history: false })?;
        Ok(Driver { ranks, table: serde_json::from_value(table).unwrap() })
    }

    /// Whether the owner has put an end to one of the sessions: what is published then is not promised.
    pub fn is_closed(&self) -> bool {
        self.ranks.iter().any(Rank::is_closed)
    }

    /// Carries out the acts; gives the errors that were told.
    pub fn run(&mut self, acts: &[Act], tell: Tell) -> Vec<Error> {
        let mut errors = Vec::new();
        for (i, act) in acts.iter().enumerate() {
            tell(0, i + 1);
            match self.act(act) {
                Ok(true) => tell(i + 1, i + 1),
                Ok(false) => {}
                Err(e) => errors.push(e),
            }
        }
        errors
    }

    /// Drains and ends the sessions; gives the errors that came late.
    pub fn close(mut self) -> Vec<Error> {
        let mut errors = Vec::new();
        for r in &mut self.ranks {
            errors.extend(r.ask(&Ask::Close { finished: true }).err());
            wait_for("late errors", || r.notice(0).is_none().then_some(()));
            errors.append(&mut r.late);
        }
        errors
    }

    /// Says whether this and everything before is durable now.
    fn act(&mut self, act: &Act) -> Result<bool> {
        let [a, b] = &mut self.ranks;
        match act {
            Act::Row(n) => {
                let mut w = Writer::new();
                Cell::Int(*n).encode(&mut w);
                a.publish(&Record::Insert { table: self.table.id, step: 0, rows: 1, cells: &w.finish() });
                Ok(false)
            }
            Act::Put(n, len, seed) => {
                a.put(&name(*n), &f64s(*len, *seed), None);
                Ok(false)
            }
            Act::Delete(n) => a.ask(&Ask::Delete { pattern: name(*n), set: None }).map(|_| false),
            Act::Rename(x, y) => refused(a.ask(&Ask::Rename { from: name(*x), to: name(*y) })),
            Act::Copy(x, y) => refused(a.ask(&Ask::Copy { from: name(*x), to: name(*y) })),
            Act::Step(step, len, seed) => {
                for (i, r) in [b, a].into_iter().enumerate() {
                    let first = (1 - i as u64) * len;
                    r.begin(*step);
                    let place = Place::At { offset: shape(&[first]), global: shape(&[2 * len]) };
                    let bytes = f64s(*len, seed + first);
                    let n = r.array(*step, "E", &bytes, place, 5000 * 8)
                        + r.array(*step, "p", &bytes, Place::Append, usize::MAX);
                    r.end(*step, n);
                }
                Ok(false)
            }
            Act::Discard(step) => {
                b.begin(*step);
                b.array(*step, "E", &f64s(3000, 0), Place::Whole, usize::MAX);
                b.publish(&Record::StepDiscard { step: *step });
                Ok(false)
            }
            Act::Flush => {
                a.ask(&Ask::Flush)?;
                b.ask(&Ask::Flush).map(|_| true)
            }
        }
    }
}

/// What the model refuses too is no error.
fn refused(answer: Result<serde_json::Value>) -> Result<bool> {
    match answer {
        Err(e) if !matches!(e.code(), Code::Conflict | Code::NotFound) => Err(e),
        _ => Ok(false),
    }
}

/// Reads everything a run holds, after checking that it is sound and that nothing lies about.
pub fn read(run: &Path) -> Model {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
    let reader = Reader::open(run).unwrap();
    let all = Selection::default();
    let mut m = Model::default();
    for row in reader.list("*", None).unwrap() {
        m.sets.insert(row.name.clone(), reader.get(&row.name, 0, &all).unwrap().bytes);
    }
    if reader.table("rows").unwrap().is_some() {
        m.rows = reader
            .select("rows", "", &[])
            .unwrap()
            .rows
            .iter()
            .map(|r| match r[0] {
                Cell::Int(n) => n,
                _ => panic!("{r:?}"),
            })
            .collect();
    }
    for s in reader.steps().unwrap() {
        let e = reader.step_get(s.step, "E", &all).unwrap();
        let p = reader.step_get(s.step, "p", &all).unwrap();
        let len = e.bytes.len() as u64 / 16;
        let seed = f64::from_le_bytes(e.bytes[..8].try_into().unwrap()) as u64;
        let whole = [f64s(len, seed), f64s(len, seed + len)].concat();
        assert!(e.bytes == whole && p.bytes == whole, "step {} has wrong values", s.step);
        m.steps.insert(s.step, (len, seed));
    }
    let count =
        |dir: &str| std::fs::read_dir(run.join(dir)).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>();
    assert_eq!(count("steps").len(), m.steps.len(), "{:?}", count("steps"));
    assert!(count("data").len() <= m.sets.len(), "{:?}", count("data"));
    m
}

/// Compares a run with the model: everything before `durable` must be there, nothing from `begun`
/// on may be, what is between may be there up to some act (steps: each or not).
pub fn check(run: &Path, acts: &[Act], durable: usize, begun: usize, what: &str) {
    let found = read(run);
    let (least, most) = (Model::after(&acts[..durable]), Model::after(&acts[..begun]));
    for (step, is) in &found.steps {
        assert_eq!(most.steps.get(step), Some(is), "{what}: step {step} never was");
    }
    for step in least.steps.keys() {
        assert!(found.steps.contains_key(step), "{what}: step {step} was acknowledged and is lost");
    }
    let fits = (durable..=begun).any(|n| {
        let m = Model::after(&acts[..n]);
        m.sets == found.sets && m.rows == found.rows
    });
    let sizes =
        |m: &Model| -> Vec<(String, usize)> { m.sets.iter().map(|(n, b)| (n.clone(), b.len())).collect() };
    assert!(
        fits,
        "{what}: acts {durable} to {begun} give {:?} {:?} or more, the run has {:?} {:?}",
        sizes(&least),
        least.rows,
        sizes(&found),
        found.rows
    );
}
