//! The whole way in one process: the owner embedded, data on disk, read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::support::{check, field, sandbox, take};
use forebay::{
    ArrayOptions, Cell, Code, Column, DiagramOptions, Kind, Level, Mode, OpenOptions, ParameterOptions,
    PutOptions, Selection, Shape, TableOptions, Target, View,
};
use serde_json::{Map, Value, json};

fn small() -> OpenOptions {
    OpenOptions { buffer: 16 << 20, ..Default::default() }
}

fn columns() -> Vec<Column> {
    [("t", "f64", "s"), ("energy", "f64", "J"), ("note", "str", "")]
        .map(|(name, dtype, units)| Column {
            name: name.into(),
            dtype: dtype.into(),
            units: units.into(),
            ..Default::default()
        })
        .into()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn a_rank_reads_what_it_wrote_while_others_write() {
    sandbox("a_rank_reads_what_it_wrote_while_others_write", |s| {
        let run = forebay::open(&s.run("own"), Mode::Write, small()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let run = run.clone();
                scope.spawn(move || {
                    let name = format!("counter/{thread}");
                    for n in 0..300i64 {
                        let put = |v| run.put(&name, View::of(&[v], &[1]).unwrap(), PutOptions::default());
                        put(-1).unwrap();
                        put(n).unwrap();
                        assert_eq!(run.get(&name, 0, None).unwrap().to_i64().unwrap(), [n]);
                        if n % 50 == 0 {
                            assert_eq!(run.delete(&name, None).unwrap(), 1);
                            assert_eq!(run.get(&name, 0, None).unwrap_err().code(), Code::NotFound);
                        }
                    }
                });
            }
        });
        run.close().unwrap();
    });
}

#[test]
fn data_sets_are_put_found_changed_and_read_back() {
    sandbox("data_sets_are_put_found_changed_and_read_back", |s| {
        let run = forebay::open(&s.run("data"), Mode::Append, small()).unwrap();
        let (few, many) = (field(1, 12), field(2, 300_000));
        let attrs = object(json!({"long_name": "electric field", "grid": [3, 4]}));
        let options = PutOptions { set: 0, units: "V/m", attrs: Some(&attrs) };
        run.put("E", View::of(&few, &[3, 4]).unwrap(), options).unwrap();
        run.put("x", View::of(&many, &[300_000]).unwrap(), PutOptions { set: 2, ..Default::default() })
            .unwrap();
        run.put("title", View::text("two streams"), PutOptions::default()).unwrap();
        assert_eq!(run.get("E", 0, None).unwrap().to_f64().unwrap(), few);
        assert_eq!(run.get("x", 2, None).unwrap().to_f64().unwrap(), many);
        assert_eq!(run.get("title", 0, None).unwrap().to_text().unwrap(), "two streams");
        let e = run.dataset("E", 0).unwrap();
        assert_eq!((e.units.as_str(), e.version, e.nbytes), ("V/m", 1, 96));
        assert_eq!(e.attrs["long_name"], "electric field");
        let row = Selection::parse("1,::2", &e.meta.shape).unwrap();
        assert_eq!(run.get("E", 0, Some(&row)).unwrap().to_f64().unwrap(), [few[4], few[6]]);

        assert_eq!(
            run.put_if_version("E", View::of(&few, &[12]).unwrap(), PutOptions::default(), 1).unwrap(),
            2
        );
        let late = run.put_if_version("E", View::of(&few, &[12]).unwrap(), PutOptions::default(), 1);
        assert_eq!(late.unwrap_err().code(), Code::Conflict);
        assert_eq!(run.dataset("E", 0).unwrap().meta.shape, Shape::new(&[12]).unwrap());

        let target = Target::DataSet { name: "E".into(), set: 0 };
        run.set_attrs(&target, object(json!({"grid": null, "dt": 0.1}))).unwrap();
        let now = run.attrs(&target).unwrap();
        assert!(now.get("grid").is_none() && now["dt"] == 0.1, "{now:?}");
        run.set_attrs(&Target::Run, object(json!({"code": "ES1"}))).unwrap();
        assert_eq!(run.attrs(&Target::Run).unwrap()["code"], "ES1");

        assert_eq!(run.copy("E", "old/E").unwrap(), 1);
        assert_eq!(run.rename("x", "electrons/x").unwrap(), 1);
        let names: Vec<_> = run.list("*", None).unwrap().into_iter().map(|d| d.name).collect();
        assert_eq!(names, ["E", "electrons/x", "old/E", "title"]);
        assert_eq!(run.delete("old/*", None).unwrap(), 1);
        assert_eq!(run.get("old/E", 0, None).unwrap_err().code(), Code::NotFound);
        run.flush().unwrap();
        run.close().unwrap();
        run.close().unwrap();
        assert_eq!(run.list("*", None).unwrap_err().code(), Code::Closed);

        let read = forebay::open(&s.run("data"), Mode::Read, OpenOptions::default()).unwrap();
        assert_eq!(read.get("electrons/x", 2, None).unwrap().to_f64().unwrap(), many);
        let no = read.put("E", View::text("no"), PutOptions::default()).unwrap_err();
        assert_eq!(no.code(), Code::ReadOnly);
    });
}

