//! Histories of several ranks when the run goes back and not all of them are there: what a rank has made goes when
//! that rank makes it again, and not because another one was started without it.

use crate::common::{Rank, f64s, shape, wait_for};
use crate::points::{declare, history};
use forebay_store::{Options, Owner, Reader, compact};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, History, Mode, TableInfo};
use forebay_types::record::{Cell, Place, Record};
use forebay_types::watch::{Declare, Reduce};
use std::path::Path;

const BACK: Ask = Ask::Restart { tag: None, strict: false };

/// A rank that has opened the run, its history "hist" and the diagrams "kept" and "sum".
struct Starter {
    rank: Rank,
    table: u32,
}

impl Starter {
    fn open(owner: &Owner, rank: u32, size: u32) -> Starter {
        let mut rank = Rank::open(owner, rank, size, 1 << 20);
        let column = |name: &str| Column { name: name.into(), dtype: "i64".into(), ..Default::default() };
        let columns = ["rank", "step", "start"].map(column).to_vec();
        let made = rank.ask(&Ask::Table { name: "hist".into(), columns, history: true }).unwrap();
        let table = serde_json::from_value::<TableInfo>(made).unwrap().id;
        for (id, title, reduce) in [(0, "kept", None), (1, "sum", Some(Reduce::Sum))] {
            declare(&mut rank, &history(id, title, reduce));
            declare(&mut rank, &Declare::Curve { diagram: id, curve: 0, name: "w".into() });
        }
        Starter { rank, table }
    }

    fn back(&mut self) -> Option<i64> {
        self.rank.ask(&BACK).unwrap()["step"].as_i64()
    }

    /// Goes back, and does nothing there yet.
    fn looks_back(&mut self) {
        let asked = self.rank.publish(&Record::Ask { json: &serde_json::to_string(&BACK).unwrap() });
        assert_eq!(self.rank.answer(asked).unwrap()["step"], 3);
    }

    fn goes_on(&mut self, only: Option<History>) {
        self.rank.ask(&Ask::GoOn { start: 3, only }).unwrap();
    }

    fn point(&mut self, diagram: u32, step: i64, start: i64) {
        let mut w = Writer::new();
        w.u32(0).f64(value(self.rank.rank, step, start));
        self.rank.publish(&Record::Append { diagram, step, t: step as f64, values: &w.finish() });
    }

    fn row(&mut self, step: i64, start: i64) {
        let mut w = Writer::new();
        let cells = [i64::from(self.rank.rank), step, start];
        cells.iter().for_each(|v| Cell::Int(*v).encode(&mut w));
        self.rank.publish(&Record::Insert { table: self.table, step, rows: 1, cells: &w.finish() });
    }

    /// What a body of the loop does: a row, and a point of each history.
    fn body(&mut self, step: i64, start: i64) {
        self.row(step, start);
        (0..2).for_each(|diagram| self.point(diagram, step, start));
    }

    fn keep(&mut self, step: i64) {
        let size = 2;
        let (offset, global) = (shape(&[10 * u64::from(self.rank.rank)]), shape(&[10 * size]));
        self.rank.begin(step);
        let n = self.rank.array(step, "x", &f64s(10, 1), Place::At { offset, global }, usize::MAX);
        self.rank.end(step, n);
    }

    fn close(mut self) {
        self.rank.ask(&Ask::Close { finished: true }).unwrap();
    }
}

fn value(rank: u32, step: i64, start: i64) -> f64 {
    100.0 * f64::from(rank + 1) + step as f64 + 1000.0 * start as f64
}

/// A start of both ranks, with snapshots of steps 0 to 3; the last one goes back there.
fn whole(owner: &Owner) {
    let mut ranks = [0, 1].map(|r| Starter::open(owner, r, 2));
    for step in 0..4 {
        ranks.iter_mut().for_each(|r| r.keep(step));
        ranks.iter_mut().for_each(|r| r.body(step, 0));
    }
    ranks.into_iter().for_each(Starter::close);
}

fn opened(run: &Path) -> Owner {
    let mode = if run.exists() { Mode::ReadWrite } else { Options::default().mode };
    Owner::open(run, Options { mode, ..Options::default() }).unwrap()
}

