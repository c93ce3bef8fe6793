//! `ctl_socket`: its meaning, and the values that are refused.

use super::lowered;
use conf::model::CtlSocket;

/// The setting, or the first message.
fn ctl_socket(words: &str) -> Result<Option<CtlSocket>, String> {
    let (model, found, _) = lowered(&format!("{words} events {{}} http {{}}"));
    found.first().map_or(Ok(model.main.settings.ctl_socket.clone()), |found| Err(found.message.clone()))
}

#[test]
fn path_mode_and_group_are_read() {
    assert_eq!(ctl_socket(""), Ok(None));
    assert_eq!(ctl_socket("ctl_socket off;"), Ok(Some(CtlSocket::Off)));
    let Ok(Some(CtlSocket::At { path, mode, group, .. })) = ctl_socket("ctl_socket run/ctl mode=0660 group=adm;")
    else {
        panic!("it is a socket");
    };
    assert_eq!((path.as_slice(), mode, group.as_deref()), (&b"run/ctl"[..], Some(0o660), Some("adm")));
}

#[test]
fn modes_that_grant_others_anything_are_refused() {
    for word in ["mode=0666", "mode=0604", "mode=1600", "mode=9", "mode=", "group=", "user=root"] {
        let message = format!("invalid parameter \"{word}\"");
        assert_eq!(ctl_socket(&format!("ctl_socket /a {word};")), Err(message), "{word}");
    }
}
