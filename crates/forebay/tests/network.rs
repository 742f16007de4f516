//! An agent that listens for other hosts, and who comes over the network to it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{LATE, sandbox, signal, until};
use forebay::Code;
use forebay::call::{Client, Value};
use forebay_host::directories;
use forebay_link::net::{Key, Keys};
use forebay_link::{Locator, Transport};
use serde_json::Value as Json;

fn forebay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap()
}

pub fn done(args: &[&str]) -> Json {
    let out = forebay(&[args, &["--json"]].concat());
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let out = forebay(args);
    assert_eq!(out.status.code(), Some(1), "{args:?}");
    String::from_utf8(out.stderr).unwrap()
}

fn double() -> forebay::serve::Server {
    let server = forebay::serve::Server::new("double");
    server
        .service("double(in x:f64, out y:f64)", |call| {
            let [x, mut y] = call.args()?;
            y.set(2.0 * x.f64()?)
        })
        .unwrap()
        .service("halve(inout x:f64[n])", |call| {
            call.arg(0)?.view::<f64>()?.update(|x| x / 2.0);
            Ok(())
        })
        .unwrap()
}

#[test]
fn an_agent_listens_where_it_is_told_and_calls_come_over_the_network() {
    sandbox("an_agent_listens_where_it_is_told_and_calls_come_over_the_network", |_| {
        for tls in [false, true] {
            let up: &[&str] = &["up", "--listen", "tcp://127.0.0.1:0"];
            let up = if tls { [up, &["--tls"]].concat() } else { up.to_vec() };
            let address = done(&up)["address"].as_str().unwrap().to_owned();
            assert!(address.starts_with("fb://127.0.0.1:"), "{address}");
            assert_eq!(done(&up)["address"], address.as_str(), "asked again it says the same");
            assert!(refused(&["up", "--listen", "tcp://127.0.0.1:1"]).contains(&address));
            assert_eq!(done(&["status"])[0]["listens"]["address"], address.as_str());
            let file = directories::rendezvous().unwrap();
            assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
            // The server hears of the door by the rendezvous file, the client by the address.
            let running = double().start(forebay::locator(None)).unwrap();
            assert!(running.listens().is_some());
            let there = Locator::at(Some(Path::new(&address)));
            for transport in [Transport::Nearest, Transport::Network] {
                let client = Client::connect(there.clone().over(transport)).unwrap();
                let values = client.call("double", vec![4.0.into()], None).unwrap();
                assert_eq!(values, [Value::Scalar(8.0.into())]);
                for n in [100_000usize, 3_000_000] {
                    let mut x: Vec<f64> = (0..n).map(|i| i as f64).collect();
                    let halved = client.call("halve", vec![x[..].as_mut().into()], Some(LATE));
                    assert!(halved.is_ok() && x.iter().enumerate().all(|(i, x)| *x == i as f64 / 2.0));
                }
            }
            running.stop();
            // One whose broker is across the network listens too.
            let running = double().start(there.clone()).unwrap();
            let client = Client::connect(forebay::locator(None).over(Transport::Network)).unwrap();
            assert!(client.call("double", vec![4.0.into()], None).is_ok());
            running.stop();
            let stranger = there.with_keys(Keys::from(Key::new().unwrap()));
            let e = Client::connect(stranger).map(drop).unwrap_err();
            assert_eq!(e.code(), Code::Refused, "{e}");
            let log =
                || std::fs::read_to_string(directories::runtime_dir().unwrap().join("agent.log")).unwrap();
            until("the log says so", || log().contains("a connection was refused"));
            let secret: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            assert!(!log().contains(secret["network"]["secret"].as_str().unwrap()));
            done(&["down"]);
            assert!(!file.exists());
        }
    });
}

#[test]
fn a_port_that_is_taken_is_said_and_the_agent_goes_on_without_it() {
    sandbox("a_port_that_is_taken_is_said_and_the_agent_goes_on_without_it", |_| {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let text = refused(&["up", "--listen", &format!("tcp://127.0.0.1:{port}")]);
        assert!(text.contains("another process listens") && text.contains(&port.to_string()), "{text}");
        assert!(done(&["status"])[0]["listens"].is_null());
        done(&["down"]);
    });
}

#[test]
fn what_an_error_says_of_an_agent_that_is_gone_brings_its_runs_back() {
    sandbox("what_an_error_says_of_an_agent_that_is_gone_brings_its_runs_back", |s| {
        let base = s.dir.to_str().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("fb://127.0.0.1:{port}");
        let look = || forebay::remote_run_id(&format!("{address}/two_stream"));
        // What stands between backquotes, said by somebody who knows where the runs of that host lie.
        let obey = || {
            let text = look().unwrap_err().text().to_owned();
            let command = text.split('`').find_map(|words| words.strip_prefix("forebay "));
            let words = command.unwrap_or_else(|| panic!("{text}")).split(' ');
            let said = done(&words.map(|w| if w == "DIRECTORY" { base } else { w }).collect::<Vec<_>>());
            assert_eq!(said["address"], address.as_str(), "{text}");
            assert_eq!(look().unwrap(), None, "it takes runs, and has none of that name");
            said["pid"].as_u64().unwrap() as u32
        };
        let gone_with_its_file = obey();
        signal(gone_with_its_file, "-KILL");
        until("it is gone", || look().is_err_and(|e| e.code() == Code::NoServer));
        obey();
        done(&["down"]);
    });
}

#[test]
fn a_server_that_nothing_vouches_for_does_not_listen() {
    sandbox("a_server_that_nothing_vouches_for_does_not_listen", |_| {
        done(&["up"]);
        let server = double().listen("tcp://127.0.0.1:0").unwrap();
        let e = server.start(forebay::locator(None)).map(drop).unwrap_err();
        assert!(e.code() == Code::Refused && e.text().contains("forebay up --listen"), "{e}");
        assert!(double().listen("127.0.0.1").is_err());
        done(&["down"]);
    });
}
