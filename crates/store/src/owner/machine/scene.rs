//! Scenes for tests: a machine, ranks that say what the scene has them say, and a catalog and a disk that do what they
//! are asked when the scene lets them.

use super::*;
use crate::stepfile::Facts;
use forebay_types::codec::Writer;
use forebay_types::control::Ask;
use forebay_types::record::{HeldBlock, Payload, Place, Record, StepBlock};
use forebay_types::{ArrayMeta, DType, Result, Shape};

/// Bytes of a rank's ring.
pub const RING: u64 = 1 << 20;
/// Bytes of a block: no small file has one.
pub const LARGE: u64 = 300 << 10;
pub const PAUSE: Duration = Duration::from_millis(100);
pub const LATE_RANKS: Duration = Duration::from_secs(10);
pub const CLOSING: Duration = Duration::from_secs(5);
/// How long a disk may fail.
pub const HICCUP: Duration = Duration::from_secs(60);

/// Of a machine whose run holds nothing yet.
pub fn birth() -> Birth {
    Birth {
        run_id: "r".into(),
        dir: "/r.fb".into(),
        last_act: 0,
        listed: (Vec::new(), Vec::new()),
        keeps: false,
        failed: Vec::new(),
        partial: Vec::new(),
        away: Vec::new(),
        life: 0,
        lives: Vec::new(),
        overflow: 0,
        closing: CLOSING,
        hiccup: HICCUP,
        files: HICCUP,
        late_ranks: LATE_RANKS,
        patience: PAUSE,
    }
}

/// A session of a rank whose process goes on; its number is 1 more than its rank when the run is new.
pub fn session(number: u64, rank: u32, size: u32) -> Session {
    Session { number, rank, size, pid: 100 + rank, ring: RING, ..Session::default() }
}

/// A session left by a dead owner, of a rank whose process goes on; what is read of its ring up to `replay_end` may
/// have been read before.
pub fn adopted(number: u64, rank: u32, size: u32, replay_end: u64) -> Session {
    Session { adopted: Some(Adopted { replay_end, waiting: None }), ..session(number, rank, size) }
}

/// A session left by a dead owner, of a rank that is dead, too.
pub fn recovered(number: u64, rank: u32, size: u32) -> Session {
    Session { recovered: true, hung: true, ..session(number, rank, size) }
}

pub fn fault(code: Code) -> Error {
    Error::new(code, "it fails")
}

/// See the head of the file.
pub struct Scene {
    pub m: Machine,
    pub now: Now,
    /// What is to be done and was not looked at yet.
    out: Vec<Action>,
    /// All that is in the catalog, in its order.
    pub catalog: Vec<Item>,
    /// By session: records that were published, and where the ring ends.
    rings: BTreeMap<u64, (u64, u64)>,
}

impl Scene {
    /// All ranks are there, and have said nothing.
    pub fn of(size: u32) -> Scene {
        let mut scene = Scene::born(birth());
        (0..size).for_each(|rank| scene.enter(session(1 + u64::from(rank), rank, size)));
        scene
    }

    pub fn born(birth: Birth) -> Scene {
        let (out, catalog, rings) = (Vec::new(), Vec::new(), BTreeMap::new());
        Scene { m: Machine::new(birth), now: Now::ZERO, out, catalog, rings }
    }

    pub fn feed(&mut self, event: Event) {
        self.m.handle(self.now, event, &mut self.out);
    }

    pub fn enter(&mut self, session: Session) {
        self.feed(Event::Enter(Box::new(session)));
    }

    pub fn hang(&mut self, session: u64) {
        self.feed(Event::Hung { session });
    }

    /// A record is read that takes so much of its ring; its number.
    pub fn publish(
        &mut self,
        session: u64,
        record: &Record,
        stretch: u64,
        block: Option<Result<bool>>,
    ) -> u64 {
        self.read(session, record, stretch, block, false)
    }

