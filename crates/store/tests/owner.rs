//! The owner and a rank in one process: what is put can be read, what is refused is told.

use crate::common::{Rank, f64s, shape, wait_for};
use forebay_store::{Options, Owner, Reader};
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Column, Mode, TableInfo, word};
use forebay_types::record::{Cell, Place, Record};
use forebay_types::{Code, Selection};
use std::process::Command;
use std::sync::atomic::Ordering;

fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("two_stream.fb");
    (dir, run)
}

fn all() -> Selection {
    Selection::default()
}

#[test]
fn what_a_rank_puts_is_read_back_by_another_connection() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 64 << 20);
    let (small, large) = (f64s(100, 1), f64s(1_000_000, 2));
    rank.put("input/a", &small, None);
    rank.put("grid", &large, None);
    rank.put("grid", &large, None);
    rank.settle();
    let reader = Reader::open(&run).unwrap();
    assert_eq!(reader.get("input/a", 0, &all()).unwrap().bytes, small);
    assert!(reader.get("grid", 0, &all()).unwrap().bytes == large);
    let grid = reader.locate("grid", 0).unwrap().map().unwrap();
    let mut two = [0; 16];
    grid.read_at(grid.len() - 16, &mut two).unwrap();
    assert_eq!(two, large[large.len() - 16..]);
    assert_eq!(grid.read_at(grid.len() - 8, &mut two).unwrap_err().code(), Code::BadArgument);
    assert_eq!(reader.info("grid", 0).unwrap().version, 2);
    assert_eq!(std::fs::read_dir(run.join("data")).unwrap().count(), 1, "the first version's file is gone");
    let part = Selection::parse("10:20:3", &shape(&[1_000_000])).unwrap();
    assert_eq!(reader.get("grid", 0, &part).unwrap().meta.shape.extents(), [4]);
    assert_eq!(reader.get("nix", 0, &all()).unwrap_err().code(), Code::NotFound);
    owner.close().unwrap();
    assert!(rank.is_unlinked());
}

#[test]
fn a_conditional_put_tells_its_version_or_the_conflict() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    let first = rank.put("a", &f64s(3, 0), Some(0));
    assert_eq!(rank.ask(&Ask::Version { seq: first }).unwrap(), 1);
    let second = rank.put("a", &f64s(3, 0), Some(0));
    assert_eq!(rank.ask(&Ask::Version { seq: second }).unwrap_err().code(), Code::Conflict);
    owner.close().unwrap();
}

#[test]
fn a_step_is_a_file_that_h5dump_and_sqlite3_open() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 64 << 20);
    let big = f64s(2_000_000, 3);
    for step in [0, 20, 40] {
        rank.begin(step);
        let mut n = rank.array(step, "electrons/beam1/x", &big, Place::Whole, 3_000_001 / 8 * 8);
        n += rank.array(step, "E", &f64s(64, step as u64), Place::Whole, usize::MAX);
        rank.end(step, n);
    }
    rank.ask(&Ask::WaitStep { step: 40 }).unwrap();
    let reader = Reader::open(&run).unwrap();
    let numbers: Vec<_> = reader.steps().unwrap().iter().map(|s| s.step).collect();
    assert_eq!(numbers, [0, 20, 40]);
    assert!(reader.step_get(20, "electrons/beam1/x", &all()).unwrap().bytes == big);
    assert_eq!(reader.step_get(20, "E", &all()).unwrap().bytes, f64s(64, 20));
    assert!(reader.step_get(21, "E", &all()).unwrap_err().text().contains("the nearest: 20 and 40"));
    rank.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    assert!(reader.finished().unwrap());
    let dump = Command::new("h5dump").args(["-A"]).arg(run.join("steps/0000000020.h5")).output();
    match dump {
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(
                out.status.success() && text.contains("beam1") && text.contains("H5T_IEEE_F64LE"),
                "{text}"
            );
        }
        Err(e) => eprintln!("h5dump is not installed, so its part is left out: {e}"),
    }
    let sql =
        Command::new("sqlite3").arg(run.join("catalog.sqlite")).arg("select count(*) from fb_steps").output();
    match sql {
        Ok(out) => assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "3"),
        Err(e) => eprintln!("sqlite3 is not installed, so its part is left out: {e}"),
    }
}

