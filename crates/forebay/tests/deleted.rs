//! A run whose directory is deleted, or moved, while it is open: who writes is told; of one that is deleted the memory
//! is freed and the name can be used again, one that is moved is whole under its new path.

use std::path::Path;

use crate::support::{sandbox, take, until};
use forebay::{Code, Error, Mode, OpenOptions, PutOptions, Run, View};

fn open(at: &Path) -> Run {
    let options = OpenOptions { buffer: 8 << 20, ..Default::default() };
    forebay::open(at.to_str().unwrap(), Mode::Append, options).unwrap()
}

/// Segments of runs that are there.
fn segments() -> usize {
    let stem = format!("{}-run", forebay_host::directories::shm_prefix());
    let names =
        std::fs::read_dir(forebay_host::directories::shm_dir()).unwrap().flatten().map(|f| f.file_name());
    names.filter(|n| n.to_string_lossy().starts_with(&stem)).count()
}

#[test]
fn who_writes_a_run_that_is_deleted_under_an_agent_is_told_and_may_begin_anew() {
    sandbox("who_writes_a_run_that_is_deleted_under_an_agent_is_told_and_may_begin_anew", |s| {
        forebay_agent::start_to_stay().unwrap();
        let dir = s.dir.join("gone.fb");
        let run = open(&dir);
        take(&run, 0, 1000).unwrap().wait(None).unwrap();
        assert_eq!(segments(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(status().contains("gone.fb: STARTING; its directory was deleted"), "{}", status());
        let told = first_error(&run);
        assert!(told.text().contains("was deleted while the run was open"), "{told}");
        // It is told first, and then the session ends.
        let mut refused = None;
        until("the end of the session", || {
            refused = run.snapshot(1, None).err();
            refused.is_some()
        });
        is_true_of_nothing_left(&refused.unwrap());
        is_true_of_nothing_left(&run.close().unwrap_err());
        drop(run);
        until("the end of its memory", || segments() == 0);
        until("the end of the run at the agent", || !status().contains("gone.fb"));
        let run = open(&dir);
        take(&run, 5, 1000).unwrap().wait(None).unwrap();
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [5]);
        run.close().unwrap();
    });
}

/// What the command says of this host.
fn status() -> String {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_forebay")).arg("status").output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// What a program that goes on writing is told.
fn first_error(run: &Run) -> Error {
    let mut told = None;
    until("the error", || {
        let put = run.put("x", View::text("y"), PutOptions::default()).and_then(|_| run.flush());
        told = put.err();
        told.is_some()
    });
    told.unwrap()
}

/// Nothing can be recovered, and what was acknowledged is lost with the rest.
fn is_true_of_nothing_left(e: &Error) {
    assert!(e.code() == Code::ServerLost && e.text().contains("nothing of the run is left"), "{e}");
    assert!(!e.text().contains("recover") && !e.text().contains("acknowledged"), "{e}");
}

#[test]
fn a_program_whose_own_run_is_deleted_hears_one_text_everywhere() {
    sandbox("a_program_whose_own_run_is_deleted_hears_one_text_everywhere", |s| {
        let dir = s.dir.join("gone.fb");
        let run = open(&dir);
        take(&run, 0, 1000).unwrap().wait(None).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        is_true_of_nothing_left(&first_error(&run));
        is_true_of_nothing_left(&run.flush().unwrap_err());
        is_true_of_nothing_left(&run.close().unwrap_err());
    });
}

/// The data are whole, and the words say where and how.
fn is_true_of_what_was_moved(e: &Error, there: &Path) {
    let remedy = format!("`forebay recover {}`", there.display());
    assert!(e.code() == Code::ServerLost && e.text().contains(&remedy), "{e}");
    assert!(e.text().matches("forebay recover").count() == 1, "{e}");
    assert!(!e.text().contains("what only it held") && !e.text().contains("was removed"), "{e}");
}

fn hear_of_the_move(run: &Run, there: &Path) {
    is_true_of_what_was_moved(&first_error(run), there);
    is_true_of_what_was_moved(&run.flush().unwrap_err(), there);
    until("the end of the session", || run.snapshot(9, None).is_err());
    is_true_of_what_was_moved(&run.snapshot(9, None).err().unwrap(), there);
    is_true_of_what_was_moved(&run.close().unwrap_err(), there);
}

#[test]
fn a_program_whose_own_run_is_moved_hears_where_it_is_and_how_to_complete_it() {
    sandbox("a_program_whose_own_run_is_moved_hears_where_it_is_and_how_to_complete_it", |s| {
        let (dir, there) = (s.dir.join("old.fb"), s.dir.join("new.fb"));
        let run = open(&dir);
        take(&run, 0, 1000).unwrap().wait(None).unwrap();
        std::fs::rename(&dir, &there).unwrap();
        hear_of_the_move(&run, &there);
        drop(run);
        assert_eq!(forebay_store::recover(&there).unwrap(), Some(0));
        assert!(!dir.exists());
    });
}

#[test]
fn all_ranks_of_a_run_that_is_moved_under_an_agent_hear_the_same() {
    sandbox("all_ranks_of_a_run_that_is_moved_under_an_agent_hear_the_same", |s| {
        let (dir, there) = (s.dir.join("old.fb"), s.dir.join("new.fb"));
        forebay_agent::start_to_stay().unwrap();
        let rank = |rank| {
            let options =
                OpenOptions { buffer: 8 << 20, rank: Some(rank), size: Some(2), ..Default::default() };
            forebay::open(dir.to_str().unwrap(), Mode::Append, options).unwrap()
        };
        let ranks = [rank(0), rank(1)];
        ranks[0].put("x", View::text("kept"), PutOptions::default()).unwrap();
        ranks[0].flush().unwrap();
        std::fs::rename(&dir, &there).unwrap();
        ranks.iter().for_each(|run| hear_of_the_move(run, &there));
        drop(ranks);
        until("the agent to let go of it", || forebay_store::recover(&there).is_ok());
        assert!(!dir.exists());
    });
}

#[test]
fn what_a_killed_client_left_of_a_run_that_was_deleted_is_freed_by_the_agent() {
    sandbox("what_a_killed_client_left_of_a_run_that_was_deleted_is_freed_by_the_agent", |s| {
        let dir = s.dir.join("gone.fb");
        if s.role == "writer" {
            let run = open(&dir);
            take(&run, 0, 1000).unwrap().wait(None).unwrap();
            s.tell("open");
            loop {
                std::thread::park();
            }
        }
        forebay_agent::start_to_stay().unwrap();
        let mut writer = s.start("writer");
        s.hear("open");
        assert_eq!(segments(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
        writer.kill();
        until("the end of its memory", || segments() == 0);
        assert!(!dir.exists());
    });
}
