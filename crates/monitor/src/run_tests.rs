//! What owners tell of a run and what viewers see of it.

use std::sync::{Arc, OnceLock};

use forebay_arena::{SegmentSpec, TripleBuffer};
use forebay_types::watch::{Act, Declare, Diagram, Kind, Parameter, Phase, Scale, State};
use forebay_types::{Code, Result};
use serde_json::json;

use super::*;
use crate::Hub;
use crate::source::{LocalSlot, Reading};
use crate::viewer::Seen;

struct Taker;

impl Steer for Taker {
    fn act(&self, _who: &str, _act: &Act) -> Result<u64> {
        Ok(41)
    }
}

fn run() -> Arc<Run> {
    Hub::new().add(RunInfo { id: "r1".into(), ..RunInfo::default() }, Arc::new(Taker), None).unwrap()
}

fn diagram(id: u32, title: &str, kind: Kind) -> Declare {
    Declare::Diagram(Diagram {
        id,
        title: title.into(),
        kind,
        x: "x [m]".into(),
        y: "y".into(),
        v: None,
        xscale: Scale::Linear,
        yscale: Scale::Linear,
        every: 1,
        reduce: None,
    })
}

fn window() -> Window {
    Window { columns: 512, range: None, log: false }
}

fn count(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[32..36].try_into().unwrap())
}

fn see(run: &Run, diagrams: &[u32]) -> u64 {
    let (id, ..) = run.viewers.enter(Role::Viewer, None).unwrap();
    let view = |d: &u32| crate::say::View { diagram: *d, columns: 512, range: None, log: false };
    run.viewers.look(id, &diagrams.iter().map(view).collect::<Vec<_>>(), false);
    run.rewatch();
    id
}

#[test]
fn a_diagram_declared_by_two_ranks_is_one_and_shows_both_parts() {
    let run = run();
    let publish = |slot: &LocalSlot, x: f64| {
        slot.publish(Reading { step: 5, time: 0.5, x: vec![x], y: vec![1.0] }).unwrap();
    };
    let mut slots = Vec::new();
    for rank in 0..2 {
        run.declare(rank, &diagram(7, "phase space", Kind::Scatter)).unwrap();
        let (slot, source) = LocalSlot::new();
        run.slot(rank, 7, 0, "beam", source).unwrap();
        publish(&slot, f64::from(rank));
        slots.push(slot);
    }
    assert_eq!(run.versions().len(), 1);
    see(&run, &[0]);
    run.poll();
    let (version, bytes) = run.picture(0, &window()).unwrap();
    assert_eq!((version, count(&bytes)), (1, 2));
    run.rank_left(1);
    assert!(run.declare(1, &Declare::Curve { diagram: 7, curve: 0, name: "beam".into() }).is_err());
    assert_eq!(count(&run.picture(0, &window()).unwrap().1), 2, "what was shown last stays");
}

#[test]
fn a_source_is_watched_while_somebody_looks_and_not_longer() {
    let run = run();
    run.declare(0, &diagram(0, "E", Kind::Curve)).unwrap();
    let (slot, source) = LocalSlot::new();
    run.slot(0, 0, 0, "E", source).unwrap();
    assert!(!slot.watched());
    let viewer = see(&run, &[0]);
    assert!(slot.watched());
    run.viewers.leave(viewer);
    run.rewatch();
    assert!(!slot.watched());
    see(&run, &[3]);
    assert!(!slot.watched(), "another diagram");
}

#[test]
fn points_come_from_a_triple_buffer_in_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("monitor-test-{}", std::process::id());
    let bytes = TripleBuffer::bytes_for(100);
    let spec =
        SegmentSpec { name, kind: 1, up_bytes: 65536, down_bytes: 65536, block_bytes: 2 * bytes, blocks: 8 };
    let segment = forebay_arena::Segment::create_in(dir.path(), &spec).unwrap();
    let block = segment.allocator().alloc(bytes).unwrap();
    let seen = segment.block(block.index()).unwrap();
    let mut writer = TripleBuffer::writer(block, 100).unwrap();
    let reader = TripleBuffer::reader(seen, 100).unwrap();
    let run = run();
    run.declare(0, &diagram(0, "E", Kind::Curve)).unwrap();
    run.slot(0, 0, 0, "E", Box::new(reader)).unwrap();
    writer.publish(12, 1.2, 3, |x, y| {
        x.copy_from_slice(&[0.0, 1.0, 2.0]);
        y.copy_from_slice(&[5.0, 6.0, 7.0]);
    });
    assert!(!writer.watched());
    see(&run, &[0]);
    assert!(writer.watched());
    run.poll();
    let (_, bytes) = run.picture(0, &window()).unwrap();
    assert_eq!((count(&bytes), &bytes[16..24]), (3, &12i64.to_le_bytes()[..]));
}

#[test]
fn a_source_that_fails_is_told_once_and_left_alone() {
    struct Broken;
    impl Source for Broken {
        fn latest(&mut self) -> Result<Option<Reading>> {
            Err(Error::new(Code::Corrupt, "the block is torn"))
        }
        fn watch(&mut self, _: bool) {}
    }
    let run = run();
    run.declare(0, &diagram(0, "E", Kind::Curve)).unwrap();
    run.slot(0, 0, 0, "E", Box::new(Broken)).unwrap();
    see(&run, &[0]);
    run.poll();
    run.inner().polled_ms = 0;
    run.poll();
    let messages = run.changes(&mut Seen::default()).into_iter().filter_map(|m| match m {
        ToPage::Messages { items } => Some(items),
        _ => None,
    });
    let texts: Vec<String> = messages.flatten().map(|m| m.text).collect();
    assert_eq!(texts, ["diagram \"E\" is not drawn further: the block is torn"]);
}