    fn read(
        &mut self,
        session: u64,
        record: &Record,
        stretch: u64,
        block: Option<Result<bool>>,
        pending: bool,
    ) -> u64 {
        let (seq, end) = self.rings.entry(session).or_default();
        (*seq, *end) = (*seq + 1, *end + stretch);
        let (seq, position) = (*seq, *end);
        let mut w = Writer::new();
        record.encode(seq, &mut w);
        let bytes = w.finish();
        self.feed(Event::Record { session, position, seq, record, bytes: &bytes, block, pending });
        seq
    }

    pub fn begin(&mut self, session: u64, step: i64) -> u64 {
        self.begin_over(session, step, 10)
    }

    /// Begins a step of a session by a record that takes `stretch` bytes of its ring.
    pub fn begin_over(&mut self, session: u64, step: i64, stretch: u64) -> u64 {
        self.publish(session, &Record::StepBegin { step, time: 0.0, head: -1, stride: 0 }, stretch, None)
    }

    /// Begins a step of a session by a record that a predecessor has moved into the catalog.
    pub fn begin_pending(&mut self, session: u64, step: i64) -> u64 {
        self.read(session, &Record::StepBegin { step, time: 0.0, head: -1, stride: 0 }, 0, None, true)
    }

    /// A large array of a step, in a block.
    pub fn block(&mut self, session: u64, step: i64, name: &str) -> u64 {
        self.block_that(session, step, name, Ok(true))
    }

    pub fn block_that(&mut self, session: u64, step: i64, name: &str, is: Result<bool>) -> u64 {
        let index = self.rings.get(&session).map_or(0, |r| r.0 as u32);
        let payload = Payload::Block(HeldBlock { segment: 0, index, generation: 1, bytes: LARGE });
        let (units, place, part) = ("", Place::Whole, 0);
        let b = StepBlock { step, name, units, meta: bytes(LARGE), place, part, payload };
        self.publish(session, &Record::StepBlock(b), 10, Some(is))
    }

    pub fn end(&mut self, session: u64, step: i64, blocks: u32) -> u64 {
        self.publish(session, &Record::StepEnd { step, blocks }, 10, None)
    }

    pub fn discard(&mut self, session: u64, step: i64) -> u64 {
        self.publish(session, &Record::StepDiscard { step }, 10, None)
    }

    pub fn early(&mut self, session: u64, step: i64) -> u64 {
        self.publish(session, &Record::StepEarly { step }, 10, None)
    }

    /// A step of one large array of one rank, and nothing of the others.
    pub fn whole(&mut self, session: u64, step: i64) {
        self.begin(session, step);
        self.block(session, step, "x");
        self.end(session, step, 1);
    }

    /// A small data set outside steps.
    pub fn put(&mut self, session: u64) -> u64 {
        let (set, units, attrs, if_version) = (0, "", "", None);
        let payload = Payload::Inline(&[0; 8]);
        let put = Record::Put { name: "a", set, meta: bytes(8), units, attrs, if_version, payload };
        self.publish(session, &put, 10, None)
    }

    /// A large one: its session waits until it is stored.
    pub fn large_put(&mut self, session: u64) -> u64 {
        let index = self.rings.get(&session).map_or(0, |r| r.0 as u32);
        let (set, units, attrs, if_version) = (0, "", "", None);
        let payload = Payload::Block(HeldBlock { segment: 0, index, generation: 1, bytes: LARGE });
        let put = Record::Put { name: "l", set, meta: bytes(LARGE), units, attrs, if_version, payload };
        self.publish(session, &put, 10, Some(Ok(true)))
    }

    /// A request that stands behind what stops the reading; its place in the ring.
    pub fn ask_ahead(&mut self, session: u64, ask: &Ask) -> (u64, u64) {
        assert!(self.m.looks_ahead(session) && !self.m.reads(session));
        let (seq, position) = self.rings.entry(session).or_default();
        (*seq, *position) = (*seq + 1, *position + 10);
        let (seq, position, ask) = (*seq, *position, ask.clone());
        self.feed(Event::Ahead { session, position, seq, ask });
        (seq, position)
    }

    /// Its turn has come.
    pub fn read_ask(&mut self, session: u64, (seq, position): (u64, u64), ask: &Ask) {
        assert!(self.m.reads(session));
        let json = serde_json::to_string(ask).unwrap();
        let record = &Record::Ask { json: &json };
        let mut w = Writer::new();
        record.encode(seq, &mut w);
        let bytes = w.finish();
        self.feed(Event::Record {
            session,
            position,
            seq,
            record,
            bytes: &bytes,
            block: None,
            pending: false,
        });
    }

