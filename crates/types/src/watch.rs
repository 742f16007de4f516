//! What people watch and steer: diagrams, parameters, commands, and the acts upon a run.

use crate::limits;
use serde::{Deserialize, Serialize};

/// Levels of messages for people.
pub mod level {
    /// For whoever looks for a fault.
    pub const DEBUG: u8 = 0;
    /// Something is worth knowing.
    pub const INFO: u8 = 1;
    /// Something may not be as it was meant.
    pub const WARNING: u8 = 2;
    /// Something is lost, or failed.
    pub const ERROR: u8 = 3;
}

/// A declaration by the simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Declare {
    /// A diagram.
    Diagram(Diagram),
    /// A parameter.
    Parameter(Parameter),
    /// A button of the simulation's own.
    Command {
        /// What stands on it.
        name: String,
    },
    /// How far the loop goes.
    Progress {
        /// First step.
        start: i64,
        /// The number at which it ends; none for a loop that goes on until somebody ends it.
        end: Option<i64>,
        /// From one head to the next.
        stride: i64,
        /// Which loop of this rank it is, counted from 1.
        number: u64,
        /// The heads keep the states whose numbers this divides; 0: none by themselves.
        #[serde(default)]
        every: i64,
    },
    /// The loop has come to its end, by itself or because it was told to; its head is passed no more
    /// before another [`Declare::Progress`].
    Over {
        /// The step that was not begun any more.
        step: i64,
    },
    /// The name of a curve of a history, before its first point; it has no [`Declare::Slot`].
    Curve {
        /// The diagram.
        diagram: u32,
        /// The curve's number.
        curve: u32,
        /// The curve's name, for the legend.
        name: String,
    },
    /// Where the points of a curve are: a triple buffer in a block of the arena.
    Slot {
        /// The diagram.
        diagram: u32,
        /// The curve's number.
        curve: u32,
        /// The curve's name, for the legend.
        name: String,
        /// Index of the block in the table of the rank's segment.
        block: u32,
        /// Most points of one buffer.
        points: u32,
    },
}

/// Kinds of diagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// y over x, replaced at each update.
    Curve,
    /// y over time, appended.
    History,
    /// Points.
    Scatter,
    /// Arrows.
    Vector,
    /// A field in colours.
    Heatmap,
    /// A field in lines.
    Contour,
    /// A field as a relief.
    Surface,
    /// Points in space.
    Scatter3d,
}

impl Kind {
    /// Reads the name of a kind.
    pub fn parse(text: &str) -> crate::Result<Kind> {
        serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
            crate::Error::bad(format!("{text:?} is not a kind of diagram; use curve, history or scatter"))
        })
    }
}

/// How an axis is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
}

impl Scale {
    /// Reads `linear` or `log`.
    pub fn parse(text: &str) -> crate::Result<Scale> {
        match text {
            "linear" | "lin" => Ok(Scale::Linear),
            "log" => Ok(Scale::Log),
            _ => Err(crate::Error::bad(format!("{text:?} is not a scale; use \"linear\" or \"log\""))),
        }
    }
}

/// How the values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduce {
    /// Their sum, added in the order of ranks.
    Sum,
    /// The least one.
    Min,
    /// The greatest one.
    Max,
    /// Their sum divided by their number.
    Mean,
}

impl Reduce {
    /// Reads `sum`, `min`, `max` or `mean`.
    pub fn parse(text: &str) -> crate::Result<Reduce> {
        match text {
            "sum" => Ok(Reduce::Sum),
            "min" => Ok(Reduce::Min),
            "max" => Ok(Reduce::Max),
            "mean" => Ok(Reduce::Mean),
            _ => Err(crate::Error::bad(format!(
                "{text:?} is no way to reduce the values of ranks; use \"sum\", \"min\", \"max\" or \"mean\""
            ))),
        }
    }

    /// Its name, as [`Reduce::parse`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            Reduce::Sum => "sum",
            Reduce::Min => "min",
            Reduce::Max => "max",
            Reduce::Mean => "mean",
        }
    }

    /// The value of all, in the order in which they come; NaN when there is one among them, or none at all.
    pub fn of(self, values: impl IntoIterator<Item = f64>) -> f64 {
        let mut n = 0_u32;
        let all = values.into_iter().inspect(|_| n += 1).reduce(|a, b| match self {
            Reduce::Sum | Reduce::Mean => a + b,
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            Reduce::Min => a.min(b),
            Reduce::Max => a.max(b),
        });
        match (self, all) {
            (Reduce::Mean, Some(sum)) => sum / f64::from(n),
            (_, all) => all.unwrap_or(f64::NAN),
        }
    }
}

