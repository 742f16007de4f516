//! Steps that lack a rank whose memory is on another host: what is here of them is kept, whoever dies and whatever the
//! disk does, and the rest of that very session makes them whole.

use crate::common::asked::{Asked, Call};
use crate::common::faults::{Fault, FaultyDisk, Left, plant, scratch};
use crate::common::{Rank, f64s, recover_without_memory, shape, wait_for};
use forebay_store::disk::{Disk, System};
use forebay_store::{Options, Owner, Reader, recover, repair, verify};
use forebay_types::control::{Ask, Mode};
use forebay_types::record::Place;
use forebay_types::{Code, Selection};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const RUN: &str = "FOREBAY_TEST_PARTIAL";
const AT: &str = "FOREBAY_TEST_PARTIAL_AT";
const ARENA: u64 = 1 << 20;
/// Values of a rank's piece.
const N: u64 = 3000;
const STEP: i64 = 7;

fn options(disk: Arc<dyn Disk>) -> Options {
    Options { disk, ..Options::default() }
}

fn of(rank: u32) -> Vec<u8> {
    f64s(N, 10 * u64::from(rank) + 1)
}

/// What a rank puts of the step: a piece of a whole in two parts, one that is appended, and one of its own.
fn put(rank: &mut Rank) {
    rank.begin(STEP);
    let place = Place::At { offset: shape(&[u64::from(rank.rank) * N]), global: shape(&[2 * N]) };
    let bytes = of(rank.rank);
    let mut n = rank.array(STEP, "x", &bytes, place, 16_000);
    n += rank.array(STEP, "p", &bytes[..80 * (1 + rank.rank as usize)], Place::Append, usize::MAX);
    if rank.rank == 0 {
        n += rank.array(STEP, "mine", &bytes[..800], Place::Whole, usize::MAX);
    }
    rank.end(STEP, n);
}

/// A step that rank 0 has ended and of which rank 1, on another host, has said nothing when its line is lost. Gives
/// rank 0 and the session of rank 1.
fn lose_rank(owner: &Owner) -> (Rank, u64) {
    let (mut near, remote) = (Rank::open(owner, 0, 2, ARENA), Rank::open_remote(owner, 1, 2, ARENA, None));
    put(&mut near);
    near.settle();
    let session = remote.session;
    owner.hung_up(session).unwrap();
    (near, session)
}

/// What the other host has of that session is brought; what of it was refused.
fn bring(owner: &Owner, session: u64) -> Vec<String> {
    let mut rest = Rank::open_remote(owner, 1, 2, ARENA, Some(session));
    put(&mut rest);
    rest.ask(&Ask::Close { finished: false }).unwrap();
    owner.hung_up(rest.session).unwrap();
    rest.late.iter().map(|e| e.text().to_owned()).collect()
}

fn lacking(run: &Path) -> Vec<i64> {
    Reader::open(run).unwrap().partial_steps().unwrap().iter().map(|row| row.step).collect()
}

fn listed(run: &Path) -> Vec<i64> {
    Reader::open(run).unwrap().steps().unwrap().iter().map(|s| s.step).collect()
}

