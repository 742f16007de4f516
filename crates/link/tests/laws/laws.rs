//! The laws.

use std::collections::VecDeque;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_host::{Process, ProcessState};
use forebay_link::{Frame, Header};
use forebay_types::{Code, Result};
use rustix::process::Signal;

use crate::frames::Link;
use crate::transports::{LONG, Transport};

/// Two seconds are promised; a machine busy with other tests is given five.
const LATE: Duration = Duration::from_secs(5);
/// A kind that means nothing to any transport.
const KIND: u16 = 0x20;
/// The sizes at which something could be cut, and the largest that every transport takes.
const SIZES: [usize; 16] = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 4_095, 4_096, 4_097, 16_384, 60_000];

fn soon() -> Option<Instant> {
    Some(Instant::now() + LONG)
}

fn in_ms(ms: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(ms))
}

/// Bytes of which each place is its own.
fn pattern(n: usize, seed: u64) -> Vec<u8> {
    (0..n as u64).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8).collect()
}

/// The next frame. An error is the end of it.
fn next(link: &mut impl Link, frame: &mut Frame) -> Result<()> {
    let deadline = soon();
    while !link.try_recv(frame)? {
        link.wait(deadline)?;
        assert!(deadline.is_some_and(|at| Instant::now() < at), "nothing came");
    }
    Ok(())
}

/// Sends when there is room. What comes meanwhile is kept.
fn send(link: &mut impl Link, header: &Header, body: &[&[u8]], kept: &mut Vec<Frame>) {
    let deadline = Instant::now() + LONG;
    loop {
        match link.send(header, body) {
            Ok(()) => return,
            Err(e) => assert!(e.code() == Code::Full && Instant::now() < deadline, "{e}"),
        }
        let mut frame = Frame::default();
        match link.try_recv(&mut frame).unwrap() {
            true => kept.push(frame),
            false => drop(link.wait(in_ms(1))),
        }
    }
}

/// Sends the frames of those numbers while there is room; how many had some.
fn fill(link: &mut impl Link, body: &[u8]) -> u64 {
    let mut sent = 0;
    loop {
        match link.send(&Header::new(KIND, sent), &[body]) {
            Ok(()) => sent += 1,
            Err(e) => {
                assert_eq!(e.code(), Code::Full, "{e}");
                return sent;
            }
        }
        assert!(sent < 1 << 20, "it is never full");
    }
}

/// The next frame at one end, while the other end, which sent it, looks after what it had to keep.
fn carry(sender: &mut impl Link, receiver: &mut impl Link, frame: &mut Frame) {
    let deadline = Instant::now() + LONG;
    while !receiver.try_recv(frame).unwrap() {
        assert!(Instant::now() < deadline, "nothing comes");
        let _ = sender.wait(Some(Instant::now()));
        let _ = receiver.wait(in_ms(1));
    }
}

/// Takes that many frames, numbered from 0.
fn drain(sender: &mut impl Link, receiver: &mut impl Link, sent: u64, body: &[u8]) {
    let mut frame = Frame::default();
    for id in 0..sent {
        carry(sender, receiver, &mut frame);
        assert_eq!((frame.header.id, frame.body()), (id, body));
    }
}

pub fn there_is_nothing_before_something_is_sent<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let mut frame = Frame::default();
    for link in [&mut one, &mut other] {
        assert!(!link.pending() && !link.try_recv(&mut frame).unwrap());
        assert!(!link.wait(in_ms(5)).unwrap());
    }
}

pub fn a_frame_comes_whole_with_its_kind_flags_and_number<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let mut frame = Frame::default();
    for (kind, flags, id) in [(KIND, 0, 0), (KIND + 1, u32::MAX, u64::MAX), (u16::MAX, 7, 1 << 40)] {
        one.send(&Header { flags, ..Header::new(kind, id) }, &[b"words"]).unwrap();
        next(&mut other, &mut frame).unwrap();
        let found = frame.header;
        assert_eq!((found.kind, found.flags, found.id, found.body), (kind, flags, id, 5));
        assert_eq!(frame.body(), b"words");
    }
}

pub fn bodies_of_all_sizes_come_in_whatever_parts_they_were_given<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let mut frame = Frame::default();
    for size in SIZES {
        for parts in [0, 1, 2, 3, 7] {
            let body = pattern(if parts == 0 { 0 } else { size }, parts as u64);
            let given: Vec<&[u8]> = match parts {
                0 => Vec::new(),
                n => body.chunks(size.div_ceil(n).max(1)).collect(),
            };
            one.send(&Header::new(KIND, size as u64), &given).unwrap();
            carry(&mut one, &mut other, &mut frame);
            assert!(frame.body() == body, "{size} bytes in {parts} parts");
        }
    }
}