/// A diagram as the simulation declares it. Labels carry the unit in brackets: `x [m]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagram {
    /// Number, given by the rank, from 0.
    pub id: u32,
    /// Title, unique in the run.
    pub title: String,
    /// Kind.
    pub kind: Kind,
    /// Label of the abscissa.
    pub x: String,
    /// Label of the ordinate.
    pub y: String,
    /// Label of the value, for fields.
    #[serde(default)]
    pub v: Option<String>,
    /// Scale of the abscissa.
    #[serde(default)]
    pub xscale: Scale,
    /// Scale of the ordinate.
    #[serde(default)]
    pub yscale: Scale,
    /// Steps between updates, as a hint.
    #[serde(default)]
    pub every: u32,
    /// What becomes of the values that several ranks append to a history at one step and abscissa; `None`: that of
    /// the lowest rank is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce: Option<Reduce>,
}

/// A steerable parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value: number, truth value or text.
    pub value: serde_json::Value,
    /// Least value.
    #[serde(default)]
    pub min: Option<f64>,
    /// Greatest value.
    #[serde(default)]
    pub max: Option<f64>,
    /// Unit, or empty. Runs of before say `unit`.
    #[serde(default, alias = "unit")]
    pub units: String,
    /// A sentence of explanation.
    #[serde(default)]
    pub help: String,
    /// Whether the program keeps it in an integer of 64 bits with a sign, which holds nothing larger.
    #[serde(default)]
    pub signed: bool,
}

/// Integers below it are exact as real numbers.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Parameter {
    /// A value as one of this parameter's type: 1, typed for a real number, is 1.0, and 4.0 for an integer 4. What
    /// fits no better is returned as it is, for [`Parameter::check`] to refuse.
    pub fn of_its_type(&self, value: &serde_json::Value) -> serde_json::Value {
        match value.as_f64() {
            Some(v) if self.value.is_f64() => serde_json::json!(v),
            Some(v) if value.is_f64() && self.value.is_number() && v.fract() == 0.0 && v.abs() < EXACT => {
                serde_json::json!(v as i64)
            }
            _ => value.clone(),
        }
    }

    /// The values it may have, in words.
    fn range(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("a value from {min} to {max}"),
            (Some(min), None) => format!("a value from {min} on"),
            (None, Some(max)) => format!("a value up to {max}"),
            (None, None) => "any value of its type".into(),
        }
    }

    /// Checks how it is declared: its limits, and its value against them.
    pub fn check_declared(&self) -> crate::Result<()> {
        let bad = |why: String| Err(crate::Error::bad(format!("parameter {:?}: {why}", self.name)));
        if self.value.is_boolean() || self.value.is_string() {
            return match self.min.is_none() && self.max.is_none() {
                true => self.check(&self.value),
                false => bad(format!("{} has no limits; leave min and max out", self.value)),
            };
        }
        for limit in [self.min, self.max] {
            let Some(limit) = limit else { continue };
            if limit.is_nan() {
                return bad("a limit is not a number (NaN); give a number, or leave it out".into());
            }
            if !self.value.is_f64() && limit.is_finite() && limit.abs() > EXACT {
                return bad(format!(
                    "limits of an integer are exact up to 9007199254740992 (2^53), and {limit} is given; give a smaller one, or leave it out"
                ));
            }
        }
        match (self.min, self.max) {
            (Some(min), Some(max)) if min > max => Err(crate::Error::bad(format!(
                "parameter {:?}: its least value {min} is above its greatest value {max}; give min and max the other way round",
                self.name
            ))),
            _ if !(self.value.is_number() || self.value.is_boolean() || self.value.is_string()) => {
                Err(crate::Error::bad(format!(
                    "parameter {:?}: its value {} is no number, truth value or text; give one, of the type that it is to have",
                    self.name,
                    if self.value.is_null() { "None".to_owned() } else { self.value.to_string() }
                )))
            }
            _ => self.check(&self.value),
        }
    }

    /// Checks a new value against type and limits; both ends call this.
    pub fn check(&self, value: &serde_json::Value) -> crate::Result<()> {
        use serde_json::Value as V;
        let bad = |why: String| crate::Error::bad(format!("parameter {:?}: {why}", self.name));
        match (&self.value, value) {
            (V::Number(old), V::Number(new)) => {
                if (old.is_i64() || old.is_u64()) && !(new.is_i64() || new.is_u64()) {
                    return Err(bad(format!(
                        "{new} is not an integer, as its value {old} is; give an integer (a program that wants fractions declares {old}.0)"
                    )));
                }
                // What the variable cannot hold must not be called applied.
                if self.signed && !new.is_i64() {
                    return Err(bad(format!(
                        "{new} is no integer of 64 bits with a sign; give one up to {}",
                        i64::MAX
                    )));
                }
                if !new.as_f64().is_some_and(f64::is_finite) {
                    return Err(bad(format!("{new} is not a finite number; give one")));
                }
                let units = if self.units.is_empty() { String::new() } else { format!(" {}", self.units) };
                if let Some(min) = self.min.filter(|m| is_below(new, *m)) {
                    return Err(bad(format!(
                        "{new} is below the least value {min}{units}; give {}",
                        self.range()
                    )));
                }
                if let Some(max) = self.max.filter(|m| is_above(new, *m)) {
                    return Err(bad(format!(
                        "{new} is above the greatest value {max}{units}; give {}",
                        self.range()
                    )));
                }
                Ok(())
            }
            (V::String(_), V::String(text)) if text.len() > limits::TEXT_BYTES => Err(bad(format!(
                "its text has {} bytes; give one of {} at most",
                text.len(),
                limits::TEXT_BYTES
            ))),
            (V::Bool(_), V::Bool(_)) | (V::String(_), V::String(_)) => Ok(()),
            (old, new) => {
                let wanted = match old {
                    V::Number(n) if n.is_f64() => "a finite number",
                    V::Number(_) => "an integer",
                    V::Bool(_) => "true or false",
                    _ => "a text",
                };
                Err(bad(format!("{new} is not of the type of its value {old}; give {wanted}")))
            }
        }
    }
}

