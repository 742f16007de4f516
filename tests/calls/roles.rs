//! This test program as a server: started again by a test, with `FOREBAY_TEST_SERVER` set.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use forebay_client::call::{Arg, Client, On, Value};
use forebay_host::{Process, process};
use forebay_link::net::{Key, Keys};
use forebay_link::{Locator, Transport};
use forebay_server::{Call, Server};
use forebay_tests::broker::Host;
use forebay_types::{ArrayMeta, Code, DType, Error, Result, Shape, Signature};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// How long servers of a test may be silent on the network.
const SILENCE: Duration = Duration::from_secs(3);

fn broker() -> std::ffi::OsString {
    std::env::var_os("FOREBAY_TEST_BROKER").unwrap()
}

/// Everything a test needs, in a directory of its own.
pub struct World {
    pub dir: tempfile::TempDir,
    pub broker: Option<Host>,
    /// Path or address of the broker.
    at: PathBuf,
    silence: Duration,
}

/// The way to the broker of a test, and from there to servers.
fn locator(at: &Path, dir: &Path) -> Locator {
    let locator = Locator::at(Some(at));
    match crate::OVER_NETWORK {
        true => locator.with_keys(Keys::in_dir(dir).unwrap()).over(Transport::Network).with_silence(SILENCE),
        false => locator,
    }
}

impl World {
    pub fn new() -> World {
        let dir = tempfile::Builder::new().prefix("fb").tempdir().unwrap();
        let at = if crate::OVER_NETWORK { "fb://127.0.0.1:0".into() } else { dir.path().join("agent.sock") };
        let mut world = World { broker: None, at, dir, silence: SILENCE };
        world.start_broker();
        world
    }

    #[allow(dead_code, reason = "shared memory has one host")]
    /// Without a broker yet; it is to listen at 10.77.0.1.
    pub fn between_hosts(silence: Duration) -> World {
        let dir = tempfile::Builder::new().prefix("fb").tempdir().unwrap();
        World { broker: None, at: "fb://10.77.0.1:0".into(), dir, silence }
    }

    /// A broker where the last one was.
    pub fn start_broker(&mut self) {
        if !crate::OVER_NETWORK {
            self.broker = Some(Host::start(&self.at));
            return;
        }
        let keys = Keys::in_dir(self.dir.path()).unwrap();
        let key = keys.iter().next().cloned().unwrap_or_else(|| Key::new().unwrap());
        let host = Host::listen(self.at.to_str().unwrap(), key, false);
        let file = serde_json::json!({"network": host.rendezvous()});
        std::fs::write(self.dir.path().join("host.json"), file.to_string()).unwrap();
        self.at = host.network().0.clone().into();
        self.broker = Some(host);
    }

    pub fn locator(&self) -> Locator {
        locator(&self.at, self.dir.path()).with_silence(self.silence)
    }

    pub fn client(&self) -> forebay_client::call::Client {
        forebay_client::call::Client::connect(self.locator()).unwrap()
    }

    /// A server in a process of its own; it is announced when this returns.
    pub fn server(&self, name: &str, workers: usize) -> Serving {
        self.server_with(name, workers, 1 << 30)
    }

    /// The same, holding so many bytes of arrays at most.
    pub fn server_with(&self, name: &str, workers: usize, memory: u64) -> Serving {
        let variables = [
            ("FOREBAY_TEST_SERVER", name.to_owned()),
            ("FOREBAY_TEST_WORKERS", workers.to_string()),
            ("FOREBAY_TEST_MEMORY", memory.to_string()),
        ];
        self.process("roles::this_program_is_a_server_when_a_test_asks", &variables)
    }

    /// A client in a process of its own that holds an array of so many bytes.
    pub fn holding_client(&self, bytes: u64) -> Serving {
        let variables = [("FOREBAY_TEST_HOLD", bytes.to_string())];
        self.process("roles::this_program_is_a_client_when_a_test_asks", &variables)
    }

    /// A client in a process of its own that comes to a limit of that, `files` or `addresses`; what it notes of it is in
    /// the log when this returns.
    pub fn limited_client(&self, limit: &str) -> Serving {
        let variables = [("FOREBAY_TEST_LIMIT", limit.to_owned())];
        self.process("roles::this_program_is_a_client_with_limits_when_a_test_asks", &variables)
    }

    #[allow(dead_code, reason = "over the network a server maps nothing of its clients")]
    /// A server that may take only so many bytes of address space more.
    pub fn limited_server(&self, name: &str, addresses: u64) -> Serving {
        let variables = [
            ("FOREBAY_TEST_SERVER", name.to_owned()),
            ("FOREBAY_TEST_WORKERS", "1".to_owned()),
            ("FOREBAY_TEST_MEMORY", "1000000".to_owned()),
            ("FOREBAY_TEST_ADDRESSES", addresses.to_string()),
        ];
        self.process("roles::this_program_is_a_server_when_a_test_asks", &variables)
    }

