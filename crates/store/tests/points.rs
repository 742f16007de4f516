//! Histories of a run of several ranks: each point once, whoever gives it and when, deaths of owners included,
//! and in runs that earlier builds wrote.

use crate::common::{Rank, copy, wait_for};
use forebay_store::{Options, Owner, Reader, Sink, recover};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Mode, word};
use forebay_types::record::Record;
use forebay_types::watch::{Declare, Diagram, Kind, Reduce};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub fn history(id: u32, title: &str, reduce: Option<Reduce>) -> Declare {
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

pub fn declare(rank: &mut Rank, what: &Declare) {
    rank.publish(&Record::Declare { json: &serde_json::to_string(what).unwrap() });
}

/// The histories "kept" and "sum", with a curve each. Ranks number them as they like.
fn prepare(rank: &mut Rank) {
    let first = rank.rank % 2;
    declare(rank, &history(first, "kept", None));
    declare(rank, &history(1 - first, "sum", Some(Reduce::Sum)));
    for diagram in 0..2 {
        declare(rank, &Declare::Curve { diagram, curve: 0, name: "w".into() });
    }
}

fn value(rank: u32, step: i64) -> f64 {
    0.1 * f64::from(rank + 1) + step as f64 / 3.0
}

fn give(rank: &mut Rank, step: i64) {
    let t = step as f64 / 8.0;
    let first = rank.rank % 2;
    let mut w = Writer::new();
    w.u32(0).f64(value(rank.rank, step));
    let values = w.finish();
    rank.publish(&Record::Append { diagram: first, step, t, values: &values });
    rank.publish(&Record::Append { diagram: 1 - first, step, t, values: &values });
}

/// The curve of a history, by its title.
fn read(run: &Path, title: &str) -> Vec<(f64, f64)> {
    let reader = Reader::open(run).unwrap();
    let sql = "select p.t, p.value from fb_points p join fb_diagrams d on d.id = p.diagram where d.title = ? order by p.rowid";
    let rows = reader.sql(sql, &[title.into()]).unwrap().rows;
    let number = |c: &forebay_types::record::Cell| match c {
        forebay_types::record::Cell::Real(v) => *v,
        other => panic!("{other:?}"),
    };
    rows.iter().map(|r| (number(&r[0]), number(&r[1]))).collect()
}

fn is_whole(run: &Path, ranks: u32, steps: i64) {
    let sum = |step| (1..ranks).fold(value(0, step), |all, r| all + value(r, step));
    for (title, expected) in [("kept", &(|s| value(0, s)) as &dyn Fn(i64) -> f64), ("sum", &sum)] {
        let mut found = read(run, title);
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let expected: Vec<_> = (0..steps).map(|s| (s as f64 / 8.0, expected(s))).collect();
        assert!(found == expected, "{title} of {ranks} ranks: {found:?} and not {expected:?}");
    }
}

#[test]
fn a_point_that_two_or_four_ranks_append_is_one_point() {
    for size in [2, 4] {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("r.fb");
        let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
        let mut ranks: Vec<Rank> = (0..size).map(|r| Rank::open(&owner, r, size, 1 << 20)).collect();
        ranks.iter_mut().for_each(prepare);
        // Some are ahead: the last one by four steps.
        for step in 0..20 + i64::from(size) {
            for rank in ranks.iter_mut().rev() {
                let own = step - i64::from(size - 1 - rank.rank);
                if (0..20).contains(&own) {
                    give(rank, own);
                }
            }
        }
        for rank in &mut ranks {
            rank.ask(&Ask::Flush).unwrap();
        }
        is_whole(&run, size, 20);
        ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Close { finished: true }).unwrap()));
        owner.close().unwrap();
        is_whole(&run, size, 20);
    }
}

#[test]
fn an_owner_that_dies_between_the_points_of_the_ranks_costs_none_and_doubles_none() {
    for dies in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("r.fb");
        let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
        let mut ranks: Vec<Rank> = (0..3).map(|r| Rank::open(&owner, r, 3, 1 << 20)).collect();
        ranks.iter_mut().for_each(prepare);
        for step in 0..9 {
            for rank in &mut ranks {
                if step == 4 && rank.rank == dies % 3 {
                    if dies >= 3 {
                        rank.settle();
                    }
                    // What is published from here on is read by nobody before the successor comes.
                    owner.abandon().unwrap();
                }
                give(rank, step);
            }
        }
        owner.close().unwrap_err();
        drop((owner, ranks));
        recover(&run).unwrap();
        is_whole(&run, 3, 9);
        assert_eq!(recover(&run).unwrap(), None);
        is_whole(&run, 3, 9);
    }
}

