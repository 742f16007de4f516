//! Shared memory that is too small or gets full: an error or a refusal, never SIGBUS.

use forebay_arena::{Segment, SegmentSpec};
use forebay_host::directories;
use forebay_types::Code;
use std::path::{Path, PathBuf};
use std::process::Command;

fn spec(block_bytes: u64) -> SegmentSpec {
    SegmentSpec { name: "room".into(), kind: 1, up_bytes: 4096, down_bytes: 4096, block_bytes, blocks: 16 }
}

fn free(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir).unwrap();
    stat.f_bavail * stat.f_frsize
}

#[test]
fn where_shared_memory_is_too_small_a_file_in_the_given_directory_serves() {
    let dir = tempfile::tempdir().unwrap();
    let (shm, disk) = (free(&directories::shm_dir()), free(dir.path()));
    let more = shm + (1 << 30);
    if disk < more + (1 << 30) {
        println!("left out: {} is not larger than shared memory", dir.path().display());
        return;
    }
    // Pages are taken on demand, so the large file costs nothing.
    let segment = Segment::create_or_in(&spec(more), dir.path()).unwrap();
    assert_eq!(segment.path().unwrap(), dir.path().join("room"));
    let block = segment.allocator().alloc(5).unwrap();
    block.write_from(0, b"hello");
    assert_eq!(segment.block(block.index()).unwrap().view().to_vec(), b"hello");
    let error = Segment::create_or_in(&spec(1 << 46), dir.path()).err().unwrap();
    assert_eq!(error.code(), Code::Full);
    let text = error.text();
    assert!(text.contains(&directories::shm_dir().display().to_string()), "{text}");
    assert!(text.contains(&dir.path().display().to_string()), "both places are named: {text}");
}

/// Runs in a mount name space of its own with a file system of 8 MiB; see below.
#[test]
fn in_a_small_file_system() {
    let Some(dir) = std::env::var_os("SMALL").map(PathBuf::from) else { return };
    let error = Segment::create_in(&dir, &spec(16 << 20)).err().unwrap();
    assert_eq!(error.code(), Code::Full);
    assert!(error.text().contains("--shm-size"), "{error}");
    let segment = Segment::create_in(&dir, &spec(6 << 20)).unwrap();
    let mut allocator = segment.allocator();
    let first = allocator.alloc(1 << 20).unwrap();
    first.write_from(0, &vec![1; 1 << 20]);
    // Somebody else takes the rest.
    let mut hog = Vec::new();
    while std::fs::write(dir.join(format!("hog{}", hog.len())), vec![0; 100_000]).is_ok() {
        hog.push(());
    }
    let taken = segment.taken();
    assert!(taken < 6 << 20);
    segment.prefault(u64::MAX).unwrap().join().unwrap();
    let mut held = Vec::new();
    while let Some(block) = allocator.alloc(500_000) {
        block.write_from(0, &vec![2; 500_000]); // touching what was handed out is safe
        held.push(block);
    }
    assert!(allocator.used() <= segment.taken(), "nothing is handed out that is not taken");
    for n in 0..=hog.len() {
        let _ = std::fs::remove_file(dir.join(format!("hog{n}")));
    }
    assert!(allocator.alloc(500_000).is_some(), "room that comes back is used");
}

#[test]
fn a_file_system_that_fills_up_later_makes_the_allocator_refuse() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        command
    };
    let dir = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=8m tmpfs \"$SMALL\"";
    let probe = unshare().arg(mount).env("SMALL", dir.path()).output();
    if !probe.is_ok_and(|out| out.status.success()) {
        println!("left out: this user may not mount in a name space of its own");
        return;
    }
    let out = unshare()
        .arg(format!("{mount} && exec \"$0\" --exact in_a_small_file_system --nocapture"))
        .arg(std::env::current_exe().unwrap())
        .env("SMALL", dir.path())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}
