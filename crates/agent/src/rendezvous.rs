//! `HOST.json` in the user's home: where the agent of a host is, for clients that see the same
//! home directory. Mode 0600; replaced by rename, so a reader never sees half of it.

use forebay_host::{Process, ProcessState, identity};
use forebay_link::net::Network;
use forebay_types::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who serves, and where. The same words stand in a run's `agent.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// Its pid.
    pub pid: u32,
    /// The pid name space that counts it so.
    #[serde(default)]
    pub pid_space: u32,
    /// When the process began, as the kernel counts it.
    pub start_time: u64,
    /// Its host.
    pub host: String,
    /// Which boot of that host.
    pub boot_id: String,
    /// Its socket.
    pub socket: PathBuf,
}

impl Address {
    /// This process at that socket.
    pub fn ours(socket: &Path) -> Address {
        let me = Process::current();
        Address {
            pid: me.pid,
            pid_space: me.space,
            start_time: me.start_time,
            host: identity::host(),
            boot_id: identity::boot_id_text(),
            socket: socket.to_owned(),
        }
    }

    /// Reads one, if there is a whole one.
    pub fn read(path: &Path) -> Option<Address> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// What that process does, as far as can be seen from here.
    pub fn state(&self) -> ProcessState {
        let (pid, space, start_time) = (self.pid, self.pid_space, self.start_time);
        match self.boot_id == identity::boot_id_text() {
            true => Process { pid, space, start_time, boot_id: identity::boot_id() }.state(),
            false => ProcessState::Gone,
        }
    }

    /// Whether that process lives on this host; one of another pid name space may.
    pub fn alive(&self) -> bool {
        self.state() != ProcessState::Gone
    }

    /// Another process of this user that a file names, if it lives.
    pub fn another_at(&self, path: &Path) -> Option<Address> {
        Address::read(path).filter(|other| other != self && other.alive())
    }

    /// Whether there is room in a file for this agent to listen; fails when another one stands there and does.
    pub fn check_room(&self, path: &Path) -> Result<()> {
        match (self.another_at(path), Network::read(path)) {
            (Some(other), Some(theirs)) => Err(other.listens_already(path, &theirs.listen)),
            _ => Ok(()),
        }
    }

    /// Why a second agent does not listen, too.
    fn listens_already(&self, path: &Path, at: &str) -> Error {
        Error::new(
            Code::Conflict,
            format!(
                "another agent of yours (pid {}, {}) listens for other hosts at {at} already, and {} has room for one; end it with `FOREBAY_RUNTIME_DIR={} forebay down`, or give this one a FOREBAY_HOME of its own",
                self.pid,
                self.socket.display(),
                path.display(),
                self.socket.parent().unwrap_or(Path::new(".")).display()
            ),
        )
    }

    /// Writes the file, mode 0600, without the secret that other hosts need.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.publish(path, None)
    }

    /// Writes the file, mode 0600, and into it where the agent listens for other hosts and the secret that they need.
    /// Such a file lies in the user's home and never beside a run, which may be copied and shared.
    pub fn publish(&self, path: &Path, network: Option<&Network>) -> Result<()> {
        #[derive(Serialize)]
        struct File<'a> {
            #[serde(flatten)]
            address: &'a Address,
            #[serde(skip_serializing_if = "Option::is_none")]
            network: Option<&'a Network>,
        }
        let shown = path.display();
        let failed = |e| Error::io(format!("cannot write {shown}"), e);
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.tmp", std::process::id()));
        let new = path.with_file_name(name);
        let text = serde_json::to_vec_pretty(&File { address: self, network })
            .map_err(|e| Error::internal(e.to_string()))?;
        let _ = std::fs::remove_file(&new);
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(failed)?;
        file.write_all(&text).and_then(|()| std::fs::rename(&new, path)).map_err(|e| {
            let _ = std::fs::remove_file(&new);
            failed(e)
        })
    }

    /// Removes it if it still is this one.
    pub fn withdraw(&self, path: &Path) {
        if Address::read(path).as_ref() == Some(self) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_address_is_private_and_withdrawn_only_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("host.json");
        let ours = Address::ours(Path::new("/run/agent.sock"));
        ours.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Address::read(&path).unwrap(), ours);
        assert!(ours.alive());
        let other = Address { start_time: ours.start_time + 1, ..ours.clone() };
        assert!(!other.alive());
        other.withdraw(&path);
        assert!(path.exists());
        ours.withdraw(&path);
        assert!(!path.exists());
    }
}