#[test]
fn a_step_may_be_larger_than_all_buffers() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { overflow: 0, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 8 << 20);
    assert!(rank.ask(&Ask::Overflow { bytes: 1 << 20, spill: false, known: 0 }).unwrap().is_null());
    let big = f64s(5_000_000, 4);
    rank.begin(7);
    rank.publish(&Record::StepEarly { step: 7 });
    let n = rank.array(7, "x", &big, Place::Whole, 3 << 20);
    rank.end(7, n);
    rank.ask(&Ask::WaitStep { step: 7 }).unwrap();
    let back = Reader::open(&run).unwrap().step_get(7, "x", &all()).unwrap();
    assert!(back.bytes == big);
    owner.close().unwrap();
}

#[test]
fn what_does_not_fit_the_arena_goes_to_the_stores_own_buffer() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { overflow: 32 << 20, ..Options::default() }).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    let path = rank.ask(&Ask::Overflow { bytes: 8_000_000, spill: false, known: 0 }).unwrap();
    let path = std::path::PathBuf::from(path.as_str().unwrap());
    let segment = forebay_arena::Segment::open(&path).unwrap();
    let mut room = segment.allocator();
    let bytes = f64s(1_000_000, 9);
    let block = room.alloc(bytes.len() as u64).unwrap();
    block.write_from(0, &bytes);
    let payload = forebay_types::record::Payload::Block(forebay_types::record::HeldBlock {
        segment: 1,
        index: block.index(),
        generation: block.generation(),
        bytes: bytes.len() as u64,
    });
    let meta = forebay_types::ArrayMeta::new(forebay_types::DType::F64, shape(&[1_000_000]));
    rank.publish(&Record::Put { name: "big", set: 0, meta, units: "", attrs: "", if_version: None, payload });
    rank.settle();
    assert!(Reader::open(&run).unwrap().get("big", 0, &all()).unwrap().bytes == bytes);
    assert_eq!(room.reap(), 1);
    owner.close().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_step_of_two_ranks_is_listed_when_both_have_ended_it() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut a = Rank::open(&owner, 0, 2, 16 << 20);
    let mut b = Rank::open(&owner, 1, 2, 16 << 20);
    let (x, y) = (f64s(300_000, 1), f64s(200_000, 2));
    let at = |from: u64| Place::At { offset: shape(&[from]), global: shape(&[500_000]) };
    let first = |r: &mut Rank, place, bytes: &[u8]| {
        r.begin(10);
        r.array(10, "E", bytes, place, 1 << 20) + r.array(10, "p", bytes, Place::Append, usize::MAX)
    };
    let n = first(&mut b, at(300_000), &y);
    b.end(10, n);
    let n = first(&mut a, at(0), &x);
    a.ask(&Ask::Flush).unwrap();
    assert!(Reader::open(&run).unwrap().steps().unwrap().is_empty());
    a.end(10, n);
    b.ask(&Ask::WaitStep { step: 10 }).unwrap();
    let reader = Reader::open(&run).unwrap();
    let whole = [x, y].concat();
    for name in ["E", "p"] {
        let got = reader.step_get(10, name, &all()).unwrap();
        assert!(got.bytes == whole, "{name}");
    }
    // One rank leaves in the middle: that step never was.
    a.begin(11);
    b.begin(11);
    let n = b.array(11, "E", &f64s(8, 0), Place::Whole, usize::MAX);
    let seq = b.end(11, n);
    owner.hung_up(a.session).unwrap();
    let e = b.ask(&Ask::WaitStep { step: 11 }).unwrap_err();
    assert!(e.code() == Code::ServerLost && e.text().contains("rank 0 of 2 is gone"), "{e} {seq}");
    owner.close().unwrap();
}