/// Rows of "hist": rank, step, start.
fn rows(run: &Path) -> Vec<[i64; 3]> {
    let found = Reader::open(run).unwrap().sql("select rank, step, start from hist order by 1, 2, 3", &[]);
    let number = |c: &Cell| if let Cell::Int(v) = c { *v } else { panic!("{c:?}") };
    found.unwrap().rows.iter().map(|r| [0, 1, 2].map(|i| number(&r[i]))).collect()
}

/// Points of a diagram, in the order of their rows: step and value.
fn points(run: &Path, title: &str) -> Vec<(f64, f64)> {
    let sql = "select p.t, p.value from fb_points p join fb_diagrams d on d.id = p.diagram
               where d.title = ? order by p.rowid";
    let found = Reader::open(run).unwrap().sql(sql, &[title.into()]).unwrap();
    let number = |c: &Cell| if let Cell::Real(v) = c { *v } else { panic!("{c:?}") };
    found.rows.iter().map(|r| (number(&r[0]), number(&r[1]))).collect()
}

fn sum(step: i64, starts: [Option<i64>; 2]) -> (f64, f64) {
    let of = |r: u32| starts[r as usize].map_or(0.0, |start| value(r, step, start));
    (step as f64, of(0) + of(1))
}

#[test]
fn a_rank_that_goes_back_without_the_other_one_takes_nothing_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let of = |rank: i64, last: i64| (0..4).map(move |step| [rank, step, if step < 3 { 0 } else { last }]);
    let mut last = [0, 0];
    for (start, rank) in [1, 1, 0, 1, 0, 0, 1].into_iter().enumerate() {
        let start = start as i64 + 1;
        let mut one = Starter::open(&owner, rank, 2);
        assert_eq!(one.back(), Some(3));
        one.row(3, start);
        one.close();
        last[rank as usize] = start;
        assert_eq!(rows(&run), of(0, last[0]).chain(of(1, last[1])).collect::<Vec<_>>(), "start {start}");
    }
    owner.close().unwrap();
}

#[test]
fn a_reduced_point_keeps_the_share_of_a_rank_that_does_not_come_until_it_gives_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let before: Vec<_> = (0..4).map(|step| sum(step, [Some(0), Some(0)])).collect();
    assert_eq!(points(&run, "sum"), before);
    // Points that were there stay as they are, those behind them are of the rank that is there.
    for start in 1..3 {
        let mut one = Starter::open(&owner, 1, 2);
        assert_eq!(one.back(), Some(3));
        (3..6).for_each(|step| one.body(step, start));
        one.close();
        wait_for("the end of the session", || owner.sessions().unwrap().is_empty().then_some(()));
        let behind = (4..6).map(|step| sum(step, [None, Some(1)]));
        assert_eq!(points(&run, "sum"), before.iter().copied().chain(behind).collect::<Vec<_>>());
        assert_eq!(points(&run, "kept")[3], (3.0, value(0, 3, 0)));
    }
    // The other one comes late, and dies in the middle of what it makes again.
    let mut late = Starter::open(&owner, 0, 2);
    assert_eq!(late.back(), Some(3));
    (3..5).for_each(|step| late.body(step, 7));
    late.close();
    wait_for("the end of the session", || owner.sessions().unwrap().is_empty().then_some(()));
    let now = [sum(3, [Some(7), Some(2)]), sum(4, [Some(7), Some(2)]), sum(5, [None, Some(2)])];
    assert_eq!(points(&run, "sum"), before[..3].iter().copied().chain(now).collect::<Vec<_>>());
    let kept = [(3.0, value(0, 3, 7)), (4.0, value(0, 4, 7)), (5.0, value(1, 5, 2))];
    assert_eq!(points(&run, "kept")[3..], kept);
    owner.close().unwrap();
}

