//! What the store passes on while it applies records, to the page and to the controller. The store only puts it into a
//! queue; a thread of the agent carries it on, so that the store never waits for whoever looks.

use super::{Run, Site};
use forebay_arena::Segment;
use forebay_host::lock;
use forebay_store::Sink;
use forebay_types::control::Ask;
use forebay_types::record::Notice;
use forebay_types::watch::{Declare, level};
use forebay_types::{Error, Result};
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// So much waits to be carried on at most, but for what is told once only. Points of histories beyond that are read
/// from the catalog instead, where messages are, too.
const MOST: usize = 1 << 16;

/// What is to be carried on.
enum News {
    Declared {
        rank: u32,
        what: Declare,
        segment: Segment,
    },
    Point {
        session: u64,
        diagram: u32,
        row: i64,
        step: i64,
        t: f64,
        values: Vec<(u32, f64)>,
    },
    Amended {
        session: u64,
        diagram: u32,
        curve: u32,
        row: i64,
        t: f64,
        value: f64,
    },
    WentBack,
    Applied {
        session: u64,
        id: u64,
        step: i64,
        code: u32,
        text: String,
    },
    Message {
        level: u8,
        step: i64,
        text: String,
    },
    Trouble(String),
    Asked {
        session: u64,
        seq: u64,
        ask: Ask,
    },
    Closed {
        session: u64,
        clean: bool,
    },
    /// Whoever waits for all that was told before.
    Mark(Sender<()>),
}

#[derive(Default)]
struct Queue {
    news: VecDeque<News>,
    /// Something was left out for want of room.
    missed: bool,
    over: bool,
}

/// Listens for one run while its store is open.
#[derive(Default)]
pub struct NewsQueue {
    queue: Mutex<Queue>,
    came: Condvar,
}

