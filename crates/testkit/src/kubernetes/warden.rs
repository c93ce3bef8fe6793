//! A shell that ends what the tests of this process have started, when the process ends: a shared control plane is never dropped,
//! and a test can be killed. The shell waits for the end of its standard input, which only this process holds open.

use std::fmt::Display;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The newest is ended first. Ctrl-C reaches the shell, too, and must not end it.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
kept=
while read -r verb kind what; do
    if [ "$verb" = keep ]; then
        kept="$kind $what
$kept"
    else
        kept=$(printf '%s' "$kept" | grep -vxF "$kind $what")
        kept="$kept
"
    fi
done
printf '%s' "$kept" | while read -r kind what; do
    case $kind in
        process) kill -9 "$what" ;;
        namespace) ip netns delete "$what" ;;
        folder) rm -rf "$what" ;;
    esac
done 2>/dev/null
"#;

static WARDEN: OnceLock<Mutex<Child>> = OnceLock::new();

/// What the warden ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Process,
    Namespace,
    Folder,
}

/// From now on this ends with the test's process.
pub(super) fn keep(kind: Kind, what: impl Display) {
    send_order("keep", kind, what);
}

/// The caller ends it.
pub(super) fn forget(kind: Kind, what: impl Display) {
    send_order("forget", kind, what);
}

fn send_order(verb: &str, kind: Kind, what: impl Display) {
    let kind = match kind {
        Kind::Process => "process",
        Kind::Namespace => "namespace",
        Kind::Folder => "folder",
    };
    let mut warden = WARDEN.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner);
    let input = warden.stdin.as_mut().expect("it is piped");
    writeln!(input, "{verb} {kind} {what}").expect("the warden reads until this process ends");
}

fn start() -> Mutex<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Mutex::new(command.spawn().expect("sh starts"))
}
