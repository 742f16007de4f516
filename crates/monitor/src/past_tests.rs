//! Histories whose points are kept elsewhere: what is shown is what is kept, and who tells of it never waits.

use super::*;
use crate::Hub;
use crate::reduce::Window;
use crate::say::{RunInfo, View};
use crate::steering::Steer;
use crate::token::Role;
use forebay_types::Code;
use forebay_types::watch::{Act, Declare, Diagram, Scale};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

struct Nobody;

impl Steer for Nobody {
    fn act(&self, _who: &str, _act: &Act) -> Result<u64> {
        Ok(1)
    }
}

/// What is kept, and a gate before whoever reads it.
#[derive(Default)]
struct Store {
    points: Mutex<Vec<StoredPoint>>,
    opened: AtomicUsize,
    shut: Mutex<bool>,
    gate: Condvar,
    broken: Mutex<bool>,
}

impl Store {
    fn shut(&self, shut: bool) {
        *self.shut.lock().unwrap() = shut;
        self.gate.notify_all();
    }
}

struct Shelf(Arc<Store>);

impl Past for Shelf {
    fn open(&self) -> Result<Box<dyn Rows>> {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        if *self.0.broken.lock().unwrap() {
            return Err(Error::new(Code::Io, "the disk is gone"));
        }
        Ok(Box::new(Reader(self.0.clone())))
    }
}

struct Reader(Arc<Store>);

impl Rows for Reader {
    fn points(&mut self, rows: (i64, i64), of: Option<(u32, u32)>, most: usize) -> Result<Vec<StoredPoint>> {
        let shut = self.0.shut.lock().unwrap();
        drop(self.0.gate.wait_while(shut, |shut| *shut).unwrap());
        let all = self.0.points.lock().unwrap();
        let wanted = all.iter().filter(|p| p.row >= rows.0 && p.row <= rows.1);
        Ok(wanted.filter(|p| of.is_none_or(|of| of == (p.diagram, p.curve))).take(most).copied().collect())
    }
}

struct Scene {
    run: Arc<Run>,
    store: Arc<Store>,
    viewer: u64,
}

impl Scene {
    /// A run with one history of two curves, which the program numbers 7.
    fn new() -> Scene {
        let store = Arc::new(Store::default());
        let info = RunInfo { id: "r1".into(), ..RunInfo::default() };
        let run = Hub::new().add(info, Arc::new(Nobody), Some(Arc::new(Shelf(store.clone())))).unwrap();
        let (viewer, _) = run.viewers.enter(Role::Viewer, None).unwrap();
        let scene = Scene { run, store, viewer };
        scene.declare();
        scene
    }

    fn declare(&self) {
        let about = Diagram {
            id: 7,
            title: "energy".into(),
            kind: Kind::History,
            x: "t".into(),
            y: "W".into(),
            v: None,
            xscale: Scale::Linear,
            yscale: Scale::Linear,
            every: 1,
            reduce: None,
        };
        self.run.declare(0, &Declare::Diagram(about)).unwrap();
        for (curve, name) in [(0, "field"), (1, "kinetic")] {
            self.run.declare(0, &Declare::Curve { diagram: 7, curve, name: name.into() }).unwrap();
        }
    }

    fn look(&self) {
        self.run.viewers.look(
            self.viewer,
            &[View { diagram: 0, columns: 4096, range: None, log: false }],
            false,
        );
        self.run.rewatch();
    }

    /// The program appends, and the store keeps it.
    fn keep(&self, t: f64) -> i64 {
        let mut points = self.store.points.lock().unwrap();
        let row = points.last().map_or(1, |p| p.row + 1);
        for (curve, value) in [(0, t.sin()), (1, t)] {
            points.push(StoredPoint { row: row + i64::from(curve), diagram: 7, curve, t, value });
        }
        row
    }

    fn append(&self, t: f64) {
        let row = self.keep(t);
        self.tell(row, t);
    }

    fn tell(&self, row: i64, t: f64) {
        self.run.append(0, 7, row, 0, t, &[(0, t.sin()), (1, t)]).unwrap();
    }

    /// Abscissae of the first curve as a viewer is sent them.
    fn shown(&self) -> Vec<f64> {
        let window = Window { columns: 4096, range: None, log: false };
        let (_, bytes) = self.run.picture(0, &window).unwrap();
        let n = u32::from_le_bytes(bytes[32..36].try_into().unwrap()) as usize;
        (0..n).map(|i| f64::from_le_bytes(bytes[64 + 8 * i..72 + 8 * i].try_into().unwrap())).collect()
    }

