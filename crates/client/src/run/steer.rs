//! What steering does in the program: parameters, the Save callback, buttons of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use forebay_types::control::{Ask, word};
use forebay_types::record::Record;
use forebay_types::watch::{Act, Declare, Parameter as Declared};
use forebay_types::{Code, Error, Name, Result, beginning, counted};
use serde_json::{Map, Value};

use super::core::{BODY, Core, RECKON, say, to_json};
use super::down::Due;

/// Called in the thread of the loop head with the step.
pub type Callback = Box<dyn FnMut(i64) -> Result<()> + Send>;

/// The name under which the Save callback is kept; no command can have it.
const SAVE: &str = "";

/// How long the last save of an ending run is waited for; after that the loop ends all the same.
const LAST_SAVE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct State {
    parameters: HashMap<String, Arc<Cell>>,
    callbacks: HashMap<String, Option<Callback>>,
    /// Values that a restart brought back, for parameters declared later.
    restored: Map<String, Value>,
}

/// Parameters and callbacks of a session.
#[derive(Default)]
pub struct Steer {
    state: Mutex<State>,
    quit: AtomicBool,
    /// Save keeps the states whose numbers this divides, and the last one; 0: only where it is asked for.
    pub(super) every: AtomicI64,
    /// The last state that Save was called for; less than 0 for none.
    pub(super) kept: AtomicI64,
    /// One more than the state that the run went back to, where Save is called again: its snapshot stands, and what
    /// else Save did there, rows of a history say, was taken back. 0 for none.
    pub(super) again: AtomicI64,
    /// One more than the state that Save is being called for; 0 for none.
    pub(super) keeping: AtomicI64,
    /// Why the loop was ended from outside.
    ended_by: Mutex<Option<String>>,
    /// Why Save could not keep the state where something ended the loop from outside: the loop ends with it.
    not_kept: Mutex<Option<Error>>,
}

/// A parameter's value: for programs one atomic word, for the rest JSON.
struct Cell {
    /// The value with which the program declared it.
    default: Value,
    declared: Mutex<Declared>,
    number: AtomicU64,
}

impl Cell {
    fn set(&self, value: Value) {
        self.number.store(number_of(&value).to_bits(), Ordering::Release);
        self.declared.lock().unwrap_or_else(|e| e.into_inner()).value = value;
    }