pub fn frames_come_in_the_order_in_which_they_were_sent<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let count = 5_000;
    let sender = std::thread::spawn(move || {
        for id in 0..count {
            let body = pattern((id * 13 % 4_000) as usize, id);
            send(&mut one, &Header::new(KIND, id), &[&body], &mut Vec::new());
        }
        while one.wait(None).is_ok_and(|_| !one.pending()) {}
    });
    let mut frame = Frame::default();
    for id in 0..count {
        next(&mut other, &mut frame).unwrap();
        assert!(frame.header.id == id && frame.body() == pattern((id * 13 % 4_000) as usize, id), "{id}");
    }
    other.send(&Header::new(KIND, 0), &[]).unwrap();
    sender.join().unwrap();
}

pub fn looking_for_a_frame_does_not_take_it<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let mut frame = Frame::default();
    one.send(&Header::new(KIND, 1), &[]).unwrap();
    for _ in 0..3 {
        assert!(other.wait(soon()).unwrap() && other.pending());
    }
    assert!(other.try_recv(&mut frame).unwrap() && !other.pending());
    assert!(!other.try_recv(&mut frame).unwrap());
}

pub fn both_ends_send_at_once<T: Transport>() {
    let (one, other) = T::pair();
    let work = |mut link: T::End, seed: u64| {
        let (mut frame, mut kept, count) = (Frame::default(), Vec::new(), 2_000u64);
        for id in 0..count {
            send(&mut link, &Header::new(KIND, id), &[&pattern(600, seed + id)], &mut kept);
        }
        let theirs = 1_000_000 - seed;
        for id in 0..count {
            match kept.get(id as usize) {
                Some(known) => frame.clone_from(known),
                None => next(&mut link, &mut frame).unwrap(),
            }
            assert!(frame.header.id == id && frame.body() == pattern(600, theirs + id));
        }
        // Who has all says so, and neither goes before both have.
        send(&mut link, &Header::new(KIND + 1, 0), &[], &mut kept);
        next(&mut link, &mut frame).unwrap();
        assert_eq!(frame.header.kind, KIND + 1);
        link
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| work(one, 0));
        let other = scope.spawn(|| work(other, 1_000_000));
        drop((one.join().unwrap(), other.join().unwrap()));
    });
}

pub fn a_link_that_is_full_says_so_and_goes_on_when_it_is_read<T: Transport>() {
    let (mut one, mut other) = T::pair();
    for body in [pattern(60_000, 1), pattern(100, 2)] {
        for _ in 0..3 {
            let sent = fill(&mut one, &body);
            assert!(sent > 3, "several of the largest frames fit");
            drain(&mut one, &mut other, sent, &body);
        }
    }
}

pub fn two_ends_that_are_both_full_get_out_of_it<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let body = pattern(5_000, 3);
    let (there, here) = (fill(&mut one, &body), fill(&mut other, &body));
    drain(&mut one, &mut other, there, &body);
    drain(&mut other, &mut one, here, &body);
}

pub fn a_frame_that_never_fits_is_no_matter_of_waiting<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let e = one.send(&Header::new(KIND, 1), &[&vec![0; 8 << 20]]).unwrap_err();
    assert_eq!(e.code(), Code::BadArgument, "{e}");
    one.send(&Header::new(KIND, 2), &[b"small"]).unwrap();
    let mut frame = Frame::default();
    next(&mut other, &mut frame).unwrap();
    assert_eq!((frame.header.id, frame.body()), (2, &b"small"[..]));
}

pub fn who_waits_is_woken_by_a_frame_and_by_the_deadline<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let answers = std::thread::spawn(move || {
        let mut frame = Frame::default();
        while next(&mut other, &mut frame).is_ok() {
            other.send(&frame.header, &[]).unwrap();
        }
    });
    let mut frame = Frame::default();
    for id in 0..3_000 {
        one.send(&Header::new(KIND, id), &[]).unwrap();
        assert!(one.wait(soon()).unwrap(), "nobody woke who waits for {id}");
        assert!(one.try_recv(&mut frame).unwrap());
        assert_eq!(frame.header.id, id);
    }
    let began = Instant::now();
    assert!(!one.wait(in_ms(20)).unwrap());
    assert!(began.elapsed() >= Duration::from_millis(20) && began.elapsed() < LATE);
    drop(one);
    answers.join().unwrap();
}

