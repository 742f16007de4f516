//! How diagrams, parameters and messages are declared.

use forebay_types::Result;
use forebay_types::watch::{Reduce, Scale, level};

/// How serious a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Level {
    /// For developers.
    Debug = level::DEBUG,
    /// For everybody.
    #[default]
    Info = level::INFO,
    /// Something is odd.
    Warning = level::WARNING,
    /// Something is wrong.
    Error = level::ERROR,
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
    /// What becomes of the values that several ranks append to a history at one step and abscissa; `None`: that of
    /// the lowest rank is kept.
    pub reduce: Option<Reduce>,
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
            reduce: None,
        }
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
    pub units: String,
    /// A sentence of explanation.
    pub help: String,
    /// Whether the program keeps it in an integer of 64 bits with a sign, which holds nothing larger.
    pub signed: bool,
}