#[test]
fn a_step_is_written_once_and_a_discarded_one_never_was() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    rank.step(1, &f64s(10_000, 1));
    rank.ask(&Ask::WaitStep { step: 1 }).unwrap();
    rank.step(1, &f64s(10_000, 2));
    rank.begin(2);
    rank.array(2, "x", &f64s(10_000, 2), Place::Whole, usize::MAX);
    rank.publish(&Record::StepDiscard { step: 2 });
    assert_eq!(rank.ask(&Ask::WaitStep { step: 2 }).unwrap_err().code(), Code::Cancelled);
    assert_eq!(rank.late[0].code(), Code::Conflict);
    rank.step(2, &f64s(10, 5));
    rank.ask(&Ask::WaitStep { step: 2 }).unwrap();
    let reader = Reader::open(&run).unwrap();
    assert_eq!(reader.step_get(1, "x", &all()).unwrap().bytes, f64s(10_000, 1));
    assert_eq!(reader.step_get(2, "x", &all()).unwrap().bytes, f64s(10, 5));
    wait_for("the blocks to come back", || {
        rank.allocator.reap();
        (rank.allocator.live() == 0).then_some(())
    });
    owner.close().unwrap();
    assert_eq!(std::fs::read_dir(run.join("steps")).unwrap().count(), 2);
}

#[test]
fn who_ends_a_step_that_another_rank_has_discarded_hears_of_it_before_and_behind() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks: Vec<Rank> = (0..3).map(|r| Rank::open(&owner, r, 3, 4 << 20)).collect();
    for rank in &mut ranks {
        rank.begin(1);
    }
    ranks[0].end(1, 0);
    owner.read_up().unwrap();
    ranks[1].publish(&Record::StepDiscard { step: 1 });
    owner.read_up().unwrap();
    ranks[2].end(1, 0);
    for rank in &mut ranks {
        rank.ask(&Ask::Stats).unwrap();
    }
    let told: Vec<Vec<&str>> = ranks.iter().map(|r| r.late.iter().map(|e| e.text()).collect()).collect();
    let text = "step 1 was discarded by rank 1";
    assert_eq!(told, [vec![text], vec![], vec![text]]);
    owner.close().unwrap();
}

#[test]
fn a_step_is_given_up_when_a_rank_that_lives_has_taken_a_later_one_without_it() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
    ranks[0].step(1, &f64s(100_000, 1));
    owner.read_up().unwrap();
    ranks[1].begin(2);
    owner.read_up().unwrap();
    assert!(ranks[0].notice(0).is_none());
    assert!(ranks[0].late.is_empty(), "rank 1 may still discard step 2 and take step 1");
    ranks[1].end(2, 0);
    ranks[0].ask(&Ask::Flush).unwrap();
    let late: Vec<(Code, &str)> = ranks[0].late.iter().map(|e| (e.code(), e.text())).collect();
    let text = "step 1 is given up: rank 1 of 2 has taken step 2 and not this one; let every rank take the same snapshots";
    assert_eq!(late, [(Code::Conflict, text)]);
    // There is room again for another one of that size.
    ranks[0].step(2, &f64s(100_000, 2));
    for rank in &mut ranks {
        rank.ask(&Ask::Flush).unwrap();
    }
    assert!(ranks[1].late.is_empty(), "{:?}", ranks[1].late);
    let listed = Reader::open(&run).unwrap().steps().unwrap();
    assert_eq!(listed.iter().map(|s| s.step).collect::<Vec<_>>(), [2]);
    owner.close().unwrap();
}

