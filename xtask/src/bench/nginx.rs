//! What every nginx.conf begins with that is written for a comparison: for `conf` and `soak`, whose texts are generated. Benches of
//! running servers are experiment files, and the lab does the same for them.

use std::path::Path;

/// The part before `http {}`. As root nginx would serve as user `nobody`, which may not enter the folders of a private checkout.
pub(super) fn nginx_main(home: &Path, name: &str, workers: u32) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}worker_processes {workers};\ndaemon off;\npid {home}/{name}.pid;\nerror_log stderr warn;\n\
         worker_rlimit_nofile 20000;\nevents {{\n    worker_connections 16384;\n}}\n",
        home = home.display()
    )
}

/// Words that only nginx needs: Debian's build wants its temporary folders in the system.
pub(super) fn nginx_only(home: &Path) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {}/temp-{kind};\n", home.display()))
        .concat()
}
