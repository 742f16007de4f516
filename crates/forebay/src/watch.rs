//! Diagrams and parameters, as the simulation sees them.

use forebay_types::Result;
use forebay_types::watch::Scale;
use serde_json::Value;

use crate::snapshot::pending;

/// How serious a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Level {
    /// For developers.
    Debug = 0,
    /// For everybody.
    #[default]
    Info = 1,
    /// Something is odd.
    Warning = 2,
    /// Something is wrong.
    Error = 3,
}

impl Level {
    /// Reads `debug`, `info`, `warning` or `error`.
    pub fn parse(text: &str) -> Result<Level> {
        Ok(match text {
            "debug" => Level::Debug,
            "info" => Level::Info,
            "warning" | "warn" => Level::Warning,
            "error" => Level::Error,
            _ => {
                return Err(forebay_types::Error::bad(format!(
                    "{text:?} is not a level; use debug, info, warning or error"
                )));
            }
        })
    }
}

/// How a diagram looks. Labels carry the unit in brackets: `x [m]`.
#[derive(Clone, Debug)]
pub struct DiagramOptions {
    /// Label of the abscissa.
    pub x: String,
    /// Label of the ordinate.
    pub y: String,
    /// Label of the value, for fields.
    pub v: Option<String>,
    /// Scale of the abscissa.
    pub xscale: Scale,
    /// Scale of the ordinate.
    pub yscale: Scale,
    /// Steps between updates, as a hint.
    pub every: u32,
}

impl Default for DiagramOptions {
    fn default() -> Self {
        DiagramOptions {
            x: "x".into(),
            y: "y".into(),
            v: None,
            xscale: Scale::Linear,
            yscale: Scale::Linear,
            every: 1,
        }
    }
}

/// A diagram of the run. Cheap to clone.
#[derive(Clone)]
pub struct Diagram {
    _private: (),
}

impl Diagram {
    /// Whether an update of this curve would be copied just now: somebody watches, or the last
    /// copy is a second old. Spares the caller conversions nobody would see.
    pub fn wants(&self, curve: &str) -> bool {
        let _ = curve;
        false
    }

    /// Replaces the points of a curve (`""`: the only one). Thinned while nobody watches.
    pub fn update(&self, curve: &str, x: &[f64], y: &[f64]) -> Result<()> {
        let _ = (curve, x, y);
        pending()
    }

    /// Adds a point at `t` to each curve named; always recorded.
    pub fn append(&self, t: f64, values: &[(&str, f64)]) -> Result<()> {
        let _ = (t, values);
        pending()
    }
}

/// What may go with a parameter.
#[derive(Clone, Debug, Default)]
pub struct ParameterOptions {
    /// Least value.
    pub min: Option<f64>,
    /// Greatest value.
    pub max: Option<f64>,
    /// Unit, or empty.
    pub unit: String,
    /// A sentence of explanation.
    pub help: String,
}

/// A steerable parameter. Cheap to clone.
#[derive(Clone)]
pub struct Parameter {
    _private: (),
}

impl Parameter {
    /// Its name.
    pub fn name(&self) -> &str {
        ""
    }

    /// Its value at the step being computed: number, truth value or text.
    pub fn value(&self) -> Value {
        Value::Null
    }

    /// Its value as a number (texts are NaN); one atomic read.
    pub fn number(&self) -> f64 {
        f64::NAN
    }
}