#[test]
fn a_rank_that_has_yet_to_go_back_has_not_left_out_what_another_one_takes_behind_a_restart() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
    let both = |ranks: &mut [Rank; 2], step: i64| {
        for rank in ranks.iter_mut() {
            rank.begin(step);
            rank.end(step, 0);
        }
        for rank in ranks {
            rank.ask(&Ask::Flush).unwrap();
        }
    };
    both(&mut ranks, 2);
    ranks[0].ask(&Ask::Checkpoint { tag: Some("two".into()) }).unwrap();
    both(&mut ranks, 5);
    let back = Ask::Restart { tag: Some("two".into()), strict: false };
    assert_eq!(ranks[0].ask(&back).unwrap()["step"], 2);
    ranks[0].begin(3);
    ranks[0].end(3, 0);
    owner.read_up().unwrap();
    assert_eq!(ranks[1].ask(&back).unwrap()["step"], 2);
    ranks[1].begin(3);
    ranks[1].end(3, 0);
    for rank in &mut ranks {
        rank.ask(&Ask::WaitStep { step: 3 }).unwrap();
        assert!(rank.late.is_empty(), "{:?}", rank.late);
    }
    // Both have gone back, and a step that one leaves out is given up as ever.
    ranks[0].begin(4);
    ranks[0].end(4, 0);
    owner.read_up().unwrap();
    ranks[1].begin(6);
    ranks[1].end(6, 0);
    ranks[0].ask(&Ask::Flush).unwrap();
    assert_eq!(ranks[0].late.iter().filter(|e| e.text().contains("step 4 is given up")).count(), 1);
    ranks[0].begin(6);
    ranks[0].end(6, 0);
    ranks[1].ask(&Ask::Flush).unwrap();
    owner.close().unwrap();
}

#[test]
fn a_restart_goes_back_to_the_last_step_with_its_history() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 4 << 20);
    let columns =
        vec![Column { name: "t".into(), dtype: "f64".into(), units: "s".into(), ..Default::default() }];
    let t = rank.ask(&Ask::Table { name: "history".into(), columns, history: true }).unwrap();
    let t: TableInfo = serde_json::from_value(t).unwrap();
    for step in 0..25 {
        if step % 10 == 0 {
            rank.step(step, &f64s(1000, step as u64));
        }
        let mut w = Writer::new();
        Cell::Real(step as f64).encode(&mut w);
        let cells = w.finish();
        rank.publish(&Record::Insert { table: t.id, step, rows: 1, cells: &cells });
    }
    owner.hung_up(rank.session).unwrap();
    wait_for("the end of the session", || owner.sessions().unwrap().is_empty().then_some(()));
    let mut again = Rank::open(&owner, 0, 1, 4 << 20);
    let back = again.ask(&Ask::Restart { tag: None, strict: false }).unwrap();
    assert_eq!(back["step"], 20);
    let rows = Reader::open(&run).unwrap().select("history", "", &[]).unwrap();
    assert_eq!((rows.rows.len(), rows.columns), (20, vec!["t".to_owned()]));
    owner.close().unwrap();
}

#[test]
fn a_record_that_makes_no_sense_harms_itself_alone() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    rank.publish(&Record::Insert { table: 77, step: 0, rows: 1, cells: &[0] });
    rank.publish(&Record::Declare { json: "{" });
    let meta = forebay_types::ArrayMeta::new(forebay_types::DType::F64, shape(&[100_000]));
    let nowhere = forebay_types::record::HeldBlock { segment: 3, index: 9, generation: 1, bytes: 800_000 };
    let payload = forebay_types::record::Payload::Block(nowhere);
    rank.publish(&Record::Put { name: "x", set: 0, meta, units: "", attrs: "", if_version: None, payload });
    rank.put("good", &f64s(4, 4), None);
    rank.ask(&Ask::Flush).unwrap();
    assert_eq!(rank.late.len(), 3, "{:?}", rank.late);
    assert_eq!(Reader::open(&run).unwrap().list("*", None).unwrap().len(), 1);
    owner.close().unwrap();
}

