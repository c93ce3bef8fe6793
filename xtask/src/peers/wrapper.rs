//! Small scripts that start an unpacked peer with its own libraries and without the system's configuration.
//!
//! Each script `exec`s the program, so its process is the program itself and its pid can be signalled.

use super::Peer;
use super::debian::Suite;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Debian caps siege at 255 users, and siege writes colours, logs and a folder into the user's home.
const SIEGE_RC: &str = "limit = 4096\nlogging = false\ncolor = off\nverbose = false\nprotocol = HTTP/1.1\n\
                        connection = close\ndelay = 0.0\nbenchmark = true\n";

/// Writes the script that starts `peer` from `home/root`.
pub(super) fn write(home: &Path, peer: &Peer, script: &Path) -> Result<()> {
    for folder in ["etc", "home", "run"] {
        fs::create_dir_all(home.join(folder))?;
    }
    if peer.name == "siege" {
        fs::create_dir_all(home.join("home/.siege"))?;
        fs::write(home.join("etc/siegerc"), SIEGE_RC)?;
    }
    fs::write(script, text(peer)).with_context(|| format!("cannot write {}", script.display()))?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn text(peer: &Peer) -> String {
    let defaults = nginx_defaults(peer);
    let (root, arch) = (peer.suite.root(), std::env::consts::ARCH);
    if peer.suite != Suite::System {
        // The program and its libraries are newer than the system's loader. Started by the loader, the compiler does
        // not find its other files.
        let extra = match peer.name {
            "go" => "GOROOT=$(cd \"$root\"/usr/lib/go-1.26 && pwd) GOTOOLCHAIN=local\nexport GOROOT GOTOOLCHAIN\n",
            _ => "",
        };
        return format!(
            "#!/bin/sh\n\
             # Written by `cargo xtask peers`: starts the unpacked {name} with its own loader and libraries.\n\
             home=$(cd \"${{0%/*}}/..\" && pwd)\n\
             root=$home/{root}\n\
             {extra}loader=$(echo \"$root\"/usr/lib*/ld-linux-*.so.*)\n\
             exec \"$loader\" --library-path \"$root/usr/lib/{arch}-linux-gnu\" \"$root/{file}\"{defaults} \"$@\"\n",
            name = peer.name,
            file = peer.file,
        );
    }
    let extra = match peer.name {
        "siege" => {
            "HOME=$home/home SIEGERC=$home/etc/siegerc PATH=$home/root/usr/bin:$PATH\nexport HOME SIEGERC PATH\n"
        }
        // A library of Chromium has its own libraries in a subfolder.
        "chromium" => "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:${LD_LIBRARY_PATH%%:*}/pulseaudio\nexport LD_LIBRARY_PATH\n",
        _ => "",
    };
    format!(
        "#!/bin/sh\n\
         # Written by `cargo xtask peers`: starts the unpacked {name} with its own libraries.\n\
         home=$(cd \"${{0%/*}}/..\" && pwd)\n\
         LD_LIBRARY_PATH=$home/{root}/usr/lib/{arch}-linux-gnu:$home/{root}/lib/{arch}-linux-gnu\n\
         export LD_LIBRARY_PATH\n\
         {extra}exec \"$home/{root}/{file}\"{defaults} \"$@\"\n",
        name = peer.name,
        file = peer.file,
    )
}

/// nginx uses the last of a repeated option, so these two are only defaults: they keep prefix and error log out of the
/// system's folders.
fn nginx_defaults(peer: &Peer) -> &'static str {
    if peer.package == "nginx" { " -p \"$home/run/\" -e stderr" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn wrapper_starts_the_program_with_defaults_then_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        fs::create_dir_all(home.join("root/usr/sbin")).unwrap();
        fs::create_dir_all(home.join("bin")).unwrap();
        // A shell reads the script, and the program is a link: a new file may still be open for writing in a child of
        // another test, and could not be executed then.
        std::os::unix::fs::symlink("/bin/echo", home.join("root/usr/sbin/nginx")).unwrap();
        let script = home.join("bin/nginx");
        write(home, &super::super::PEERS[0], &script).unwrap();

        let output = Command::new("sh").arg(&script).args(["-p", "a b"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let home = home.canonicalize().unwrap();
        assert_eq!(said, format!("-p {}/run/ -e stderr -p a b\n", home.display()));
    }
}
