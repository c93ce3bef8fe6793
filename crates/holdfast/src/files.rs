//! File access for the configuration language: files by path, and masks as in glob(3), matched byte by byte because
//! nginx.conf has no encoding. `verdict` loads configurations through it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Reads from disk, except for a main file that exists only in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    /// Path and text of the main file in quick mode.
    pub(crate) main: Option<(PathBuf, String)>,
}

impl conf::Loader for Files {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match &self.main {
            Some((main, text)) if main == path => Ok(text.clone().into_bytes()),
            _ => std::fs::read(path),
        }
    }

    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for part in mask {
            if found.len() > conf::load::INCLUDES_MAX {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            found = found.into_iter().flat_map(|folder| entries(&folder, part)).collect();
        }
        Ok(found)
    }
}

/// The entries of a folder that match one part of a mask. As with glob(3), an unreadable folder matches nothing.
fn entries(folder: &Path, part: &OsStr) -> Vec<PathBuf> {
    let mask = part.as_bytes();
    if !mask.iter().any(|byte| b"*?[\\".contains(byte)) {
        let path = folder.join(part);
        return if path.symlink_metadata().is_ok() { vec![path] } else { Vec::new() };
    }
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(listed) else { return Vec::new() };
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let fits = |name: &OsString| {
        let name = name.as_bytes();
        (!name.starts_with(b".") || mask.starts_with(b".")) && matches(mask, name)
    };
    names.filter(fits).map(|name| folder.join(OsString::from_vec(name.into_vec()))).collect()
}

/// fnmatch(3) within one part of a path: `*`, `?`, `[…]` with ranges and `!` or `^`, and `\` before a literal byte. The
/// time is bounded by the product of the lengths, because matching returns only to the last `*`.
fn matches(mask: &[u8], name: &[u8]) -> bool {
    let (mut mask_at, mut name_at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (mask.get(mask_at), name.get(name_at)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                retry = Some((mask_at, name_at));
                Some((mask_at + 1, name_at))
            }
            (Some(_), Some(&byte)) => one(&mask[mask_at..], byte).map(|length| (mask_at + length, name_at + 1)),
            _ => None,
        };
        (mask_at, name_at) = match (step, retry) {
            (Some(step), _) => step,
            // Extend the last `*` by one byte and try again.
            (None, Some((star, at))) if at < name.len() => {
                retry = Some((star, at + 1));
                (star + 1, at + 1)
            }
            (None, _) => return false,
        };
    }
}

/// Matches one byte against the start of a mask; returns how many bytes of the mask were used.
fn one(mask: &[u8], byte: u8) -> Option<usize> {
    match mask {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((true, length)) => Some(1 + length),
            Some((false, _)) => None,
            // A bracket that is never closed is an ordinary byte.
            None => (byte == b'[').then_some(1),
        },
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// Whether a byte is in the set that begins after `[`, and the set's length with its `]`; `None` if the set is not
/// closed.
fn set(mask: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(mask.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let low = *mask.get(at)?;
        // A `]` in first place is a member of the set.
        if low == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        match (mask.get(at + 1), mask.get(at + 2)) {
            (Some(b'-'), Some(&high)) if high != b']' => {
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            _ => {
                found |= low == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::Loader as _;

    #[test]
    fn masks_match_as_the_shell_does() {
        let fits = |mask: &str, name: &str| matches(mask.as_bytes(), name.as_bytes());
        for (mask, name) in [
            ("*.conf", "a.conf"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("?[0-9].x", "a7.x"),
            ("[!a]b", "cb"),
            ("[]]x", "]x"),
            ("\\*", "*"),
            ("[ab", "[ab"),
        ] {
            assert!(fits(mask, name), "{mask} {name}");
        }
        for (mask, name) in [("*.conf", "a.conf~"), ("a?", "a"), ("[!a]b", "ab"), ("[0-9]", "x"), ("\\*", "x")] {
            assert!(!fits(mask, name), "{mask} {name}");
        }
        // A mask with exponential time under naive backtracking.
        assert!(!fits(&"*a".repeat(40), &"a".repeat(39)));
    }

    #[test]
    fn hidden_files_are_matched_only_by_a_dot() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        std::fs::create_dir(folder.path().join("d")).expect("made");
        std::fs::write(folder.path().join("d/e.conf"), "").expect("written");
        let found = |mask: &str| {
            let mut found = Files::default().glob(&folder.path().join(mask)).expect("masks do not fail");
            found.sort();
            let relative = found.iter().map(|path| path.strip_prefix(folder.path()).expect("below").to_path_buf());
            relative.map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("*.conf"), ["a.conf", "b.conf"]);
        assert_eq!(found(".*.conf"), [".hidden.conf"]);
        assert_eq!(found("*/*.conf"), ["d/e.conf"]);
        assert_eq!(found("[ab].conf"), ["a.conf", "b.conf"]);
        assert_eq!(found("none/*.conf"), [""; 0]);
    }
}
