//! Who sits where in a run while its store is open, and when it is over: a pure state machine.
//!
//! ```text
//!  open ----> seated --good-bye, or what it left is applied--> gone --connection ends--> free
//!  orphan --> awaited --resumes--> seated
//!                |
//!                +--dead: what it left is applied--> free
//! ```
//!
//! An *awaited* seat is that of a rank that was there when an earlier owner died: it comes by itself, or has died,
//! too. The store is open as long as somebody sits there, and a while longer for ranks that have not come yet.
//! The machine looks at no clock and at no process: both come in with the question.

mod machine;
mod terms;

pub use machine::{Left, Orphaned, Seats};
pub use terms::{Opener, Terms};

#[cfg(test)]
mod simulation;

/// What a rank of the tests says that opens a run.
#[cfg(test)]
fn open(rank: u32, size: u32) -> forebay_types::control::OpenRun {
    use forebay_types::control::{Mode, OpenRun, WhenFull};
    OpenRun {
        path: "/x.fb".into(),
        mode: Mode::Append,
        rank,
        size,
        full: WhenFull::Block,
        scratch: false,
        buffer: 1 << 20,
        elsewhere: Default::default(),
        program: "test".into(),
    }
}