    fn declared(&self) -> Declared {
        self.declared.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

fn number_of(value: &Value) -> f64 {
    match value {
        Value::Bool(b) => f64::from(u8::from(*b)),
        other => other.as_f64().unwrap_or(f64::NAN),
    }
}

/// A steerable parameter. Cheap to clone.
#[derive(Clone)]
pub struct Parameter {
    name: Arc<str>,
    cell: Arc<Cell>,
}

impl Parameter {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value at the step being computed: number, truth value or text.
    pub fn value(&self) -> Value {
        self.cell.declared().value
    }

    /// Its value as a number (texts are NaN); one atomic read.
    #[inline]
    pub fn number(&self) -> f64 {
        f64::from_bits(self.cell.number.load(Ordering::Acquire))
    }

    /// Type, limits, unit and help, with the value of now.
    pub fn declaration(&self) -> Declared {
        self.cell.declared()
    }
}

impl Steer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether somebody pressed Quit, or the run was told to end.
    pub fn quitting(&self) -> bool {
        self.quit.load(Ordering::Acquire)
    }

    /// Why the loop was ended before its last step: `quit`, `SIGTERM`, `time limit` or another reason.
    pub fn ended_by(&self) -> Option<String> {
        self.ended_by.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    fn not_kept(&self) -> MutexGuard<'_, Option<Error>> {
        self.not_kept.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The next state behind this one that Save keeps by itself.
    pub(super) fn next_state(&self, step: i64) -> i64 {
        match self.every.load(Ordering::Relaxed) {
            0 => i64::MAX,
            every => (step / every + 1).saturating_mul(every),
        }
    }

    fn quit(&self, why: &str) {
        *self.ended_by.lock().unwrap_or_else(|e| e.into_inner()) = Some(why.to_owned());
        self.quit.store(true, Ordering::Release);
    }
}

impl Core {
    /// Declares a parameter.
    pub fn parameter(&self, mut declared: Declared) -> Result<Parameter> {
        self.enter()?;
        self.follow()?;
        Name::new(declared.name.as_str())?;
        super::axes::check_unit(&declared.units)?;
        declared.check_declared()?;
        let default = declared.value.clone();
        let mut state = self.steer.lock();
        if let Some(value) = state.restored.get(&declared.name) {
            let value = declared.of_its_type(value);
            // A value that the program no longer allows gives way to its default.
            let allowed = declared.check(&value);
            self.tell_brought_back(&declared.name, &value, &default, allowed.as_ref().err());
            if allowed.is_ok() {
                declared.value = value;
            }
        }
        let name = declared.name.clone();
        if let Some(cell) = state.parameters.get(&name) {
            // A cell of a notebook that is run again declares what is declared.
            let known = Declared { value: declared.value.clone(), ..cell.declared() };
            if known == declared && cell.default == default {
                return Ok(Parameter { name: name.into(), cell: cell.clone() });
            }
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "the parameter {name:?} is declared already, and otherwise; declare it once, before the loop"
                ),
            ));
        }
        self.declare(&Declare::Parameter(declared.clone()))?;
        let number = AtomicU64::new(number_of(&declared.value).to_bits());
        let cell = Arc::new(Cell { default, declared: Mutex::new(declared), number });
        state.parameters.insert(name.clone(), cell.clone());
        Ok(Parameter { name: name.into(), cell })
    }

    /// Gives parameters the values of a restart, those declared and those yet to come.
    pub fn restore(&self, values: &Map<String, Value>) -> Result<()> {
        let mut state = self.steer.lock();
        state.restored = values.clone();
        for (name, value) in values {
            let Some(cell) = state.parameters.get(name) else { continue };
            let mut declared = cell.declared();
            let value = declared.of_its_type(value);
            let allowed = declared.check(&value);
            self.tell_brought_back(name, &value, &cell.default, allowed.as_ref().err());
            let value = if allowed.is_ok() { value } else { cell.default.clone() };
            // The run has taken the value of the step, and is told what holds.
            if value != declared.value || allowed.is_err() {
                declared.value = value.clone();
                self.declare(&Declare::Parameter(declared))?;
                cell.set(value);
            }
        }
        Ok(())
    }

    /// Says, in one rank, which parameters go on otherwise than the program says.
    fn tell_brought_back(&self, name: &str, value: &Value, default: &Value, refused: Option<&Error>) {
        if self.open.rank != 0 || value == default {
            return;
        }
        let run = &self.open.path;
        say(&match refused {
            None => format!(
                "{run}: the parameter {name} goes on with {value}, its value in the snapshot, and not with the program's {default}; `forebay steer {run} set {name} VALUE` changes it"
            ),
            Some(e) => format!(
                "{run}: the parameter {name} begins with the program's {default}; its value in the snapshot was {value}, and is not allowed any more: {}",
                e.text()
            ),
        });
    }

    /// What Save does.
    pub fn on_save(&self, callback: Callback, every: Option<i64>) -> Result<()> {
        self.enter()?;
        if let Some(every) = every.filter(|every| *every < 1) {
            return Err(Error::bad(format!("every {every} steps is not possible; give 1 or more")));
        }
        if self.steer.lock().callbacks.insert(SAVE.to_owned(), Some(callback)).is_some()
            && self.open.rank == 0
        {
            say(&format!(
                "{}: another function is given for Save; it takes the place of the first one",
                self.open.path
            ));
        }
        self.steer.every.store(every.unwrap_or(0), Ordering::Relaxed);
        self.steer.kept.store(-1, Ordering::Relaxed);
        if self.phase.load(Ordering::Relaxed) == BODY {
            self.heed.fetch_or(RECKON, Ordering::Relaxed);
        }
        // A snapshot may come at any head: as large as the last one in the run, if there is one.
        if let Some(bytes) = self.last_bytes.get() {
            self.expect(*bytes);
        }
        Ok(())
    }

    /// A button.
    pub fn on_command(&self, name: &str, callback: Callback) -> Result<()> {
        self.enter()?;
        Name::new(name)?;
        self.declare(&Declare::Command { name: name.to_owned() })?;
        self.steer.lock().callbacks.insert(name.to_owned(), Some(callback));
        Ok(())
    }

    /// Sends a declaration.
    pub fn declare(&self, declare: &Declare) -> Result<()> {
        self.publish(&Record::Declare { json: &to_json(declare)? })?;
        self.keep_declaration(declare);
        Ok(())
    }

    /// Sends a declaration where nothing may wait or fail: without room in the ring it is left out.
    pub fn declare_at_once(&self, declare: &Declare) {
        let open = self.life.check().is_ok() && self.closing.load(Ordering::Relaxed) == 0;
        if let (true, Ok(json)) = (open, to_json(declare)) {
            let said = self.log.try_push(&Record::Declare { json: &json }, &mut |_| {});
            if said.is_ok() {
                self.keep_declaration(declare);
            }
        }
    }

    /// A parameter as it was declared, with its value of now.
    pub(super) fn up_to_date(&self, declare: Declare) -> Declare {
        match declare {
            Declare::Parameter(p) => {
                let cell = self.steer.lock().parameters.get(&p.name).cloned();
                Declare::Parameter(cell.map_or(p, |c| c.declared()))
            }
            other => other,
        }
    }

    /// Carries out an act and reports it; says whether the loop is to end.
    pub fn carry_out(&self, due: Due, step: i64) -> Result<bool> {
        let mut quit = false;
        let held = self.segment.word(word::HELD);
        match &due.act {
            Ok(Act::Stop | Act::Step { .. }) => {
                held.fetch_or(word::TOLD_TO_HOLD, Ordering::SeqCst);
            }
            Ok(Act::Run | Act::Quit | Act::End { .. }) => {
                held.fetch_and(!word::TOLD_TO_HOLD, Ordering::SeqCst);
            }
            _ => {}
        }
        let done = due.act.and_then(|act| match act {
            Act::Run => Ok("running".to_owned()),
            Act::Stop => Ok(format!("held before step {step}")),
            Act::Step { n } => Ok(counted(n, "more step")),
            Act::Save => self.save(step),
            Act::Command { name } => self.call(&name, step).map(|()| format!("{name} done")),
            Act::Set { name, value } => {
                let text = self.set(&name, value)?;
                // The state of this head may be kept already, with the values of before.
                if self.numbers().is_taken(step) {
                    self.renew(step)?;
                }
                Ok(text)
            }
            Act::Quit => {
                quit = true;
                self.steer.quit("quit");
                Ok("the loop ends".to_owned())
            }
            Act::End { why } => {
                quit = true;
                self.steer.quit(&why);
                self.last_save(&why, step)
            }
        });
        let (code, text) = match &done {
            Ok(text) => (0, text.as_str()),
            Err(e) => (e.code() as u32, e.text()),
        };
        let text = beginning(text, forebay_types::limits::JSON_BYTES);
        self.publish(&Record::Applied { id: due.id, step, code, text })?;
        Ok(quit)
    }

    /// Keeps the state of a head if it is one that is kept without being asked for; `last` where the loop ends.
    pub(super) fn keep_state(&self, step: i64, last: bool) -> Result<()> {
        if last && let Some(e) = self.steer.not_kept().take() {
            return Err(e);
        }
        let every = self.steer.every.load(Ordering::Relaxed);
        let is_again = || self.steer.again.load(Ordering::Relaxed) == step + 1;
        let is_due = every != 0 && (last || step % every == 0 || is_again());
        if !is_due || self.steer.kept.load(Ordering::Relaxed) == step {
            return Ok(());
        }
        self.keep(step)
    }

    fn keep(&self, step: i64) -> Result<()> {
        // Its error is told once, and a program that goes on in spite of it comes to the next step.
        self.steer.kept.store(step, Ordering::Relaxed);
        self.steer.keeping.store(step + 1, Ordering::Relaxed);
        let done = self.call(SAVE, step);
        self.steer.keeping.store(0, Ordering::Relaxed);
        done
    }

    /// Whether Save was called for the state and has taken its snapshot.
    fn is_kept(&self, step: i64) -> bool {
        self.steer.kept.load(Ordering::Relaxed) == step && self.numbers().is_taken(step)
    }

    /// Calls what Save does, unless the state is kept.
    fn save(&self, step: i64) -> Result<String> {
        if !self.is_kept(step) {
            self.stood.store(-1, Ordering::Relaxed);
            self.keep(step)?;
            if self.stood.load(Ordering::Relaxed) != step {
                return Ok("saved".to_owned());
            }
        }
        // They may have been set since it was taken.
        self.renew(step)?;
        Ok(format!("step {step} is kept already"))
    }

    /// A restart from a step that is kept brings back the parameters of now. The owner does that behind the step, for
    /// which nobody waits here.
    fn renew(&self, step: i64) -> Result<()> {
        let cells = self.steer.lock().parameters.clone();
        let parameters = cells.into_iter().map(|(name, cell)| (name, cell.declared().value)).collect();
        self.publish(&Record::Ask { json: &to_json(&Ask::Renew { step, parameters })? }).map(|_| ())
    }

    /// What is kept before the loop ends: what Save keeps, if it is registered, and a checkpoint of the
    /// last complete step. Whatever fails, the loop ends; with the error of Save, for the program's last state is lost.
    fn last_save(&self, why: &str, step: i64) -> Result<String> {
        let saves = self.steer.lock().callbacks.contains_key(SAVE);
        let saved = if saves && !self.is_kept(step) { self.keep(step) } else { Ok(()) };
        let marked = self.ask_within::<i64>(&Ask::Checkpoint { tag: Some(why.to_owned()) }, Some(LAST_SAVE));
        let number_is_there = |e: &Error, marked: &Result<i64>| e.code() == Code::Conflict && marked.is_ok();
        if let Err(e) = saved.as_ref()
            && !number_is_there(e, &marked)
        {
            *self.steer.not_kept() = Some(e.clone());
        }
        match (saved, marked) {
            (Ok(()), Ok(kept)) => Ok(format!("checkpoint {why:?} of step {kept}; the loop ends")),
            // A run that has no snapshot, and no Save that takes one, has nothing to go on from.
            (Ok(()), Err(e)) if e.code() == Code::NotFound => {
                self.message(2, &format!("{why}: the loop ends and nothing is saved; {}", e.text()))?;
                Ok("no step to mark; the loop ends".to_owned())
            }
            // A number that the program has chosen may be there already: where a restart goes on, say.
            (Err(e), Ok(kept)) if e.code() == Code::Conflict => {
                Ok(format!("checkpoint {why:?} of step {kept}; the loop ends ({})", e.text()))
            }
            (Err(e), Ok(kept)) => {
                Err(e.within(format!("Save failed, the loop ends with checkpoint {why:?} of step {kept}")))
            }
            (Err(e), Err(_)) => Err(e.within("Save failed, the loop ends without a checkpoint")),
            (Ok(()), Err(e)) => Err(e.within("no checkpoint was marked, and the loop ends")),
        }
    }

    fn set(&self, name: &str, value: Value) -> Result<String> {
        let cell = self.steer.lock().parameters.get(name).cloned();
        let cell = cell.ok_or_else(|| {
            Error::new(Code::NotFound, format!("this program declares no parameter {name:?}"))
        })?;
        let declared = cell.declared();
        let value = declared.of_its_type(&value);
        declared.check(&value)?;
        let text = format!("{name} = {value}");
        cell.set(value);
        Ok(text)
    }

    /// Calls what is registered; it is taken out meanwhile, so that it may use the run itself.
    fn call(&self, name: &str, step: i64) -> Result<()> {
        let found = self.steer.lock().callbacks.get_mut(name).and_then(Option::take);
        let Some(mut callback) = found else {
            let what = if name == SAVE {
                "Save; a program says what Save does before its loop begins"
            } else {
                name
            };
            return Err(Error::new(Code::NotFound, format!("this program registered nothing for {what}")));
        };
        let done = callback(step);
        let mut state = self.steer.lock();
        if let Some(place) = state.callbacks.get_mut(name).filter(|place| place.is_none()) {
            *place = Some(callback);
        }
        done
    }
}
