//! What a server does for one client over the connection for files, on a thread of its own: no worker waits for a disk.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_host::files::{identity_of, is_full};
use forebay_host::wait::{self, PollFlags};
use forebay_host::{lock, rlimits};
use forebay_link::call::{FileFrame, FileLine};
use forebay_types::file::{FileIdentity, FileRequest, KeptFile as Kept, PIECE_BYTES, SeenFile, WrittenFile};
use forebay_types::{Code, Error, Result, Way};

use super::{Files, KeptFile};
use crate::shared::Shared;

/// A server that stops waits so long for clients to fetch what its services have written.
const GRACE: Duration = Duration::from_secs(30);
/// While nothing comes it is looked so often whether the client is there: its socket may be open in a child of `fork`.
const IDLE: Duration = Duration::from_secs(1);
/// One that stops looks so often.
const LOOK: Duration = Duration::from_millis(50);

/// A client's side of the files here.
struct Talk<'s> {
    files: &'s Files,
    client: u64,
    line: FileLine,
    /// The files that came over this connection and were not forgotten.
    own: HashSet<u64>,
    comes: Option<Coming>,
    /// The file that was read from last.
    reads: Option<(u64, File)>,
}

/// A file that comes in pieces.
struct Coming {
    number: u64,
    /// The request that is answered when it is whole.
    ask: u64,
    file: File,
    at: u64,
    bytes: u64,
}

/// Talks with a client until its end.
pub(crate) fn converse(shared: &Arc<Shared>, client: u64, line: FileLine) -> Result<()> {
    let there = shared.clone();
    let run = move || {
        let mut talk =
            Talk { files: &there.files, client, line, own: HashSet::new(), comes: None, reads: None };
        // A client that is gone is no trouble.
        if let Err(e) = talk.run(&there)
            && e.code() != Code::ServerLost
        {
            *lock(&there.trouble) = Some(e.within("files of a client"));
        }
        talk.own.iter().for_each(|number| there.files.forget(client, *number));
    };
    let thread = std::thread::Builder::new()
        .name("files".into())
        .spawn(run)
        .map_err(|e| rlimits::no_thread("cannot start the thread for a client's files", e))?;
    let mut threads = lock(&shared.files.threads);
    threads.retain(|thread| !thread.is_finished());
    threads.push(thread);
    Ok(())
}