#[test]
fn a_request_or_a_record_that_the_owner_does_not_know_gets_an_error() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options::default()).unwrap();
    let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
    let asked = rank.publish(&Record::Ask { json: r#"{"Fly":{"high":1}}"# });
    let e = rank.answer(asked).unwrap_err();
    assert_eq!(e.code(), Code::BadArgument);
    assert!(e.text().contains("Fly"), "{e}");
    rank.seq += 1;
    let mut unknown = Writer::new();
    unknown.u16(999).u16(0).u32(0).u64(rank.seq).str("fly");
    rank.producer.push(&[&unknown.finish()]).unwrap();
    rank.bell.ring();
    rank.put("good", &f64s(4, 4), None);
    rank.ask(&Ask::Flush).unwrap();
    assert_eq!(rank.late.len(), 1, "{:?}", rank.late);
    assert!(rank.late[0].text().contains("999"), "{:?}", rank.late);
    owner.close().unwrap();
}

#[test]
fn a_run_that_is_deleted_while_it_is_open_tells_its_ranks_and_frees_their_memory() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("gone.fb");
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks = [0, 1].map(|r| Rank::open(&owner, r, 2, 1 << 20));
    ranks[0].put("x", &f64s(10, 1), None);
    ranks[0].settle();
    // Moved, it goes on: the owner looks again at each beat.
    let beats = |r: &Rank| r.segment.word(word::HEARTBEAT).load(Ordering::SeqCst);
    let moved = dir.path().join("moved.fb");
    std::fs::rename(&run, &moved).unwrap();
    let then = beats(&ranks[0]);
    wait_for("some beats", || (beats(&ranks[0]) > then + 4).then_some(()));
    assert!(!ranks[0].is_closed() && !ranks[0].is_unlinked());
    std::fs::rename(&moved, &run).unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    for rank in &mut ranks {
        wait_for("the end of the session", || rank.is_closed().then_some(()));
        rank.notice(0);
        assert!(rank.late[0].text().contains("was deleted while the run was open"), "{:?}", rank.late);
        wait_for("the memory", || rank.is_unlinked().then_some(()));
    }
    assert_eq!(owner.close().unwrap_err().code(), Code::NotFound);
    assert!(!run.exists());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (keep, run) = scratch();
    let with = |mode| Options { mode, ..Options::default() };
    let refuse = |path: &std::path::Path, mode| Owner::open(path, with(mode)).err().unwrap();
    assert_eq!(refuse(&run, Mode::ReadWrite).code(), Code::NotFound);
    assert_eq!(Reader::open(&run).err().unwrap().code(), Code::NotFound);
    let owner = Owner::open(&run, Options::default()).unwrap();
    let e = refuse(&run, Mode::Append);
    assert!(e.code() == Code::Conflict && e.text().contains("this process has"), "{e}");
    assert_eq!(refuse(&run, Mode::Create).code(), Code::Conflict);
    owner.close().unwrap();
    assert_eq!(refuse(keep.path(), Mode::Append).code(), Code::BadArgument);
    let file = keep.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert_eq!(refuse(&file, Mode::Write).code(), Code::BadArgument);
    assert_eq!(refuse(std::path::Path::new("/proc/forebay-run.fb"), Mode::Append).code(), Code::NotFound);
    let wiped = Owner::open(&run, with(Mode::Write)).unwrap();
    assert!(wiped.created());
}

