//! Whether what a function returns can be of the type that its line says.
//!
//! Real numbers come back in one register and integers in another. So a trial looks at the whole register, and before
//! the call there is something known in it: the first of the real numbers behind the arguments, or (on x86-64) how
//! many they are. A register that is as it was has nothing returned in it. What some other computation has left there cannot be told
//! from a result.

use forebay_idl::{Kind, Routine};
use forebay_types::DType;

use super::run::is_real;
use crate::prepared::passed_dtype;

/// Real numbers behind the arguments of the first call of a trial, and of the second.
const MORE: [&[u64]; 2] = [&[0x3ff3_1234_5678_9abc], &[0x4008_cba9_8765_4321, 0, 0]];
/// What is a usual number.
const USUAL: std::ops::Range<f64> = 1e-6..1e6;

/// What the trials have shown of the result of a function.
pub(super) struct Returns {
    of: Option<DType>,
    /// Real numbers that are passed by value: the register has one of them before the call.
    reals: usize,
    /// Whether the register was as it was before in every call.
    is_as_before: bool,
    /// What stood in the register after each first call.
    seen: Vec<u64>,
    /// Calls with the same arguments have given other results.
    pub is_unsteady: bool,
    /// The result depends on what stood in its register before.
    pub is_foreign: bool,
    name: String,
}

impl Returns {
    pub fn of(routine: &Routine) -> Returns {
        let returned = routine.returned.as_ref().filter(|r| !r.is_by_pointer());
        let by_value = routine.args.iter().filter(|a| a.by_value);
        let reals = by_value.filter(|a| matches!(&a.kind, Kind::Scalar(s) if is_real(s.of.dtype()))).count();
        Returns {
            of: returned.map(|r| passed_dtype(r.of, routine.convention)),
            reals,
            is_as_before: true,
            seen: Vec::new(),
            is_unsteady: false,
            is_foreign: false,
            name: returned.map_or(String::new(), |r| r.name.clone()),
        }
    }

    /// What is passed behind the arguments, and as what the result is taken, so that the whole register is seen.
    pub fn probe(&self, call: usize) -> (Vec<u64>, Option<DType>) {
        let whole = match self.of {
            Some(of) if is_real(of) => DType::C128,
            Some(_) => DType::U64,
            None => return (Vec::new(), None),
        };
        (MORE[call].to_vec(), Some(whole))
    }

    /// How many bytes of the register are the result.
    pub fn compared(&self) -> usize {
        match self.of {
            // On some processors its two parts stand in two registers.
            Some(DType::C64) => 4,
            Some(of) if !self.is_as_before || self.seen.is_empty() => of.size(),
            _ => 0,
        }
    }

    /// What the two calls of a trial have returned.
    pub fn look(&mut self, first: &[u8; 32], second: &[u8; 32]) {
        let Some(of) = self.of else { return };
        let word = |bytes: &[u8; 32]| u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
        let before = |call: usize| match is_real(of) {
            true => (self.reals == 0).then_some(MORE[call][0]),
            false => cfg!(target_arch = "x86_64").then_some((self.reals + MORE[call].len()) as u64),
        };
        let same = |call: usize, bytes| before(call) == Some(word(bytes));
        self.is_as_before &= same(0, first) && same(1, second);
        self.seen.push(word(first));
    }

    pub fn faults(&self) -> Option<String> {
        let of = self.of.filter(|_| self.is_as_before && !self.seen.is_empty())?;
        let (kind, other) = match is_real(of) {
            true => ("real number", "an integer, or nothing"),
            false => ("integer", "a real number, or nothing"),
        };
        Some(format!("{}: no {kind} is returned; does it return {other}?", self.name))
    }

    /// Doubts of the result; `results` says whether anything else comes back.
    pub fn doubts(&self, results: bool) -> Vec<String> {
        let mut all = Vec::new();
        if self.is_unsteady {
            all.push("the same arguments give other results in the next call; does it keep a state, is a result of another type, or is something that goes in missing?".into());
        }
        let Some(of) = self.of else {
            if !results && self.name.is_empty() {
                all.push("nothing comes back of it; does it return something? write -> and the type".into());
            }
            return all;
        };
        // A routine that is given an unknown character may leave its result undefined.
        if self.is_foreign && !self.is_as_before {
            let name = &self.name;
            all.push(format!("{name}: some calls return what the register held before; is it {of}, and defined in every case?"));
        }
        if let Some(other) = self.other(of).filter(|_| !self.is_as_before) {
            all.push(format!("{}: what is returned does not look like {of}; is it {other}?", self.name));
        }
        all
    }

    /// As what the results look more usual.
    fn other(&self, of: DType) -> Option<&'static str> {
        let seen: Vec<u64> = self.seen.iter().copied().filter(|word| *word != 0).collect();
        let all = |is: &dyn Fn(u64) -> bool| !seen.is_empty() && seen.iter().all(|word| is(*word));
        let usual = |x: f64| USUAL.contains(&x.abs());
        let single = |word: u64| f64::from(f32::from_bits(word as u32));
        // Of a float the rest of the register is what it was, or nothing.
        let is_single = |word: u64| word >> 32 == 0 || word >> 32 == MORE[0][0] >> 32;
        match of {
            DType::F64 => all(&|w| is_single(w) && usual(single(w))).then_some("f32"),
            // Half of a double looks like a usual float now and then.
            DType::F32 => {
                let odd = seen.iter().filter(|w| !usual(single(**w))).count();
                let is_double = all(&|w| !is_single(w) && usual(f64::from_bits(w)));
                (is_double && 2 * odd > seen.len()).then_some("f64")
            }
            DType::I64 => all(&|w| w >> 31 == 1).then_some("i32"),
            DType::I32 => {
                let is_long = |w: u64| w >> 32 != 0 && w >> 32 != u64::from(u32::MAX);
                all(&is_long).then_some("i64")
            }
            _ => None,
        }
    }
}