#[test]
fn tables_take_rows_and_answer_questions() {
    sandbox("tables_take_rows_and_answer_questions", |s| {
        let run = forebay::open(&s.run("tables"), Mode::Create, small()).unwrap();
        let t = run.table("history", TableOptions { columns: columns(), history: false }).unwrap();
        let rows: Vec<_> = (0..1000)
            .map(|i| vec![Cell::Real(i as f64 * 0.1), Cell::Real(i as f64), Cell::Text(format!("row {i}"))])
            .collect();
        t.insert(&rows).unwrap();
        assert_eq!(t.len().unwrap(), 1000);
        assert!(t.insert(&[vec![Cell::Null]]).unwrap_err().text().contains("3 columns"));
        let some = t.select(&["note", "t"], "energy >= ?", &[json!(998.0)]).unwrap();
        assert_eq!(some.columns, ["note", "t"]);
        assert_eq!(some.rows[1][0], Cell::Text("row 999".into()));
        assert_eq!(
            t.update(vec![("note".into(), Cell::Text("late".into()))], "energy > ?", &[json!(990)]).unwrap(),
            9
        );
        assert_eq!(t.delete("note = ?", &[json!("late")]).unwrap(), 9);
        let max = run.sql("select max(energy) as e from history", &[]).unwrap();
        assert_eq!((max.columns[0].as_str(), &max.rows[0][0]), ("e", &Cell::Real(990.0)));
        assert!(run.sql("delete from history", &[]).is_err());
        assert_eq!(run.tables().unwrap(), ["history"]);
        assert_eq!(t.columns()[1].units, "J");
        run.close().unwrap();
    });
}

