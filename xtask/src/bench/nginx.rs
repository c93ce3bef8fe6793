//! The beginning of every nginx.conf for a comparison, for the generated texts of `conf` and `soak`. Benches of running
//! servers are experiment files, for which the lab does the same.

use std::path::Path;

/// The part before `http {}`. As root, nginx would serve as the user `nobody`, who may not enter the folders of a
/// private checkout.
pub(super) fn nginx_main(home: &Path, name: &str, workers: u32) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}worker_processes {workers};\ndaemon off;\npid {home}/{name}.pid;\nerror_log stderr warn;\n\
         worker_rlimit_nofile 20000;\nevents {{\n    worker_connections 16384;\n}}\n",
        home = home.display()
    )
}

/// Directives that only nginx needs: Debian's build has its temporary folders in the system's folders.
pub(super) fn nginx_only(home: &Path) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {}/temp-{kind};\n", home.display()))
        .concat()
}