impl Talk<'_> {
    fn run(&mut self, shared: &Shared) -> Result<()> {
        let mut over: Option<Instant> = None;
        loop {
            while let Some(frame) = self.line.try_next()? {
                self.take(frame)?;
            }
            let fds = [(self.line.as_fd(), PollFlags::IN), (shared.farewell.as_fd(), PollFlags::IN)];
            match shared.stopping() {
                false => {
                    let [came, stops] = wait::among(fds, Some(IDLE))?;
                    if came.is_empty() && stops.is_empty() && !shared.has(self.client) {
                        return Ok(());
                    }
                }
                true => {
                    // What runs is ended first, and what it wrote is fetched then.
                    if shared.is_over() {
                        let since = *over.get_or_insert_with(Instant::now);
                        if self.own.is_empty() || since.elapsed() >= GRACE {
                            return Ok(());
                        }
                    }
                    wait::among([fds[0]], Some(LOOK))?;
                }
            }
        }
    }

    fn take(&mut self, frame: FileFrame) -> Result<()> {
        match frame {
            FileFrame::Ask(id, FileRequest::Send { number, name, bytes, seen }) => {
                let answer = self.send(id, number, &name, (bytes, seen));
                self.line.answer(id, &answer, &mut || Ok(()))
            }
            FileFrame::Ask(id, FileRequest::Expect { number, name }) => {
                let answer = self.files.make(Way::Out, &name, 0).and_then(|file| self.keep(number, file));
                self.line.answer(id, &answer.map(drop), &mut || Ok(()))
            }
            FileFrame::Ask(id, FileRequest::Fetch { number }) => {
                let answer = self.written(number);
                self.line.answer(id, &answer, &mut || Ok(()))
            }
            FileFrame::Ask(id, FileRequest::Read { number, at }) => match self.read(number, at) {
                Ok(piece) => self.line.piece(id, at, &piece, &mut || Ok(())),
                Err(e) => self.line.answer(id, &Err::<(), _>(e), &mut || Ok(())),
            },
            FileFrame::Ask(_, FileRequest::Forget { numbers }) => {
                numbers.into_iter().for_each(|number| self.forget(number));
                Ok(())
            }
            FileFrame::Piece(number, at, bytes) => self.piece(number, at, &bytes),
            FileFrame::Answer(..) => Err(Error::new(Code::Corrupt, "an answer came that was not asked for")),
        }
    }

    fn keep(&mut self, number: u64, file: KeptFile) -> Result<Arc<KeptFile>> {
        let file = self.files.keep(self.client, number, file)?;
        self.own.insert(number);
        Ok(file)
    }

    fn forget(&mut self, number: u64) {
        self.comes.take_if(|comes| comes.number == number);
        self.reads.take_if(|(read, _)| *read == number);
        if self.own.remove(&number) {
            self.files.forget(self.client, number);
        }
    }

    fn send(&mut self, ask: u64, number: u64, name: &str, what: (u64, Option<SeenFile>)) -> Result<Kept> {
        let (bytes, seen) = what;
        // One that was given up is not gone on with.
        self.comes = None;
        if let Some(seen) = seen.filter(|seen| self.line.is_near() && is_seen(seen)) {
            let file = self.files.make(Way::In, name, 0)?;
            if symlink(&seen.path, file.path()).is_ok() {
                file.whole.store(true, Ordering::Release);
                self.keep(number, file)?;
                return Ok(Kept::Seen);
            }
        }
        let file = match self.files.make(Way::In, name, bytes) {
            Err(e) if e.code() == Code::Full && self.files.would_fit(name, bytes).is_ok() => {
                return Ok(Kept::NoRoom(e.text().to_owned()));
            }
            made => made?,
        };
        let into = OpenOptions::new().write(true).create_new(true).open(file.path());
        let into = into.map_err(|e| Error::io("cannot make a file in the scratch directory", e))?;
        let kept = self.keep(number, file)?;
        if bytes == 0 {
            kept.whole.store(true, Ordering::Release);
            return Ok(Kept::Whole);
        }
        self.comes = Some(Coming { number, ask, file: into, at: 0, bytes });
        Ok(Kept::Wanted)
    }

    fn piece(&mut self, number: u64, at: u64, bytes: &[u8]) -> Result<()> {
        // Of a file that was refused, or given up, more may be on its way.
        let Some(comes) = self.comes.as_mut().filter(|comes| comes.number == number) else { return Ok(()) };
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= comes.bytes && !bytes.is_empty());
        let Some(end) = end.filter(|_| at == comes.at) else {
            let (come, all) = (comes.at, comes.bytes);
            let text =
                format!("a piece of {} bytes at {at} of a file of {all}, of which {come} came", bytes.len());
            return Err(Error::new(Code::Corrupt, text));
        };
        let ask = comes.ask;
        if let Err(e) = comes.file.write_all(bytes) {
            self.forget(number);
            let base = self.files.scratch.base().display();
            let why = match is_full(&e) {
                true => Error::new(
                    Code::Full,
                    format!(
                        "server {:?} finds no room for a file of a call in {base} ({e}); free some there, or start it with \
                         another directory (forebay serve --scratch DIR:SIZE)",
                        self.files.server
                    ),
                ),
                false => Error::io(format!("server {:?} cannot write in {base}", self.files.server), e),
            };
            return self.line.answer(ask, &Err::<Kept, _>(why), &mut || Ok(()));
        }
        comes.at = end;
        if end < comes.bytes {
            return Ok(());
        }
        self.comes = None;
        if let Ok(file) = self.files.find(self.client, number) {
            file.whole.store(true, Ordering::Release);
        }
        self.line.answer(ask, &Ok(Kept::Whole), &mut || Ok(()))
    }

    /// A file that a service has written.
    fn come_back(&self, number: u64) -> Result<(Arc<KeptFile>, FileIdentity)> {
        let file = self.files.find(self.client, number)?;
        let written = file.written.get().copied();
        written
            .map(|identity| (file, identity))
            .ok_or_else(|| Error::new(Code::NotFound, format!("no service has written the file {number}")))
    }

    fn written(&self, number: u64) -> Result<WrittenFile> {
        let (file, identity) = self.come_back(number)?;
        let path = file.path().to_str().filter(|_| self.line.is_near());
        let seen = path.map(|path| SeenFile { path: path.to_owned(), identity });
        Ok(WrittenFile { bytes: identity.bytes, seen })
    }

    fn read(&mut self, number: u64, at: u64) -> Result<Vec<u8>> {
        let (file, identity) = self.come_back(number)?;
        let cannot = |e| Error::io("cannot read what the service has written", e);
        if self.reads.as_ref().is_none_or(|(of, _)| *of != number) {
            let path = file.path().to_owned();
            self.reads = Some((number, File::open(path).map_err(cannot)?));
        }
        let Some((_, file)) = &self.reads else {
            return Err(Error::internal("a file that is read is not open"));
        };
        let mut piece = vec![0; identity.bytes.saturating_sub(at).min(PIECE_BYTES as u64) as usize];
        file.read_exact_at(&mut piece, at).map_err(cannot)?;
        Ok(piece)
    }
}

/// Whether it is the same file that is seen from here: in a container the path may lead elsewhere.
fn is_seen(seen: &SeenFile) -> bool {
    let path = Path::new(&seen.path);
    let is_it = |meta: fs::Metadata| meta.is_file() && identity_of(&meta) == seen.identity;
    path.is_absolute() && fs::metadata(path).is_ok_and(is_it) && File::open(path).is_ok()
}
