//! Benches with nginx and HAProxy of Debian's newest suite: TLS, HTTP/2, `stream` and caches.

use super::experiments;
use crate::peers;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Programs started under other names.
const NEWEST: [(&str, &str); 2] = [("nginx", "nginx-new"), ("haproxy", "haproxy-new")];

/// Loads nginx's `stream` module, which Debian has in a separate file, before the directives of `-g`.
const WITH_STREAM: &str = "\
module='load_module MODULE;'
count=$#
last=
while [ $count -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    [ \"$last\" = -g ] && word=\"$module $word\"
    set -- \"$@\" \"$word\"
    last=$word
done
";

/// Runs the experiments of `bench/NAME`.
pub(super) fn run(workspace: &Workspace, name: &str, args: &experiments::Options) -> Result<()> {
    let given = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let peers = match given.map(std::path::absolute).transpose()? {
        Some(peers) => peers,
        None => peers::provide(workspace)?,
    };
    let folder = workspace.target("bench").join("newest");
    write_wrappers(&folder, &peers)?;
    experiments::run_with(workspace, name, args, &[&folder, &peers])
}

fn write_wrappers(folder: &Path, peers: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, newest) in NEWEST {
        let (wrapper, program) = (folder.join(name), peers.join(newest));
        // The wrapper of this peer finds its libraries by the peer's own name.
        let module = peers.with_file_name("root-sid/usr/lib/nginx/modules/ngx_stream_module.so");
        let prepared = if name == "nginx" && module.is_file() {
            WITH_STREAM.replace("MODULE", &module.display().to_string())
        } else {
            String::new()
        };
        fs::write(&wrapper, format!("#!/bin/sh\n{prepared}exec '{}' \"$@\"\n", program.display()))?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_programs_take_the_names_of_this_systems() {
        let folder = tempfile::tempdir().unwrap();
        write_wrappers(folder.path(), Path::new("/peers")).unwrap();
        for (name, program) in [("nginx", "'/peers/nginx-new'"), ("haproxy", "'/peers/haproxy-new'")] {
            let script = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(script.contains(program), "{script}");
        }
    }
}
