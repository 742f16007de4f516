//! A routine of two functions: the first makes a plan, the second does the work with it. Plans are kept, each for the scalars
//! that it was made with.
//!
//! ```text
//! scalars -> is there a plan? -- no: lock, memory of its own, the first function --+
//!                 | yes                                                            v
//!                 +--------------------------------------------> the second function, with the arrays of the call
//! ```
//! A plan is made with memory that nobody looks at: many planners try their algorithms on it. So that it is good for
//! the arrays of the calls, arrays of chains say how they are aligned. Plans are made and freed one at a time, for
//! planners are seldom safe; one that is thrown out while a call runs with it is freed behind the call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use forebay_idl::{Kind, Routine, Step, StepValue};
use forebay_types::{DType, Error, Result};

use crate::board::Runs;
use crate::call::{Places, Scalars, extents};
use crate::ffi::{Frame, Interface, Passed, Symbol};
use crate::layout;
use crate::prepared::passed_dtype;

/// The functions of a chain, and its plans.
pub(crate) struct Chain {
    plan: Function,
    call: Function,
    free: Option<Arc<Interface>>,
    keep: usize,
    /// The one used last is the first.
    plans: Mutex<VecDeque<Arc<Plan>>>,
    /// Held while a plan is made or freed.
    planner: Arc<Mutex<()>>,
}

struct Function {
    symbol: String,
    interface: Interface,
    values: Vec<StepValue>,
}

struct Plan {
    key: Vec<[u8; 16]>,
    address: usize,
    free: Option<Arc<Interface>>,
    planner: Arc<Mutex<()>>,
}

impl Drop for Plan {
    fn drop(&mut self) {
        let Some(free) = &self.free else { return };
        let _alone = forebay_host::lock(&self.planner);
        let mut frame = Frame::new();
        frame.address(self.address as *const u8);
        free.call(&mut frame);
    }
}

impl Chain {
    /// None for a routine of one symbol. `planner` is one for all routines of a library.
    pub fn of(
        routine: &Routine,
        symbol: impl Fn(&str) -> Option<Symbol>,
        planner: &Arc<Mutex<()>>,
    ) -> Result<Option<Chain>> {
        let Some(chain) = &routine.chain else { return Ok(None) };
        let find = |name: &str| {
            symbol(name).ok_or_else(|| Error::bad(format!("{}: the library has no {name}", routine.name)))
        };
        let too_many = || Error::bad(format!("{}: a function of it has too many arguments", routine.name));
        let function = |step: &Step, returned| -> Result<Function> {
            let passed: Vec<Passed> = step.values.iter().map(|v| passed(routine, *v)).collect();
            let interface = Interface::new(find(&step.symbol)?, &passed, returned).ok_or_else(too_many)?;
            Ok(Function { symbol: step.symbol.clone(), interface, values: step.values.clone() })
        };
        let free = chain.free.as_ref().map(|name| {
            Interface::new(find(name)?, &[Passed::Address], None).map(Arc::new).ok_or_else(too_many)
        });
        Ok(Some(Chain {
            plan: function(&chain.plan, Some(DType::U64))?,
            call: function(&chain.call, None)?,
            free: free.transpose()?,
            keep: chain.keep,
            plans: Mutex::default(),
            planner: planner.clone(),
        }))
    }

    /// Frees all plans.
    pub fn clear(&self) {
        let plans = std::mem::take(&mut *forebay_host::lock(&self.plans));
        drop(plans);
    }

    /// Does what a call of one symbol does for other routines.
    pub fn invoke<const N: usize>(
        &self,
        routine: &Routine,
        (number, lock): (u32, Option<&Mutex<()>>),
        scalars: &Scalars<N>,
        places: &Places<N>,
    ) -> Result<()> {
        let plan = self.plan(routine, number, scalars)?;
        let mut frame = self.call.frame(routine, plan.address, scalars, |at| places.at[at]);
        let _alone = lock.map(|lock| forebay_host::lock(lock));
        let _runs = Runs::begin(number);
        self.call.interface.call(&mut frame);
        Ok(())
    }

