//! The file of `auth_basic_user_file`: a line `name:hash[:comment]` for each user. A line of another form is skipped, and its
//! number is kept for the log; the other lines count.

use super::password::is_hash;
use rustc_hash::FxHashMap;

/// Numbers of bad lines that are kept: enough to find them, however long the file is.
const BAD_LINES_KEPT_MAX: usize = 8;

/// The users of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users {
    hashes: FxHashMap<Box<[u8]>, Box<[u8]>>,
    /// Lines that are neither a user nor a comment.
    pub bad_lines: u64,
    /// The numbers of the first of them, from 1.
    pub first_bad_lines: Vec<u64>,
}

impl Users {
    /// Reads a file. Of two lines for one name the first counts.
    pub fn parse(text: &[u8]) -> Self {
        let mut users = Self::default();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            if matches!(line.first(), None | Some(b'#' | b'\r')) {
                continue;
            }
            let name_end = line.iter().position(|&byte| byte == b':').filter(|&end| end > 0);
            let entry = name_end.map(|end| (&line[..end], first_part(&line[end + 1..])));
            match entry.filter(|(_, hash)| is_hash(hash)) {
                Some((name, hash)) => {
                    users.hashes.entry(name.into()).or_insert_with(|| hash.into());
                }
                None => users.note_bad(number),
            }
        }
        users
    }

    fn note_bad(&mut self, number: u64) {
        self.bad_lines += 1;
        if self.first_bad_lines.len() < BAD_LINES_KEPT_MAX {
            self.first_bad_lines.push(number);
        }
    }

    /// The hash of a user's password.
    pub fn hash_of(&self, name: &[u8]) -> Option<&[u8]> {
        self.hashes.get(name).map(|hash| &**hash)
    }

    /// Number of users.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the file has no user.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

/// The part before the next colon or the line's end.
fn first_part(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|byte| matches!(byte, b':' | b'\r')).unwrap_or(rest.len());
    &rest[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_and_bad_lines_are_skipped() {
        let text = b"# staff\n\njohn:{PLAIN}x:John\r\nnobody\n:{PLAIN}y\n\x00\xff\nempty:\nann:{PLAIN}z\nann:{PLAIN}other\nlast:{PLAIN}q";
        let users = Users::parse(text);
        let hash = |name: &str| users.hash_of(name.as_bytes()).map(|hash| String::from_utf8_lossy(hash).into_owned());
        assert_eq!(hash("john").as_deref(), Some("{PLAIN}x"));
        assert_eq!(hash("ann").as_deref(), Some("{PLAIN}z"), "the first line of a name counts");
        assert_eq!(hash("last").as_deref(), Some("{PLAIN}q"), "without a line end");
        assert_eq!((hash("nobody"), hash("empty"), hash("")), (None, None, None));
        assert_eq!((users.len(), users.bad_lines, &users.first_bad_lines[..]), (3, 4, &[4, 5, 6, 7][..]));
    }
}
