//! What all ranks of a run's life do together though each asks by itself: they go back to one
//! step, and they close the run as finished. A *life* goes from the first rank that opens the run
//! until the last one has left, deaths of owners included.

use super::described::reduced_arrays;
use super::histories::{self, begin_anew, take_back, take_back_of};
use super::marks::damaged_behind;
use super::partial::{self, RANKS_OWN};
use super::steps::{finished, go_back_to, last_step, mark_finished, newest, put_aside, restart};
use super::{now, now_fact, set_fact, sql_error};
use crate::stepfile::Manifest;
use forebay_types::control::{Heads, History, Restarted};
use forebay_types::{Code, Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

fn failed(e: rusqlite::Error) -> Error {
    sql_error("what the ranks did together cannot be noted", e)
}

/// Runs that were made before there was such a table get it.
pub(super) fn ensure_table(conn: &Connection) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS fb_together(
             id INTEGER PRIMARY KEY, session INTEGER NOT NULL, rank INTEGER NOT NULL, round INTEGER NOT NULL,
             tag TEXT, step INTEGER, made REAL NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_renewed(
             step INTEGER PRIMARY KEY, serial INTEGER NOT NULL, parameters TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_heads(
             step INTEGER PRIMARY KEY, serial INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_gone_on(round INTEGER PRIMARY KEY, start INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS fb_made_again(
             session INTEGER NOT NULL, kind TEXT NOT NULL, id INTEGER NOT NULL,
             PRIMARY KEY(session, kind, id)) WITHOUT ROWID",
    )
    .map_err(failed)
}

/// Save was asked for where a step is kept already: a restart from there brings back these parameters.
pub fn renew(conn: &Connection, step: i64, parameters: &Map<String, Value>) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO fb_renewed SELECT step, serial, ?2 FROM fb_steps WHERE step = ?1";
    conn.execute(sql, params![step, Value::Object(parameters.clone()).to_string()])
        .map(|_| ())
        .map_err(failed)
}

/// The parameters of a step, if they were renewed.
pub(super) fn renewed(conn: &Connection, step: i64) -> Option<Map<String, Value>> {
    let sql =
        "SELECT r.parameters FROM fb_renewed r JOIN fb_steps s ON s.step = r.step AND s.serial = r.serial
               WHERE r.step = ?1";
    let text: String = conn.query_row(sql, [step], |r| r.get(0)).ok()?;
    serde_json::from_str(&text).ok()
}

/// The last life in which the run went back.
const WENT_BACK: &str = "life_gone_back";

/// A new life begins with this session, on complete steps up to `last`.
pub fn begin_life(conn: &Connection, session: u64, last: Option<i64>) -> Result<()> {
    let stray = is_stray(conn, session, last)?;
    super::points::begin_life(conn)?;
    histories::begin_life(conn, stray, (now_fact(conn, "life")?, session as i64))?;
    set_fact(conn, "life", session as i64)?;
    partial::begin_life(conn, session)?;
    set_fact(conn, "begun_on", last.map_or(0, |last| last + 1))?;
    conn.execute_batch("DELETE FROM fb_together; DELETE FROM fb_gone_on; DELETE FROM fb_made_again")
        .map_err(failed)?;
    super::points::note_left(conn)
}

/// Whether the life before this session began on complete steps and did not go on there: it went back to none, made
/// none, and did not come to its end either. Its rows are those of a start that was refused, or died before that.
fn is_stray(conn: &Connection, session: u64, last: Option<i64>) -> Result<bool> {
    let on = begun_on(conn)?;
    let went_back = last_round(conn)? > 0 || now_fact(conn, WENT_BACK)? == now_fact(conn, "life")?;
    if on.is_none() || last != on || went_back {
        return Ok(false);
    }
    let sql = format!(
        "SELECT count(*) > 0 FROM fb_sessions s WHERE session >= ?1 AND session < ?2 AND {RANKS_OWN}
             AND NOT EXISTS (SELECT 1 FROM fb_together t WHERE t.session = s.session AND t.round = 0)"
    );
    conn.query_row(&sql, params![now_fact(conn, "life")?, session as i64], |r| r.get(0)).map_err(failed)
}

/// A session comes while no rank lives. It is a rank of the same life that comes late if all others have finished
/// and it was not there yet. It begins another life if its rank was there before, if the number of ranks is another
/// one, and if one of them was lost or did not come to its end: that program was started again.
pub fn comes(conn: &Connection, session: u64, last: Option<i64>) -> Result<()> {
    let (rank, size) = rank_and_size(conn, session)?;
    let sql = format!(
        "SELECT count(*) > 0 FROM fb_sessions s WHERE session >= ?1 AND session < ?2 AND {RANKS_OWN}
             AND (rank = ?3 OR size <> ?4
             OR NOT EXISTS (SELECT 1 FROM fb_together t WHERE t.session = s.session AND t.round = 0))"
    );
    let key = params![now_fact(conn, "life")?, session as i64, rank, size];
    let is_another: bool = conn.query_row(&sql, key, |r| r.get(0)).map_err(failed)?;
    if is_another { begin_life(conn, session, last) } else { Ok(()) }
}

/// The last complete step that there was when this life began.
pub fn begun_on(conn: &Connection) -> Result<Option<i64>> {
    Ok(Some(now_fact(conn, "begun_on")? - 1).filter(|step| *step >= 0))
}

/// Whether a life before this one has not come to its end.
pub fn is_unfinished(conn: &Connection) -> Result<bool> {
    let sql = "SELECT count(*) > 0 FROM fb_sessions WHERE session < ?1 AND size > 0";
    let is_later = conn.query_row(sql, [now_fact(conn, "life")?], |r| r.get::<_, bool>(0)).map_err(failed)?;
    Ok(is_later && !finished(conn)?)
}

/// Where the run went back to in this life, as a session is to know it: what it was told itself, if it has gone
/// as often as any, else what the first one was told. `None` before anybody has, `Some(None)` for the beginning.
pub fn went_back(conn: &Connection, session: u64) -> Result<Option<Option<i64>>> {
    let sql = "SELECT step FROM fb_together
               WHERE round > 0 AND round = (SELECT max(round) FROM fb_together)
               ORDER BY session <> ?1, CASE WHEN session = ?1 THEN -id ELSE id END LIMIT 1";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([session as i64], |r| r.get(0)).optional())
        .map_err(failed)
}

fn rank_and_size(conn: &Connection, session: u64) -> Result<(u32, u32)> {
    conn.query_row("SELECT rank, size FROM fb_sessions WHERE session = ?1", [session as i64], |r| {
        Ok((r.get(0)?, r.get(1)?))
    })
    .map_err(failed)
}

/// Where a restart leads, the steps that are listed no more, and whether this rank is the first one that goes
/// back this time.
pub type Back = (Option<Restarted>, Vec<i64>, bool);

/// A rank goes back. The n-th time of each rank is one going back of all: the first one to ask
/// takes the run back, the others follow and nothing is removed twice.
///
/// Steps that are marked as damaged are passed over, and put aside as those behind a checkpoint are: their
/// numbers are free. With `strict` they are an error, and so are arrays that were kept with less precision.
pub fn go_back(conn: &Connection, session: u64, tag: Option<&str>, strict: bool) -> Result<Back> {
    let (rank, _) = rank_and_size(conn, session)?;
    let round: i64 = conn
        .query_row(
            "SELECT coalesce(max(round), 0) + 1 FROM fb_together WHERE session = ?1",
            [session as i64],
            |r| r.get(0),
        )
        .map_err(failed)?;
    let first = first_of(conn, round)?;
    let is_first = first.is_none();
    let mut aside = Vec::new();
    let mut is = round;
    let back = match first {
        Some((by, of, _)) if of.as_deref() != tag => return Err(differs(rank, tag, by, of.as_deref())),
        Some((_, _, step)) if step == last_step(conn)? => newest(conn)?,
        Some(_) => {
            // The others have gone on since: this rank came back alone, and follows them.
            is = last_round(conn)?;
            newest(conn)?
        }
        None => {
            conn.execute("DELETE FROM fb_made_again", ()).map_err(failed)?;
            if let Some(tag) = tag {
                aside = go_back_to(conn, tag)?;
            } else {
                aside = pass_over(conn, strict)?;
            }
            let found = restart(conn)?;
            if strict
                && let Some(back) = &found
                && let Some(text) = reduced_arrays(conn, back.step)?
            {
                return Err(Error::new(
                    Code::Conflict,
                    format!("{text}; a strict restart goes on from none of these, without strict it does"),
                ));
            }
            let back = match found {
                // The run begins anew: nothing of it is left that was sound, and what it wrote is made again.
                None if !aside.is_empty() || !finished(conn)? => begin_anew(conn).map(|()| None)?,
                // What is behind it is made again. The results of a finished run stay until somebody does that.
                Some(back) if back.heads.is_none() && (!aside.is_empty() || !back.finished) => {
                    take_back(conn, back.step + 1)?;
                    Some(back)
                }
                back => back,
            };
            let from = |b: &Restarted| b.heads.map_or(b.step, |heads| heads.first);
            partial::forget_memories(conn, back.as_ref().map_or(-1, from))?;
            set_fact(conn, WENT_BACK, now_fact(conn, "life")?)?;
            back
        }
    };
    conn.execute("DELETE FROM fb_made_again WHERE session = ?1", [session as i64]).map_err(failed)?;
    match &back {
        // Where it goes on the loop will say.
        Some(back) if back.heads.is_some() => {}
        back => {
            // What belongs to the state of that step goes when the program makes it again.
            let behind = back.as_ref().map(|b| b.step + 1);
            super::points::give_again(conn, session, behind.unwrap_or(i64::MIN), None)?;
            // Of a finished run nothing is made again by that alone.
            if !is_first && !finished(conn)? {
                take_back_of(conn, rank, behind.unwrap_or(0), None)?;
            }
        }
    }
    conn.execute(
        "INSERT INTO fb_together(session, rank, round, tag, step, made) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        params![session as i64, rank, is, tag, back.as_ref().map(|b| b.step), now()],
    )
    .map_err(failed)?;
    Ok((back, aside, is_first))
}

/// A rank, the checkpoint it asked for, the step it was given.
type Went = (u32, Option<String>, Option<i64>);

/// Who went back first in a round.
fn first_of(conn: &Connection, round: i64) -> Result<Option<Went>> {
    conn.query_row(
        "SELECT rank, tag, step FROM fb_together WHERE round = ?1 ORDER BY id LIMIT 1",
        [round],
        |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)),
    )
    .optional()
    .map_err(failed)
}