/// Whether a number lies below a limit. An integer is not made a double first: beyond 2^53 not every one is.
fn is_below(number: &serde_json::Number, limit: f64) -> bool {
    match number.as_i128() {
        Some(n) => n < limit.ceil() as i128,
        None => number.as_f64().is_some_and(|v| v < limit),
    }
}

fn is_above(number: &serde_json::Number, limit: f64) -> bool {
    match number.as_i128() {
        Some(n) => n > limit.floor() as i128,
        None => number.as_f64().is_some_and(|v| v > limit),
    }
}

/// An act upon the run, carried out by all ranks at the same step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub enum Act {
    /// Go on.
    Run,
    /// Hold before the next step.
    Stop,
    /// Go on for so many steps, then hold.
    Step {
        /// How many.
        n: u64,
    },
    /// Do what the simulation registered for Save.
    Save,
    /// End the loop gracefully.
    Quit,
    /// Do what Save does, mark a checkpoint, and end the loop: what is asked for when the time of a
    /// job is over.
    End {
        /// Why, which is also the checkpoint's name: `SIGTERM`, `time limit`.
        why: String,
    },
    /// Give a parameter a value.
    Set {
        /// The parameter.
        name: String,
        /// The value.
        value: serde_json::Value,
    },
    /// Press one of the simulation's own buttons.
    Command {
        /// Its name.
        name: String,
    },
}

/// How far an act has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Accepted; it waits for its step.
    Queued,
    /// Carried out by every rank that is in its loop.
    Applied,
    /// Not carried out, or not by all; the text says why.
    Refused,
}

/// The state of a run, in one word, as the page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Connected, the loop has not begun.
    Starting,
    /// Computing.
    Running,
    /// Told to stop, not yet there.
    Holding,
    /// Waiting at a step.
    Held,
    /// Going a number of steps.
    Stepping,
    /// Carrying out Save.
    Saving,
    /// Told to end.
    Quitting,
    /// The loop has ended; the program works on behind it.
    Over,
    /// Closed.
    Ended,
    /// The process is gone without closing.
    Lost,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct StateInfo {
    /// In a word.
    pub state: State,
    /// The step being computed, or held before; -1 before the loop.
    pub step: i64,
    /// Simulated time, when known.
    pub time: Option<f64>,
    /// Ranks that are connected.
    pub ranks: u32,
}