    fn until(&self, what: &str, check: impl Fn(&[f64]) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let shown = self.shown();
            if check(&shown) {
                return;
            }
            assert!(Instant::now() < deadline, "not {what}: {} points, {:?}", shown.len(), shown.last());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn counting(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

#[test]
fn nothing_is_read_before_somebody_looks_and_then_all_of_it() {
    let scene = Scene::new();
    for i in 0..2000 {
        scene.append(f64::from(i));
    }
    assert_eq!(scene.store.opened.load(Ordering::SeqCst), 0);
    assert_eq!(scene.shown(), [0.0; 0]);
    scene.look();
    scene.until("all there", |x| x == counting(2000));
    for i in 2000..2010 {
        scene.append(f64::from(i));
    }
    assert_eq!(scene.shown(), counting(2010), "what is told now is shown at once");
}

#[test]
fn who_tells_of_points_waits_for_no_reader() {
    let scene = Scene::new();
    for i in 0..100 {
        scene.append(f64::from(i));
    }
    scene.store.shut(true);
    scene.look();
    // The reader hangs in its disk; each of these would, too, if it waited for it.
    for i in 100..200 {
        scene.append(f64::from(i));
    }
    scene.declare();
    scene.run.message(1, 0, "still here");
    scene.run.went_back();
    scene.look();
    assert_eq!(scene.shown(), [0.0; 0]);
    scene.store.shut(false);
    scene.until("all there", |x| x == counting(200));
}

#[test]
fn points_that_come_while_the_past_is_read_are_there_once() {
    for late in [0, 1, 5] {
        let scene = Scene::new();
        for i in 0..40_000 {
            scene.append(f64::from(i));
        }
        scene.look();
        // What the reader sees before it is told must not come twice.
        let mut untold = std::collections::VecDeque::new();
        for i in 40_000..60_000 {
            untold.push_back((scene.keep(f64::from(i)), f64::from(i)));
            if untold.len() > late {
                let (row, t) = untold.pop_front().unwrap();
                scene.tell(row, t);
            }
        }
        untold.into_iter().for_each(|(row, t)| scene.tell(row, t));
        scene.until("the last one is there", |x| x.last() == Some(&59_999.0));
        scene.until("everything was read", |_| {
            let inner = scene.run.inner();
            inner.panels[&0].curves.iter().all(|c| c.count() == 60_000)
        });
    }
}

#[test]
fn a_run_that_went_back_shows_what_is_kept_now() {
    let scene = Scene::new();
    for i in 0..5000 {
        scene.append(f64::from(i));
    }
    scene.look();
    scene.until("all there", |x| x.len() == 5000);
    scene.store.points.lock().unwrap().retain(|p| p.t < 300.0);
    scene.run.went_back();
    scene.until("cut", |x| x == counting(300));
    scene.append(300.0);
    scene.until("and goes on", |x| x == counting(301));
}

#[test]
fn a_past_that_cannot_be_read_is_said_once_and_what_comes_is_shown() {
    let scene = Scene::new();
    *scene.store.broken.lock().unwrap() = true;
    scene.append(0.0);
    scene.look();
    let said = || {
        let all = scene.run.changes(&mut crate::viewer::Seen::default());
        all.iter().filter(|m| format!("{m:?}").contains("the disk is gone")).count()
    };
    scene.until("said", |_| said() == 1);
    for i in 1..50 {
        scene.append(f64::from(i));
    }
    scene.until("new points are shown", |x| x == &counting(50)[1..]);
    assert_eq!(said(), 1);
    *scene.store.broken.lock().unwrap() = false;
    scene.look();
    scene.until("read when somebody looks again", |x| x == counting(50));
}

#[test]
fn wide_buckets_are_opened_and_the_picture_becomes_the_truth() {
    let scene = Scene::new();
    // The time step grows a thousandfold at the end.
    let time = |i: i32| if i < 99_000 { f64::from(i) / 1e3 } else { 99.0 + f64::from(i - 99_000) };
    for i in 0..100_000 {
        scene.append(time(i));
    }
    scene.look();
    scene.until("the last thousand steps are drawn one by one", |x| {
        x.iter().filter(|t| **t > 99.5).count() >= 999
    });
    let window = Window { columns: 4096, range: None, log: false };
    let flags = || scene.run.picture(0, &window).unwrap().1[7];
    scene.until("nothing is coarse any more", |_| flags() & crate::frame::COARSE == 0);
}

#[test]
fn a_point_of_a_lower_rank_takes_the_place_of_what_was_shown() {
    let scene = Scene::new();
    scene.look();
    scene.append(0.0);
    scene.append(1.0);
    scene.until("all there", |x| x == counting(2));
    let row = scene.store.points.lock().unwrap()[2].row;
    scene.store.points.lock().unwrap()[2].value = 5.0;
    scene.run.amend(1, 7, 0, row, 1.0, 5.0).unwrap();
    let still = scene.run.inner().panels[&0].still();
    let drawn = still.curves[0].2.draw(&Window { columns: 100, range: None, log: false });
    assert_eq!(drawn.points.y, [0.0, 5.0]);
}
