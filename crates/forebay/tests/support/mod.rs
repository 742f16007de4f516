//! Tests in processes of their own: each with its own runtime directory, home and names in
//! shared memory, and a look afterwards whether anything was left behind.

use std::ffi::OsStr;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay::{Array, ArrayOptions, Result, Run, View};

/// Two seconds are promised; a machine busy with other tests is given five.
pub const LATE: Duration = Duration::from_secs(5);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// What a test may hold on to.
pub struct Sandbox {
    test: String,
    /// Which part of the test this process plays; empty for the first one.
    pub role: String,
    /// A directory of the test's own.
    pub dir: PathBuf,
}

/// Runs `body` in a process of its own. `test` is the name of the test function.
#[track_caller]
pub fn sandbox(test: &str, body: impl FnOnce(&Sandbox)) {
    sandbox_under(&[], &std::env::temp_dir(), test, body);
}

/// Runs `body` in a process of its own, in a directory that every user of the machine can reach: one under `TMPDIR`
/// may be ours alone. `test` is the name of the test function.
#[track_caller]
pub fn sandbox_for_all_users(test: &str, body: impl FnOnce(&Sandbox)) {
    sandbox_under(&[], Path::new("/tmp"), test, body);
}

/// Runs `body` in a process of its own, where it may mount file systems that nobody else sees and that go with it.
/// Where that is not allowed the test is skipped and says so.
#[track_caller]
pub fn sandbox_with_mounts(test: &str, body: impl FnOnce(&Sandbox)) {
    const WAYS: [&[&str]; 2] =
        [&["unshare", "--mount"], &["unshare", "--mount", "--user", "--map-root-user"]];
    let may = |way: &[&str]| {
        let tried =
            Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "try", "/mnt"]).output();
        tried.is_ok_and(|done| done.status.success())
    };
    let inside = std::env::var_os("FB_SANDBOX").is_some();
    match WAYS.into_iter().find(|way| inside || may(way)) {
        Some(way) => sandbox_under(way, &std::env::temp_dir(), test, body),
        None => eprintln!(
            "SKIPPED {test}: no small file system can be mounted here (neither root nor user namespaces), so nothing was tried"
        ),
    }
}