fn files(run: &Path) -> Vec<String> {
    let all = std::fs::read_dir(run.join("steps")).unwrap().flatten();
    all.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

fn is_kept(run: &Path) {
    wait_for("what is here of the step to be kept", || (lacking(run) == [STEP]).then_some(()));
}

fn is_sound(run: &Path) {
    assert_eq!(verify(run).unwrap().faults, Vec::<String>::new());
}

/// The step is listed with all that both ranks have put, and nothing else is left of it.
fn is_whole(run: &Path) {
    is_sound(run);
    assert_eq!((listed(run), lacking(run)), (vec![STEP], vec![]));
    let (reader, all) = (Reader::open(run).unwrap(), Selection::default());
    let read = |name: &str| reader.step_get(STEP, name, &all).unwrap().bytes;
    assert!(read("x") == [of(0), of(1)].concat());
    assert!(read("p") == [&of(0)[..80], &of(1)[..160]].concat());
    assert!(read("mine") == of(0)[..800]);
    assert_eq!(reader.step_info(STEP, "x").unwrap().units, "m");
    assert_eq!(reader.steps().unwrap()[0].time, Some(0.7));
    assert_eq!(files(run), ["0000000007.h5"]);
}

#[test]
fn a_step_that_lacks_a_rank_of_another_host_is_kept_told_and_made_whole_by_its_rest() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, session) = lose_rank(&owner);
    let e = near.ask(&Ask::WaitStep { step: STEP }).unwrap_err();
    for word in ["step 7 is not whole", "rank 1 of 2", "0000000007.h5.partial", "forebay recover"] {
        assert!(e.text().contains(word), "{e}");
    }
    assert_eq!((e.code(), near.late.len(), lacking(&run)), (Code::ServerLost, 1, vec![STEP]));
    near.ask(&Ask::Flush).unwrap();
    near.allocator.reap();
    assert_eq!(near.allocator.live(), 0, "blocks of the rank that is here are back");
    is_sound(&run);
    assert_eq!(listed(&run), [0i64; 0], "a listed step is whole");
    assert_eq!(bring(&owner, session), Vec::<String>::new());
    is_whole(&run);
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    is_whole(&run);
}

#[test]
fn only_the_session_that_a_step_lacks_makes_it_whole() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, session) = lose_rank(&owner);
    is_kept(&run);
    let other = Rank::open_remote(&owner, 1, 2, ARENA, None);
    let wrong = other.session;
    owner.hung_up(wrong).unwrap();
    wait_for("the end of another session", || other.is_closed().then_some(()));
    near.ask(&Ask::Close { finished: false }).unwrap();
    owner.close().unwrap();
    assert_eq!(recover(&run).unwrap(), None);
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    bring(&owner, wrong);
    assert_eq!((listed(&run), lacking(&run)), (vec![], vec![STEP]));
    assert_eq!(bring(&owner, session), Vec::<String>::new());
    owner.close().unwrap();
    is_whole(&run);
}

#[test]
fn a_step_that_a_rank_had_not_ended_is_given_up_when_all_of_it_was_brought() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, session) = lose_rank(&owner);
    is_kept(&run);
    let mut rest = Rank::open_remote(&owner, 1, 2, ARENA, Some(session));
    rest.begin(STEP);
    rest.ask(&Ask::Close { finished: false }).unwrap();
    owner.hung_up(rest.session).unwrap();
    wait_for("the step to be given up", || lacking(&run).is_empty().then_some(()));
    wait_for("its file to go", || files(&run).is_empty().then_some(()));
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    is_sound(&run);
}

#[test]
fn going_back_and_dropping_give_such_a_step_up_and_its_file_goes() {
    for goes_back in [true, false] {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
        let (mut near, session) = lose_rank(&owner);
        is_kept(&run);
        match goes_back {
            true => drop(near.ask(&Ask::Restart { tag: None, strict: false }).unwrap()),
            false => assert_eq!(near.ask(&Ask::DropStep { step: STEP }).unwrap(), true),
        }
        assert_eq!((lacking(&run), files(&run)), (vec![], vec![]));
        // Its number is free, and what is brought of the one before means nothing.
        bring(&owner, session);
        assert_eq!((listed(&run), lacking(&run)), (vec![], vec![]));
        let mut remote = Rank::open_remote(&owner, 1, 2, ARENA, None);
        put(&mut near);
        put(&mut remote);
        near.ask(&Ask::WaitStep { step: STEP }).unwrap();
        is_whole(&run);
        near.ask(&Ask::Close { finished: true }).unwrap();
        remote.ask(&Ask::Close { finished: true }).unwrap();
        owner.close().unwrap();
    }
}

#[test]
fn a_step_that_is_written_anew_takes_the_place_of_one_that_lacks_a_rank() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, _) = lose_rank(&owner);
    is_kept(&run);
    near.ask(&Ask::Close { finished: false }).unwrap();
    owner.hung_up(near.session).unwrap();
    owner.close().unwrap();
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, mut remote) = (Rank::open(&owner, 0, 2, ARENA), Rank::open(&owner, 1, 2, ARENA));
    put(&mut near);
    put(&mut remote);
    near.ask(&Ask::WaitStep { step: STEP }).unwrap();
    remote.ask(&Ask::Close { finished: true }).unwrap();
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    is_whole(&run);
}

