//! Which complete steps stay, as the programs of this life of the run have said, and which go for it.

use super::marks::LISTED;
use super::{begun_on, now_fact, sql_error};
use forebay_types::{Code, Error, Keep, Result};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

/// The fact that says it.
const KEEP: &str = "keep";
/// So many go at a time: a run that has more gets on meanwhile.
const AT_ONCE: i64 = 1000;

#[derive(Serialize, Deserialize)]
struct Said {
    life: i64,
    #[serde(flatten)]
    keep: Keep,
}

fn failed(e: rusqlite::Error) -> Error {
    sql_error("which steps stay cannot be told", e)
}

/// What was said in this life of the run.
fn said(conn: &Connection) -> Result<Option<Keep>> {
    let text: Option<String> = conn
        .prepare_cached("SELECT value FROM fb_run WHERE key = ?1")
        .and_then(|mut s| s.query_row([KEEP], |r| r.get(0)).optional())
        .map_err(failed)?;
    let Some(text) = text else { return Ok(None) };
    // What a later version says otherwise drops nothing here.
    let said = serde_json::from_str::<Said>(&text).ok();
    let life = now_fact(conn, "life")?;
    Ok(said.filter(|said| said.life == life).map(|said| said.keep))
}

/// Whether something was said in this life of the run.
pub fn is_kept_by_rule(conn: &Connection) -> Result<bool> {
    said(conn).map(|said| said.is_some())
}

/// Says it, for this life of the run. All who say it say the same.
pub fn set_keep(conn: &Connection, keep: Keep) -> Result<()> {
    match said(conn)? {
        Some(before) if before == keep => return Ok(()),
        Some(before) => {
            return Err(Error::new(
                Code::Conflict,
                format!(
                    "{:?} is to say here which snapshots stay, and another rank or program that has this run open says {:?}; say the same in all of them",
                    keep.to_string(),
                    before.to_string()
                ),
            ));
        }
        None => {}
    }
    let said = Said { life: now_fact(conn, "life")?, keep };
    let text = serde_json::to_string(&said).map_err(|e| Error::internal(e.to_string()))?;
    conn.execute("INSERT OR REPLACE INTO fb_run VALUES(?1, ?2)", (KEEP, text)).map(|_| ()).map_err(failed)
}

/// Steps that are to go and their files, the oldest first. So many are `coming` for which there is no room: they count as
/// there already. The newest one stays, and whatever somebody may want to go on from: checkpoints, what Save was asked at,
/// and the steps that this life of the run began on and went back to.
pub fn outlived(conn: &Connection, coming: u64) -> Result<Vec<(i64, String)>> {
    let Some(keep) = said(conn)? else { return Ok(Vec::new()) };
    let newest = keep.last.unwrap_or(1).saturating_sub(coming).max(1).min(i64::MAX as u64);
    let sql = format!(
        "SELECT step, file FROM fb_steps AS s WHERE {LISTED}
         AND step NOT IN (SELECT step FROM fb_steps WHERE {LISTED} ORDER BY step DESC LIMIT ?1)
         AND (?2 IS NULL OR step % ?2 <> 0) AND (?3 IS NULL OR step <> ?3)
         AND step NOT IN (SELECT step FROM fb_backs)
         AND NOT EXISTS (SELECT 1 FROM fb_checkpoints AS c WHERE c.step = s.step AND c.serial = s.serial)
         AND NOT EXISTS (SELECT 1 FROM fb_renewed AS r WHERE r.step = s.step AND r.serial = s.serial)
         ORDER BY step LIMIT {AT_ONCE}"
    );
    let key = params![newest as i64, keep.every, begun_on(conn)?];
    conn.prepare_cached(&sql)
        .and_then(|mut s| s.query_map(key, |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{add_checkpoint, add_step, mark_damaged, scratch};
    use crate::stepfile::Manifest;

    fn add(conn: &Connection, steps: &[i64]) {
        for step in steps {
            let manifest = Manifest { step: *step, serial: *step as u64 + 1, ..Manifest::default() };
            add_step(conn, &format!("steps/{step}.h5"), &manifest).unwrap();
        }
    }

    fn going(conn: &Connection, keep: &str, coming: u64) -> Vec<i64> {
        conn.execute("DELETE FROM fb_run WHERE key = 'keep'", ()).unwrap();
        set_keep(conn, Keep::parse(keep).unwrap()).unwrap();
        outlived(conn, coming).unwrap().into_iter().map(|(step, _)| step).collect()
    }

    #[test]
    fn the_newest_and_every_nth_stay_and_what_somebody_may_go_on_from() {
        let (_dir, mut c) = scratch();
        let done = c.transaction(|tx| {
            add(tx, &[0, 10, 20]);
            add_checkpoint(tx, Some("kept"))?;
            add(tx, &[30, 40, 50, 60, 70]);
            assert_eq!(outlived(tx, 9)?, [], "nobody has said anything");
            assert_eq!(going(tx, "last 3", 0), [0, 10, 30, 40]);
            assert_eq!(going(tx, "last 3", 1), [0, 10, 30, 40, 50], "another one is coming");
            assert_eq!(going(tx, "last 3", 9), [0, 10, 30, 40, 50, 60], "the newest one stays");
            assert_eq!(going(tx, "every 30", 0), [10, 40, 50]);
            assert_eq!(going(tx, "last 2, every 30", 0), [10, 40, 50]);
            tx.execute("INSERT INTO fb_backs VALUES(40, 5)", ()).unwrap();
            tx.execute("INSERT OR REPLACE INTO fb_run VALUES('begun_on', '11')", ()).unwrap();
            assert_eq!(going(tx, "last 3", 0), [0, 30], "it went back to 40 and began on 10");
            mark_damaged(tx, 70, "a byte changed")?;
            assert_eq!(going(tx, "last 3", 0), [0, 30], "a damaged one is no newest one, and stays");
            assert_eq!(going(tx, "last 1", 0), [0, 30, 50]);
            Ok(())
        });
        done.unwrap();
    }

    #[test]
    fn all_say_the_same_and_what_was_said_ends_with_the_life_of_the_run() {
        let (_dir, mut c) = scratch();
        let done = c.transaction(|tx| {
            add(tx, &[0, 1, 2]);
            let keep = |text| Keep::parse(text).unwrap();
            set_keep(tx, keep("last 1"))?;
            set_keep(tx, keep("last 1"))?;
            let e = set_keep(tx, keep("last 2")).unwrap_err();
            assert!(e.code() == Code::Conflict && e.text().contains("\"last 1\""), "{e}");
            tx.execute("INSERT OR REPLACE INTO fb_run VALUES('life', '7')", ()).unwrap();
            assert_eq!(outlived(tx, 0)?, []);
            set_keep(tx, keep("last 2"))?;
            assert_eq!(outlived(tx, 0)?, [(0, "steps/0.h5".to_owned())]);
            Ok(())
        });
        done.unwrap();
    }
}
