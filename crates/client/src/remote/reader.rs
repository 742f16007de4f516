//! Reads a run on another host: questions over a line of its own, many under way at a time. A line
//! that was cut is opened again; to ask twice does no harm.

use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use forebay_host::wait::{self, PollFlags};
use forebay_link::frame::{Header, kind as frame};
use forebay_link::silence::OF_ANSWER;
use forebay_link::stream::{NoPlace, Received};
use forebay_link::{Message, Stream};
use forebay_types::codec::{Reader as Bytes, Writer};
use forebay_types::line::{LineRequest, kind};
use forebay_types::reading::{MORE, Question, Wanted, take_array, take_rows};
use forebay_types::record::Cell;
use forebay_types::{ArrayMeta, Code, Error, Result};
use serde::de::DeserializeOwned;

use super::relay::{REFUSED, RETRY, RemoteRun, ask};
use crate::run::Check;

/// How long the run may take to be opened for reading.
const OPENING: Duration = Duration::from_secs(30);
/// Between two looks at the user's check.
const SLICE: Duration = Duration::from_millis(100);
/// Questions under way.
const WINDOW: usize = 256;

/// An array as it came: what it is, its unit, its bytes.
pub type RemoteArray = (ArrayMeta, String, Vec<u8>);

/// A run on another host, open for reading. Usable from every thread.
pub struct RemoteReader {
    remote: RemoteRun,
    run_id: String,
    line: Mutex<Option<Stream>>,
    check: RwLock<Option<Check>>,
}

impl RemoteReader {
    /// Opens it; `NotFound` when there is no such run.
    pub fn open(remote: RemoteRun) -> Result<RemoteReader> {
        let mut line = call(&remote)?;
        let mut reader =
            RemoteReader { remote, run_id: String::new(), line: Mutex::new(None), check: RwLock::new(None) };
        reader.run_id = reader.run_of(&mut line)?;
        *reader.lock() = Some(line);
        Ok(reader)
    }

    /// The identity of the run that a line reads.
    fn run_of(&self, line: &mut Stream) -> Result<String> {
        self.understood(&self.asked(line, &Question::RunId)??)
    }

    /// A line in the place of one that is dead, to the same run: it may have been begun anew meanwhile.
    fn call_again(&self) -> Result<Stream> {
        let mut line = call(&self.remote)?;
        let now = self.run_of(&mut line)?;
        match now != self.run_id {
            true => Err(Error::new(
                Code::Conflict,
                format!(
                    "{} is another run than when it was opened here: it was begun anew, as with mode \"w\"; open it again",
                    self.remote.url
                ),
            )),
            false => Ok(line),
        }
    }

