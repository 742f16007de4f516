//! `forebay drop`: snapshots out of a run.

use super::out::{Out, bytes};
use super::pick;
use forebay::{Cell, Code, Error, Mode, Result, Run};
use serde_json::json;
use std::io::{BufRead, IsTerminal, Write};

/// Give snapshots up: their files go and their numbers are free.
#[derive(clap::Args)]
#[command(
    after_help = "It asks before it does so, unless it is told --yes.\n\nExample:\n  forebay drop two_stream 600 1000..2000"
)]
pub struct Drop {
    /// The run.
    run: String,
    /// Numbers of snapshots; FIRST..LAST are all from the first to the last one, both among them.
    #[arg(required = true, value_name = "STEP", allow_negative_numbers = true)]
    steps: Vec<String>,
    /// Does not ask.
    #[arg(long, short)]
    yes: bool,
}

/// A snapshot that is to go.
struct Going {
    step: i64,
    bytes: i64,
    is_checkpoint: bool,
}

/// What there is from one number to another, with what lacks ranks.
const BETWEEN: &str = "SELECT step, nbytes, EXISTS (SELECT 1 FROM fb_checkpoints c WHERE c.step = s.step AND c.serial = s.serial)
    FROM fb_steps s WHERE step BETWEEN ?1 AND ?2
    UNION SELECT step, 0, 0 FROM fb_partial WHERE step BETWEEN ?1 AND ?2 AND step NOT IN (SELECT step FROM fb_steps)";

impl Drop {
    /// Does it.
    pub fn run(&self, out: &Out) -> Result<()> {
        let ranges = self.steps.iter().map(|text| pick::range(text)).collect::<Result<Vec<_>>>()?;
        let run = forebay::open(&self.run, Mode::ReadWrite, super::room(0))?;
        let mut going: Vec<Going> = Vec::new();
        for (text, (first, last)) in self.steps.iter().zip(ranges) {
            let found = self.between(&run, first, last)?;
            if found.is_empty() {
                return Err(Error::new(
                    Code::NotFound,
                    format!("there is no snapshot {text}; `forebay ls {} --steps` lists them", self.run),
                ));
            }
            going.extend(found);
        }
        going.sort_by_key(|one| one.step);
        going.dedup_by_key(|one| one.step);
        if !self.yes {
            self.ask(&going)?;
        }
        let mut dropped = Vec::new();
        for one in &going {
            // Somebody else may have dropped one meanwhile.
            if run.drop_step(one.step)? {
                dropped.push(one.step);
            }
        }
        run.close()?;
        out.either(
            || json!({"dropped": dropped}),
            || match &dropped[..] {
                [] => "somebody else has dropped them meanwhile".to_owned(),
                [step] => format!("snapshot {step} dropped"),
                [first, .., last] => format!("{} snapshots dropped, {first} to {last}", dropped.len()),
            },
        )
    }

    fn between(&self, run: &Run, first: i64, last: i64) -> Result<Vec<Going>> {
        let going = |row: Vec<Cell>| match row[..] {
            [Cell::Int(step), Cell::Int(bytes), Cell::Int(kept)] => {
                Some(Going { step, bytes, is_checkpoint: kept != 0 })
            }
            _ => None,
        };
        Ok(run.sql(BETWEEN, &[first.into(), last.into()])?.rows.into_iter().filter_map(going).collect())
    }

    /// Goes on if whoever sits at the terminal says so.
    fn ask(&self, going: &[Going]) -> Result<()> {
        let size = bytes(going.iter().map(|one| one.bytes.max(0) as u64).sum());
        let what = match going {
            [one] => format!("snapshot {}", one.step),
            [first, .., last] => format!("{} snapshots, {} to {}", going.len(), first.step, last.step),
            [] => return Ok(()),
        };
        let kept = going.iter().filter(|one| one.is_checkpoint).count();
        let among = if kept == 0 { String::new() } else { format!(", {kept} of them kept as checkpoints") };
        let text = format!("{what} of {} ({size}{among})", self.run);
        if !std::io::stdin().is_terminal() {
            return Err(Error::bad(format!(
                "nobody is here to be asked whether to drop {text}; say so with --yes"
            )));
        }
        let mut answer = String::new();
        let asked = write!(std::io::stderr().lock(), "Drop {text} for good? [y/N] ");
        asked
            .and_then(|()| std::io::stdin().lock().read_line(&mut answer))
            .map_err(|e| Error::io("cannot ask at the terminal", e))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Error::new(Code::Cancelled, "nothing was dropped; answer y to drop, or say --yes")),
        }
    }
}