    pub fn ask(&mut self, session: u64, ask: &Ask) -> u64 {
        self.ask_over(session, ask, 10)
    }

    /// Asks something for a session by a record that takes `stretch` bytes of its ring.
    pub fn ask_over(&mut self, session: u64, ask: &Ask, stretch: u64) -> u64 {
        let json = serde_json::to_string(ask).unwrap();
        self.publish(session, &Record::Ask { json: &json }, stretch, None)
    }

    /// All rings are read.
    pub fn turn(&mut self) {
        let all: Vec<u64> = self.m.sessions().map(|s| s.number).collect();
        all.into_iter().for_each(|session| self.feed(Event::Empty { session }));
        if self.m.asks_who_lives() {
            let ranks: Vec<u64> = self.m.sessions().filter(|s| !s.hung).map(|s| s.number).collect();
            for session in ranks {
                self.feed(Event::Seen { session, lives: true, left: false, unsure: false });
            }
        }
        self.feed(Event::Turn);
    }

    /// Lets `time` pass, and then all rings are read.
    pub fn turn_after(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    /// Takes the actions of one kind.
    pub fn take<T>(&mut self, pick: impl Fn(&Action) -> Option<T>) -> Vec<T> {
        let found = self.out.iter().filter_map(&pick).collect();
        self.out.retain(|action| pick(action).is_none());
        found
    }

    /// The group that is on its way into the catalog.
    pub fn group(&self) -> &[Item] {
        let group = |a: &'_ Action| matches!(a, Action::Commit { .. });
        match self.out.iter().find(|a| group(a)) {
            Some(Action::Commit { group, .. }) => group,
            _ => &[],
        }
    }

    fn take_group(&mut self) -> Option<Vec<Item>> {
        let at = self.out.iter().position(|a| matches!(a, Action::Commit { .. }))?;
        match self.out.remove(at) {
            Action::Commit { group, .. } => Some(group),
            _ => None,
        }
    }

    /// The group is committed, if there is one, and those that follow; whether there was any.
    pub fn commit(&mut self) -> bool {
        let any = self.commit_once();
        while self.commit_once() {}
        any
    }

    /// The group alone.
    pub fn commit_once(&mut self) -> bool {
        let Some(group) = self.take_group() else { return false };
        let effects = group.iter().filter_map(effect).collect();
        self.catalog.extend(group.iter().cloned());
        self.feed(Event::Committed { group, effects });
        true
    }

    pub fn commit_fails(&mut self, code: Code) {
        let group = self.take_group().expect("a group is on its way");
        self.feed(Event::NotCommitted { group, error: fault(code) });
    }

    /// What steps were taken with is said; whether any was asked for.
    pub fn describe(&mut self) -> bool {
        let asked = self.take(|a| if let Action::Describe { step, .. } = a { Some(*step) } else { None });
        for step in &asked {
            let facts = Facts { step: *step, ..Facts::default() };
            self.feed(Event::Described { step: *step, facts: Ok(Box::new(facts)) });
        }
        !asked.is_empty()
    }

    /// Works that are to be done.
    pub fn works(&mut self) -> Vec<Work> {
        let (works, others) =
            std::mem::take(&mut self.out).into_iter().partition(|a| matches!(a, Action::Work(_)));
        self.out = others;
        let work = |a| if let Action::Work(work) = a { Some(*work) } else { None };
        Vec::into_iter(works).filter_map(work).collect()
    }

    /// The only one.
    pub fn work(&mut self) -> Work {
        let mut works = self.works();
        assert_eq!(works.len(), 1, "{works:?}");
        works.remove(0)
    }

    pub fn done(&mut self, work: &Work) {
        let sealed = match (work.key, &work.facts) {
            (_, None) => None,
            (Key::Put(_), _) => {
                Some(Sealed::Put(event::Stored { file: work.file.clone(), offset: 0, crc: 0 }))
            }
            (Key::Step(step), _) => {
                Some(Sealed::Step(Box::new(Manifest { step, ..Manifest::default() }), Vec::new(), Vec::new()))
            }
            (Key::Partial(step), _) => {
                Some(Sealed::Partial(Box::new(Manifest { step, ..Manifest::default() })))
            }
        };
        self.ends(work, work.parts.len(), Ok(sealed), FileState::Sound);
    }

    pub fn fails(&mut self, work: &Work, code: Code, file: FileState) {
        self.ends(work, 0, Err(fault(code)), file);
    }

    fn ends(&mut self, work: &Work, written: usize, result: Result<Option<Sealed>>, file: FileState) {
        let done = Done { id: work.id, written, result, file, took: Duration::ZERO, bytes: 0 };
        self.feed(Event::Done(Box::new(done)));
    }

    /// Everybody does what is asked until there is nothing more to do.
    pub fn settle(&mut self) {
        loop {
            self.turn();
            let mut any = self.commit();
            any |= self.describe();
            let works = self.works();
            works.iter().for_each(|work| self.done(work));
            if !any && works.is_empty() {
                return;
            }
        }
    }

    /// Who hears of something that is not kept, and what.
    pub fn late(&mut self) -> Vec<(u64, String)> {
        self.take(|a| match a {
            Action::Late { session, error } => Some((*session, error.text().to_owned())),
            _ => None,
        })
    }

    /// The answer to a request, if it came.
    pub fn answer(&mut self, session: u64, seq: u64) -> Option<Result<serde_json::Value>> {
        let of = |a: &Action| match a {
            Action::Answer { session: s, seq: n, result } if (*s, *n) == (session, seq) => {
                Some(result.clone())
            }
            _ => None,
        };
        let found = self.take(of);
        assert!(found.len() < 2, "{found:?}");
        found.into_iter().next()
    }

    /// The text of an answer that must be an error.
    pub fn refusal(&mut self, session: u64, seq: u64) -> String {
        match self.answer(session, seq) {
            Some(Err(e)) => e.text().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// Sessions whose rings are given back.
    pub fn released(&mut self) -> Vec<u64> {
        self.take(|a| if let Action::Release { session, .. } = a { Some(*session) } else { None })
    }

    /// Sessions whose blocks are.
    pub fn freed(&mut self) -> Vec<u64> {
        self.take(|a| if let Action::Free { session, .. } = a { Some(*session) } else { None })
    }

    /// Files of which nothing is to be left.
    pub fn discarded(&mut self) -> Vec<Key> {
        self.take(|a| if let Action::Discard(key) = a { Some(*key) } else { None })
    }

    /// Whether nothing more is accepted.
    pub fn is_lost(&mut self) -> bool {
        !self.take(|a| matches!(a, Action::Lost(_)).then_some(())).is_empty()
    }

    /// Sessions that have ended in the catalog.
    pub fn closed(&self) -> Vec<u64> {
        let of = |i: &Item| if let Item::Closed { session, .. } = i { Some(*session) } else { None };
        self.catalog.iter().filter_map(of).collect()
    }

    /// The log of the run.
    pub fn notes(&self) -> Vec<&str> {
        fn text(item: &Item) -> Option<&str> {
            if let Item::Note { text, .. } = item { Some(text) } else { None }
        }
        self.catalog.iter().filter_map(text).collect()
    }
}

fn bytes(n: u64) -> ArrayMeta {
    ArrayMeta::new(DType::U8, Shape::new(&[n]).unwrap())
}

/// What an item does in the catalog.
fn effect(item: &Item) -> Option<Effect> {
    Some(match item {
        Item::Closed { session, .. } => Effect::Closed { session: *session },
        Item::Step { manifest, .. } => Effect::Listed { step: manifest.step, time: None },
        Item::Record { session, seq, .. } => {
            let (session, seq) = (*session, *seq);
            match item.ask()? {
                ask @ (Ask::Flush | Ask::WaitStep { .. } | Ask::Close { .. }) => {
                    Effect::Later { session, seq, ask }
                }
                _ => Effect::Answer { session, seq, result: Ok(serde_json::Value::Null) },
            }
        }
        _ => return None,
    })
}