#[test]
fn what_a_rank_that_left_did_not_give_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let heard = Arc::new(Heard::default());
    let mut a = Rank::open_heard(&owner, 0, 2, 1 << 20, heard.clone());
    let mut b = Rank::open_heard(&owner, 1, 2, 1 << 20, heard.clone());
    prepare(&mut a);
    prepare(&mut b);
    give(&mut a, 0);
    give(&mut a, 1);
    give(&mut b, 0);
    b.ask(&Ask::Flush).unwrap();
    a.ask(&Ask::Flush).unwrap();
    assert_eq!(read(&run, "sum").len(), 1);
    let session = b.session;
    drop(b);
    owner.hung_up(session).unwrap();
    wait_for("the point of the rank that is left", || (read(&run, "sum").len() == 2).then_some(()));
    assert_eq!(read(&run, "sum")[1].1, value(0, 1));
    a.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    let told = heard.0.lock().unwrap().clone();
    let mut rows: Vec<i64> = told.iter().filter(|t| !t.1).map(|t| t.0).collect();
    rows.sort_unstable();
    assert_eq!(rows, [1, 2, 3, 4], "each point is told once");
}

/// Rows that were told, and whether they were changed.
#[derive(Default)]
struct Heard(Mutex<Vec<(i64, bool)>>);

impl Sink for Heard {
    fn append(&self, _: u64, _: u32, row: i64, _: i64, _: f64, values: &[(u32, f64)]) {
        assert_eq!(values.len(), 1);
        self.0.lock().unwrap().push((row, false));
    }
    fn amend(&self, _: u64, _: u32, _: u32, row: i64, _: f64, _: f64) {
        self.0.lock().unwrap().push((row, true));
    }
}

#[test]
fn a_run_of_format_1_keeps_its_points_and_takes_those_of_several_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1-stopped"), &run);
    let before = read(&run, "energy");
    assert_eq!(before, [(0.0, 0.0)]);
    recover(&run).unwrap();
    let owner = Owner::open(&run, Options { mode: Mode::ReadWrite, ..Options::default() }).unwrap();
    let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
    ranks.iter_mut().for_each(prepare);
    for step in 0..5 {
        ranks.iter_mut().rev().for_each(|r| give(r, step));
    }
    ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Close { finished: true }).unwrap()));
    owner.close().unwrap();
    assert_eq!(read(&run, "energy"), before);
    is_whole(&run, 2, 5);
}

/// How many ranks are noted as killed whenever a point is told of.
#[derive(Default)]
struct Cuts(Mutex<Option<Reader>>, Mutex<Vec<i64>>);

impl Sink for Cuts {
    fn append(&self, _: u64, _: u32, _: i64, _: i64, _: f64, _: &[(u32, f64)]) {
        let reader = self.0.lock().unwrap();
        let found = reader.as_ref().unwrap().sql("select count(*) from fb_cut", &[]).unwrap().rows;
        let forebay_types::record::Cell::Int(n) = found[0][0] else { panic!("{found:?}") };
        self.1.lock().unwrap().push(n);
    }
}

#[test]
fn the_transaction_that_ends_a_killed_ranks_session_says_in_which_body_that_was() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let heard = Arc::new(Cuts::default());
    let mut a = Rank::open(&owner, 0, 2, 1 << 20);
    let mut b = Rank::open_heard(&owner, 1, 2, 1 << 20, heard.clone());
    *heard.0.lock().unwrap() = Some(Reader::open(&run).unwrap());
    [&mut a, &mut b].into_iter().for_each(prepare);
    b.segment.word(word::STEP).store(5, Ordering::SeqCst);
    b.ask(&Ask::Flush).unwrap();
    give(&mut a, 4);
    a.ask(&Ask::Flush).unwrap();
    // What is told when the session of that rank is over is the sum that waited for it: an owner killed here leaves
    // what a reader sees now.
    owner.hung_up(b.session).unwrap();
    wait_for("the sum", || (!heard.1.lock().unwrap().is_empty()).then_some(()));
    assert_eq!(*heard.1.lock().unwrap(), [1]);
    a.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
}
