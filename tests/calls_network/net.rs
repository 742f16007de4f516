//! Two hosts and the cable between them, in network namespaces of a test. Root makes them; who is
//! not root is told that nothing was tried.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Two hosts with addresses of their own.
pub struct Hosts {
    names: [String; 3],
    cable: Child,
    answers: BufReader<ChildStdout>,
}

/// One of them.
#[derive(Clone, Copy)]
pub enum Host {
    /// 10.77.0.1
    One,
    /// 10.77.0.2
    Other,
}

fn ip(args: &str) {
    let done = Command::new("ip").args(args.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Hosts {
    /// Makes them; none where that is not allowed.
    pub fn new(test: &str) -> Option<Hosts> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED {test}: network namespaces are made by root only, so nothing was tried");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |part: &str| format!("fbnet{}-{number}{part}", std::process::id());
        let names = [name("a"), name("b"), name("m")];
        // Gone also when something here fails.
        let spaces = Spaces(names.clone());
        names.iter().for_each(|n| ip(&format!("netns add {n}")));
        let [a, b, m] = &names;
        for (host, end, number) in [(a, "m0", 1), (b, "m1", 2)] {
            ip(&format!("link add eth0 netns {host} type veth peer name {end} netns {m}"));
            ip(&format!("-n {host} address add 10.77.0.{number}/24 dev eth0"));
            ip(&format!("-n {host} link set lo up"));
            ip(&format!("-n {host} link set eth0 up"));
            ip(&format!("-n {m} link set {end} up"));
        }
        let wire = Path::new(env!("CARGO_MANIFEST_DIR")).join("calls_network/wire.py");
        let inside = |space: &str| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space, "python3"]).arg(&wire);
            command
        };
        for host in [a, b] {
            assert!(inside(host).args(["plain", "eth0"]).status().unwrap().success());
        }
        let mut cable =
            inside(m).args(["run", "m0", "m1"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(cable.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        std::mem::forget(spaces);
        Some(Hosts { names, cable, answers })
    }

    fn name(&self, host: Host) -> &str {
        match host {
            Host::One => &self.names[0],
            Host::Other => &self.names[1],
        }
    }

    /// Has the cable do something: `delay 0.02`, `loss 0.01`, `rate 2500000`, `cut`, `heal`, `seen HEX`, `waiting BYTES`.
    pub fn cable(&mut self, what: &str) -> String {
        writeln!(self.cable.stdin.as_mut().unwrap(), "{what}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Runs something on a host: a thread of this process, and all that it starts, are there.
    pub fn on<T: Send>(&self, host: Host, run: impl FnOnce() -> T + Send) -> T {
        let space = File::open(Path::new("/run/netns").join(self.name(host))).unwrap();
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                run()
            });
            there.join().unwrap_or_else(|e| std::panic::resume_unwind(e))
        })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = self.cable.kill();
        let _ = self.cable.wait();
        drop(Spaces(self.names.clone()));
    }
}

/// Namespaces that go with it.
struct Spaces([String; 3]);

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
        }
    }
}
