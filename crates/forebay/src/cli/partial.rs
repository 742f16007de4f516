//! Snapshots that lack ranks whose memory is on another host: which ranks, and what makes them whole.

use forebay::{Cell, Result, Run};
use forebay_store::PartialRow;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most steps and ranks that a line names.
const NAMED: usize = 8;
/// Each rank once, with how many there are of them.
const ALL: &str = "select p.step, p.size, m.key, m.value, coalesce(s.program, ''), p.file
     from fb_partial p, json_each(p.missing) m left join fb_sessions s on s.session = m.value
     order by p.step, cast(m.key as integer)";

/// Rank, session, and which program on which host it was.
type Missing = (u32, u64, String);

/// A snapshot that lacks ranks.
pub struct Lacking {
    step: i64,
    size: u32,
    file: String,
    missing: Vec<Missing>,
}

impl From<&PartialRow> for Lacking {
    fn from(row: &PartialRow) -> Lacking {
        let PartialRow { step, size, missing, file, .. } = row.clone();
        Lacking { step, size, file, missing }
    }
}

/// Those of a run, wherever it is.
pub fn of_run(run: &Run) -> Result<Vec<Lacking>> {
    let mut all: Vec<Lacking> = Vec::new();
    for row in run.sql(ALL, &[])?.rows {
        let [
            Cell::Int(step),
            Cell::Int(size),
            Cell::Text(rank),
            Cell::Int(session),
            Cell::Text(program),
            Cell::Text(file),
        ] = &row[..]
        else {
            continue;
        };
        let missing = (rank.parse().unwrap_or(0), *session as u64, program.clone());
        match all.last_mut().filter(|last| last.step == *step) {
            Some(last) => last.missing.push(missing),
            None => all.push(Lacking {
                step: *step,
                size: *size as u32,
                file: file.clone(),
                missing: vec![missing],
            }),
        }
    }
    Ok(all)
}

/// For programs.
pub fn machine(all: &[Lacking]) -> Value {
    let missing = |m: &Missing| json!({"rank": m.0, "session": m.1, "program": m.2});
    let one = |l: &Lacking| {
        let missing: Vec<Value> = l.missing.iter().map(missing).collect();
        json!({"step": l.step, "ranks": l.size, "missing": missing, "file": l.file})
    };
    json!(all.iter().map(one).collect::<Vec<_>>())
}

/// One line for all that lack the same ranks.
pub fn lines(all: &[Lacking]) -> Vec<String> {
    let mut alike: BTreeMap<(u32, &[Missing]), Vec<i64>> = BTreeMap::new();
    for lacking in all {
        alike.entry((lacking.size, &lacking.missing)).or_default().push(lacking.step);
    }
    let line = |((size, missing), steps): ((u32, &[Missing]), Vec<i64>)| {
        let rank = |(rank, _, program): &Missing| match program.is_empty() {
            true => format!("rank {rank} of {size}"),
            false => format!("rank {rank} of {size} ({program})"),
        };
        let ranks = listed(missing.iter().map(rank).collect());
        let steps = listed(steps.iter().map(i64::to_string).collect());
        format!(
            "snapshots that are not whole: {steps}; they lack {ranks}, whose part is in the memory of another host: say `forebay recover` there, with the address fb://HOST:PORT/NAME of this run"
        )
    };
    alike.into_iter().map(line).collect()
}

fn listed(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(NAMED);
    words.truncate(NAMED);
    let words = words.join(", ");
    if more == 0 { words } else { format!("{words} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_lack_the_same_ranks_are_told_in_one_line() {
        let one = |step, missing: Vec<Missing>| Lacking { step, size: 3, file: String::new(), missing };
        let of = |rank: u32| (rank, 4, "md on n2 (process 7)".to_owned());
        let all = [one(3, vec![of(1)]), one(4, vec![of(1)]), one(5, vec![of(1), of(2)])];
        let told = lines(&all);
        assert_eq!(told.len(), 2);
        assert!(
            told[0].starts_with(
                "snapshots that are not whole: 3, 4; they lack rank 1 of 3 (md on n2 (process 7)), "
            ),
            "{told:?}"
        );
        assert!(told[1].contains("rank 2 of 3"), "{told:?}");
    }
}
