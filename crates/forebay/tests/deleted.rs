//! A run whose directory is deleted while an agent has it open: who writes is told, its memory is freed, and the
//! name can be used again.

use std::path::Path;

use crate::support::{sandbox, take, until};
use forebay::{Code, Error, Mode, OpenOptions, PutOptions, Run, View};

fn open(at: &Path) -> Run {
    let options = OpenOptions { buffer: 8 << 20, ..Default::default() };
    forebay::open(at.to_str().unwrap(), Mode::Append, options).unwrap()
}

/// Segments of runs that are there.
fn segments() -> usize {
    let stem = format!("{}-run", forebay_arena::place::shm_prefix());
    let names = std::fs::read_dir(forebay_arena::place::shm_dir()).unwrap().flatten().map(|f| f.file_name());
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
        let run = open(&dir);
        take(&run, 5, 1000).unwrap().wait(None).unwrap();
        assert_eq!(run.snapshots().unwrap().numbers().unwrap(), [5]);
        run.close().unwrap();
    });
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
