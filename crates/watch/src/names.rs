//! Resolves names in a filter on this system: control groups by their directories, services by /etc/services.

use sockdiag::Names;
use std::fs::File;
use std::io::Read as _;
use std::os::linux::fs::MetadataExt as _;

/// Largest part of the file that is read; Debian's has 13 KB.
const SERVICES_BYTES_MAX: u64 = 1 << 20;

/// Looks up each name in the system's files.
pub(super) struct SystemNames;

impl Names for SystemNames {
    /// The path is absolute or relative to the mount point.
    fn cgroup(&mut self, path: &str) -> Option<u64> {
        // Sockets refer to groups of the unified hierarchy, which has a separate folder beside hierarchies of version 1.
        const MOUNTED: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let inode =
            |path: &str| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).map(|found| found.st_ino());
        if MOUNTED.iter().any(|mounted| path.starts_with(mounted)) {
            return inode(path);
        }
        MOUNTED.iter().find_map(|mounted| inode(&format!("{mounted}/{}", path.trim_matches('/'))))
    }

    fn service(&mut self, name: &str) -> Option<u16> {
        let mut bytes = Vec::new();
        File::open("/etc/services").ok()?.take(SERVICES_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        port_of(&String::from_utf8_lossy(&bytes), name)
    }
}

/// `https 443/tcp www-ssl # comment`: the TCP port of the line that contains the name, as the first word or as an alias.
fn port_of(services: &str, name: &str) -> Option<u16> {
    services.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let (first, port) = (words.next()?, words.next()?.strip_suffix("/tcp")?);
        (first == name || words.any(|alias| alias == name)).then(|| port.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_by_name_and_alias_for_tcp_only() {
        let services = "# names\ndomain 53/udp\nhttps\t443/tcp  www-ssl # secure\nodd\nntp 123/udp\nhttp 80/tcp www\n";
        let of = |name| port_of(services, name);
        assert_eq!((of("https"), of("www-ssl"), of("www"), of("secure")), (Some(443), Some(443), Some(80), None));
        assert_eq!((of("ntp"), of("domain"), of("odd"), of("443/tcp")), (None, None, None, None));
    }
}
