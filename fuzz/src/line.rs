//! Bytes as what the other host sends over a line of a run.

use forebay_link::line::Line;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const BLOCK: u16 = 0x41;
/// Most bytes of an input: what a socket takes without anybody reading.
const MOST: usize = 64 << 10;

pub fn line(data: &[u8]) {
    let Some((how, bytes)) = data[..data.len().min(MOST)].split_first() else { return };
    let mut bytes = bytes.to_vec();
    if how & 1 == 0 {
        super::mend_all(&mut bytes);
    }
    let (mut peer, socket) = UnixStream::pair().expect("a pair of sockets");
    socket.set_nonblocking(true).expect("a socket");
    let mut line = Line::over(Box::new(socket), BLOCK);
    peer.write_all(&bytes).expect("room in a socket");
    peer.shutdown(Shutdown::Write).expect("its end");
    let begun = Instant::now();
    let mut space = [0; 1000];
    // In every second input whoever reads asks for whole frames only, and never for the bytes of a block.
    let frames_only = how & 2 != 0;
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "a line goes round in circles");
        let came = match frames_only {
            true => line.receive(Instant::now() + Duration::from_secs(1)),
            false => line.next_frame(),
        };
        match came {
            Ok(Some(frame)) => {
                let bytes = line.json(&frame).len() + line.body(&frame).len();
                assert!(bytes as u64 + line.bulk() == frame.header.frame_bytes().unwrap_or(0) - 64);
            }
            Ok(None) if line.bulk() > 0 => {
                if line.take_bulk(&mut space).is_err() {
                    break;
                }
            }
            Ok(None) => {
                if line.fill().is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
}