#[test]
fn snapshots_appear_whole_and_a_run_goes_on_where_it_stopped() {
    sandbox("snapshots_appear_whole_and_a_run_goes_on_where_it_stopped", |s| {
        let history = || TableOptions { columns: columns(), history: true };
        let row = |step: i64| vec![Cell::Real(step as f64), Cell::Null, Cell::Null];
        {
            let run = forebay::open(&s.run("go_on"), Mode::Append, small()).unwrap();
            assert!(run.restart().unwrap().is_none());
            let e0 = run.parameter("e0", json!(0.5), ParameterOptions::default()).unwrap();
            let t = run.table("history", history()).unwrap();
            let mut steps = run.steps(10, 0).unwrap();
            while let Some(step) = steps.next().unwrap() {
                if step % 3 == 0 {
                    take(&run, step, 100_000).unwrap();
                }
                t.insert(&[row(step)]).unwrap();
                if step == 7 {
                    break; // interrupted: steps 0, 3 and 6 are there, rows up to 7
                }
            }
            assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [0, 3, 6]);
            assert_eq!(run.snapshot(3, None).err().unwrap().code(), Code::Conflict);
            let open = run.snapshot(8, None).unwrap();
            open.put("half", View::text("no"), ArrayOptions::default()).unwrap();
            open.discard().unwrap();
            assert_eq!(e0.number(), 0.5);
            run.close().unwrap();
        }
        let run = forebay::open(&s.run("go_on"), Mode::Append, small()).unwrap();
        assert_eq!(run.snapshot(6, None).err().unwrap().code(), Code::Conflict);
        let back = run.restart().unwrap().unwrap();
        assert_eq!((back.snapshot.step(), back.finished), (6, false));
        let t = run.table("history", history()).unwrap();
        let before: Vec<f64> = t
            .select(&["t"], "", &[])
            .unwrap()
            .rows
            .iter()
            .map(|r| if let Cell::Real(v) = r[0] { v } else { f64::NAN })
            .collect();
        let to_6 = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(before, to_6, "the row of step 6 goes when the loop makes it again");
        for step in [0, 3, 6] {
            check(&run, step, 100_000);
        }
        let shape = Shape::new(&[100_000]).unwrap();
        let part = Selection::parse("10:20", &shape).unwrap();
        let kept = run.last_snapshot().unwrap().unwrap();
        assert_eq!(kept.get("electrons/x", Some(&part)).unwrap().to_f64().unwrap(), field(6, 20)[10..]);
        let mut steps = run.steps(10, &back).unwrap();
        while let Some(step) = steps.next().unwrap() {
            t.insert(&[row(step)]).unwrap();
        }
        assert_eq!(t.len().unwrap(), 10);
        run.close().unwrap();
        let run = forebay::open(&s.run("go_on"), Mode::Append, small()).unwrap();
        assert!(run.restart().unwrap().unwrap().finished, "its loop came to the end");
    });
}

#[test]
fn a_step_larger_than_all_buffers_is_kept_whole() {
    sandbox("a_step_larger_than_all_buffers_is_kept_whole", |s| {
        let options = OpenOptions { buffer: 4 << 20, ..Default::default() };
        let run = forebay::open(&s.run("large"), Mode::Write, options).unwrap();
        let n = 6 << 20; // 48 MiB in a buffer of 4
        for step in 0..2 {
            take(&run, step, n).unwrap().wait(None).unwrap();
        }
        check(&run, 0, n);
        check(&run, 1, n);
        let stats = run.stats().unwrap();
        assert_eq!(stats["steps"], 2);
        run.close().unwrap();
    });
}

#[test]
fn arrays_filled_in_place_are_kept() {
    sandbox("arrays_filled_in_place_are_kept", |s| {
        let run = forebay::open(&s.run("place"), Mode::Append, small()).unwrap();
        let values = field(4, 50_000);
        let snapshot = run.snapshot(4, None).unwrap();
        let view = View::of(&values, &[50_000]).unwrap();
        let place = snapshot.allocate("rho", *view.meta(), ArrayOptions::default()).unwrap();
        place.write_at(0, &view.bytes()).unwrap();
        snapshot.end().unwrap();
        let kept = run.snapshots().unwrap().nth(-1).unwrap();
        assert_eq!(kept.get("rho", None).unwrap().to_f64().unwrap(), values);
        assert_eq!(kept.time(), None);
        assert_eq!(run.snapshots().unwrap().at(5).err().unwrap().code(), Code::NotFound);
        run.close().unwrap();
    });
}

