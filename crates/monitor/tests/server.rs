//! The monitor as its owner starts and stops it, spoken to over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_monitor::{Config, Hub, Monitor, Role, RunInfo, Steer};
use forebay_types::watch::Act;
use forebay_types::{Code, Result};

struct Deaf;

impl Steer for Deaf {
    fn act(&self, _who: &str, _act: &Act) -> Result<u64> {
        Ok(1)
    }
}

fn hub(run: &str) -> Arc<Hub> {
    let hub = Hub::new();
    let info = RunInfo { id: run.into(), name: run.into(), ..RunInfo::default() };
    hub.add(info, Arc::new(Deaf), None).unwrap();
    hub
}

/// Sends a request with these headers; returns all of the answer.
fn ask(mut stream: impl Read + Write, path: &str, headers: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_links_open_the_page_of_their_run_and_no_other() {
    let monitor = Monitor::start(Config::default(), hub("one")).unwrap();
    let info = RunInfo { id: "two".into(), ..RunInfo::default() };
    monitor.hub().add(info, Arc::new(Deaf), None).unwrap();
    let links = monitor.links("one").unwrap();
    assert!(links.operator.starts_with(&format!("http://127.0.0.1:{}/one/#c=", monitor.address().port())));
    assert_ne!(links.operator, links.viewer);
    let again = monitor.links("one").unwrap();
    assert!(again.viewer == links.viewer && again.operator != links.operator);
    assert_eq!(monitor.links("three").unwrap_err().code(), Code::NotFound);

    let connect = || TcpStream::connect(monitor.address()).unwrap();
    let token = monitor.hub().get("one").unwrap().token(Role::Viewer);
    let bearer = format!("Host: localhost\r\nAuthorization: Bearer {token}");
    let page = ask(connect(), "/one/", "Host: localhost");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("./assets/app.js"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(ask(connect(), "/one", "Host: localhost").contains("location: one/"), "relative, for proxies");
    assert!(ask(connect(), "/one/me", &bearer).contains("\"role\":\"viewer\""));
    assert!(ask(connect(), "/two/me", &bearer).starts_with("HTTP/1.1 401"), "the token of another run");
    assert!(ask(connect(), "/one/me", "Host: evil.example").starts_with("HTTP/1.1 403"));
    assert!(ask(connect(), "/", "Host: localhost").starts_with("HTTP/1.1 404"), "runs are not listed");
    assert!(
        ask(connect(), "/one/assets/..%2f..%2fCargo.toml", "Host: localhost").starts_with("HTTP/1.1 404")
    );
}

#[test]
fn stopping_is_quick_and_leaves_no_port_and_no_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("monitor.sock");
    let config = Config { unix: Some(path.clone()), ..Config::default() };
    let monitor = Monitor::start(config, hub("one")).unwrap();
    let address = monitor.address();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let page = ask(UnixStream::connect(&path).unwrap(), "/one/", "Host: localhost:40713");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    // Somebody is connected and says nothing.
    let idle = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    monitor.stop();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(!path.exists());
    assert!(TcpStream::connect(address).is_err());
    drop(idle);
}

#[test]
fn an_address_that_others_reach_must_be_asked_for() {
    let config = Config { bind: "0.0.0.0:0".parse().unwrap(), ..Config::default() };
    let refused = Monitor::start(config, Hub::new()).err().unwrap();
    assert_eq!(refused.code(), Code::Refused);
    assert!(refused.text().contains("ssh -L"), "{refused}");
}

#[test]
fn a_taken_port_is_an_error_with_its_address() {
    let first = Monitor::start(Config::default(), Hub::new()).unwrap();
    let config = Config { bind: first.address(), ..Config::default() };
    let refused = Monitor::start(config, Hub::new()).err().unwrap();
    assert!(refused.text().contains(&first.address().to_string()), "{refused}");
}

#[test]
fn it_runs_on_a_runtime_that_is_there_already() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let monitor = Monitor::start_on(runtime.handle(), Config::default(), hub("one")).unwrap();
    let page = ask(TcpStream::connect(monitor.address()).unwrap(), "/one/", "Host: 127.0.0.1:1");
    assert!(page.starts_with("HTTP/1.1 200"));
    monitor.hub().remove("one");
    let page = ask(TcpStream::connect(monitor.address()).unwrap(), "/one/", "Host: 127.0.0.1:1");
    assert!(page.starts_with("HTTP/1.1 404"));
    monitor.stop();
}

/// Holds so many connections, each with half of a request, until its standard input closes.
const HALF_OPEN: &str = r#"
    trap '' PIPE
    for i in $(seq $2); do exec {fd}<>/dev/tcp/127.0.0.1/$1 && printf 'GET /one/ HTTP/1.1\r\nHost: loc' >&$fd; done 2>/dev/null
    echo held; read line"#;

#[test]
fn half_open_connections_of_another_user_keep_nobody_out_and_end_by_themselves() {
    use std::os::unix::process::CommandExt;
    let monitor = Monitor::start(Config::default(), hub("one")).unwrap();
    let port = monitor.address().port().to_string();
    let mut stranger = std::process::Command::new("bash");
    stranger.args(["-c", HALF_OPEN, "bash", &port, "300"]).uid(65534).gid(65534).current_dir("/");
    let piped = std::process::Stdio::piped;
    let mut stranger = match stranger.stdin(piped()).stdout(piped()).stderr(piped()).spawn() {
        Ok(child) => child,
        Err(e) => return eprintln!("skipped: this needs root, to be another user ({e})"),
    };
    let mut said = [0; 4];
    stranger.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"held");
    for _ in 0..40 {
        let page = ask(TcpStream::connect(monitor.address()).unwrap(), "/one/", "Host: localhost");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    }
    // Ours that say nothing come to an end, too.
    let mut idle = TcpStream::connect(monitor.address()).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(idle.read(&mut [0; 512]).is_ok(), "closed, with or without a word");
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
}