    /// Sets the check that waiting calls make every 100 ms in the waiting thread.
    pub fn on_wait(&self, check: Check) {
        *self.check.write().unwrap_or_else(|e| e.into_inner()) = Some(check);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.line.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Asks with a line. One that turns out to be dead is opened again: at once, and then again and again for as long as
    /// a cut line of a rank is, since the way to the other host may be cut for a while.
    fn with<T>(&self, mut work: impl FnMut(&mut Stream) -> Result<T>) -> Result<T> {
        let mut place = self.lock();
        let (mut since, mut retry): (Option<Instant>, _) = (None, RETRY);
        loop {
            let line = match place.take() {
                Some(line) => Ok(line),
                None => self.call_again(),
            };
            let failed = match line {
                Ok(mut line) => match work(&mut line) {
                    Err(e) if is_of_the_line(&e) => e,
                    done => {
                        *place = Some(line);
                        return done;
                    }
                },
                Err(e) => e,
            };
            let patience = match failed.code() {
                Code::ServerLost => self.remote.patience,
                Code::NoServer => REFUSED,
                _ => return Err(failed),
            };
            let Some(began) = since else {
                since = Some(Instant::now());
                continue;
            };
            if began.elapsed() > patience {
                return Err(failed);
            }
            self.interrupted()?;
            std::thread::sleep(retry.pause());
        }
    }

    /// The answer to a question, as JSON.
    pub fn ask<T: DeserializeOwned>(&self, question: &Question) -> Result<T> {
        self.understood(&self.bytes(question)?)
    }

    fn understood<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T> {
        serde_json::from_slice(answer).map_err(|e| {
            Error::new(
                Code::VersionMismatch,
                format!("an answer from {} is not understood: {e}", self.remote.url),
            )
        })
    }

    /// The answer to a question, as rows.
    pub fn rows(&self, question: &Question) -> Result<(Vec<String>, Vec<Vec<Cell>>)> {
        take_rows(&self.bytes(question)?)
    }

    fn bytes(&self, question: &Question) -> Result<Vec<u8>> {
        self.with(|line| self.asked(line, question)?)
    }

    /// The answer that comes on a line, or the error in its place.
    fn asked(&self, line: &mut Stream, question: &Question) -> Result<Result<Vec<u8>>> {
        let json = serde_json::to_vec(question).map_err(|e| Error::internal(e.to_string()))?;
        line.push(Header::new(kind::READ, 1), &json, &[])?;
        self.answer(line, 1, Vec::new(), |all, bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
    }

    /// An array.
    pub fn array(&self, wanted: &Wanted) -> Result<RemoteArray> {
        self.with(|line| {
            self.question(line, 1, wanted)?;
            self.one(line, 1)?
        })
    }

    /// Many arrays, each or its error; the questions are under way together.
    pub fn arrays(&self, wanted: &[Wanted]) -> Result<Vec<Result<RemoteArray>>> {
        self.with(|line| {
            let mut answers = Vec::with_capacity(wanted.len());
            let mut asked = 0;
            while answers.len() < wanted.len() {
                // By halves, so that questions leave many at a time.
                if asked - answers.len() <= WINDOW / 2 {
                    let end = wanted.len().min(answers.len() + WINDOW);
                    for one in &wanted[asked..end] {
                        asked += 1;
                        self.question(line, asked as u64, one)?;
                    }
                }
                let id = answers.len() as u64 + 1;
                answers.push(self.one(line, id)?);
            }
            Ok(answers)
        })
    }

    fn question(&self, line: &mut Stream, id: u64, wanted: &Wanted) -> Result<()> {
        let mut w = Writer::new();
        wanted.encode(&mut w);
        line.push(Header::new(kind::READ, id), b"", &[&w.finish()])
    }

    fn one(&self, line: &mut Stream, id: u64) -> Result<Result<RemoteArray>> {
        let array = self.answer(line, id, None::<RemoteArray>, |array, bytes| match array {
            None => {
                let mut r = Bytes::new(bytes);
                let (meta, units) = take_array(&mut r)?;
                let total = usize::try_from(meta.bytes()?).map_err(|_| {
                    Error::new(Code::Full, format!("{meta} does not fit this machine's memory"))
                })?;
                let mut data = Vec::new();
                data.try_reserve_exact(total).map_err(|_| {
                    Error::new(
                        Code::Full,
                        format!("no memory for {meta}; read it in parts, with a selection"),
                    )
                })?;
                data.extend_from_slice(r.raw(r.remaining())?);
                *array = Some((meta, units, data));
                Ok(())
            }
            Some((_, _, data)) => {
                data.extend_from_slice(bytes);
                Ok(())
            }
        })?;
        Ok(array.and_then(|array| match array {
            Some((meta, units, data)) if data.len() as u64 == meta.bytes()? => Ok((meta, units, data)),
            _ => Err(Error::new(Code::Corrupt, "an array came with fewer bytes than its shape says")),
        }))
    }

    /// Takes the frames of one answer; inside, the error that came in place of it.
    fn answer<A>(
        &self,
        line: &mut Stream,
        id: u64,
        mut all: A,
        mut take: impl FnMut(&mut A, &[u8]) -> Result<()>,
    ) -> Result<Result<A>> {
        loop {
            let received = self.frame(line)?;
            let header = received.header;
            if header.id != id {
                let text = format!("the answer {} came in place of {id}", header.id);
                return Err(Error::new(Code::Corrupt, text));
            }
            match header.kind {
                kind::DATA => {
                    take(&mut all, &received.body)?;
                    if header.flags & MORE == 0 {
                        return Ok(Ok(all));
                    }
                }
                frame::ERROR => {
                    let failure = Message::from(received).failure();
                    return Ok(Err(failure.err().unwrap_or_else(|| Error::internal("no error"))));
                }
                other => {
                    return Err(Error::new(
                        Code::Corrupt,
                        format!("a frame of kind {other} came to a reader"),
                    ));
                }
            }
        }
    }

    /// The next frame, waited for.
    fn frame(&self, line: &mut Stream) -> Result<Received> {
        let (mut heard, mut come) = (Instant::now(), line.received());
        loop {
            let gone = line.flush()?;
            if let Some(received) = line.next(&mut NoPlace)? {
                return Ok(received);
            }
            if line.received() != come {
                (heard, come) = (Instant::now(), line.received());
            }
            let out = if gone { PollFlags::empty() } else { PollFlags::OUT };
            let [ready] = wait::among([(line.as_fd(), PollFlags::IN | out)], Some(SLICE))?;
            if ready.is_empty() {
                self.interrupted()?;
            }
            if heard.elapsed() > OF_ANSWER {
                let text = format!("{} has not answered for {} s", self.remote.url, OF_ANSWER.as_secs());
                return Err(Error::new(Code::Timeout, text));
            }
        }
    }

    fn interrupted(&self) -> Result<()> {
        let check = self.check.read().unwrap_or_else(|e| e.into_inner()).clone();
        check.map_or(Ok(()), |check| check())
    }
}

/// Whether the line is in no state to be used again.
fn is_of_the_line(e: &Error) -> bool {
    matches!(
        e.code(),
        Code::ServerLost | Code::Timeout | Code::Cancelled | Code::Corrupt | Code::Full | Code::Io
    )
}

fn call(remote: &RemoteRun) -> Result<Stream> {
    let mut call = remote.call()?;
    let () = ask(&mut call, &LineRequest::ReadRemote { path: remote.name.clone() }, OPENING)
        .map_err(|e| remote.names(e))?;
    Ok(call.into_run())
}