pub fn what_was_sent_before_the_end_comes_before_the_end<T: Transport>() {
    let (mut one, mut other) = T::pair();
    for id in 0..10 {
        one.send(&Header::new(KIND, id), &[&pattern(1_000, id)]).unwrap();
    }
    drop(one);
    let mut frame = Frame::default();
    for id in 0..10 {
        next(&mut other, &mut frame).unwrap();
        assert!(frame.header.id == id && frame.body() == pattern(1_000, id));
    }
    for _ in 0..3 {
        assert_eq!(next(&mut other, &mut frame).unwrap_err().code(), Code::ServerLost);
    }
}

pub fn an_end_that_is_gone_leaves_what_it_had_not_read<T: Transport>() {
    let (mut one, mut other) = T::pair();
    let sent = fill(&mut one, &pattern(1_000, 0));
    assert!(sent > 0);
    other.send(&Header::new(KIND, 7), &[b"last"]).unwrap();
    drop(other);
    let mut frame = Frame::default();
    // A connection that is cut with something unread may lose what came the other way; what comes is whole.
    match next(&mut one, &mut frame) {
        Ok(()) => assert_eq!((frame.header.id, frame.body()), (7, &b"last"[..])),
        Err(e) => assert_eq!(e.code(), Code::ServerLost, "{e}"),
    }
    let began = Instant::now();
    assert_eq!(next(&mut one, &mut frame).unwrap_err().code(), Code::ServerLost);
    assert!(began.elapsed() < LATE);
}

pub fn a_process_that_is_killed_leaves_whole_frames_and_its_end_is_told<T: Transport>() {
    for round in 0..4u64 {
        let (mut link, mut child) = other::<T>("floods");
        let mut frame = Frame::default();
        let mut id = 0;
        let kill_at = 50 + round * 333;
        let e = loop {
            match next(&mut link, &mut frame) {
                Ok(()) => {
                    assert!(frame.header.id == id && frame.body() == flooded(id), "frame {id}");
                    id += 1;
                    if id == kill_at {
                        child.kill().unwrap();
                    }
                }
                Err(e) => break e,
            }
        };
        assert!(e.code() == Code::ServerLost && id >= kill_at, "{e}, after {id} frames");
        child.wait().unwrap();
    }
}

pub fn a_process_that_is_stopped_keeps_nobody_beyond_the_deadline<T: Transport>() {
    let (mut link, mut child) = other::<T>("answers");
    let mut frame = Frame::default();
    link.send(&Header::new(KIND, 1), &[]).unwrap();
    next(&mut link, &mut frame).unwrap();
    signal(&child, Signal::STOP);
    let process = Process::of_pid(child.id()).unwrap();
    while process.state() != ProcessState::Stopped {
        std::thread::yield_now();
    }
    link.send(&Header::new(KIND, 2), &[]).unwrap();
    let began = Instant::now();
    match link.wait(in_ms(1_500)) {
        Ok(is_there) => assert!(!is_there),
        Err(e) => assert!(e.code() == Code::ServerLost && e.text().contains("stopped"), "{e}"),
    }
    assert!(began.elapsed() < Duration::from_millis(1_500) + LATE);
    signal(&child, Signal::CONT);
    let deadline = Instant::now() + LONG;
    while !link.try_recv(&mut frame).unwrap() {
        assert!(Instant::now() < deadline, "it does not go on");
        let _ = link.wait(in_ms(10));
    }
    assert_eq!(frame.header.id, 2);
    drop(link);
    child.wait().unwrap();
}

pub fn a_process_that_answers_is_heard_as_well_as_a_thread<T: Transport>() {
    let (mut link, mut child) = other::<T>("answers");
    let mut frame = Frame::default();
    for id in 0..3_000u64 {
        let body = pattern((id * 7 % 3_000) as usize, id);
        link.send(&Header::new(KIND, id), &[&body]).unwrap();
        next(&mut link, &mut frame).unwrap();
        assert!(frame.header.id == id && frame.body() == body);
    }
    drop(link);
    assert!(child.wait().unwrap().success());
}

