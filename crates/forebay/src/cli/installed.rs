//! Where headers, library and modules lie, when this command is installed beside them.

use std::ffi::OsString;
use std::path::PathBuf;

/// A prefix with `include/forebay.h` and `lib/libforebay.so`.
pub(super) struct Installed(PathBuf);

pub(super) fn beside_command() -> Option<Installed> {
    let exe = std::env::current_exe().ok()?;
    let prefix = exe.parent()?.parent()?.to_owned();
    let is_whole = prefix.join("include/forebay.h").exists() && prefix.join("lib/libforebay.so").exists();
    is_whole.then_some(Installed(prefix))
}

impl Installed {
    pub(super) fn prefix(&self) -> &PathBuf {
        &self.0
    }

    /// Options by which a compiler finds the headers.
    pub(super) fn includes(&self) -> Vec<OsString> {
        vec!["-I".into(), self.0.join("include").into()]
    }

    /// Options by which a linker finds the library, and programs do when they run.
    pub(super) fn links(&self) -> Vec<OsString> {
        let lib = self.0.join("lib");
        let mut rpath = OsString::from("-Wl,-rpath,");
        rpath.push(&lib);
        vec!["-L".into(), lib.into(), rpath]
    }
}