#[test]
fn a_viewer_is_told_everything_once_and_then_only_what_changed() {
    let run = run();
    let parameter: Parameter = serde_json::from_value(json!({"name": "e0", "value": 0.0})).unwrap();
    run.declare(0, &Declare::Parameter(parameter)).unwrap();
    for i in 0..50 {
        run.message(1, i, "hello");
    }
    let mut seen = Seen::default();
    let first = run.changes(&mut seen);
    let lines = |all: &[ToPage]| {
        all.iter().map(|m| if let ToPage::Messages { items } = m { items.len() } else { 0 }).sum::<usize>()
    };
    assert_eq!(lines(&first), 50);
    for message in &first {
        assert!(serde_json::to_string(message).unwrap().len() < 64 * 1024);
    }
    assert_eq!(run.changes(&mut seen), []);
    run.parameter("e0", &json!(0.5));
    run.parameter("unknown", &json!(0.5));
    let later = run.changes(&mut seen);
    assert!(
        matches!(&later[..], [ToPage::Parameters { items }] if items[0].value == json!(0.5)),
        "{later:?}"
    );
}

#[test]
fn an_act_is_checked_then_numbered_then_logged() {
    let run = run();
    assert_eq!(run.act("ann", Role::Viewer, &Act::Stop).unwrap_err().code(), Code::Refused);
    assert_eq!(run.act("ann", Role::Operator, &Act::Stop).unwrap(), 41);
    let ack =
        |phase, step| Ack { id: 41, who: "ann".into(), act: Act::Stop, phase, step, text: String::new() };
    let logged = || -> Vec<_> {
        let said = run.changes(&mut Seen::default());
        let items = said.into_iter().filter_map(|m| match m {
            ToPage::Steer { items } => Some(items),
            _ => None,
        });
        items.flatten().map(|l| (l.id, l.who, l.act, l.phase, l.step)).collect()
    };
    let line = |phase, step| [(41, "ann".to_owned(), Act::Stop, phase, step)];
    assert_eq!(logged(), [], "its owner tells of it");
    run.ack(ack(Phase::Queued, None));
    assert_eq!(logged(), line(Phase::Queued, None));
    run.ack(ack(Phase::Applied, Some(8)));
    assert_eq!(logged(), line(Phase::Applied, Some(8)));
    run.state(StateInfo { state: State::Ended, ..StateInfo::default() });
    assert_eq!(run.act("ann", Role::Operator, &Act::Run).unwrap_err().code(), Code::Closed);
}

#[test]
fn a_run_that_is_over_stays_so_whatever_a_glance_says() {
    struct Glancing;
    impl Steer for Glancing {
        fn act(&self, _: &str, _: &Act) -> Result<u64> {
            Ok(1)
        }
        fn glance(&self) -> Option<StateInfo> {
            Some(StateInfo { state: State::Running, step: 7, ..StateInfo::default() })
        }
    }
    let info = RunInfo { id: "r1".into(), ..RunInfo::default() };
    let run = Hub::new().add(info, Arc::new(Glancing), None).unwrap();
    assert_eq!((run.words().state, run.words().step), (State::Running, 7));
    run.state(StateInfo { state: State::Ended, step: 8, ..StateInfo::default() });
    assert_eq!((run.words().state, run.words().step), (State::Ended, 8));
    run.state(StateInfo::default());
    assert_eq!(run.words().state, State::Running, "a new session began");
}

#[test]
fn an_end_that_is_told_during_a_glance_is_the_last_word() {
    /// The run ends while it is looked at.
    struct Late(OnceLock<Arc<Run>>);
    impl Steer for Late {
        fn act(&self, _: &str, _: &Act) -> Result<u64> {
            Ok(1)
        }
        fn glance(&self) -> Option<StateInfo> {
            self.0.get()?.state(StateInfo { state: State::Ended, step: 8, ..StateInfo::default() });
            Some(StateInfo { state: State::Quitting, step: 7, ..StateInfo::default() })
        }
    }
    let late = Arc::new(Late(OnceLock::new()));
    let info = RunInfo { id: "r1".into(), ..RunInfo::default() };
    let run = Hub::new().add(info, late.clone(), None).unwrap();
    late.0.set(run.clone()).ok().unwrap();
    assert_eq!((run.words().state, run.words().step), (State::Ended, 8));
}

#[test]
fn limits_are_refused_by_name() {
    let run = run();
    for id in 0..limits::DIAGRAMS as u32 {
        run.declare(0, &diagram(id, &format!("d{id}"), Kind::History)).unwrap();
    }
    let e = run.declare(0, &diagram(9999, "one more", Kind::History)).unwrap_err();
    assert!(e.text().contains("at most 256 diagrams"), "{e}");
    for curve in 0..limits::CURVES as u32 {
        run.append(0, 3, 0, 0, 0.0, &[(curve, 1.0)]).unwrap();
    }
    assert!(run.append(0, 3, 0, 0, 0.0, &[(99, 1.0)]).is_err());
    assert!(run.append(5, 3, 0, 0, 0.0, &[(0, 1.0)]).is_err(), "rank 5 declared nothing");
    assert!(
        Hub::new().add(RunInfo { id: "a;b".into(), ..RunInfo::default() }, Arc::new(Taker), None).is_err()
    );
}