/// A file system in memory of that many MiB.
pub fn mount(dir: &Path, mib: u32) {
    std::fs::create_dir_all(dir).unwrap();
    let size = format!("size={mib}m");
    let done =
        Command::new("mount").args(["-t", "tmpfs", "-o", &size, "forebay-test"]).arg(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Fills the file system of a directory up to the last page, but for `left` bytes. Removed, the
/// file gives its room back.
pub fn fill(dir: &Path, left: u64) -> PathBuf {
    let path = dir.join("ballast");
    let file = std::fs::File::create(&path).unwrap();
    let mut bytes = 0;
    while let Ok(n) = (&file).write(&[7; 4096]) {
        bytes += n as u64;
    }
    file.set_len(bytes.saturating_sub(left)).unwrap();
    path
}

/// The name under which the harness knows a test of the file from which this is called.
#[track_caller]
pub fn full_name(test: &str) -> String {
    let file = Path::new(std::panic::Location::caller().file());
    format!("{}::{test}", file.file_stem().unwrap_or_default().display())
}

#[track_caller]
fn sandbox_under(way: &[&str], base: &Path, test: &str, body: impl FnOnce(&Sandbox)) {
    let test = &full_name(test);
    if let Some(dir) = std::env::var_os("FB_SANDBOX") {
        let role = std::env::var("FB_ROLE").unwrap_or_default();
        return body(&Sandbox { test: test.to_owned(), role, dir: dir.into() });
    }
    let dir = tempfile::Builder::new().prefix("fbt").tempdir_in(base).unwrap();
    let house = std::env::var("FOREBAY_TEST_PREFIX").unwrap_or_else(|_| "fbt".into());
    let prefix = format!("{house}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let exe = std::env::current_exe().unwrap();
    let words: Vec<&OsStr> = way.iter().map(OsStr::new).chain([exe.as_os_str()]).collect();
    let child = Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", test, "--nocapture"])
        .env("FB_SANDBOX", &work)
        .env("FOREBAY_RUNTIME_DIR", dir.path().join("run"))
        .env("FOREBAY_HOME", dir.path().join("home"))
        .env("FOREBAY_SHM_PREFIX", &prefix)
        .env("FOREBAY_EXE", env!("CARGO_BIN_EXE_forebay"))
        .env_remove("FOREBAY_BROKER")
        .spawn()
        .unwrap();
    let mut child = Process(child);
    let status = child.wait();
    let log = std::fs::read_to_string(dir.path().join("run/agent.log")).unwrap_or_default();
    end_agent(dir.path());
    // What was killed leaves its socket; whoever listens next, or the user's next login, clears it.
    sweep(&dir.path().join("run"));
    let left = left_behind(&dir.path().join("run"), &prefix);
    for file in &left.1 {
        let _ = std::fs::remove_file(file);
    }
    assert!(status.success(), "{test}: {status}\n{log}");
    assert!(left.0.is_empty(), "{test} left {:?} behind\n{log}", left.0);
}

/// Agents that a test started and did not end itself.
fn end_agent(dir: &Path) {
    let end = Instant::now() + Duration::from_secs(20);
    while dir.join("run/agent.sock").exists() && Instant::now() < end {
        let down = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .arg("down")
            .env("FOREBAY_RUNTIME_DIR", dir.join("run"))
            .env("FOREBAY_HOME", dir.join("home"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !down.is_ok_and(|s| s.success()) {
            sweep(&dir.join("run"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Sockets that nobody hears any more.
fn sweep(runtime: &Path) {
    for file in std::fs::read_dir(runtime).into_iter().flatten().flatten() {
        let killed = std::os::unix::net::UnixStream::connect(file.path())
            .is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
        if killed {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// Names of sockets and segments that are still there, and the segments' paths.
fn left_behind(runtime: &Path, prefix: &str) -> (Vec<String>, Vec<PathBuf>) {
    let names = |dir: &Path, wanted: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        files.map(|f| f.path()).filter(|p| wanted(&p.file_name().unwrap().to_string_lossy())).collect()
    };
    let sockets = names(runtime, &|n| n.ends_with(".sock"));
    let stem = format!("{prefix}-");
    let segments = names(&forebay_host::directories::shm_dir(), &|n| n.starts_with(&stem));
    let all = sockets.iter().chain(&segments).map(|p| p.display().to_string()).collect();
    (all, segments)
}

impl Sandbox {
    /// The path of a run in the test's directory.
    pub fn run(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// Starts this test again in another process, in a role.
    pub fn start(&self, role: &str) -> Process {
        self.start_with(role, &[])
    }

    /// Starts this test again in another process, in a role, with variables of its own.
    pub fn start_with(&self, role: &str, variables: &[(&str, &str)]) -> Process {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &self.test, "--nocapture"])
            .env("FB_ROLE", role)
            .envs(variables.iter().copied())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// Starts this test again in another process, in a role; gives what it writes to its standard error.
    pub fn start_heard(&self, role: &str) -> (BufReader<ChildStderr>, Process) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &self.test, "--nocapture"])
            .env("FB_ROLE", role)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (BufReader::new(child.stderr.take().unwrap()), Process(child))
    }

    /// Tells other processes of the test that something has come about.
    pub fn tell(&self, what: &str) {
        std::fs::write(self.dir.join(format!("{what}.told")), b"").unwrap();
    }

    /// Waits until another process has told it.
    pub fn hear(&self, what: &str) {
        until(what, || self.dir.join(format!("{what}.told")).exists());
    }
}

/// A process that does not outlive its test.
pub struct Process(pub Child);

impl Process {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends it without a warning.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, with a deadline that only a hanging one meets.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "process {} hangs", self.pid());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// The pid of the agent that listens.
pub fn agent_pid() -> u32 {
    let socket = forebay_host::sockets::agent_socket().unwrap();
    forebay_link::Wire::connect(&socket, Duration::from_secs(2)).unwrap().peer().pid
}

/// Waits for a condition, with a deadline that only a broken program meets.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !ready() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Numbers that tell a step from another.
pub fn field(step: i64, n: usize) -> Vec<f64> {
    (0..n).map(|i| step as f64 * 1e6 + i as f64).collect()
}

/// Takes a snapshot of two arrays.
pub fn take(run: &Run, step: i64, n: usize) -> Result<forebay::Snapshot> {
    let snapshot = run.snapshot(step, Some(step as f64 * 0.1))?;
    let values = field(step, n);
    snapshot.put(
        "E",
        View::of(&values[..n.min(64)], &[n.min(64) as u64])?,
        ArrayOptions { units: "V/m", ..ArrayOptions::default() },
    )?;
    snapshot.put("electrons/x", View::of(&values, &[n as u64])?, ArrayOptions::default())?;
    snapshot.end()?;
    Ok(snapshot)
}

/// Checks what [`take`] took.
pub fn check(run: &Run, step: i64, n: usize) {
    let kept = run.snapshots().unwrap().at(step).unwrap();
    assert_eq!(kept.time(), Some(step as f64 * 0.1));
    assert_eq!(kept.names().unwrap(), ["E", "electrons/x"]);
    assert_eq!(kept.dataset("E").unwrap().units, "V/m");
    let read: Array = kept.get("electrons/x", None).unwrap();
    assert!(read.to_f64().unwrap() == field(step, n), "step {step} reads as it was taken");
}
