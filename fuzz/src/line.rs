//! Bytes as what the other host sends over a line of a run: frames, and large parts of which some find a place.

use forebay_link::frame::Header;
use forebay_link::stream::{Place, Stream, Target};
use forebay_types::{Code, Error, Result};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Most bytes of an input: what a socket takes without anybody reading.
const MOST: usize = 64 << 10;

/// Takes parts of every second frame, and counts their bytes.
#[derive(Default)]
struct Half {
    frames: u64,
    due: u64,
    come: u64,
}

impl Place for Half {
    fn place(&mut self, _: &Header, _: &[u8], lengths: &[u64]) -> Result<Target> {
        self.frames += 1;
        if self.frames.is_multiple_of(2) {
            return Ok(Target::Nowhere(Error::new(Code::Full, "no room")));
        }
        self.due = self.due.saturating_add(lengths.iter().sum());
        Ok(Target::Through(self.frames))
    }

    fn take(&mut self, token: u64, _: u64, bytes: &[u8]) {
        assert!(!token.is_multiple_of(2), "bytes of a part that has no place");
        self.come += bytes.len() as u64;
    }
}

pub fn line(data: &[u8]) {
    let Some((how, bytes)) = data[..data.len().min(MOST)].split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0 {
        super::mend_all(&mut bytes);
    }
    let (mut peer, socket) = UnixStream::pair().expect("a pair of sockets");
    let mut line = Stream::of_run(socket);
    peer.write_all(&bytes).expect("room in a socket");
    peer.shutdown(Shutdown::Write).expect("its end");
    let begun = Instant::now();
    let mut half = Half::default();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "a line goes round in circles");
        match line.next(&mut half) {
            Ok(Some(received)) => {
                assert_eq!(received.body.len() as u64, received.header.body);
                assert_eq!(received.json.len(), received.header.json as usize);
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    assert!(half.come <= half.due);
}
