//! Agent, server, client and a second rank are started in every order; each waits for what is not
//! there yet, and all find each other.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Process, Sandbox, sandbox, until};
use forebay::call::Value;
use forebay::serve::Server;
use forebay::{ArrayMeta, ArrayOptions, Code, DType, Mode, On, OpenOptions, Place, Shape, View};

const PARTS: [&str; 4] = ["agent", "server", "client", "second"];

/// Every order of four things.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256).map(|n| [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6 & 3]);
    all.filter(|o| (0..4).all(|part| o.contains(&part))).collect()
}

/// What one order lives in.
struct World {
    dir: std::path::PathBuf,
    variables: [(&'static str, String); 3],
}

impl World {
    fn new(s: &Sandbox, number: usize) -> World {
        let dir = s.dir.join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let at = |name: &str| dir.join(name).display().to_string();
        let variables = [
            ("FOREBAY_RUNTIME_DIR", at("run")),
            ("FOREBAY_HOME", at("home")),
            ("FB_ORDER", dir.display().to_string()),
        ];
        World { dir, variables }
    }

    fn forebay(&self, args: &[&str]) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(args).envs(self.variables.iter().cloned());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    fn told(&self, what: &str) -> bool {
        self.dir.join(what).exists()
    }

    /// Starts a part and waits until it has come as far as it can alone.
    fn start(&self, s: &Sandbox, part: &str, started: &mut Vec<Process>) {
        if part == "agent" {
            assert!(self.forebay(&["up"]), "forebay up");
            return;
        }
        let variables: Vec<(&str, &str)> = self.variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        started.push(s.start_with(part, &variables));
        until(part, || self.told(&format!("{part}.on")));
    }
}

fn tell(dir: &Path, what: &str) {
    std::fs::write(dir.join(what), b"").unwrap();
}

fn options(rank: u32) -> OpenOptions {
    OpenOptions { buffer: 1 << 20, rank: Some(rank), size: Some(2), ..Default::default() }
}

/// A rank's part of the one snapshot.
fn snapshot(dir: &Path, rank: u32, value: f64) {
    let run = forebay::open(dir.join("together.fb").to_str().unwrap(), Mode::Append, options(rank)).unwrap();
    let snapshot = run.snapshot(7, None).unwrap();
    let shape = |n: u64| Shape::new(&[n]).unwrap();
    let place = Place::At { offset: shape(u64::from(rank)), global: shape(2) };
    snapshot
        .put(
            "x",
            View::of(&[value], &[1]).unwrap(),
            ArrayOptions { units: "", place, about: None, compress: None },
        )
        .unwrap();
    snapshot.end().unwrap();
    snapshot.wait(None).unwrap();
    run.close().unwrap();
}

fn play(role: &str, dir: &Path) {
    match role {
        "server" => {
            let server = Server::new("double").service("double(in x:f64, out y:f64)", |call| {
                let [x, mut y] = call.args()?;
                y.set(2.0 * x.f64()?)
            });
            let running = server.unwrap().start(forebay::locator(None)).unwrap();
            tell(dir, "server.on");
            until("the end of the others", || {
                dir.join("client.done").exists() && dir.join("second.done").exists()
            });
            running.stop();
        }
        "client" => {
            let client = forebay::connect(None).unwrap();
            client.patience(Duration::from_secs(30));
            tell(dir, "client.on");
            let found = client.call("double", vec![21.0.into()], None).unwrap();
            assert_eq!(found, [Value::Scalar(42.0.into())]);
            snapshot(dir, 0, 42.0);
            tell(dir, "client.done");
        }
        _ => {
            tell(dir, "second.on");
            snapshot(dir, 1, 1.0);
            tell(dir, "second.done");
        }
    }
}

fn in_order(s: &Sandbox, number: usize, order: [usize; 4]) {
    let world = World::new(s, number);
    let names = order.map(|part| PARTS[part]);
    let mut started = Vec::new();
    for part in names {
        world.start(s, part, &mut started);
    }
    for process in &mut started {
        assert!(process.wait().success(), "{names:?}");
    }
    let path = world.dir.join("together.fb");
    let run = forebay::open(path.to_str().unwrap(), Mode::Read, OpenOptions::default()).unwrap();
    let x = run.snapshots().unwrap().at(7).unwrap().get("x", None).unwrap();
    assert_eq!(x.to_f64().unwrap(), [42.0, 1.0], "{names:?}");
    assert!(world.forebay(&["down"]), "{names:?}: the agent is up, since it was told to stay");
    let left = std::fs::read_dir(world.dir.join("run")).unwrap().flatten();
    let left: Vec<_> =
        left.map(|f| f.file_name()).filter(|n| n.to_string_lossy().ends_with(".sock")).collect();
    assert!(left.is_empty(), "{names:?} left {left:?}");
}

#[test]
fn agent_server_client_and_second_rank_are_started_in_every_order() {
    sandbox("agent_server_client_and_second_rank_are_started_in_every_order", |s| {
        if !s.role.is_empty() {
            return play(&s.role, Path::new(&std::env::var_os("FB_ORDER").unwrap()));
        }
        let (orders, next) = (orders(), AtomicUsize::new(0));
        assert_eq!(orders.len(), 24);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(order) = orders.get(next.fetch_add(1, Ordering::Relaxed)) {
                        in_order(s, orders.iter().position(|o| o == order).unwrap(), *order);
                    }
                });
            }
        });
    });
}

