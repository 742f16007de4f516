//! What is said on the control socket, in JSON: short, versioned, bounded. `spec/monitor.md`
//! lists the messages with examples.

use forebay_types::watch::{Act, Diagram, Parameter, State};
use serde::{Deserialize, Serialize};

use crate::steering::LogLine;
use crate::token::Role;

/// Version of the messages and frames; a page of another version reloads itself.
pub const VERSION: u32 = 2;
/// Largest message from a page, in bytes.
pub const FROM_PAGE: usize = 32 * 1024;
/// Most lines of messages or of the log in one message to a page.
pub const LINES: usize = 20;

/// The first words of a socket: who it is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
pub enum Knock {
    /// The control socket of a session.
    Me {
        /// [`VERSION`].
        v: u32,
        /// The session's number.
        sid: String,
        /// The page's number used once.
        nc: String,
    },
    /// The page has the session's key.
    Proof {
        /// Which shows it.
        mac: String,
    },
    /// The data socket of a control socket.
    Data {
        /// Number of the control socket.
        conn: u64,
        /// Shows that it is the same page; scripts show their token instead.
        #[serde(default)]
        mac: Option<String>,
    },
}

/// To the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum ToPage {
    /// We have the session's key, too.
    Prove {
        /// Our number used once.
        ns: String,
        /// Which shows it.
        mac: String,
    },
    /// The first message to who is let in.
    Hello {
        /// [`VERSION`].
        v: u32,
        /// The run.
        run: RunInfo,
        /// What this viewer may do.
        role: Role,
        /// What this viewer is called.
        you: String,
        /// Number of this control socket, for its data socket.
        conn: u64,
        /// Most steps of one act `step` ([`forebay_types::limits::STEPS`]).
        steps: u64,
    },
    /// All diagrams and commands, and how far the loop goes.
    Catalogue {
        /// Diagrams.
        diagrams: Vec<DiagramInfo>,
        /// Buttons of the simulation's own.
        commands: Vec<String>,
        /// First step and one past the last.
        progress: Option<(i64, i64)>,
    },
    /// All parameters with their confirmed values.
    Parameters {
        /// Parameters.
        items: Vec<Parameter>,
    },
    /// Where the run stands.
    State(StateWords),
    /// Messages of the run.
    Messages {
        /// Oldest first.
        items: Vec<Message>,
    },
    /// Lines of the steering log that are new or changed.
    Steer {
        /// In the order of their change.
        items: Vec<LogLine>,
    },
    /// The act asked for with `req` has this number.
    Accepted {
        /// The page's number.
        req: u64,
        /// The act's number in the log.
        id: u64,
    },
    /// The act asked for with `req` was not accepted.
    Refused {
        /// The page's number.
        req: u64,
        /// Name of the error code.
        code: &'static str,
        /// Why, and what to do.
        text: String,
    },
    /// The monitor leaves.
    Bye {
        /// Why.
        why: String,
    },
}

/// A run, for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunInfo {
    /// Its identity: letters, digits, `-` and `_`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The program that computes.
    pub program: String,
    /// Where.
    pub host: String,
}

/// A diagram and the names of its curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagramInfo {
    /// As declared.
    #[serde(flatten)]
    pub about: Diagram,
    /// Number and name of each curve.
    pub curves: Vec<(u32, String)>,
}

/// State, step, pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateWords {
    /// In one word.
    pub state: State,
    /// The step.
    pub step: i64,
    /// Simulated time.
    pub time: Option<f64>,
    /// Steps a second.
    pub rate: Option<f64>,
    /// Seconds to go.
    pub eta: Option<f64>,
    /// Connected ranks.
    pub ranks: u32,
    /// Who watches.
    pub watching: Vec<(String, Role)>,
}

/// A message of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Number, counting up.
    pub seq: u64,
    /// 0 debug, 1 info, 2 warning, 3 error.
    pub level: u8,
    /// Step being computed; -1 outside the loop.
    pub step: i64,
    /// The message.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// From the page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
pub enum FromPage {
    /// Do this.
    Cmd {
        /// The page's number for the answer.
        req: u64,
        /// The act.
        act: Act,
    },
    /// What the page shows.
    View {
        /// The diagrams that are open; others are not sent.
        open: Vec<View>,
        /// Whether nobody can see the page: then nothing is sent.
        hidden: bool,
    },
    /// What the person wants to be called.
    Name {
        /// The name.
        name: String,
    },
}

/// How a diagram is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The diagram.
    pub diagram: u32,
    /// Columns of pixels.
    pub columns: u32,
    /// Abscissae in sight, when not all.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Whether the abscissa is drawn logarithmically.
    #[serde(default)]
    pub log: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(v: serde_json::Value) -> Result<FromPage, serde_json::Error> {
        serde_json::from_str(&v.to_string())
    }

    #[test]
    fn a_page_asks_for_an_act_as_people_would_write_it() {
        let cmd = read(json!({"say": "cmd", "req": 3, "act": {"verb": "step", "n": 5}})).unwrap();
        assert_eq!(cmd, FromPage::Cmd { req: 3, act: Act::Step { n: 5 } });
        assert!(read(json!({"say": "cmd", "req": 3, "act": {"verb": "exec", "code": "1"}})).is_err());
        assert!(
            read(json!({"say": "view", "open": [{"diagram": 1, "columns": 500}], "hidden": false})).is_ok()
        );
        assert!(read(json!({"say": "name", "name": "x", "more": 1})).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_fail_otherwise_than_with_an_error(text in ".*") {
            let _ = serde_json::from_str::<FromPage>(&text);
        }
    }
}