#[test]
fn bytes_that_changed_since_are_no_part_of_a_step_and_what_is_brought_is_refused() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, session) = lose_rank(&owner);
    is_kept(&run);
    let row = Reader::open(&run).unwrap().partial_steps().unwrap().remove(0);
    let entry = row.manifest.data.iter().find(|e| e.name == "forebay/parts/0/x").unwrap();
    let path = run.join(&row.file);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[entry.offset as usize + 20_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(
        faults.iter().any(|f| f.contains("0000000007.h5.partial") && f.contains("checksum")),
        "{faults:?}"
    );
    let refused = bring(&owner, session);
    assert!(refused.iter().any(|text| text.contains("another checksum")), "{refused:?}");
    assert_eq!((listed(&run), lacking(&run)), (vec![], vec![STEP]));
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
}

#[test]
fn a_disk_that_is_full_is_waited_for_by_a_step_that_lacks_a_rank_as_by_any_other() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let full = Arc::new(AtomicBool::new(false));
    let is_full = full.clone();
    let disk = Arc::new(Asked(move |call, _: &Path| {
        let refused = matches!(call, Call::Reserve | Call::Free) && is_full.load(Ordering::SeqCst);
        if refused { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }));
    let owner = Owner::open(&run, options(disk)).unwrap();
    full.store(true, Ordering::SeqCst);
    let (mut near, session) = lose_rank(&owner);
    let waits = || owner.stats().unwrap()["waiting_for_disk"].as_bool().unwrap().then_some(());
    wait_for("the store to wait for room", waits);
    assert_eq!(lacking(&run), [0i64; 0]);
    full.store(false, Ordering::SeqCst);
    is_kept(&run);
    bring(&owner, session);
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    is_whole(&run);
}

#[test]
fn a_catalog_made_anew_knows_steps_that_lack_ranks_and_a_strange_file_is_named_and_put_aside() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    let (mut near, session) = lose_rank(&owner);
    is_kept(&run);
    near.ask(&Ask::Close { finished: true }).unwrap();
    owner.close().unwrap();
    let catalogs = std::fs::read_dir(&run).unwrap().flatten().map(|e| e.path());
    catalogs
        .filter(|p| p.to_string_lossy().contains("catalog.sqlite"))
        .for_each(|p| std::fs::remove_file(p).unwrap());
    repair(&run).unwrap();
    assert_eq!(lacking(&run), [STEP]);
    is_sound(&run);
    let steps = run.join("steps");
    std::fs::copy(steps.join("0000000007.h5.partial"), steps.join("0000000009.h5.partial")).unwrap();
    let faults = verify(&run).unwrap().faults;
    assert!(faults.len() == 1 && faults[0].contains("0000000009.h5.partial"), "{faults:?}");
    recover(&run).unwrap();
    is_sound(&run);
    std::fs::remove_file(steps.join("0000000009.h5.partial.bad")).unwrap();
    let owner = Owner::open(&run, options(Arc::new(System))).unwrap();
    bring(&owner, session);
    owner.close().unwrap();
    is_whole(&run);
}

/// What a process does until it is killed; it says what was acknowledged.
fn script(owner: &Owner, run: &Path, tell: impl Fn(&str)) {
    let (mut near, session) = lose_rank(owner);
    tell(&format!("lost {session}"));
    is_kept(run);
    tell("kept");
    assert_eq!(bring(owner, session), Vec::<String>::new());
    tell("whole");
    near.ask(&Ask::Close { finished: true }).unwrap();
}

/// The child; as a test of its own it does nothing.
#[test]
fn an_owner_of_a_step_that_lacks_a_rank_and_is_killed() {
    let (Ok(run), Ok(at)) = (std::env::var(RUN), std::env::var(AT)) else { return };
    let run = Path::new(&run);
    let disk = FaultyDisk::new(run.parent().unwrap(), Fault::Kill, at.parse().unwrap());
    let owner = Owner::open(run, options(disk)).unwrap();
    script(&owner, run, |word| {
        let mut out = std::io::stdout();
        writeln!(out, "\nsaid {word}").unwrap();
        out.flush().unwrap();
    });
    owner.close().unwrap();
    println!("\nsaid end");
}