#[test]
fn what_ranks_made_that_are_there_no_more_goes_when_all_have_come() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    owner.close().unwrap();
    let owner = opened(&run);
    let mut first = Starter::open(&owner, 0, 3);
    assert_eq!(first.back(), Some(3));
    first.body(3, 1);
    let mut second = Starter::open(&owner, 1, 3);
    assert_eq!(rows(&run).iter().filter(|r| r[1] == 3).collect::<Vec<_>>(), [&[0, 3, 1]]);
    let mut third = Starter::open(&owner, 2, 3);
    for one in [&mut second, &mut third] {
        assert_eq!(one.back(), Some(3));
        one.body(3, 1);
    }
    [first, second, third].into_iter().for_each(Starter::close);
    let found = rows(&run);
    assert_eq!(found[found.len() - 1], [2, 3, 1]);
    assert_eq!(found.iter().filter(|r| r[1] == 3).count(), 3);
    owner.close().unwrap();
    // One rank alone is all there are.
    let owner = opened(&run);
    let mut alone = Starter::open(&owner, 0, 1);
    assert_eq!(alone.back(), Some(3));
    assert_eq!(rows(&run).len(), 6);
    assert_eq!(points(&run, "sum").len(), 3);
    alone.close();
    owner.close().unwrap();
}

#[test]
fn one_rank_goes_back_for_all_that_have_come() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let mut ranks = [0, 1].map(|r| Starter::open(&owner, r, 2));
    assert_eq!(ranks[0].back(), Some(3));
    assert_eq!((rows(&run).len(), points(&run, "sum").len(), points(&run, "kept").len()), (6, 3, 3));
    // The other one hears of it, and asks for nothing.
    ranks.iter_mut().rev().for_each(|r| r.body(3, 1));
    ranks.into_iter().for_each(Starter::close);
    assert_eq!(points(&run, "sum")[3], sum(3, [Some(1), Some(1)]));
    assert_eq!(rows(&run).iter().filter(|r| r[1] == 3).count(), 2);
    owner.close().unwrap();
}

#[test]
fn a_rank_that_comes_back_into_a_life_that_goes_on_makes_its_rows_again_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let mut ranks = [0, 1].map(|r| Starter::open(&owner, r, 2));
    ranks.iter_mut().for_each(|r| assert_eq!(r.back(), Some(3)));
    for step in 3..6 {
        if step > 3 {
            ranks.iter_mut().for_each(|r| r.keep(step));
        }
        ranks.iter_mut().for_each(|r| r.body(step, 1));
    }
    for r in &mut ranks {
        r.rank.ask(&Ask::Flush).unwrap();
    }
    let [mut stays, dies] = ranks;
    let session = dies.rank.session;
    drop(dies);
    owner.hung_up(session).unwrap();
    let gone = || (!owner.sessions().unwrap().iter().any(|s| s.0 == session)).then_some(());
    wait_for("the end of the session", gone);
    let mut again = Starter::open(&owner, 1, 2);
    assert_eq!(again.back(), Some(5));
    again.body(5, 2);
    stays.body(6, 1);
    again.body(6, 2);
    [stays, again].into_iter().for_each(Starter::close);
    let behind: Vec<_> = rows(&run).into_iter().filter(|r| r[1] >= 5).collect();
    assert_eq!(behind, [[0, 5, 1], [0, 6, 1], [1, 5, 2], [1, 6, 2]]);
    assert_eq!(points(&run, "sum")[5..], [sum(5, [Some(1), Some(1)]), sum(6, [Some(1), Some(2)])]);
    owner.close().unwrap();
}

