//! Tests of `points`: what is kept of the points that several ranks give.

use super::*;
use crate::catalog::{
    close_as, close_session, comes, curves, declare, diagrams, giver, note_cut, open_session, open_sessions,
    scratch,
};
use forebay_types::watch::{Declare, Diagram, Kind};

fn history(id: u32, title: &str, reduce: Option<Reduce>) -> Declare {
    Declare::Diagram(Diagram {
        id,
        title: title.into(),
        kind: Kind::History,
        x: "t".into(),
        y: "W".into(),
        v: None,
        xscale: Default::default(),
        yscale: Default::default(),
        every: 1,
        reduce,
    })
}

fn open(conn: &Connection, rank: u32, size: u32) -> u64 {
    let others = open_sessions(conn).unwrap();
    let session = open_session(conn, rank, size, "test", |n| Some(format!("s{n}"))).unwrap().session;
    if others.is_empty() {
        comes(conn, session, None).unwrap();
    }
    session
}

/// Sessions of all ranks that have declared a history of one curve.
fn ranks(conn: &Connection, size: u32, reduce: Option<Reduce>) -> Vec<u64> {
    let all: Vec<u64> = (0..size).map(|rank| open(conn, rank, size)).collect();
    for s in &all {
        declare(conn, *s, &history(0, "energy", reduce)).unwrap();
        declare(conn, *s, &Declare::Curve { diagram: 0, curve: 0, name: "total".into() }).unwrap();
    }
    all
}

fn give(conn: &Connection, session: u64, step: i64, value: f64) -> Fate {
    give_point(conn, &giver(conn, session, 0).unwrap(), 0, step, step as f64 / 10.0, value).unwrap()
}

fn values(conn: &Connection) -> Vec<f64> {
    points(conn, 0, 0).unwrap().into_iter().map(|p| p.1).collect()
}

fn left_over(conn: &Connection) -> (i64, i64, i64) {
    let count = |table| conn.query_row(&format!("SELECT count(*) FROM {table}"), (), |r| r.get(0)).unwrap();
    (count("fb_given"), count("fb_places"), count("fb_shares"))
}

#[test]
fn the_value_of_the_lowest_rank_stands_whoever_comes_first() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 3, None);
        assert_eq!(give(tx, r[2], 0, 2.0), Fate::New(1, 2.0));
        assert_eq!(give(tx, r[0], 0, 0.0), Fate::Changed(1, 0.0));
        assert_eq!(give(tx, r[1], 0, 1.0), Fate::Unseen);
        give(tx, r[0], 1, 10.0);
        give(tx, r[0], 2, 20.0);
        give(tx, r[1], 1, 11.0);
        assert_eq!(give(tx, r[1], 3, 31.0), Fate::New(4, 31.0));
        assert_eq!(values(tx), [0.0, 10.0, 20.0, 31.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn points_of_one_rank_at_one_place_are_as_many_as_it_gave() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 2, None);
        give(tx, r[1], -1, 1.0);
        give(tx, r[1], -1, 2.0);
        give(tx, r[0], -1, 3.0);
        give(tx, r[1], -1, 4.0);
        assert_eq!(values(tx), [3.0, 2.0, 4.0]);
        give(tx, r[0], -1, 5.0);
        assert_eq!(values(tx), [3.0, 5.0, 4.0]);
        let by = giver(tx, r[0], 0)?;
        give_point(tx, &by, 0, 7, f64::NAN, 1.0)?;
        assert_eq!(give_point(tx, &giver(tx, r[1], 0)?, 0, 7, f64::NAN, 2.0)?, Fate::Unseen);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_reduced_point_appears_when_all_ranks_have_given_theirs_and_has_the_bits_of_their_order() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 4, Some(Reduce::Sum));
        let v = [1e16, 1.0, -1e16, 0.1];
        for n in [3, 1, 0] {
            assert_eq!(give(tx, r[n], 5, v[n]), Fate::Unseen);
        }
        give(tx, r[1], 6, 1.0);
        let sum = ((v[0] + v[1]) + v[2]) + v[3];
        assert_eq!(give(tx, r[2], 5, v[2]), Fate::New(1, sum));
        assert_eq!(values(tx)[0].to_bits(), sum.to_bits());
        assert_eq!(left_over(tx).2, 1, "the shares of a point that is whole go");
        Ok(())
    })
    .unwrap();
}

