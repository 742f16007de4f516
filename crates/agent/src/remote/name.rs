//! The directories that other hosts may name: those under one that the agent was given.

use forebay_link::net::Address;
use forebay_types::{Code, Error, Result};
use std::path::{Component, Path, PathBuf};

/// The directory of a run by its name from afar: `two_stream` or `campaign/two_stream`. `at` is where the agent listens.
pub fn directory(base: Option<&Path>, name: &str, at: Option<&Address>) -> Result<PathBuf> {
    let base = base.ok_or_else(|| {
        let tell = at.map_or_else(|| "forebay up --listen tcp://HOST:PORT --runs DIRECTORY".into(), Address::command);
        let text = format!(
            "this agent has not been told where runs of other hosts lie, as one that takes the place of another has not; on its host, `{tell}` tells it, where DIRECTORY is that under which {name} lies"
        );
        Error::new(Code::Refused, text)
    })?;
    let path = Path::new(name);
    let plain =
        |c: Component| matches!(c, Component::Normal(n) if n.to_str().is_some_and(|n| !n.starts_with('.')));
    if name.is_empty() || name.len() > 1024 || !path.components().all(plain) {
        return Err(Error::bad(format!(
            "{name:?} is no name of a run on another host; give one such as two_stream or campaign/two_stream"
        )));
    }
    let mut dir = base.join(path);
    if path.extension().is_none_or(|e| e != "fb") {
        let mut leaf = dir.file_name().unwrap_or_default().to_os_string();
        leaf.push(".fb");
        dir.set_file_name(leaf);
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_the_directory_of_runs() {
        let base = Path::new("/data/runs");
        assert_eq!(directory(Some(base), "two_stream", None).unwrap(), base.join("two_stream.fb"));
        assert_eq!(directory(Some(base), "a/b.fb", None).unwrap(), base.join("a/b.fb"));
        for bad in ["", "..", "../x", "a/../../x", "/etc/passwd", ".hidden", "a/.x", "."] {
            assert_eq!(directory(Some(base), bad, None).unwrap_err().code(), Code::BadArgument, "{bad:?}");
        }
        let e = directory(None, "x", Some(&"tcp://127.0.0.1:7".parse().unwrap())).unwrap_err();
        assert_eq!(e.code(), Code::Refused);
        assert!(e.text().contains("`forebay up --listen tcp://127.0.0.1:7 --runs DIRECTORY`"), "{e}");
    }
}
