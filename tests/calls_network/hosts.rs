//! Calls between two hosts: a cable that is slow, loses frames, is cut and healed, or never healed.

use std::time::{Duration, Instant};

use forebay_client::call::Client;
use forebay_types::Code;
use forebay_types::file::PIECE_BYTES;

use crate::net::{Host, Hosts};
use crate::roles::{Serving, World, until};

const PATIENCE: Duration = Duration::from_secs(20);

/// A broker and a server on one host; the client is on the other.
struct Scene {
    // Dropped in this order: processes, then the namespaces.
    _server: Serving,
    client: Client,
    world: World,
    hosts: Hosts,
}

impl Scene {
    fn new(test: &str, silence: Duration) -> Option<Scene> {
        let hosts = Hosts::new(test)?;
        let mut world = World::between_hosts(silence);
        let server = hosts.on(Host::One, || {
            world.start_broker();
            world.server("there", 2)
        });
        let client = hosts.on(Host::Other, || world.client());
        // The connection is made before the cable becomes bad.
        hosts.on(Host::Other, || client.call("void", vec![], Some(PATIENCE)).unwrap());
        Some(Scene { _server: server, client, world, hosts })
    }

    /// Calls from the other host.
    fn on_client<T: Send>(&self, run: impl FnOnce(&Client) -> T + Send) -> T {
        self.hosts.on(Host::Other, || run(&self.client))
    }

