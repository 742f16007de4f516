//! Attempts at steps that failed and that not every rank has made: `fb_failed`.

use super::sql_error;
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An attempt at a step that was given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Its number in the run.
    pub id: u64,
    /// The step.
    pub step: i64,
    /// Why it failed.
    pub why: Error,
    /// Number of ranks of the run.
    pub size: u32,
    /// Those that have made this attempt.
    pub ranks: BTreeSet<u32>,
    /// Ranks that have begun it since it failed, and not ended it: they hear of it at its end.
    pub unheard: BTreeSet<u32>,
    /// By which record of which session that was, as far as it may be read again by a successor.
    pub begun: BTreeMap<u64, u64>,
}

impl FailedAttempt {
    /// Whether no rank is yet to make this attempt, or to hear of it.
    pub fn is_over(&self) -> bool {
        self.unheard.is_empty() && (0..self.size).all(|rank| self.ranks.contains(&rank))
    }

    /// Whether a rank is yet to make it. Those of a later start, which may be more, make none of an earlier one.
    pub fn is_yet_made_by(&self, rank: u32) -> bool {
        rank < self.size && !self.ranks.contains(&rank)
    }

    /// Whether a rank is yet to make it, or to hear of it.
    pub fn concerns(&self, rank: u32) -> bool {
        self.is_yet_made_by(rank) || self.unheard.contains(&rank)
    }
}

fn failed(e: rusqlite::Error) -> Error {
    sql_error("a step that was given up cannot be noted", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_failed(
             id INTEGER PRIMARY KEY, step INTEGER NOT NULL, code INTEGER NOT NULL, text TEXT NOT NULL,
             size INTEGER NOT NULL, ranks TEXT NOT NULL)",
    )
    .map_err(failed)
}

/// Keeps an attempt, or the ranks that have made it since.
pub fn note_attempt(conn: &Connection, attempt: &FailedAttempt) -> Result<()> {
    let FailedAttempt { id, step, why, size, ranks, unheard, begun } = attempt;
    let ranks =
        serde_json::to_string(&(ranks, unheard, begun)).map_err(|e| Error::internal(e.to_string()))?;
    let sql =
        "INSERT OR REPLACE INTO fb_failed(id, step, code, text, size, ranks) VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
    let row = params![*id as i64, step, why.code() as u32, why.text(), size, ranks];
    conn.prepare_cached(sql).and_then(|mut s| s.execute(row)).map(|_| ()).map_err(failed)
}

/// Forgets an attempt.
pub fn forget_attempt(conn: &Connection, id: u64) -> Result<()> {
    let sql = "DELETE FROM fb_failed WHERE id = ?1";
    conn.prepare_cached(sql).and_then(|mut s| s.execute([id as i64])).map(|_| ()).map_err(failed)
}

/// All of them, the oldest first.
pub fn failed_attempts(conn: &Connection) -> Result<Vec<FailedAttempt>> {
    let read = |r: &Row| {
        let code = Code::from_number(r.get(2)?).unwrap_or(Code::Internal);
        let (size, ranks): (u32, String) = (r.get(4)?, r.get(5)?);
        // Ranks that make no sense have made it, and heard: nobody is refused then.
        let (ranks, unheard, begun) = serde_json::from_str(&ranks)
            .unwrap_or_else(|_| ((0..size).collect(), BTreeSet::new(), BTreeMap::new()));
        let why = Error::new(code, r.get::<_, String>(3)?);
        Ok(FailedAttempt {
            id: r.get::<_, i64>(0)? as u64,
            step: r.get(1)?,
            why,
            size,
            ranks,
            unheard,
            begun,
        })
    };
    conn.prepare("SELECT id, step, code, text, size, ranks FROM fb_failed ORDER BY id")
        .and_then(|mut s| s.query_map((), read)?.collect())
        .map_err(failed)
}