#[test]
fn without_patience_a_missing_server_is_an_error_at_once_and_with_it_after_that_time() {
    sandbox("without_patience_a_missing_server_is_an_error_at_once_and_with_it_after_that_time", |_| {
        let client = forebay::connect(None).unwrap();
        let missing = || client.call("double", vec![21.0.into()], None).unwrap_err();
        assert_eq!(missing().code(), Code::NoServer);
        assert!(missing().text().contains("start one with `forebay serve`"), "{}", missing());
        client.patience(Duration::from_millis(300));
        let began = std::time::Instant::now();
        let e = missing();
        assert!(began.elapsed() >= Duration::from_millis(300));
        assert!(e.code() == Code::NoServer && e.text().contains("waited 0.3 s in vain"), "{e}");
        let meta = ArrayMeta::new(DType::F64, Shape::new(&[4]).unwrap());
        assert_eq!(client.array(meta, On::Any).map(drop).unwrap_err().code(), Code::NoServer);
    });
}

#[test]
fn the_page_may_be_asked_for_before_its_run_is_there() {
    sandbox("the_page_may_be_asked_for_before_its_run_is_there", |s| {
        let path = s.run("watched.fb");
        let monitor = |wait: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
            command.args(["monitor", &path, "--json", "--wait", wait]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let at_once = monitor("0").wait_with_output().unwrap();
        assert_eq!(at_once.status.code(), Some(1));
        let early = monitor("30");
        let run = forebay::open(&path, Mode::Append, OpenOptions { buffer: 1 << 20, ..Default::default() })
            .unwrap();
        let out = early.wait_with_output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let links: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert!(links["operator"].as_str().unwrap().starts_with("http://127.0.0.1:"));
        let late = monitor("0").wait_with_output().unwrap();
        let late: serde_json::Value = serde_json::from_slice(&late.stdout).unwrap();
        // Each link has a code of its own behind the address.
        let page = |links: &serde_json::Value, whose: &str| {
            links[whose].as_str().unwrap().split('#').next().unwrap().to_owned()
        };
        for whose in ["operator", "viewer"] {
            assert_eq!(
                page(&late, whose),
                page(&links, whose),
                "before or after its run, the page is the same"
            );
        }
        run.close().unwrap();
    });
}

#[test]
fn who_only_looks_whether_a_server_listens_is_no_trouble_of_it() {
    sandbox("who_only_looks_whether_a_server_listens_is_no_trouble_of_it", |_| {
        let server = Server::new("looked at").service("nothing()", |_| Ok(())).unwrap();
        let running = server.start(forebay::locator(None)).unwrap();
        let socket = || {
            let files =
                std::fs::read_dir(forebay_host::directories::runtime_dir().unwrap()).unwrap().flatten();
            files.map(|f| f.path()).find(|p| p.to_string_lossy().contains("/server-"))
        };
        let socket = socket().unwrap();
        for _ in 0..20 {
            drop(std::os::unix::net::UnixStream::connect(&socket).unwrap());
        }
        // They were let in before this client is, or are about to be.
        let client = forebay::connect(None).unwrap();
        client.call("nothing", vec![], None).unwrap();
        for _ in 0..50 {
            assert!(running.trouble().is_none(), "{:?}", running.trouble());
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}