impl Default for StateInfo {
    fn default() -> Self {
        StateInfo { state: State::Starting, step: -1, time: None, ranks: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_whole_number_given_to_a_real_parameter_stays_real() {
        let mut p: Parameter = serde_json::from_value(json!({"name": "e0", "value": 0.0})).unwrap();
        assert!(p.of_its_type(&json!(1)).is_f64());
        p.value = json!(3);
        assert_eq!(p.of_its_type(&json!(1)), json!(1));
        assert_eq!(p.of_its_type(&json!(4.0)), json!(4));
        for other in [json!(2.5), json!(1e17)] {
            assert_eq!(p.of_its_type(&other), other);
        }
        assert_eq!(p.of_its_type(&json!("x")), json!("x"));
    }

    #[test]
    fn a_parameter_refuses_what_its_declaration_excludes() {
        let p = Parameter {
            name: "e0".into(),
            value: json!(0.0),
            min: Some(-1.0),
            max: Some(1.0),
            units: "V/m".into(),
            help: String::new(),
            signed: false,
        };
        assert!(p.check(&json!(0.5)).is_ok());
        assert!(p.check(&json!(1)).is_ok());
        assert!(p.check(&json!(1.5)).unwrap_err().text().contains("greatest value 1 V/m"));
        assert!(p.check(&json!("x")).is_err());
        let n = Parameter { value: json!(3), min: None, max: None, ..p };
        let text = n.check(&json!(2.5)).unwrap_err().text().to_owned();
        assert!(text.contains("2.5 is not an integer, as its value 3 is; give an integer"), "{text}");
    }

    #[test]
    fn an_integer_beyond_two_to_53_is_compared_as_it_is() {
        let seed = |max: f64| Parameter {
            name: "seed".into(),
            value: json!(1),
            min: Some(-9_007_199_254_740_992.0),
            max: Some(max),
            units: String::new(),
            help: String::new(),
            signed: false,
        };
        let p = seed(9_007_199_254_740_992.0);
        assert!(p.check(&json!(9_007_199_254_740_992i64)).is_ok());
        assert!(p.check(&json!(9_007_199_254_740_993i64)).is_err());
        assert!(p.check(&json!(-9_007_199_254_740_993i64)).is_err());
        assert!(seed(f64::INFINITY).check(&json!(u64::MAX)).is_ok());
        let text = |p: Parameter| p.check_declared().unwrap_err().text().to_owned();
        assert!(p.check_declared().is_ok() && text(seed(9.3e18)).contains("exact up to 9007199254740992"));
        assert!(text(seed(f64::NAN)).contains("NaN"));
        for value in [json!(true), json!("x")] {
            assert!(text(Parameter { value, ..seed(2.0) }).contains("has no limits"));
        }
        let any = Parameter { min: None, max: None, ..seed(1.0) };
        let signed = Parameter { signed: true, ..any.clone() };
        for p in [&any, &signed] {
            assert!(p.check(&json!(i64::MAX)).is_ok() && p.check(&json!(i64::MIN)).is_ok());
        }
        assert!(any.check(&json!(1u64 << 63)).is_ok() && any.check(&json!(u64::MAX)).is_ok());
        assert!(signed.check(&json!(1u64 << 63)).unwrap_err().text().contains("9223372036854775807"));
        let act = json!({"verb": "set", "name": "seed", "value": 9_007_199_254_740_993i64});
        let read: Act = serde_json::from_str(&act.to_string()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), act);
        let text = Parameter { value: json!(""), ..seed(1.0) };
        assert!(text.check(&json!("x".repeat(limits::TEXT_BYTES + 1))).is_err());
    }

    #[test]
    fn acts_are_written_as_people_would_type_them() {
        let act: Act = serde_json::from_value(json!({"verb": "step", "n": 3})).unwrap();
        assert_eq!(act, Act::Step { n: 3 });
        assert_eq!(serde_json::to_value(Act::Stop).unwrap(), json!({"verb": "stop"}));
    }
}