pub fn any_bytes_are_a_frame_an_error_or_nothing<T: Transport>() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..60 {
        let (mut write, mut link) = T::hearing();
        let mut frame = Frame::default();
        let mut bytes: Vec<u8> = (0..dice.below(300)).map(|_| dice.below(256) as u8).collect();
        // Some begin as a frame does, and lie about what follows.
        if dice.below(2) == 0 {
            let lie = Header { body: dice.below(u64::MAX), number: dice.below(300), ..Header::new(KIND, 1) };
            bytes.splice(..0, lie.encode());
        }
        write(&bytes);
        for _ in 0..20 {
            match link.try_recv(&mut frame) {
                Ok(true) => assert!(frame.body().len() <= bytes.len()),
                Ok(false) => drop(link.wait(in_ms(1))),
                Err(e) => {
                    assert!(
                        matches!(e.code(), Code::Corrupt | Code::VersionMismatch | Code::ServerLost),
                        "{e}"
                    );
                    break;
                }
            }
        }
    }
}

pub fn whatever_two_ends_do_at_random_is_what_was_sent<T: Transport>() {
    for seed in 1..6u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (one, other) = T::pair();
        let mut ends = [one, other];
        // What is on its way to each.
        let mut under_way: [VecDeque<(u64, usize)>; 2] = Default::default();
        let (mut frame, mut id) = (Frame::default(), 0);
        for _ in 0..3_000 {
            let from = dice.below(2) as usize;
            if dice.below(2) == 0 {
                let most = 1 << dice.below(15);
                let size = dice.below(most) as usize;
                let body = pattern(size, id);
                let cut = dice.below(size as u64 + 1) as usize;
                match ends[from].send(&Header::new(KIND, id), &[&body[..cut], &body[cut..]]) {
                    Ok(()) => under_way[1 - from].push_back((id, size)),
                    Err(e) => assert_eq!(e.code(), Code::Full, "seed {seed}: {e}"),
                }
                id += 1;
            } else if ends[from].try_recv(&mut frame).unwrap() {
                let (id, size) = under_way[from].pop_front().expect("nobody has sent that");
                assert!(frame.header.id == id && frame.body() == pattern(size, id), "seed {seed}, {id}");
            }
        }
        for (to, under_way) in under_way.iter_mut().enumerate() {
            while let Some((id, size)) = under_way.pop_front() {
                let [one, other] = &mut ends;
                match to {
                    0 => carry(other, one, &mut frame),
                    _ => carry(one, other, &mut frame),
                }
                assert!(frame.header.id == id && frame.body() == pattern(size, id), "seed {seed}, {id}");
            }
        }
    }
}

pub fn links_that_are_gone_leave_no_descriptor<T: Transport>() {
    // A process of its own: others open and close what they need meanwhile.
    let (link, mut child) = other::<T>("opens and closes");
    assert!(child.wait().unwrap().success());
    drop(link);
}

/// Numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n.max(1)
    }
}

/// What the other process is to do.
pub struct Part {
    pub transport: String,
    play: String,
    words: String,
}

/// The part of this process, if it is the other one of a test.
pub fn part() -> Option<Part> {
    let word = |name: &str| std::env::var(format!("FOREBAY_LAW_{name}")).ok();
    Some(Part { transport: word("TRANSPORT")?, play: word("PLAY")?, words: word("WORDS")? })
}

/// A process that joins.
fn other<T: Transport>(play: &str) -> (T::End, Child) {
    let dir = tempfile::tempdir().unwrap();
    let (offer, words) = T::offer(dir.path());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "other_process", "--nocapture"])
        .env("FOREBAY_LAW_TRANSPORT", T::NAME)
        .env("FOREBAY_LAW_PLAY", play)
        .env("FOREBAY_LAW_WORDS", words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (T::accept(offer), child)
}

fn signal(child: &Child, which: Signal) {
    let process = Process::of_pid(child.id()).unwrap();
    forebay_host::process::signal(&process, which).unwrap();
}

fn flooded(id: u64) -> Vec<u8> {
    pattern((id * 977 % 9_000) as usize, id)
}

/// What the other process does, to its end.
pub fn play<T: Transport>(part: &Part) {
    let mut link = T::join(&part.words);
    let mut frame = Frame::default();
    match part.play.as_str() {
        "answers" => {
            while next(&mut link, &mut frame).is_ok() {
                send(&mut link, &frame.header, &[frame.body()], &mut Vec::new());
            }
        }
        "floods" => {
            for id in 0.. {
                send(&mut link, &Header::new(KIND, id), &[&flooded(id)], &mut Vec::new());
            }
        }
        _ => {
            let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            drop(T::pair());
            let before = descriptors();
            for _ in 0..20 {
                let (mut one, mut other) = T::pair();
                one.send(&Header::new(KIND, 1), &[&[1; 5_000]]).unwrap();
                next(&mut other, &mut frame).unwrap();
                one.send(&Header::new(KIND, 2), &[]).unwrap();
            }
            assert_eq!(descriptors(), before);
        }
    }
}