#[test]
fn who_left_is_not_waited_for_and_who_comes_late_is_taken_in() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 3, Some(Reduce::Sum));
        give(tx, r[0], 0, 1.0);
        give(tx, r[1], 0, 2.0);
        give(tx, r[0], 1, 1.0);
        let done = close_session(tx, r[2])?;
        assert_eq!((done.len(), done[0].value), (1, 3.0));
        assert_eq!(give(tx, r[1], 1, 2.0), Fate::New(2, 3.0));
        let again = open(tx, 2, 3);
        declare(tx, again, &history(0, "energy", Some(Reduce::Sum)))?;
        assert_eq!(give(tx, again, 1, 4.0), Fate::Changed(2, 7.0));
        give(tx, r[0], 2, 1.0);
        assert_eq!(close_session(tx, r[0])?, []);
        assert_eq!(close_session(tx, r[1])?, []);
        assert_eq!(close_session(tx, again)?.len(), 1);
        assert_eq!(values(tx), [3.0, 7.0, 1.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn another_life_of_the_run_gives_points_of_its_own() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        for life in 0..2 {
            let r = ranks(tx, 2, None);
            give(tx, r[0], -1, f64::from(life));
            give(tx, r[1], -1, 9.0);
            close_session(tx, r[0])?;
            close_session(tx, r[1])?;
        }
        assert_eq!(values(tx), [0.0, 1.0]);
        let late = open(tx, 1, 2);
        assert_eq!(left_over(tx).0, 0);
        close_session(tx, late)?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_opens_when_the_others_have_left_gives_the_same_points() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        for rank in [0, 1] {
            let s = open(tx, rank, 2);
            declare(tx, s, &history(0, "energy", None))?;
            give(tx, s, 0, f64::from(rank));
            close_as(tx, s, true)?;
            close_session(tx, s)?;
        }
        assert_eq!(values(tx), [0.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_was_cut_by_a_restart_is_given_anew() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 2, Some(Reduce::Sum));
        for step in 0..4 {
            give(tx, r[0], step, 1.0);
            give(tx, r[1], step, 2.0);
        }
        give(tx, r[0], 4, 1.0);
        crate::catalog::histories::take_back(tx, 2)?;
        assert_eq!(values(tx), [3.0, 3.0]);
        for step in 2..5 {
            give(tx, r[1], step, 5.0);
            give(tx, r[0], step, 4.0);
        }
        assert_eq!(values(tx), [3.0, 3.0, 9.0, 9.0, 9.0]);
        // Records of before the restart, read after it: this rank goes back as the other one did.
        give(tx, r[1], 5, 7.0);
        give_again(tx, r[1], 2, None)?;
        give(tx, r[1], 5, 8.0);
        give(tx, r[0], 5, 1.0);
        assert_eq!(values(tx), [3.0, 3.0, 9.0, 9.0, 9.0, 9.0]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn ranks_number_diagrams_and_curves_for_themselves() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let (a, b) = (open(tx, 0, 2), open(tx, 1, 2));
        let curve = |s, curve, name: &str| {
            declare(tx, s, &Declare::Curve { diagram: 0, curve, name: name.into() }).unwrap()
        };
        declare(tx, a, &history(0, "energy", None))?;
        declare(tx, b, &history(0, "speed", None))?;
        declare(tx, b, &history(1, "energy", None))?;
        curve(a, 0, "field");
        curve(a, 1, "kinetic");
        let own = Declare::Curve { diagram: 1, curve: 0, name: "kinetic".into() };
        assert_eq!(declare(tx, b, &own)?, Declare::Curve { diagram: 0, curve: 1, name: "kinetic".into() });
        let titles: Vec<String> = diagrams(tx)?.into_iter().map(|d| d.title).collect();
        assert_eq!((titles, curves(tx, 0)?.len()), (vec!["energy".into(), "speed".into()], 2));
        assert_eq!(giver(tx, b, 0)?.diagram, 1);
        let e = declare(tx, b, &history(1, "energy", Some(Reduce::Max))).unwrap_err();
        assert!(e.text().contains("alike in all ranks"), "{e}");
        Ok(())
    })
    .unwrap();
}

/// Steps of points that lack the value of a rank that was killed.
fn short(conn: &Connection) -> Vec<i64> {
    let sql = "SELECT p.step FROM fb_points p JOIN fb_short f ON f.point = p.rowid AND f.step = p.step ORDER BY p.rowid";
    conn.prepare(sql).unwrap().query_map((), |r| r.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Rank 0 of two is killed in the body of step 4; `gave` its values up to there, and rank 1 gives its own of that step
/// before that is known, or behind it.
fn killed_in_step_4(reduce: Option<Reduce>, gave: std::ops::Range<i64>, before: bool) -> Vec<i64> {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 2, reduce);
        gave.for_each(|step| _ = give(tx, r[0], step, 1.0));
        let known = if before { 5 } else { 4 };
        (0..known).for_each(|step| _ = give(tx, r[1], step, 2.0));
        note_cut(tx, r[0], 4)?;
        close_session(tx, r[0])?;
        (known..7).for_each(|step| _ = give(tx, r[1], step, 2.0));
        Ok(short(tx))
    })
    .unwrap()
}

