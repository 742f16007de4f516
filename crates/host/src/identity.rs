//! Which host this is, which boot of it, and which memory a process here can share.

use std::sync::OnceLock;

/// The name of this host.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Which memory this process can share: the boot of its host and the namespaces that divide it.
/// Processes in different namespaces of the network count as different hosts.
pub fn here() -> String {
    let space = |name: &str| {
        let link = std::fs::read_link(format!("/proc/thread-self/ns/{name}")).unwrap_or_default();
        link.to_string_lossy().into_owned()
    };
    format!("{} {} {}", boot_id_text(), space("ipc"), space("net"))
}

/// The number of this boot of the host.
pub fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut digits = text.chars().filter_map(|c| c.to_digit(16));
        std::array::from_fn(|_| {
            let high = digits.next().unwrap_or(0);
            (high << 4 | digits.next().unwrap_or(0)) as u8
        })
    })
}

/// The boot's number as text, for files that people may read.
pub fn boot_id_text() -> String {
    boot_id().iter().map(|b| format!("{b:02x}")).collect()
}
