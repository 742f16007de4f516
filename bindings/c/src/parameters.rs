//! Parameters: variables of the program that people may change. A variable is bound to its
//! parameter when it is declared, and gets a changed value in `fb_step`, in the program's thread.

use std::ffi::{c_char, c_int};
use std::sync::PoisonError;

use forebay::{Error, Parameter, ParameterOptions, Result};
use serde_json::Value;

use crate::fault::{fb_status, status};
use crate::given::{self, Sized0};
use crate::handle;
use crate::kinds::fb_run;
use crate::memory::c_text;
use crate::run::RunObject;

/// What may go with a parameter. Zero is the default of every member.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_parameter_opts {
    /// sizeof(fb_parameter_opts).
    pub size: usize,
    /// Least value; NULL: none.
    pub min: *const f64,
    /// Greatest value; NULL: none.
    pub max: *const f64,
    /// Unit; NULL: none.
    pub units: *const c_char,
    /// A sentence of explanation; NULL: none.
    pub help: *const c_char,
}

// SAFETY: numbers and pointers, the size first.
unsafe impl Sized0 for fb_parameter_opts {}

/// A variable of the program.
#[derive(Clone, Copy)]
enum Variable {
    Real(*mut f64),
    Whole(*mut i64),
    Truth(*mut c_int),
    Text(*mut c_char, usize),
}

/// A variable and its parameter.
pub struct Bound {
    variable: Variable,
    parameter: Parameter,
}

// SAFETY: the variable is written in the thread that calls fb_step or fb_restart only, as the
// header says.
unsafe impl Send for Bound {}

impl Bound {
    fn refresh(&self) -> Result<()> {
        match self.variable {
            Variable::Real(place) => given::out(place, "value")?.set(self.parameter.number()),
            Variable::Whole(place) => {
                if let Some(value) = self.parameter.value().as_i64() {
                    given::out(place, "value")?.set(value);
                }
            }
            Variable::Truth(place) => {
                given::out(place, "value")?.set((self.parameter.number() != 0.0).into());
            }
            Variable::Text(place, capacity) => {
                let value = self.parameter.value();
                let text = c_text(value.as_str().unwrap_or(""))?;
                let letters = text.as_bytes_with_nul();
                if letters.len() > capacity {
                    return Err(Error::bad(format!(
                        "the value {text:?} of the parameter {:?} has {} bytes and its variable {capacity}; give it more room",
                        self.parameter.name(),
                        letters.len()
                    )));
                }
                given::slice_mut(place.cast::<u8>(), letters.len() as i64, "value")?.copy_from_slice(letters);
            }
        }
        Ok(())
    }
}

impl RunObject {
    /// Gives every bound variable its parameter's value of now.
    pub fn refresh(&self) -> Result<()> {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.iter().try_for_each(Bound::refresh)
    }

    fn bind(
        &self,
        name: *const c_char,
        variable: Variable,
        value: Value,
        opts: *const fb_parameter_opts,
    ) -> Result<()> {
        let name = given::text(name, "name")?;
        let opts = given::options(opts, "fb_parameter_opts")?;
        let text = |text, what| given::optional_text(text, what).map(|t| t.unwrap_or("").to_owned());
        let options = ParameterOptions {
            min: given::optional(opts.min, "min")?,
            max: given::optional(opts.max, "max")?,
            units: text(opts.units, "units")?,
            help: text(opts.help, "help")?,
            signed: matches!(variable, Variable::Whole(_)),
        };
        let bound = Bound { variable, parameter: self.run.parameter(name, value, options)? };
        // A restart may have brought its value back.
        bound.refresh()?;
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).push(bound);
        Ok(())
    }
}

/// Declares a steerable parameter that is a real number: the variable `value` holds its first value and
/// gets each new one, in fb_step (and fb_restart) only, so that it changes at a step boundary and at the
/// same step on all ranks. The variable must live until the run is closed. `opts` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_parameter_f64(
    run: *mut fb_run,
    name: *const c_char,
    value: *mut f64,
    opts: *const fb_parameter_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let first = given::value(value, "value")?;
        if !first.is_finite() {
            return Err(Error::bad(format!(
                "{first} cannot be the value of a parameter; give a finite number"
            )));
        }
        object.bind(name, Variable::Real(value), first.into(), opts)
    })
}

/// Declares a steerable parameter that is an integer: the variable `value` holds its first value and
/// gets each new one, in fb_step (and fb_restart) only. It must live until the run is closed. `opts` may
/// be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_parameter_i64(
    run: *mut fb_run,
    name: *const c_char,
    value: *mut i64,
    opts: *const fb_parameter_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let first = given::value(value, "value")?;
        object.bind(name, Variable::Whole(value), first.into(), opts)
    })
}

/// Declares a steerable parameter that is a truth value, 0 or 1: the variable `value` holds its first
/// value and gets each new one, in fb_step (and fb_restart) only. It must live until the run is closed.
/// `opts` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_parameter_bool(
    run: *mut fb_run,
    name: *const c_char,
    value: *mut c_int,
    opts: *const fb_parameter_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let first = given::value(value, "value")? != 0;
        object.bind(name, Variable::Truth(value), first.into(), opts)
    })
}

/// Declares a steerable parameter that is a text: the variable `value` holds its first value and gets
/// each new one, in fb_step (and fb_restart) only. It has room for `capacity` bytes, the zero at its end
/// included, and must live until the run is closed. `opts` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fb_parameter_str(
    run: *mut fb_run,
    name: *const c_char,
    value: *mut c_char,
    capacity: usize,
    opts: *const fb_parameter_opts,
) -> fb_status {
    status(|| {
        let object = handle::get(run)?;
        let first = given::text(value, "value")?;
        object.bind(name, Variable::Text(value, capacity), first.into(), opts)
    })
}