    fn axpy(&self, n: usize) {
        self.on_client(|client| {
            let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let mut y = vec![1.0; n];
            let args = vec![2.0.into(), x[..].into(), y[..].as_mut().into()];
            client.call("axpy", args, Some(PATIENCE)).unwrap();
            assert!(y.iter().enumerate().all(|(i, y)| *y == 1.0 + 2.0 * i as f64));
        });
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn nothing_that_hosts_say_to_each_other_can_be_read_on_the_way() {
    let Some(mut scene) = Scene::new("nothing_that_hosts_say", PATIENCE) else { return };
    let server = scene.client.services().unwrap()[0].servers[0].clone();
    assert!(server.listens.unwrap().certificate.is_some());
    let secret = "a word that nobody else may hear";
    scene.on_client(|client| {
        client.call("work", vec![secret.into(), 0i64.into()], Some(PATIENCE)).unwrap();
        let raw: Vec<u8> = secret.bytes().cycle().take(300_000).collect();
        client.call("reverse", vec![forebay_client::call::Arg::Bytes(&raw)], Some(PATIENCE)).unwrap();
    });
    assert_eq!(scene.hosts.cable(&format!("seen {}", hex("a word that"))), "no");
    // The cable does see what is not hidden.
    assert_eq!(scene.hosts.cable(&format!("seen {}", "0800450000")), "yes");
}

#[test]
fn files_of_several_pieces_go_there_and_back_and_cannot_be_read_on_the_way() {
    let Some(mut scene) = Scene::new("files_of_several_pieces", PATIENCE) else { return };
    let server = scene.client.services().unwrap()[0].servers[0].clone();
    assert!(server.listens.unwrap().certificate.is_some());
    let [from, to] = ["from", "to"].map(|name| scene.world.dir.path().join(name));
    let data: Vec<u8> = "a file for nobody else".bytes().cycle().take(5 * PIECE_BYTES / 2 + 1).collect();
    std::fs::write(&from, &data).unwrap();
    scene.on_client(|client| {
        let args = [&from, &to].map(|path| path.to_str().unwrap().into()).into();
        client.call("copy", args, Some(PATIENCE)).unwrap();
    });
    assert!(std::fs::read(&to).unwrap() == data);
    assert_eq!(scene.hosts.cable(&format!("seen {}", hex("a file for"))), "no");
}

#[test]
fn results_are_whole_over_a_cable_that_delays_and_loses() {
    let Some(mut scene) = Scene::new("results_are_whole_over_a_cable", PATIENCE) else { return };
    scene.hosts.cable("delay 0.01");
    scene.hosts.cable("loss 0.01");
    for n in [10, 1_000, 100_000] {
        scene.axpy(n);
    }
}

#[test]
fn a_call_outlives_a_cable_that_is_cut_for_five_seconds() {
    let Some(mut scene) = Scene::new("a_call_outlives_a_cable", PATIENCE) else { return };
    let (client, began) = (scene.client.clone(), Instant::now());
    let mut call =
        scene.on_client(|c| c.call_async("work", vec!["long".into(), 500i64.into()], None).unwrap());
    until("it begins", || scene.world.log().len() == 1);
    scene.hosts.cable("cut");
    // It is done meanwhile, and the answer does not come through.
    let e = call.wait(Some(Duration::from_secs(5))).unwrap_err();
    assert_eq!(e.code(), Code::Timeout, "{e}");
    scene.hosts.cable("heal");
    call.wait(Some(PATIENCE)).unwrap();
    assert_eq!((call.timing().reissued, scene.world.log().len()), (0, 1), "after {:?}", began.elapsed());
    scene.on_client(|_| client.call("void", vec![], Some(PATIENCE)).unwrap());
}

#[test]
fn a_server_whose_host_vanishes_is_missed_by_its_silence() {
    let Some(mut scene) = Scene::new("a_server_whose_host_vanishes", Duration::from_secs(2)) else { return };
    // Busy is not silent: this takes longer.
    scene.on_client(|c| c.call("work", vec!["busy".into(), 3_000i64.into()], Some(PATIENCE)).unwrap());
    let mut call =
        scene.on_client(|c| c.call_async("work", vec!["lost".into(), 60_000i64.into()], None).unwrap());
    until("it begins", || scene.world.log().len() == 2);
    scene.hosts.cable("cut");
    let began = Instant::now();
    let e = call.wait(Some(PATIENCE)).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost, "{e}");
    assert!(e.text().contains("said nothing for 2 s"), "{e}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_server_may_be_silent_for_twice_as_long_while_a_large_argument_is_on_its_way() {
    let Some(mut scene) = Scene::new("a_server_may_be_silent", Duration::from_secs(2)) else { return };
    scene.hosts.cable("rate 500000");
    let (client, x) = (scene.client.clone(), vec![1.0; 1 << 19]);
    let call = std::thread::spawn(move || {
        client.call("look", vec!["large".into(), 0i64.into(), x[..].into()], Some(PATIENCE))
    });
    // 4 MiB take eight seconds, in which nothing but their acknowledgements need come back.
    until("it is on its way", || scene.hosts.cable("waiting 100000") == "yes");
    scene.hosts.cable("cut");
    let began = Instant::now();
    let e = call.join().unwrap().unwrap_err();
    assert_eq!(e.code(), Code::ServerLost, "{e}");
    assert!(e.text().contains("said nothing for 4 s"), "{e}");
    assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn a_client_says_how_long_its_servers_may_be_silent() {
    let Some(mut scene) = Scene::new("a_client_says", PATIENCE) else { return };
    scene.client = scene.hosts.on(Host::Other, || scene.world.client());
    assert_eq!(scene.client.silence(0.5).unwrap_err().code(), Code::BadArgument);
    scene.client.silence(2.0).unwrap();
    let mut call =
        scene.on_client(|c| c.call_async("work", vec!["lost".into(), 60_000i64.into()], None).unwrap());
    until("it begins", || scene.world.log().len() == 1);
    scene.hosts.cable("cut");
    let e = call.wait(Some(PATIENCE)).unwrap_err();
    assert_eq!(e.code(), Code::ServerLost, "{e}");
    assert!(e.text().contains("said nothing for 2 s"), "{e}");
}

#[test]
fn over_a_slow_cable_a_small_call_overtakes_a_large_argument() {
    let Some(mut scene) = Scene::new("over_a_slow_cable", PATIENCE) else { return };
    // 20 Mbit/s and 40 ms there and back.
    scene.hosts.cable("rate 2500000");
    scene.hosts.cable("delay 0.02");
    let x = vec![1.0; 1 << 19];
    let begun = Instant::now();
    let client = scene.client.clone();
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let (scene, x, done) = (&scene, &x, &done);
        scope.spawn(move || {
            scene.on_client(|c| {
                c.call("look", vec!["large".into(), 0i64.into(), x[..].into()], Some(PATIENCE)).unwrap()
            });
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            let began = Instant::now();
            client.call("void", vec![], Some(PATIENCE)).unwrap();
            times.push(began.elapsed());
        }
    });
    // 4 MiB take two seconds, and more where the cable itself, a program, gets little of the processor.
    // Behind them a small call would take as long, and there would be one; it waits for one piece and
    // what is in the cable. Now and then one waits for frames that the cable has lost, for seconds.
    let all = begun.elapsed();
    times.sort();
    assert!(times.len() > 3 && times[times.len() / 2] < all / 4, "in {all:?}: {times:?}");
}
