//! The rank's side of a run.

mod view;

pub use view::{Element, View};
