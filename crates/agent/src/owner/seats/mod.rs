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
