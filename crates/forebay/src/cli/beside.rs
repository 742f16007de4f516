//! Commands that change a run, also while its program writes it: then they are clients beside its ranks.

use super::out::Out;
use forebay::{Code, Level, Mode, OpenOptions, Result, Run};
use forebay_store::{layout, lock};
use serde_json::json;

/// Leave a message in a run, beside its program or while nobody writes it; the page and the table of messages have it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  forebay note two_stream 'the laser was off from here on'")]
pub struct Note {
    /// The run.
    run: String,
    /// What it says.
    text: String,
    /// How serious it is: debug, info, warning or error.
    #[arg(long, default_value = "info")]
    level: String,
}

impl Note {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let level = Level::parse(&self.level)?;
        let run = opened(&self.run, Mode::ReadWrite, 0)?;
        run.message(&self.text, level)?;
        run.flush()?;
        run.close()?;
        out.either(
            || json!({"run": run.path(), "level": self.level, "text": self.text}),
            || "noted".to_owned(),
        )
    }
}

/// Opens a run to change so many bytes of it: as a client of one that somebody writes, or that another host has, otherwise
/// alone.
pub fn opened(place: &str, mode: Mode, bytes: u64) -> Result<Run> {
    let alone = || forebay::open(place, mode, super::room(bytes));
    let beside = || {
        let options = OpenOptions { client: true, ..super::room(bytes) };
        forebay::open(place, Mode::ReadWrite, options)
    };
    if super::remote(place)?.is_some() {
        return match beside() {
            Err(e) if e.code() == Code::NotFound && mode != Mode::ReadWrite => alone(),
            done => done,
        };
    }
    let lock = forebay::run_dir(place)?.join(layout::LOCK);
    let is_held = || lock::holder(&lock).is_some();
    if is_held() {
        return beside();
    }
    match alone() {
        // Its program has come meanwhile.
        Err(e) if e.code() == Code::Conflict && is_held() => beside(),
        done => done,
    }
}
