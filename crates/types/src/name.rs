//! Names: of data sets, tables, services, diagrams and parameters.

use crate::{Error, Result, limits};

/// A checked hierarchical name: components separated by `/`, no empty ones, no `.` or `..`,
/// no control characters, at most 255 bytes of UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks and keeps a name.
    pub fn new(name: impl Into<String>) -> Result<Name> {
        let name = name.into();
        match Name::fault(&name) {
            None => Ok(Name(name)),
            Some(why) => Err(Error::bad(format!(
                "the name {name:?} {why}; use components of letters, digits and other visible characters separated by single slashes"
            ))),
        }
    }

    /// Refuses what is no name of a checkpoint: a line of text for people.
    pub fn check_tag(tag: &str) -> Result<()> {
        let Some(why) = Name::fault_of_line(tag) else { return Ok(()) };
        Err(Error::bad(format!(
            "the name {tag:?} of a checkpoint {why}; give 1 to 255 bytes of visible characters and blanks, or no name"
        )))
    }

    fn fault(name: &str) -> Option<&'static str> {
        if let Some(why) = Name::fault_of_line(name) {
            return Some(why);
        }
        if name.split('/').any(|part| part.is_empty()) {
            return Some("has an empty component");
        }
        if name.split('/').any(|part| part == "." || part == "..") {
            return Some("has a component that means a directory");
        }
        None
    }

    fn fault_of_line(text: &str) -> Option<&'static str> {
        match text {
            "" => Some("is empty"),
            _ if text.len() > limits::NAME_BYTES => Some("is longer than 255 bytes"),
            _ if text.chars().any(char::is_control) => Some("has a control character"),
            _ => None,
        }
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    pub fn leaf(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The glob that matches this name only.
    pub fn literal(name: &str) -> String {
        name.chars().fold(String::new(), |mut glob, c| {
            match c {
                '*' | '?' | '[' => glob.extend(['[', c, ']']),
                _ => glob.push(c),
            }
            glob
        })
    }

    /// Whether the name matches a glob: `*` any characters, `?` one, `[abc]` and `[a-z]` sets.
    pub fn matches(&self, pattern: &str) -> bool {
        glob(&self.0, pattern)
    }
}

/// Shell-like match over the whole text; `*` also crosses `/`, as `fnmatch` does.
fn glob(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut t, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((t, p + 1));
            p += 1;
        } else if let Some(next) = one(text[t], &pattern, p) {
            t += 1;
            p = next;
        } else if let Some((from, after)) = retry {
            t = from + 1;
            p = after;
            retry = Some((t, after));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on when its element at `p` takes `c`.
fn one(c: char, pattern: &[char], p: usize) -> Option<usize> {
    match *pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => {
            let Some(close) = pattern[p + 1..].iter().skip(1).position(|x| *x == ']').map(|i| p + 2 + i)
            else {
                return (c == '[').then_some(p + 1);
            };
            let (negated, set) = match pattern[p + 1] {
                '!' | '^' if close > p + 2 => (true, &pattern[p + 2..close]),
                _ => (false, &pattern[p + 1..close]),
            };
            let mut hit = false;
            let mut i = 0;
            while i < set.len() {
                if i + 2 < set.len() && set[i + 1] == '-' {
                    hit |= set[i] <= c && c <= set[i + 2];
                    i += 3;
                } else {
                    hit |= set[i] == c;
                    i += 1;
                }
            }
            (hit != negated).then_some(close + 1)
        }
        exact => (exact == c).then_some(p + 1),
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_confuse_a_reader_are_refused() {
        for bad in ["", "/x", "x/", "a//b", "../x", "a/./b", "a\nb", &"x".repeat(256)] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
        for good in ["E", "electrons/beam1/x", "feld ä [V]", &"x".repeat(255)] {
            assert!(Name::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_glob_selects_as_the_shell_does() {
        let name = Name::new("electrons/beam1/x").unwrap();
        for yes in ["*", "electrons/*", "*/x", "electrons/beam?/x", "*beam[0-9]*", "electrons/beam[!2]/x"] {
            assert!(name.matches(yes), "{yes}");
        }
        for no in ["", "x", "electrons", "*beam[2-9]*", "electrons/beam[!1]/x", "*y"] {
            assert!(!name.matches(no), "{no}");
        }
    }
}
