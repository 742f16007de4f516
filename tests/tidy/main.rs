//! The rules of the house, held by machine. Each rule is one file; each message says which file
//! breaks it, where, and what to do instead. `make tidy` runs them alone in seconds:
//! they are a package that builds nothing of what it judges.
//!
//! [`tree`] hands out the tracked files; the other modules judge them.
#![forbid(unsafe_code)]

mod c_library;
mod dead;
mod documents;
mod environment;
mod features;
mod layers;
mod scripts;
mod sources;
mod spec;
mod tree;
mod words;

/// Fails with every breach at once, so that one run shows all there is to do.
fn judge(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}\n  {}\n", breaches.join("\n  "));
}
