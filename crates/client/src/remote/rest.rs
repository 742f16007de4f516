//! The rest of a session whose program, or whose store, is gone: its segment is on this host still,
//! and what the catalog over there lacks is sent under a new session.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_arena::{Segment, segments};
use forebay_host::identity;
use forebay_link::Stream;
use forebay_link::run::Up;
use forebay_link::silence::OF_REST;
use forebay_link::stream::NoPlace;
use forebay_types::codec::Writer;
use forebay_types::control::{Ask, Elsewhere, Mode, OpenRun, WhenFull};
use forebay_types::line::{After, LineRequest, OwnerWords, RemoteAttached, RemoteOpened, kind};
use forebay_types::record::{Notice, Record};
use forebay_types::{Code, Error, Result};

use super::relay::{RemoteRun, ask, ask_hearing, measures};
use crate::run::{coded, show};

/// How long the other host may take to settle what the old session left.
const SETTLING: Duration = Duration::from_secs(90);

/// A segment that was left, and the session it belonged to.
struct Rest {
    path: PathBuf,
    after: After,
}

/// Whether dead programs of this user left anything here.
pub fn any_rest() -> bool {
    segments::found("remote-").iter().any(|at| !at.segment.creator_lives())
}

/// What dead programs of this user left on this host of that run.
fn rests(run_id: &str) -> Vec<Rest> {
    let stem = format!("remote-{run_id}-");
    let before = segments::name(&[&stem]);
    let rest = |at: segments::FoundSegment| {
        let name = at.path.file_name().and_then(|n| n.to_str())?;
        let own = name.strip_prefix(&before)?.to_owned();
        let after = After { session: own.split('-').next()?.parse().ok()?, own };
        (!at.segment.creator_lives()).then_some(Rest { path: at.path, after })
    };
    segments::found(&stem).into_iter().filter_map(rest).collect()
}

/// Frees what dead programs of this user left on this host of runs that had this address before the one of that
/// number was made there.
pub fn forget_rests(url: &str, run_id: &str) {
    let stem = format!("remote-{run_id}-");
    let now = segments::name(&[&stem]);
    let is_now = |at: &segments::FoundSegment| {
        at.path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&now))
    };
    segments::found("remote-")
        .into_iter()
        .filter(|at| !is_now(at) && at.segment.label().as_deref() == Some(url) && !at.segment.creator_lives())
        .for_each(|at| drop(at.segment.unlink()));
}

/// What became of what was brought.
#[derive(Default)]
pub struct Sent {
    /// How many sessions' rests there were.
    pub sessions: usize,
    /// Why some of it was not taken: that is kept here.
    pub refused: Vec<Error>,
}

/// Sends all of them, at the same time since their steps belong together.
pub fn send_rests(remote: &RemoteRun, run_id: &str) -> Result<Sent> {
    let rests = rests(run_id);
    let sent: Vec<Result<RestFate>> = std::thread::scope(|scope| {
        let threads: Vec<_> = rests.iter().map(|rest| scope.spawn(|| rest.send(remote))).collect();
        let died = |_| Err(Error::internal("a thread that sends the rest of a session died"));
        threads.into_iter().map(|t| t.join().unwrap_or_else(died)).collect()
    });
    let mut all = Sent::default();
    for taken in sent {
        match taken? {
            RestFate::All => all.sessions += 1,
            RestFate::NotOfThatRun => {}
            RestFate::Not(why) => {
                all.sessions += 1;
                all.refused.push(why);
            }
        }
    }
    Ok(all)
}

/// What became of a rest.
enum RestFate {
    All,
    /// It is of a copy of that run.
    NotOfThatRun,
    Not(Error),
}

impl Rest {
    /// Sends it.
    fn send(&self, remote: &RemoteRun) -> Result<RestFate> {
        let segment = Segment::open(&self.path)?;
        let mut call = remote.call()?;
        // Rank and size are those of the old session.
        let open = OpenRun {
            path: remote.name.clone(),
            mode: Mode::ReadWrite,
            rank: 0,
            size: 1,
            full: WhenFull::Block,
            scratch: false,
            buffer: segment.block_bytes(),
            program: "forebay recover".into(),
            elsewhere: remote.elsewhere,
        };
        let (host, pid) = (identity::host(), std::process::id());
        let request =
            LineRequest::OpenRemote { open, host, pid, launched: None, after: Some(self.after.clone()) };
        let opened: RemoteOpened = match ask_hearing(&mut call, &request, SETTLING, show) {
            Err(e) if e.code() == Code::Refused => return Ok(RestFate::NotOfThatRun),
            opened => opened?,
        };
        let left = opened.left.ok_or_else(|| Error::internal("the other host did not say what it has"))?;
        let RemoteAttached { .. } = ask(&mut call, &LineRequest::AttachRemote(measures(&segment)), SETTLING)?;
        let mut up = Up::new(&segment);
        up.lacks(left);
        let done = drive(&mut call.into_run(), &mut up);
        drop(up);
        let what = format!("the rest of session {} in {}", self.after.session, self.path.display());
        let refused = done.map_err(|e| e.within(what.clone()))?;
        match refused.first() {
            Some(why) if remote.elsewhere == Elsewhere::Refuse => {
                let more = if refused.len() > 1 { "; and more like it" } else { "" };
                let text = format!(
                    "{what} was not taken as a whole, and stays there: {}{more}; `forebay recover --abandon {}` gives it up",
                    why.text(),
                    remote.url
                );
                Ok(RestFate::Not(Error::new(why.code(), text)))
            }
            _ => segment.unlink().map(|()| RestFate::All),
        }
    }
}

/// Sends everything, then asks to close and waits for the answer. Gives what was refused.
fn drive(line: &mut Stream, up: &mut Up) -> Result<Vec<Error>> {
    let mut refused = Vec::new();
    let mut closing = None;
    let mut heard = Instant::now();
    let mut notices = 0;
    loop {
        let mut any = up.pump(line, 0, notices)?;
        if !any && closing.is_none() && !up.pending() {
            closing = Some(up.push_last(line, close)?);
        }
        line.flush()?;
        if line.wait_until(Instant::now() + Duration::from_millis(20), &mut NoPlace)? {
            (heard, any) = (Instant::now(), true);
        }
        while let Some(received) = line.next(&mut NoPlace)? {
            let body = &received.body;
            match received.header.kind {
                kind::NOTICE => {
                    notices = received.header.id;
                    match Notice::decode(body) {
                        Ok(Notice::Late { code, text }) => refused.push(coded(code, text)),
                        Ok(Notice::Answer { seq, code, text }) if closing == Some(seq) => {
                            return match code {
                                0 => Ok(refused),
                                code => Err(coded(code, text)),
                            };
                        }
                        _ => {}
                    }
                }
                kind::OWNER => up.words_of_owner(&OwnerWords::decode(body)?),
                kind::RELEASED => up.released(body)?,
                _ => {}
            }
        }
        if !any && heard.elapsed() > OF_REST {
            return Err(Error::new(
                Code::ServerLost,
                format!("nothing has come over the line for {} s", OF_REST.as_secs()),
            ));
        }
    }
}

fn close(seq: u64, w: &mut Writer) {
    let json = serde_json::to_string(&Ask::Close { finished: false }).unwrap_or_default();
    Record::Ask { json: &json }.encode(seq, w);
}