#[test]
fn ranks_that_add_to_a_history_before_their_first_heads_make_that_one_again_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let mut ranks = [0, 1].map(|r| Starter::open(&owner, r, 2));
    let last = |run: &Path| rows(run).into_iter().filter(|r| r[1] == 3).collect::<Vec<_>>();
    let (was, old) = ([[0, 3, 0], [1, 3, 0]], [sum(3, [Some(0), Some(0)]), (3.0, value(0, 3, 0))]);
    let points = |run: &Path| [points(run, "sum")[3], points(run, "kept")[3]];
    for start in 1..3 {
        ranks.iter_mut().for_each(Starter::looks_back);
        assert_eq!(
            (last(&run), points(&run)),
            (if start == 1 { was } else { [[0, 3, 1], [1, 3, 1]] }.to_vec(), old)
        );
        let table = Some(History::Table(ranks[0].table));
        for r in &mut ranks {
            r.goes_on(table);
            r.row(3, start);
        }
        ranks.iter_mut().for_each(|r| r.rank.ask(&Ask::Flush).map(drop).unwrap());
        assert_eq!((last(&run), points(&run)), (vec![[0, 3, start], [1, 3, start]], old));
    }
    // One of them comes to its head, the other one is late, and has added to a diagram before.
    let [a, b] = &mut ranks;
    b.goes_on(Some(History::Diagram(0)));
    b.point(0, 3, 2);
    a.goes_on(None);
    (0..2).for_each(|diagram| a.point(diagram, 3, 2));
    b.goes_on(None);
    b.point(1, 3, 2);
    ranks.into_iter().for_each(Starter::close);
    assert_eq!(last(&run), [[0, 3, 2], [1, 3, 2]]);
    assert_eq!(points(&run), [sum(3, [Some(2), Some(2)]), (3.0, value(0, 3, 2))]);
    owner.close().unwrap();
}

#[test]
fn a_point_that_is_made_again_before_all_ranks_have_come_stands_until_then_and_others_stay() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let (before, kept) = (sum(3, [Some(0), Some(0)]), (3.0, value(0, 3, 0)));
    let found =
        |run: &Path| (points(run, "sum").split_off(3), points(run, "kept").split_off(3), rows(run).len());
    let adds = |mut one: Starter| {
        one.looks_back();
        one.goes_on(Some(History::Diagram(1)));
        one.point(1, 3, 1);
        one.rank.ask(&Ask::Flush).unwrap();
        one
    };
    let early = adds(Starter::open(&owner, 0, 2));
    assert_eq!(found(&run), (vec![before], vec![kept], 8));
    let late = adds(Starter::open(&owner, 1, 2));
    assert_eq!(found(&run), (vec![sum(3, [Some(1), Some(1)])], vec![kept], 8));
    [early, late].into_iter().for_each(Starter::close);
    assert_eq!(found(&run), (vec![sum(3, [Some(1), Some(1)])], vec![kept], 8));
    owner.close().unwrap();
}

#[test]
fn a_rank_that_comes_to_another_owner_when_the_others_have_finished_takes_nothing_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    owner.close().unwrap();
    // Each of them is all that the owner sees.
    for rank in [0, 1] {
        let owner = opened(&run);
        let mut one = Starter::open(&owner, rank, 2);
        assert_eq!(one.back(), Some(3));
        (3..5).for_each(|step| one.body(step, 1));
        one.close();
        owner.close().unwrap();
    }
    let last: Vec<_> = rows(&run).into_iter().filter(|r| r[1] >= 3).collect();
    assert_eq!(last, [[0, 3, 1], [0, 4, 1], [1, 3, 1], [1, 4, 1]]);
    let both = |step| sum(step, [Some(1), Some(1)]);
    assert_eq!(points(&run, "sum")[3..], [both(3), both(4)]);
}

#[test]
fn rows_of_a_start_that_was_refused_go_also_when_the_run_was_made_compact_since() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r.fb");
    let owner = opened(&run);
    whole(&owner);
    let mut one = Starter::open(&owner, 0, 2);
    one.rank.ask(&Ask::Remove { table: "hist".into(), condition: "step = 0".into(), args: vec![] }).unwrap();
    one.close();
    // It goes back to nothing: what it makes is a second time what there was.
    let mut refused = Starter::open(&owner, 1, 2);
    (0..2).for_each(|step| refused.row(step, 9));
    drop(refused);
    owner.close().unwrap();
    let owner = opened(&run);
    let mut refused = Starter::open(&owner, 0, 2);
    refused.row(1, 9);
    drop(refused);
    owner.close().unwrap();
    compact(&run).unwrap();
    let owner = opened(&run);
    let mut ranks = [0, 1].map(|r| Starter::open(&owner, r, 2));
    ranks.iter_mut().for_each(|r| assert_eq!(r.back(), Some(3)));
    ranks.into_iter().for_each(Starter::close);
    assert_eq!(rows(&run), [[0, 1, 0], [0, 2, 0], [1, 1, 0], [1, 2, 0]]);
    owner.close().unwrap();
}