/// How often the ranks have gone back in this life.
fn last_round(conn: &Connection) -> Result<i64> {
    conn.query_row("SELECT coalesce(max(round), 0) FROM fb_together", (), |r| r.get(0)).map_err(failed)
}

/// A rank goes on at a step, as the snapshot that the run went back to says or, where that does not, the program: what
/// it makes again goes. Says whether it is the first one of those that went back together.
pub fn go_on_at(conn: &Connection, session: u64, start: i64) -> Result<bool> {
    let to = went_back(conn, session)?
        .ok_or_else(|| Error::bad(format!("the run went back to no step, and is to go on at {start}")))?;
    let round = last_round(conn)?;
    let gone_on = gone_on(conn, round)?;
    match gone_on.filter(|at| *at != start) {
        None if gone_on.is_none() => {
            take_back(conn, start)?;
            conn.execute("INSERT INTO fb_gone_on VALUES(?1, ?2)", [round, start]).map_err(failed)?;
        }
        // One that came back alone, to a later step, goes on with the others.
        Some(at) if first_of(conn, round)?.and_then(|(.., step)| step) == to => {
            let rank = rank_and_size(conn, session)?.0;
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "rank {rank} goes on at step {start}, and another rank at step {at}; give all ranks the same start"
                ),
            ));
        }
        _ => {}
    }
    super::points::give_again(conn, session, start, None)?;
    if gone_on.is_some() {
        take_back_of(conn, rank_and_size(conn, session)?.0, start, None)?;
    }
    Ok(gone_on.is_none())
}