impl NewsQueue {
    /// Starts the thread, which ends when the listening does.
    pub fn listen(run: Weak<Run>, site: Weak<dyn Site>) -> Result<Listening> {
        let queue = Arc::new(NewsQueue::default());
        let hears = queue.clone();
        let carry = move || {
            while let Some((news, missed)) = hears.next() {
                // A run that is gone hears nothing more; whoever waits is let go.
                if let (Some(run), Some(site)) = (run.upgrade(), site.upgrade()) {
                    news.into_iter().for_each(|n| carry(&run, &*site, n));
                    if let Some(page) = run.page().filter(|_| missed) {
                        page.went_back();
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("fb-news".into()).spawn(carry);
        thread.map_err(|e| Error::io("a thread of the agent cannot be started", e))?;
        Ok(Listening(queue))
    }

    /// Waits until all is carried on that the store has told.
    pub fn settle(&self) {
        let (tell, done) = channel();
        self.put(News::Mark(tell));
        // It is let go without a word when nobody carries anything any more.
        let _ = done.recv();
    }

    fn put(&self, news: News) {
        let mut queue = lock(&self.queue);
        let can_be_read = matches!(news, News::Point { .. } | News::Amended { .. } | News::Message { .. });
        if queue.over {
            return;
        }
        if can_be_read && queue.news.len() >= MOST {
            queue.missed = true;
            return;
        }
        queue.news.push_back(news);
        self.came.notify_all();
    }

    /// All that has come, and whether something was left out before it; none at the end.
    fn next(&self) -> Option<(VecDeque<News>, bool)> {
        let mut queue = lock(&self.queue);
        loop {
            if !queue.news.is_empty() {
                return Some((std::mem::take(&mut queue.news), std::mem::take(&mut queue.missed)));
            }
            if queue.over {
                return None;
            }
            queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A queue of news that ends with it.
pub struct Listening(pub Arc<NewsQueue>);

impl Drop for Listening {
    fn drop(&mut self) {
        lock(&self.0.queue).over = true;
        self.0.came.notify_all();
    }
}

impl Sink for NewsQueue {
    fn declare(&self, _session: u64, rank: u32, what: &Declare, segment: &Segment) {
        self.put(News::Declared { rank, what: what.clone(), segment: segment.clone() });
    }

    fn append(&self, session: u64, diagram: u32, row: i64, step: i64, t: f64, values: &[(u32, f64)]) {
        self.put(News::Point { session, diagram, row, step, t, values: values.to_vec() });
    }

    fn amend(&self, session: u64, diagram: u32, curve: u32, row: i64, t: f64, value: f64) {
        self.put(News::Amended { session, diagram, curve, row, t, value });
    }

    fn went_back(&self) {
        self.put(News::WentBack);
    }

    fn applied(&self, session: u64, id: u64, step: i64, code: u32, text: &str) {
        self.put(News::Applied { session, id, step, code, text: text.to_owned() });
    }

    fn message(&self, _session: u64, level: u8, step: i64, text: &str) {
        self.put(News::Message { level, step, text: text.to_owned() });
    }

    fn trouble(&self, text: &str) {
        self.put(News::Trouble(text.to_owned()));
    }

    fn ask(&self, session: u64, seq: u64, ask: &Ask) -> Option<Result<serde_json::Value>> {
        self.put(News::Asked { session, seq, ask: ask.clone() });
        None
    }

    fn closed(&self, session: u64, clean: bool) {
        self.put(News::Closed { session, clean });
    }
}

fn carry(run: &Arc<Run>, site: &dyn Site, news: News) {
    match news {
        News::Declared { rank, what, segment } => declared(run, rank, &what, &segment),
        News::Point { session, diagram, row, step, t, values } => {
            if let (Some(page), Some(rank)) = (run.page(), run.rank_of(session)) {
                page.append(rank, diagram, row, step, t, &values);
            }
        }
        News::Amended { session, diagram, curve, row, t, value } => {
            if let (Some(page), Some(rank)) = (run.page(), run.rank_of(session)) {
                page.amend(rank, diagram, curve, row, t, value);
            }
        }
        News::WentBack => {
            if let Some(page) = run.page() {
                page.went_back();
            }
        }
        News::Applied { session, id, step, code, text } => {
            if let Some(rank) = run.rank_of(session) {
                run.controller().applied(&**run, rank, id, step, code, &text);
            }
        }
        News::Message { level, step, text } => {
            if let Some(page) = run.page() {
                page.message(level, step, &text);
            }
        }
        News::Trouble(text) => {
            site.diary().warn(format_args!("{}: {text}", run.name()));
            run.remark(&text);
        }
        News::Asked { session, seq, ask } => {
            let (code, text) = match answer(run, site, &ask) {
                Ok(value) => (0, value.to_string()),
                Err(e) => (e.code() as u32, e.text().to_owned()),
            };
            run.post(session, &Notice::Answer { seq, code, text: &text });
        }
        News::Closed { session, clean } => run.closed(session, clean),
        News::Mark(tell) => drop(tell.send(())),
    }
}

fn declared(run: &Arc<Run>, rank: u32, what: &Declare, segment: &Segment) {
    run.controller().declare(&**run, rank, what);
    let Some(page) = run.page() else { return };
    if let Err(e) = page.declare(rank, what, segment) {
        page.message(level::WARNING, -1, &format!("rank {rank}: a declaration cannot be shown: {e}"));
    }
}

fn answer(run: &Run, site: &dyn Site, ask: &Ask) -> Result<serde_json::Value> {
    match ask {
        Ask::Monitor => {
            let links = site.links(&run.id())?;
            serde_json::to_value(links).map_err(|e| Error::internal(e.to_string()))
        }
        _ => Err(Error::bad(format!("this owner does not answer {ask:?}; use one version on both sides"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_again_is_left_out_when_nobody_carries_it_and_nothing_else_is() {
        let queue = NewsQueue::default();
        for row in 0..MOST as i64 + 10 {
            queue.append(1, 0, row, row, 0.0, &[(0, 1.0)]);
        }
        queue.message(1, level::INFO, -1, "left out, too");
        queue.applied(1, 7, 3, 0, "");
        queue.closed(1, true);
        let (news, missed) = queue.next().unwrap();
        assert!(missed && news.len() == MOST + 2);
        assert!(matches!(news[MOST], News::Applied { id: 7, .. }));
        assert!(matches!(news[MOST + 1], News::Closed { session: 1, clean: true }));
        queue.append(1, 0, 0, 0, 0.0, &[]);
        let (news, missed) = queue.next().unwrap();
        assert!(!missed && news.len() == 1);
    }

    fn nobody() -> Weak<dyn Site> {
        Weak::<crate::service::Shared>::new()
    }

    #[test]
    fn whoever_waits_is_let_go_when_nobody_listens_any_more() {
        let queue = NewsQueue::listen(Weak::new(), nobody()).unwrap();
        queue.0.settle();
        let kept = queue.0.clone();
        drop(queue);
        kept.settle();
        kept.closed(1, true);
        assert!(kept.next().is_none());
    }
}