    fn plan<const N: usize>(
        &self,
        routine: &Routine,
        number: u32,
        scalars: &Scalars<N>,
    ) -> Result<Arc<Plan>> {
        let is_scalar = |at: &usize| !matches!(routine.args[*at].kind, Kind::Array(_));
        let named =
            self.plan.values.iter().filter_map(|v| if let StepValue::Arg(at) = v { Some(*at) } else { None });
        let key: Vec<[u8; 16]> = named.filter(is_scalar).map(|at| scalars.bytes(at)).collect();
        if let Some(plan) = self.kept(&key) {
            return Ok(plan);
        }
        let alone = forebay_host::lock(&self.planner);
        // Somebody else may have made it meanwhile.
        if let Some(plan) = self.kept(&key) {
            return Ok(plan);
        }
        let address = self.make(routine, number, scalars)?;
        let (free, planner) = (self.free.clone(), self.planner.clone());
        let plan = Arc::new(Plan { key, address, free, planner });
        let thrown_out = {
            let mut plans = forebay_host::lock(&self.plans);
            plans.push_front(plan.clone());
            if plans.len() > self.keep { plans.pop_back() } else { None }
        };
        // Freed when nobody holds the planner.
        drop(alone);
        drop(thrown_out);
        Ok(plan)
    }

    fn kept(&self, key: &[[u8; 16]]) -> Option<Arc<Plan>> {
        let mut plans = forebay_host::lock(&self.plans);
        let at = plans.iter().position(|plan| plan.key == key)?;
        let plan = plans.remove(at)?;
        plans.push_front(plan.clone());
        Some(plan)
    }

    fn make<const N: usize>(&self, routine: &Routine, number: u32, scalars: &Scalars<N>) -> Result<usize> {
        let mut rooms = Vec::new();
        for value in &self.plan.values {
            if let StepValue::Arg(at) = value
                && let Kind::Array(array) = &routine.args[*at].kind
                && !rooms.iter().any(|(known, _)| known == at)
            {
                let elements = extents(routine, scalars, *at, array)?.len();
                let align = array.align.unwrap_or(16);
                rooms.push((*at, layout::room(&routine.args[*at].name, array.dtype, elements, align)?));
            }
        }
        let room = |at| {
            rooms.iter().find(|(known, _)| *known == at).map_or(std::ptr::null_mut(), |(_, r)| r.as_ptr())
        };
        let mut frame = self.plan.frame(routine, 0, scalars, room);
        let _runs = Runs::begin(number);
        let made = self.plan.interface.call(&mut frame);
        match u64::from_le_bytes(made[..8].try_into().unwrap_or_default()) {
            0 => Err(Error::bad(format!(
                "{}: {} makes no plan of these arguments; change them",
                routine.name, self.plan.symbol
            ))),
            address => Ok(address as usize),
        }
    }
}

impl Function {
    fn frame<const N: usize>(
        &self,
        routine: &Routine,
        plan: usize,
        scalars: &Scalars<N>,
        array: impl Fn(usize) -> *mut u8,
    ) -> Frame {
        let mut frame = Frame::new();
        for value in &self.values {
            match value {
                StepValue::Plan => frame.address(plan as *const u8),
                StepValue::Const(n) => frame.value(*n as u32 as u128),
                StepValue::Arg(at) if matches!(routine.args[*at].kind, Kind::Array(_)) => {
                    frame.address(array(*at))
                }
                StepValue::Arg(at) => frame.value(u128::from_le_bytes(scalars.bytes(*at))),
            }
        }
        frame
    }
}

fn passed(routine: &Routine, value: StepValue) -> Passed {
    match value {
        StepValue::Plan => Passed::Address,
        StepValue::Const(_) => Passed::Value(DType::I32),
        StepValue::Arg(at) => match routine.args[at].kind.scalar_type() {
            Some(of) => Passed::Value(passed_dtype(of, routine.convention)),
            None => Passed::Address,
        },
    }
}