/// Where the loop began behind the n-th going back, if a rank has begun it.
fn gone_on(conn: &Connection, round: i64) -> Result<Option<i64>> {
    conn.query_row("SELECT start FROM fb_gone_on WHERE round = ?1", [round], |r| r.get(0))
        .optional()
        .map_err(failed)
}

/// A rank that has gone back and is before its first head adds to a history, which it makes again by that; it may never
/// come to that head, and what is in other histories stays till it does. Says whether something of other ranks may
/// have gone with it.
pub fn makes_again(conn: &Connection, session: u64, start: i64, history: History) -> Result<bool> {
    let is_first = match gone_on(conn, last_round(conn)?)? {
        None => histories::take_back_in(conn, session, start, history)?,
        Some(_) => {
            if let History::Table(id) = history {
                histories::take_back_of(conn, rank_and_size(conn, session)?.0, start, Some(id))?;
            }
            false
        }
    };
    if let History::Diagram(id) = history {
        super::points::give_again(conn, session, start, Some(id))?;
    }
    let (kind, id) = histories::named(history);
    conn.execute("INSERT OR IGNORE INTO fb_made_again VALUES(?1, ?2, ?3)", params![session as i64, kind, id])
        .map_err(failed)?;
    Ok(is_first)
}

/// Where a loop may go on from a listed step, if its number does not say it. The steps of format 1 were taken when
/// programs counted in two ways: the number is that of the step before its computation, or behind it.
pub fn heads_of(conn: &Connection, step: i64) -> Result<Option<Heads>> {
    let sql = "SELECT count(*) > 0 FROM fb_steps WHERE step = ?1 AND serial = 0";
    match conn.query_row(sql, [step], |r| r.get(0)).map_err(failed)? {
        true => Ok(Some(Heads { first: step, last: step.saturating_add(1) })),
        false => kept_heads(conn, step),
    }
}

