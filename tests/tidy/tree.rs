//! The tracked files of the tree, read once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A tracked text file.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl File {
    /// Whether the name ends in one of these.
    pub fn is(&self, endings: &[&str]) -> bool {
        let ending = self.path.rsplit('.').next().unwrap_or_default();
        endings.contains(&ending)
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// The root of the tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("tests/tidy lies two levels deep")
        .to_owned()
}

/// All tracked text files. Files that vanished and files that are not UTF-8 are left out.
pub fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
        let names = match listed {
            Ok(out) if out.status.success() && !out.stdout.is_empty() => {
                String::from_utf8_lossy(&out.stdout).split_terminator('\0').map(str::to_owned).collect()
            }
            // An unpacked archive has no index: then every file that is not built counts.
            _ => walk(),
        };
        names
            .into_iter()
            .filter_map(|path: String| {
                let text = std::fs::read_to_string(root().join(&path)).ok()?;
                Some(File { path, text })
            })
            .collect()
    });
    &FILES
}

fn walk() -> Vec<String> {
    const BUILT: [&str; 8] =
        ["target", ".venv", "node_modules", "dist", "out", ".git", "__pycache__", ".mypy_cache"];
    let (top, mut folders, mut found) = (root(), vec![root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if BUILT.iter().any(|b| name == *b) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(inside) = path.strip_prefix(&top) {
                found.push(inside.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// Whether `word` stands in `line` at `at` as a word of its own.
fn alone(line: &str, at: usize, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !line[..at].chars().next_back().is_some_and(part)
        && !line[at + word.len()..].chars().next().is_some_and(part)
}

/// Whether a line has the word, not merely the letters.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| alone(line, at, word))
}

#[test]
fn a_word_is_not_found_inside_another() {
    assert!(has_word("pub unsafe fn", "unsafe"));
    assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
}

#[test]
fn the_tree_is_found() {
    assert!(files().iter().any(|f| f.path == "Cargo.toml"), "run the tests inside the checkout");
}