    fn process(&self, role: &str, variables: &[(&str, String)]) -> Serving {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--nocapture"])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("FOREBAY_TEST_DIR", self.dir.path())
            .env("FOREBAY_TEST_BROKER", &self.at)
            .env("FOREBAY_RUNTIME_DIR", self.dir.path().join("run"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap().contains("serving"));
        assert!(ready, "{role} ended before it served");
        Serving { process: Process::of_pid(child.id()).unwrap(), child, _output: lines }
    }

    /// How often each process did each piece of work: lines of `pid tag`.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A server process; killed at the end.
pub struct Serving {
    pub process: Process,
    child: Child,
    /// Kept open: a program may say something at its end.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    pub fn pid(&self) -> i64 {
        self.child.id().into()
    }

    /// Has it `add SIGNATURE`, `remove NAME` or `stop`.
    pub fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Waits for its end by itself.
    pub fn end(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }

    /// Whether it has.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn signal(&self, signal: Signal) {
        process::signal(&self.process, signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that will be; fails after ten seconds.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !is() {
        assert!(std::time::Instant::now() < deadline, "{what}: not in ten seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn note(line: &str) -> Result<()> {
    let path = Path::new(&std::env::var_os("FOREBAY_TEST_DIR").unwrap_or_default()).join("log");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut f| f.write_all(format!("{} {line}\n", std::process::id()).as_bytes()))
        .map_err(|e| Error::io("cannot write the log", e))
}

/// Notes that it was begun, then computes for so long (or until it is cancelled).
fn work(call: &mut Call) -> Result<()> {
    let [tag, ms, _] = call.args()?;
    let end = std::time::Instant::now() + Duration::from_millis(ms.i64()? as u64);
    let tag = tag.str()?.to_owned();
    note(&tag)?;
    while std::time::Instant::now() < end {
        if call.cancelled() {
            note(&format!("{tag}-cancelled"))?;
            return Err(Error::new(Code::Cancelled, "stopped on the way"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    call.arg(2)?.set(i64::from(std::process::id()))
}

/// Is over at once, or takes so many milliseconds, which it notes, or fails.
fn linger(call: &mut Call) -> Result<()> {
    let [ms, mut pid] = call.args()?;
    match ms.i64()? {
        0 => {}
        ms if ms < 0 => return Err(Error::bad("a negative time")),
        ms => {
            note(&format!("linger-{ms}"))?;
            std::thread::sleep(Duration::from_millis(ms as u64));
        }
    }
    pid.set(i64::from(std::process::id()))
}

/// A step of a computation in which every bit depends on all that was before, and on the number of the call.
pub fn stir(id: i64, x: &mut [f64]) {
    let mut last = 1.0 + id as f64 * 1e-9;
    for value in x.iter_mut() {
        last = (*value * 1.000_1 + last.sin()) / 1.5;
        *value = last;
    }
}

/// Notes the number of the call, computes, and takes its time.
fn stir_slowly(call: &mut Call) -> Result<()> {
    let [id, ms, x] = call.args()?;
    note(&format!("stir-{}", id.i64()?))?;
    let x = x.view::<f64>()?;
    let mut stirred = x.to_vec();
    stir(id.i64()?, &mut stirred);
    x.copy_from(&stirred);
    std::thread::sleep(Duration::from_millis(ms.i64()? as u64));
    Ok(())
}

/// A client of this process, of the broker that its servers have.
fn own_client() -> Result<&'static Client> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if CLIENT.get().is_none() {
        let dir = std::env::var_os("FOREBAY_TEST_DIR").unwrap_or_default();
        let _ = CLIENT.set(Client::connect(locator(Path::new(&broker()), Path::new(&dir)))?);
    }
    CLIENT.get().ok_or_else(|| Error::internal("set just now"))
}

/// Calls itself, on whatever server is next, so often one within the other; gives the sum of the pids.
fn nested(call: &mut Call) -> Result<()> {
    let [depth, mut pids] = call.args()?;
    let depth = depth.i64()?;
    note("nested")?;
    let mut sum = i64::from(std::process::id());
    if depth > 0 {
        let found = own_client()?.call("nested", vec![(depth - 1).into()], None)?;
        let [Value::Scalar(below)] = found[..] else { return Err(Error::internal("no sum")) };
        sum += below.as_i64().unwrap_or(0);
    }
    pids.set(sum)
}

/// Has the work done by a call of its own, and notes how that ended.
fn relay(call: &mut Call) -> Result<()> {
    let [tag, ms, mut pid] = call.args()?;
    let (tag, ms) = (tag.str()?.to_owned(), ms.i64()?);
    let found = own_client()?.call("work", vec![tag.as_str().into(), ms.into()], None);
    note(&match &found {
        Ok(_) => format!("{tag}-relayed"),
        Err(e) => format!("{tag}-relay-{:?}", e.code()),
    })?;
    let [Value::Scalar(done)] = found?[..] else { return Err(Error::internal("no pid")) };
    pid.set(done.as_i64().unwrap_or(0))
}

fn services(name: &str) -> Result<Server> {
    Server::new(name)
        .service("void()", |_| Ok(()))?
        .service("axpy(in a:f64, in x:f64[n], inout y:f64[n])", |call| {
            let [a, x, y] = call.args()?;
            let (a, x, y) = (a.f64()?, x.view::<f64>()?, y.view::<f64>()?);
            (0..y.len()).for_each(|i| y.set(i, y.get(i) + a * x.get(i)));
            Ok(())
        })?
        .service("conjugate(in z:c128[n,m], out w:c128[n,m])", |call| {
            let [z, w] = call.args()?;
            let (z, w) = (z.view::<[f64; 2]>()?, w.view::<[f64; 2]>()?);
            z.iter().enumerate().for_each(|(i, z)| w.set(i, [z[0], -z[1]]));
            Ok(())
        })?
        .service("order(in x:f64[n,m], out first:i32)", |call| {
            let [x, mut first] = call.args()?;
            first.set(x.meta()?.order as u8 as i32)
        })?
        .service("divide(in n:i32, inout k:i64, out rest:i32, out words:str, out raw:bytes)", |call| {
            let [n, mut k, mut rest, mut words, mut raw] = call.args()?;
            let (n, whole) = (n.i64()?, k.i64()?);
            if n == 0 {
                return Err(Error::bad("division by 0\n  at line 7"));
            }
            k.set(whole / n)?;
            rest.set(whole % n)?;
            words.set_str(&format!("{whole} durch {n} macht …"))?;
            raw.set_bytes(&whole.to_le_bytes())
        })?
        .service("copy(in a:file, out b:file)", |call| {
            let [a, b] = call.args()?;
            std::fs::copy(a.str()?, b.str()?).map(drop).map_err(|e| Error::io("cannot copy", e))
        })?
        .service("reverse(in text:bytes, out txet:bytes)", |call| {
            let [text, mut txet] = call.args()?;
            let back: Vec<u8> = text.bytes()?.iter().rev().copied().collect();
            txet.set_bytes(&back)
        })?
        .service("affine(in a:f64, in b:f64, inout x:f64[n])", |call| {
            let [a, b, x] = call.args()?;
            let (a, b) = (a.f64()?, b.f64()?);
            x.view::<f64>()?.update(|x| a * x + b);
            Ok(())
        })?
        .service("look(in tag:str, in ms:i64, in x:f64[n], out sum:f64)", |call| {
            let [tag, ms, x, mut sum] = call.args()?;
            note(tag.str()?)?;
            let x = x.view::<f64>()?;
            std::thread::sleep(Duration::from_millis(ms.i64()? as u64));
            note(&format!("{}-done", tag.str()?))?;
            sum.set(x.iter().sum::<f64>())
        })?
        .service("stir(in id:i64, in ms:i64, inout x:f64[n])", stir_slowly)?
        .service("falter(in n:i64, in deadly:i64)", |call| {
            let [n, deadly] = call.args()?;
            if n.i64()? == deadly.i64()? {
                std::process::abort();
            }
            std::thread::sleep(Duration::from_millis(2));
            Ok(())
        })?
        .service("stall(in n:i64, in stalls:i64, out pid:i64)", |call| {
            let [n, stalls, _] = call.args()?;
            let n = n.i64()?;
            note(&format!("stall-{n}"))?;
            std::thread::sleep(Duration::from_millis(5));
            let file = Path::new(&std::env::var_os("FOREBAY_TEST_DIR").unwrap_or_default()).join("stalled");
            // Only at the first server that has it.
            if n == stalls.i64()? && std::fs::File::create_new(file).is_ok() {
                let end = std::time::Instant::now() + Duration::from_secs(60);
                while std::time::Instant::now() < end && !call.cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                note("given-up")?;
            }
            call.arg(2)?.set(i64::from(std::process::id()))
        })?
        .service("burn(in tag:str, in ms:i64)", |call| {
            let [tag, ms] = call.args()?;
            note(tag.str()?)?;
            let end = std::time::Instant::now() + Duration::from_millis(ms.i64()? as u64);
            while std::time::Instant::now() < end {
                std::hint::spin_loop();
            }
            Ok(())
        })?
        .service("linger(in ms:i64, out pid:i64)", linger)?
        .service("linger_once(in ms:i64, out pid:i64) effects", linger)?
        .service("nested(in depth:i64, out pids:i64)", nested)?
        .service("pid(out pid:i64)", |call| call.arg(0)?.set(i64::from(std::process::id())))?
        .service("relay(in tag:str, in ms:i64, out pid:i64)", relay)?
        .service("panics()", |_| panic!("out of its mind"))?
        .service("work(in tag:str, in ms:i64, out pid:i64)", work)?
        .service("order_once(in tag:str, in ms:i64, out pid:i64) effects", work)
}

#[test]
fn this_program_is_a_server_when_a_test_asks() {
    let Ok(name) = std::env::var("FOREBAY_TEST_SERVER") else { return };
    let dir = std::env::var_os("FOREBAY_TEST_DIR").unwrap();
    let workers = std::env::var("FOREBAY_TEST_WORKERS").unwrap().parse().unwrap();
    let locator = locator(Path::new(&broker()), Path::new(&dir));
    let memory = std::env::var("FOREBAY_TEST_MEMORY").unwrap().parse().unwrap();
    let server = services(&name).unwrap().workers(workers).memory(memory);
    if let Ok(bytes) = std::env::var("FOREBAY_TEST_ADDRESSES") {
        limit_addresses(bytes.parse().unwrap());
    }
    let running = server.start(locator).unwrap();
    running.add(Signature::parse("early()").unwrap(), Box::new(|_| Ok(()))).unwrap();
    println!("serving");
    // The test says what to do; its end is the end.
    for line in std::io::stdin().lines() {
        match line.unwrap().split_once(' ') {
            Some(("add", text)) => {
                running.add(Signature::parse(text).unwrap(), Box::new(|_| Ok(()))).unwrap();
            }
            Some(("remove", name)) => running.remove(name).unwrap(),
            _ => return running.stop(),
        }
    }
}

#[test]
fn this_program_is_a_client_when_a_test_asks() {
    let Ok(bytes) = std::env::var("FOREBAY_TEST_HOLD") else { return };
    let dir = std::env::var_os("FOREBAY_TEST_DIR").unwrap();
    let locator = locator(Path::new(&broker()), Path::new(&dir));
    let client = forebay_client::call::Client::connect(locator).unwrap();
    let meta = ArrayMeta::new(DType::U8, Shape::new(&[bytes.parse().unwrap()]).unwrap());
    let held = client.array(meta, On::Any).unwrap();
    let ones = vec![1; meta.bytes().unwrap() as usize];
    held.put(forebay_client::run::View::new(meta, &ones).unwrap(), &Default::default()).unwrap();
    println!("serving");
    std::io::stdin().lines().for_each(drop);
}

/// From now on this process may take only so many bytes of address space more.
fn limit_addresses(more: u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_ascii_whitespace().next().unwrap().parse().unwrap();
    let limit = Some(pages * rustix::param::page_size() as u64 + more);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
}

/// How a call of a service ended.
fn note_call(client: &Client, what: &str) {
    let (x, mut y) = (vec![1.0; 1 << 20], vec![0.5; 1 << 20]);
    let called = client.call("axpy", vec![2.0.into(), x[..].into(), Arg::from(&mut y[..])], None);
    match called {
        Ok(_) => note(&format!("{what}: {}", y[0])).unwrap(),
        Err(e) => note(&format!("{what}: {:?} {e}", e.code())).unwrap(),
    }
}

#[test]
fn this_program_is_a_client_with_limits_when_a_test_asks() {
    let Ok(limit) = std::env::var("FOREBAY_TEST_LIMIT") else { return };
    let dir = std::env::var_os("FOREBAY_TEST_DIR").unwrap();
    let client = Client::connect(locator(Path::new(&broker()), Path::new(&dir))).unwrap();
    match limit.as_str() {
        "addresses" => {
            limit_addresses(2 << 30);
            note_call(&client, "limited");
        }
        _ => {
            // With each number of files that are left the attachment gets a little further.
            let maximum = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum }).unwrap();
            let mut files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
            let mut ends = Vec::new();
            for _ in 0..10 {
                ends.push(
                    client
                        .call("void", vec![], None)
                        .map_or_else(|e| format!("{:?} {e}", e.code()), |_| "called".into()),
                );
                files.pop();
            }
            drop(files);
            ends.iter().for_each(|end| note(end).unwrap());
            note_call(&client, "unlimited");
        }
    }
    println!("serving");
    std::io::stdin().lines().for_each(drop);
}