/// Where a loop may go on from a listed step, as the catalog has noted it; `None` when nothing is noted.
pub fn kept_heads(conn: &Connection, step: i64) -> Result<Option<Heads>> {
    if !super::serials::are_kept(conn) {
        return Ok(None);
    }
    let sql =
        "SELECT h.first, h.last FROM fb_heads h JOIN fb_steps s ON s.step = h.step AND s.serial = h.serial
               WHERE h.step = ?1";
    conn.prepare_cached(sql)
        .and_then(|mut s| s.query_row([step], |r| Ok(Heads { first: r.get(0)?, last: r.get(1)? })).optional())
        .map_err(failed)
}

/// Takes over what the manifest of a step that is listed says of where a loop goes on.
pub(super) fn learn_heads(conn: &Connection, m: &Manifest) -> Result<()> {
    let done = match m.heads {
        Some(heads) => conn.execute(
            "INSERT OR REPLACE INTO fb_heads VALUES(?1, ?2, ?3, ?4)",
            params![m.step, m.serial as i64, heads.first, heads.last],
        ),
        None => {
            conn.prepare_cached("DELETE FROM fb_heads WHERE step = ?1").and_then(|mut s| s.execute([m.step]))
        }
    };
    done.map(|_| ()).map_err(failed)
}

/// Puts the damaged steps behind the last sound one aside; gives their numbers.
fn pass_over(conn: &Connection, strict: bool) -> Result<Vec<i64>> {
    let last = last_step(conn)?;
    let passed = damaged_behind(conn, last)?;
    if strict && !passed.is_empty() {
        let to = last.map_or("the beginning".into(), |n| format!("step {n}"));
        let text = format!(
            "{} damaged, and a strict restart passes over nothing; without strict it goes back to {to}",
            steps_are(&passed)
        );
        return Err(Error::new(Code::Corrupt, text));
    }
    put_aside(conn, last.unwrap_or(i64::MIN))
}

/// `step 8 is`, or `steps 8, 9 are`.
pub(crate) fn steps_are(steps: &[i64]) -> String {
    let list = steps.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    if steps.len() == 1 { format!("step {list} is") } else { format!("steps {list} are") }
}

fn differs(rank: u32, tag: Option<&str>, by: u32, of: Option<&str>) -> Error {
    let to = |t: Option<&str>| t.map_or("the last step".into(), |t| format!("the checkpoint {t:?}"));
    Error::new(
        Code::Conflict,
        format!(
            "rank {rank} goes back to {}, and rank {by} went back to {}; call restart alike in all ranks",
            to(tag),
            to(of)
        ),
    )
}