#[test]
fn an_owner_that_dies_at_any_moment_keeps_what_is_here_and_its_successor_makes_it_whole() {
    let (mut moments, mut kept) = (0, 0);
    for at in 0.. {
        let dir = scratch();
        let run = dir.path().join("r.fb");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "partial::an_owner_of_a_step_that_lacks_a_rank_and_is_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(RUN, &run)
            .env(AT, at.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said: Vec<String> = lines.filter_map(|l| Some(l.strip_prefix("said ")?.to_owned())).collect();
        child.wait().unwrap();
        let Some(session) = said.iter().find_map(|word| word.strip_prefix("lost ")) else {
            // Nothing was promised; what lies in shared memory goes with the next opening all the same.
            let _ = recover(&run);
            continue;
        };
        let session: u64 = session.parse().unwrap();
        if said.last().is_some_and(|word| word == "end") {
            is_whole(&run);
            break;
        }
        moments += 1;
        // Rank 0 has ended the step, and its process is dead like that of its owner.
        recover(&run).unwrap();
        is_sound(&run);
        let is_listed = listed(&run) == [STEP];
        assert!(is_listed || lacking(&run) == [STEP], "killed at {at}, behind {said:?}");
        assert!(is_listed || !said.contains(&"whole".to_owned()), "killed at {at}");
        kept += usize::from(!is_listed);
        if !is_listed {
            let owner =
                Owner::open(&run, Options { mode: Mode::ReadWrite, ..options(Arc::new(System)) }).unwrap();
            assert_eq!(bring(&owner, session), Vec::<String>::new(), "killed at {at}, behind {said:?}");
            owner.close().unwrap();
        }
        is_whole(&run);
    }
    assert!(moments > 30 && kept > 15, "{moments} moments, {kept} of them before the step was whole");
}

#[test]
fn a_loss_of_power_at_any_moment_leaves_what_was_acknowledged_of_a_step_that_lacks_a_rank() {
    let dir = scratch();
    let run = dir.path().join("r.fb");
    let disk = FaultyDisk::new(dir.path(), Fault::Power, 0);
    let owner = Owner::open(&run, options(disk.clone())).unwrap();
    let session = std::cell::Cell::new(0);
    script(&owner, &run, |word| {
        match word {
            "kept" => disk.acknowledge(1, 2),
            "whole" => disk.acknowledge(2, 2),
            lost => session.set(lost.strip_prefix("lost ").unwrap().parse().unwrap()),
        };
    });
    owner.close().unwrap();
    let all = disk.left();
    let mut kept = 0;
    for Left { place, what, acknowledged, tree, .. } in &all {
        if !tree.contains_key(Path::new("r.fb/catalog.sqlite")) {
            assert_eq!(*acknowledged, 0);
            continue;
        }
        let dir = scratch();
        let run = dir.path().join("r.fb");
        plant(tree, dir.path());
        if let Err(e) = recover_without_memory(&run) {
            assert_eq!(*acknowledged, 0, "at {place}, {what}: {e}");
            continue;
        }
        is_sound(&run);
        let (is_listed, is_lacking) = (listed(&run) == [STEP], lacking(&run) == [STEP]);
        assert!(*acknowledged < 2 || is_listed, "at {place}, {what}");
        assert!(*acknowledged < 1 || is_listed || is_lacking, "at {place}, {what}");
        if is_lacking {
            kept += 1;
            let owner =
                Owner::open(&run, Options { mode: Mode::ReadWrite, ..options(Arc::new(System)) }).unwrap();
            assert_eq!(bring(&owner, session.get()), Vec::<String>::new(), "at {place}, {what}");
            owner.close().unwrap();
        }
        if is_listed || is_lacking {
            is_whole(&run);
        }
    }
    assert!(kept > 10, "{kept} of {} images", all.len());
}
