//! How the commands speak: text for people or JSON for machines on standard output, one line of
//! what, value and remedy on standard error.

use forebay::{Code, Error, Result};
use forebay_store::Progress;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::Arc;

/// Where a command says what it has to say.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// Whether machines read it.
    pub json: bool,
}

impl Out {
    /// One line of text.
    pub fn line(&self, text: impl Display) -> Result<()> {
        self.write(format_args!("{text}\n"))
    }

    /// One JSON value on a line of its own.
    pub fn value(&self, value: &Value) -> Result<()> {
        self.write(format_args!("{value}\n"))
    }

    /// JSON for machines, or a line for people.
    pub fn either(&self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Result<()> {
        if self.json { self.value(&value()) } else { self.line(text()) }
    }

    /// Aligned columns under a head; numbers to the right.
    pub fn table(&self, head: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let width = |i: usize| {
            rows.iter().map(|r| r[i].chars().count()).chain([head[i].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let number = |i: usize| !rows.is_empty() && rows.iter().all(|r| is_number(&r[i]));
        let right: Vec<bool> = (0..head.len()).map(number).collect();
        let format = |cells: &mut dyn Iterator<Item = &str>| {
            let words: Vec<String> = cells
                .enumerate()
                .map(|(i, c)| {
                    let pad = " ".repeat(widths[i].saturating_sub(c.chars().count()));
                    if right[i] { pad + c } else { c.to_owned() + &pad }
                })
                .collect();
            words.join("  ").trim_end().to_owned()
        };
        self.line(format(&mut head.iter().copied()))?;
        for row in rows {
            self.line(format(&mut row.iter().map(String::as_str)))?;
        }
        Ok(())
    }

    fn write(&self, text: std::fmt::Arguments) -> Result<()> {
        match std::io::stdout().lock().write_fmt(text) {
            Ok(()) => Ok(()),
            // Whoever reads us (`| head`) has seen enough; that is no error.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
            Err(e) => Err(Error::io("cannot write to standard output", e)),
        }
    }

    /// Says on standard error why the command failed.
    pub fn fail(&self, error: &Error) {
        let text = if self.json {
            json!({"error": error.code().name(), "text": error.text()}).to_string()
        } else {
            words(error)
        };
        // Nothing can be done about a closed standard error.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// One line of what, value and remedy. A remote traceback follows below, as it came.
fn words(error: &Error) -> String {
    let (first, rest) = match error.text().split_once('\n') {
        Some((first, rest)) if error.code() == Code::RemoteError => (first.to_owned(), format!("\n{rest}")),
        _ => (error.text().split_whitespace().collect::<Vec<_>>().join(" "), String::new()),
    };
    let remedy = match first.contains("; ") {
        true => String::new(),
        false => format!("; {}", lowered(error.code().info().remedy)),
    };
    format!("forebay: {first}{remedy}{rest}")
}

/// A sentence as the second half of another one.
fn lowered(sentence: &str) -> String {
    let mut chars = sentence.trim_end_matches('.').chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn is_number(text: &str) -> bool {
    text.is_empty() || text.parse::<f64>().is_ok()
}

/// Bytes as people read them.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// What a bar counts.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Files.
    Files,
}

/// A bar for long work, on a terminal only, and what moves it; it vanishes when it is finished or dropped.
pub fn bar(what: &'static str, unit: Unit) -> (ProgressBar, Progress) {
    if !std::io::stderr().is_terminal() {
        return (ProgressBar::hidden(), Arc::new(|_, _| {}));
    }
    let style = ProgressStyle::with_template(match unit {
        Unit::Bytes => "{spinner} {msg} [{bar:30}] {percent}% of {total_bytes}, {elapsed}",
        Unit::Files => "{spinner} {msg} [{bar:30}] {pos} of {len} files, {elapsed}",
    });
    let bar = ProgressBar::new(0).with_message(what).with_finish(ProgressFinish::AndClear);
    let bar = match style {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    };
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let moved = bar.clone();
    let progress = move |done, total| {
        moved.set_length(total);
        moved.set_position(done);
    };
    (bar, Arc::new(progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_a_remedy() {
        let e = Error::new(Code::NotFound, "no run at \"x\"");
        assert_eq!(
            words(&e),
            "forebay: no run at \"x\"; check the name; `forebay ls` and `forebay services` show what is there"
        );
        let e = Error::new(Code::BadArgument, "bad\nvalue; mend it");
        assert_eq!(words(&e), "forebay: bad value; mend it");
        let e = Error::new(Code::RemoteError, "f: ValueError: 3; see there\nTraceback\n  line 1");
        assert_eq!(words(&e), "forebay: f: ValueError: 3; see there\nTraceback\n  line 1");
    }

    #[test]
    fn bytes_are_written_as_people_read_them() {
        assert_eq!([bytes(0), bytes(1023), bytes(1536)], ["0 B", "1023 B", "1.5 KiB"]);
    }
}