#[test]
fn what_is_watched_is_declared_and_recorded() {
    sandbox("what_is_watched_is_declared_and_recorded", |s| {
        let run = forebay::open(&s.run("watched"), Mode::Append, small()).unwrap();
        let d = run.diagram("energies", Kind::History, DiagramOptions::default()).unwrap();
        let c = run.diagram("E(x)", Kind::Curve, DiagramOptions::default()).unwrap();
        let saved = Arc::new(AtomicI64::new(-1));
        let seen = saved.clone();
        run.saves(move |step| {
            seen.store(step, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        run.command("reset", |_| Ok(())).unwrap();
        run.message("CFL 0.93", Level::Warning).unwrap();
        let twice = run
            .parameter("e0", json!(1), ParameterOptions::default())
            .and_then(|_| run.parameter("e0", json!(2), ParameterOptions::default()));
        assert_eq!(twice.err().unwrap().code(), Code::Conflict);
        let mut steps = run.steps(5, 0).unwrap();
        while let Some(step) = steps.next().unwrap() {
            d.append(step as f64, &[("field", 1.0), ("kinetic", 2.0)]).unwrap();
            c.update("", &[0.0, 1.0], &[2.0, 3.0]).unwrap();
        }
        assert!(run.diagram("T", Kind::Heatmap, DiagramOptions::default()).is_err());
        run.close().unwrap();
        let reader = forebay_store::Reader::open(run.path()).unwrap();
        assert_eq!(reader.diagrams().unwrap().len(), 2);
        assert_eq!(reader.points(0, 1).unwrap(), (0..5).map(|i| (f64::from(i), 2.0)).collect::<Vec<_>>());
        assert!(reader.messages(5).unwrap().iter().any(|m| m.2 == "CFL 0.93"));
    });
}

#[test]
fn modes_mean_what_they_mean_in_h5py() {
    sandbox("modes_mean_what_they_mean_in_h5py", |s| {
        let open = |mode| forebay::open(&s.run("modes"), mode, small());
        for mode in [Mode::Read, Mode::ReadWrite] {
            assert_eq!(open(mode).err().unwrap().code(), Code::NotFound);
        }
        open(Mode::Create).unwrap().put("a", View::text("1"), PutOptions::default()).unwrap();
        assert_eq!(open(Mode::Create).err().unwrap().code(), Code::Conflict);
        assert_eq!(open(Mode::ReadWrite).unwrap().get("a", 0, None).unwrap().to_text().unwrap(), "1");
        assert_eq!(open(Mode::Write).unwrap().get("a", 0, None).unwrap_err().code(), Code::NotFound);
        let scratch = OpenOptions { scratch: true, ..small() };
        let run = forebay::open(&s.run("gone"), Mode::Append, scratch).unwrap();
        run.put("a", View::text("1"), PutOptions::default()).unwrap();
        run.close().unwrap();
        assert!(!run.path().exists());
        assert!(forebay::open("fb://host:7/two_stream", Mode::Append, small()).is_err());
    });
}

#[test]
fn a_second_writer_is_refused_by_name_and_two_runs_go_side_by_side() {
    sandbox("a_second_writer_is_refused_by_name_and_two_runs_go_side_by_side", |s| {
        let name = if s.role.is_empty() { "one" } else { "two" };
        let mine = forebay::open(&s.run(name), Mode::Append, small()).unwrap();
        take(&mine, 0, 1000).unwrap();
        if s.role.is_empty() {
            let mut other = s.start("other");
            s.hear("tried");
            take(&mine, 1, 1000).unwrap();
            assert!(other.wait().success());
        } else {
            let e = forebay::open(&s.run("one"), Mode::Append, small()).err().unwrap();
            assert_eq!(e.code(), Code::Conflict);
            assert!(e.text().contains(&std::os::unix::process::parent_id().to_string()), "{e}");
            let read = forebay::open(&s.run("one"), Mode::Read, small()).unwrap();
            crate::support::until("the first run's step", || !read.snapshots().unwrap().is_empty());
            check(&read, 0, 1000);
            s.tell("tried");
        }
        take(&mine, 2, 1000).unwrap();
        check(&mine, 2, 1000);
        mine.close().unwrap();
    });
}