#[test]
fn a_rank_that_runs_ahead_opens_a_bounded_number_of_files_and_gets_room_for_large_steps() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut ranks = [Rank::open(&owner, 0, 2, 4 << 20), Rank::open(&owner, 1, 2, 4 << 20)];
    let open_files = || {
        let files = std::fs::read_dir(run.join("steps")).unwrap().flatten();
        files.filter(|f| f.path().extension().is_some_and(|e| e == "tmp")).count()
    };
    // One more than fits the arena, let go of before its end.
    let (ahead, large) = (150, 6 << 20);
    let one = |r: &mut Rank, step: i64| {
        let n = if step == ahead { large / 8 } else { 50 };
        let at = u64::from(r.rank) * n;
        r.begin(step);
        if step == ahead {
            r.publish(&Record::StepEarly { step });
        }
        let place = Place::At { offset: shape(&[at]), global: shape(&[2 * n]) };
        let blocks = r.array(step, "x", &f64s(n, at), place, 1 << 20);
        r.end(step, blocks);
    };
    (0..=ahead).for_each(|step| one(&mut ranks[0], step));
    ranks[0].ask(&Ask::Stats).unwrap();
    wait_for("the files of steps ahead", || (open_files() >= 32).then_some(()));
    for step in 0..=ahead {
        one(&mut ranks[1], step);
        assert!(open_files() <= 34, "{} files are open", open_files());
    }
    ranks.iter_mut().for_each(|r| drop(r.ask(&Ask::Flush).unwrap()));
    let reader = Reader::open(&run).unwrap();
    assert_eq!(reader.steps().unwrap().len() as i64, ahead + 1);
    for (step, n) in [(0, 50), (77, 50), (ahead, large / 8)] {
        let whole = [f64s(n, 0), f64s(n, n)].concat();
        assert!(reader.step_get(step, "x", &all()).unwrap().bytes == whole, "step {step}");
    }
    owner.close().unwrap();
}

#[test]
fn a_step_begun_again_while_it_is_on_its_way_is_refused_and_the_first_one_is_whole() {
    let (_keep, run) = scratch();
    let owner = Owner::open(&run, Options { ..Options::default() }).unwrap();
    let mut a = Rank::open(&owner, 0, 2, 4 << 20);
    let mut b = Rank::open(&owner, 1, 2, 4 << 20);
    let one = |r: &mut Rank, seed| {
        let at = u64::from(r.rank) * 8;
        r.begin(5);
        let place = Place::At { offset: shape(&[at]), global: shape(&[16]) };
        let n = r.array(5, "x", &f64s(8, seed + at), place, usize::MAX);
        r.end(5, n);
    };
    one(&mut a, 0);
    one(&mut a, 100);
    a.begin(5);
    a.publish(&Record::StepDiscard { step: 5 });
    one(&mut b, 0);
    b.ask(&Ask::WaitStep { step: 5 }).unwrap();
    a.ask(&Ask::Flush).unwrap();
    assert!(a.late.iter().any(|e| e.code() == Code::Conflict), "{:?}", a.late);
    assert!(
        Reader::open(&run).unwrap().step_get(5, "x", &all()).unwrap().bytes
            == [f64s(8, 0), f64s(8, 8)].concat()
    );
    owner.close().unwrap();
}

#[test]
fn who_reads_while_a_run_is_begun_anew_finds_a_run_or_none() {
    let (_keep, run) = scratch();
    let anew = Options { mode: Mode::Write, ..Options::default() };
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        let reading = threads.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                match Reader::open(&run).and_then(|reader| reader.steps()) {
                    Err(e) if e.code() != Code::NotFound => return Some(e),
                    _ => {}
                }
            }
            None
        });
        for _ in 0..20 {
            let owner = Owner::open(&run, anew.clone()).unwrap();
            let mut rank = Rank::open(&owner, 0, 1, 1 << 20);
            for step in 0..5 {
                rank.begin(step);
                let n = rank.array(step, "E", &f64s(64, 1), Place::Whole, usize::MAX);
                rank.end(step, n);
            }
            rank.ask(&Ask::Close { finished: true }).unwrap();
            owner.close().unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        let wrong = reading.join().unwrap();
        assert!(wrong.is_none(), "{wrong:?}");
    });
}