#[test]
fn a_point_that_lacks_the_value_of_a_rank_that_was_killed_in_its_step_is_known() {
    for before in [true, false] {
        for reduce in [None, Some(Reduce::Sum)] {
            assert_eq!(killed_in_step_4(reduce, 0..4, before), [4], "{reduce:?}, {before}");
            assert_eq!(
                killed_in_step_4(reduce, 0..5, before),
                [0; 0],
                "{reduce:?}, {before}: it had given it"
            );
        }
        assert_eq!(killed_in_step_4(None, 0..0, before), [0; 0], "{before}: it gives nothing to that curve");
    }
}

#[test]
fn a_curve_that_begins_in_the_step_in_which_the_lowest_rank_was_killed_lacks_its_value() {
    for before in [true, false] {
        let (_dir, mut c) = scratch();
        let found = c.transaction(|tx| {
            let r = ranks(tx, 2, None);
            if before {
                give(tx, r[1], 4, 2.0);
            }
            note_cut(tx, r[0], 4)?;
            close_session(tx, r[0])?;
            if !before {
                give(tx, r[1], 4, 2.0);
            }
            Ok(short(tx))
        });
        assert_eq!(found.unwrap(), [4], "{before}");
    }
}

#[test]
fn a_point_that_was_reduced_before_the_killed_rank_came_lacks_its_share_all_the_same() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let declare_all = |s: u64| {
            declare(tx, s, &history(0, "energy", Some(Reduce::Sum))).unwrap();
            declare(tx, s, &Declare::Curve { diagram: 0, curve: 0, name: "total".into() }).unwrap();
        };
        let early = open(tx, 1, 2);
        declare_all(early);
        (3..6).for_each(|step| _ = give(tx, early, step, 2.0));
        close_as(tx, early, true)?;
        close_session(tx, early)?;
        assert_eq!((values(tx), short(tx)), (vec![2.0, 2.0, 2.0], Vec::new()));
        let late = open(tx, 0, 2);
        declare_all(late);
        give(tx, late, 3, 1.0);
        note_cut(tx, late, 4)?;
        close_session(tx, late)?;
        assert_eq!((values(tx), short(tx)), (vec![3.0, 2.0, 2.0], vec![4]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_was_said_of_a_point_that_is_gone_is_not_said_of_the_next_one_in_its_row() {
    let (_dir, mut c) = scratch();
    c.transaction(|tx| {
        let r = ranks(tx, 2, Some(Reduce::Sum));
        give(tx, r[1], 4, 2.0);
        note_cut(tx, r[0], 4)?;
        close_session(tx, r[0])?;
        close_session(tx, r[1])?;
        assert_eq!(short(tx), [4]);
        take(tx, "step >= 0")?;
        let r = ranks(tx, 2, Some(Reduce::Sum));
        give(tx, r[0], 4, 1.0);
        give(tx, r[1], 4, 2.0);
        assert_eq!((values(tx), short(tx)), (vec![3.0], Vec::new()));
        Ok(())
    })
    .unwrap();
}