/// A rank closes the run. It is finished when all ranks of its life say so, each the last time that it was there: one
/// that was begun again since has not finished yet.
pub fn close_as(conn: &Connection, session: u64, finished: bool) -> Result<()> {
    let (rank, size) = rank_and_size(conn, session)?;
    if !finished {
        conn.execute("DELETE FROM fb_together WHERE round = 0", ()).map_err(failed)?;
        return mark_finished(conn, false);
    }
    conn.execute(
        "INSERT INTO fb_together(session, rank, round, made) VALUES(?1, ?2, 0, ?3)",
        params![session as i64, rank, now()],
    )
    .map_err(failed)?;
    let sql = format!(
        "SELECT count(DISTINCT t.rank) FROM fb_together t WHERE t.round = 0 AND NOT EXISTS (
             SELECT 1 FROM fb_sessions s WHERE s.rank = t.rank AND s.session > t.session AND {RANKS_OWN})"
    );
    let said: u32 = conn.query_row(&sql, (), |r| r.get(0)).map_err(failed)?;
    if said >= size { mark_finished(conn, true) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{self, add_checkpoint, add_step, open_session, replace_step, scratch};

    fn ranks(conn: &Connection, size: u32) -> Vec<u64> {
        conn.execute_batch("DELETE FROM fb_together; DELETE FROM fb_gone_on").unwrap();
        let open = |r| open_session(conn, r, size, "test", |n| Some(format!("s{n}"))).unwrap().session;
        (0..size).map(open).collect()
    }

    fn step(conn: &Connection, step: i64) {
        add_step(conn, "f", &Manifest { step, ..Manifest::default() }).unwrap();
    }

    #[test]
    fn all_ranks_go_back_to_one_step_however_late_they_ask() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let r = ranks(tx, 3);
            let to = |n: usize| go_back(tx, r[n], None, false).map(|b| b.0.map(|b| b.step));
            assert_eq!((to(0)?, to(1)?), (None, None));
            step(tx, 0);
            step(tx, 5);
            assert_eq!(to(2)?, Some(5), "a rank that comes back alone follows the others");
            assert_eq!((to(1)?, to(0)?, to(2)?), (Some(5), Some(5), Some(5)));
            Ok(())
        })
        .unwrap();
    }

    fn counted(conn: &Connection, step: i64, head: i64) -> Manifest {
        let heads = Heads::of(step, head, 1);
        let m = Manifest { step, serial: step as u64 + 1, heads, ..Manifest::default() };
        add_step(conn, "f", &m).unwrap();
        m
    }

    #[test]
    fn a_rank_that_followed_the_others_and_goes_back_itself_has_not_finished_the_run() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let r = ranks(tx, 2);
            counted(tx, 7, 700);
            go_back(tx, r[0], None, false)?;
            assert!(go_on_at(tx, r[1], 700)? && !go_on_at(tx, r[0], 700)?);
            go_back(tx, r[1], None, false)?;
            close_as(tx, r[0], true)?;
            assert!(!finished(tx)?, "only one rank has said so");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_rank_goes_on_where_the_last_going_back_led_though_it_asked_for_an_earlier_one_only() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let r = ranks(tx, 2);
            counted(tx, 7, 700);
            go_back(tx, r[0], None, false)?;
            go_back(tx, r[1], None, false)?;
            assert!(go_on_at(tx, r[0], 700)? && !go_on_at(tx, r[1], 700)?);
            counted(tx, 8, 800);
            go_back(tx, r[0], None, false)?;
            assert!(go_on_at(tx, r[0], 801)?);
            assert!(!go_on_at(tx, r[1], 801)?, "it follows, and is not held to where it went on before");
            let text = go_on_at(tx, r[1], 800).unwrap_err();
            assert!(
                text.text().contains("rank 1 goes on at step 800, and another rank at step 801"),
                "{text}"
            );
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn where_a_loop_goes_on_is_what_the_file_says_when_the_list_is_mended_by_it() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let m = counted(tx, 7, 700);
            assert_eq!(kept_heads(tx, 7)?, m.heads);
            replace_step(tx, "f", &Manifest { heads: None, ..m })?;
            assert_eq!(kept_heads(tx, 7)?, None);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn all_ranks_know_where_the_run_went_back_to_whoever_of_them_asked() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let r = ranks(tx, 2);
            assert_eq!(went_back(tx, r[0])?, None);
            go_back(tx, r[0], None, false)?;
            assert_eq!((went_back(tx, r[0])?, went_back(tx, r[1])?), (Some(None), Some(None)));
            step(tx, 5);
            let again = open_session(tx, 1, 2, "test", |n| Some(format!("s{n}")))?.session;
            go_back(tx, again, None, false)?;
            let known = (went_back(tx, r[0])?, went_back(tx, again)?);
            assert_eq!(known, (Some(None), Some(Some(5))), "one that came back alone moves nobody else");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn damaged_steps_are_told_of_by_the_restart_that_passes_them_over_and_by_no_other() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let session = ranks(tx, 1)[0];
            (0..3).for_each(|n| step(tx, n));
            add_checkpoint(tx, Some("early"))?;
            (3..8).for_each(|n| step(tx, n));
            catalog::mark_damaged(tx, 7, "a bit")?;
            let passed = |session, tag| Ok::<_, Error>(go_back(tx, session, tag, false)?.0.unwrap().passed);
            assert_eq!(passed(session, None)?, [7]);
            step(tx, 7);
            assert_eq!(passed(ranks(tx, 1)[0], None)?, [0; 0]);
            catalog::mark_damaged(tx, 6, "a bit")?;
            catalog::mark_damaged(tx, 7, "a bit")?;
            assert_eq!(passed(ranks(tx, 1)[0], None)?, [6, 7]);
            step(tx, 6);
            assert_eq!(passed(ranks(tx, 1)[0], None)?, [0; 0], "7 was given up before");
            catalog::mark_damaged(tx, 6, "a bit")?;
            assert_eq!(passed(ranks(tx, 1)[0], Some("early"))?, [0; 0], "it goes back farther on purpose");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_step_that_save_was_asked_for_again_brings_back_the_parameters_of_then() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            step(tx, 4);
            let now = Map::from_iter([("rate".to_owned(), Value::from(2.5))]);
            renew(tx, 4, &now)?;
            renew(tx, 5, &now)?;
            assert_eq!(newest(tx)?.unwrap().parameters, now);
            tx.execute("UPDATE fb_steps SET serial = serial + 1", ()).unwrap();
            assert!(newest(tx)?.unwrap().parameters.is_empty(), "another step of that number");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_life_begins_when_a_rank_comes_again_and_knows_what_there_was() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let open =
                |rank, size| open_session(tx, rank, size, "test", |n| Some(format!("s{n}"))).unwrap().session;
            let first = open(0, 2);
            comes(tx, first, None)?;
            step(tx, 3);
            close_as(tx, first, true)?;
            comes(tx, open(1, 2), Some(3))?;
            assert_eq!(begun_on(tx)?, None, "the other rank of the same life");
            comes(tx, open(0, 2), Some(3))?;
            assert_eq!(begun_on(tx)?, Some(3));
            comes(tx, open(0, 1), Some(7))?;
            assert_eq!(begun_on(tx)?, Some(7), "another number of ranks");
            comes(tx, open(0, 2), Some(8))?;
            comes(tx, open(1, 2), Some(9))?;
            assert_eq!(begun_on(tx)?, Some(9), "the one before was lost");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn ranks_that_ask_for_different_checkpoints_are_told() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            step(tx, 1);
            add_checkpoint(tx, Some("a"))?;
            step(tx, 2);
            let r = ranks(tx, 2);
            assert_eq!(go_back(tx, r[0], Some("a"), false)?.1, [2]);
            let e = go_back(tx, r[1], None, false).unwrap_err();
            assert!(
                e.code() == Code::Conflict && e.text().contains("rank 0 went back to the checkpoint \"a\""),
                "{e}"
            );
            let (back, aside, _) = go_back(tx, r[1], Some("a"), false)?;
            assert!(back.unwrap().step == 1 && aside.is_empty(), "done once");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_run_is_finished_when_every_rank_says_so() {
        let (_dir, mut c) = scratch();
        c.transaction(|tx| {
            let r = ranks(tx, 2);
            close_as(tx, r[0], true)?;
            assert!(!finished(tx)?);
            close_as(tx, r[1], true)?;
            assert!(finished(tx)?);
            let r = ranks(tx, 2);
            close_as(tx, r[1], false)?;
            close_as(tx, r[0], true)?;
            assert!(!finished(tx)?, "one rank failed");
            let early = ranks(tx, 2)[1];
            close_as(tx, early, true)?;
            let again = open_session(tx, 1, 2, "test", |n| Some(format!("s{n}")))?.session;
            let first = open_session(tx, 0, 2, "test", |n| Some(format!("s{n}")))?.session;
            close_as(tx, first, true)?;
            assert!(!finished(tx)?, "rank 1 came again, and has not come to its end");
            close_as(tx, again, true)?;
            assert!(finished(tx)?);
            Ok(())
        })
        .unwrap();
    }
}
