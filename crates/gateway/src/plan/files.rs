//! A location's file settings: where a URI leads, which type and validators a file has. Pure: it opens nothing. The
//! exchange uses it; `lower` builds it.

use crate::base::logs::place::parent_segments;
use conf::model::ListFormat;
use rules::mime::MimeTypes;
use rules::precondition::ModifiedSince;
use rules::template::{Template, View};
use std::fmt::Write as _;
use std::sync::Arc;

/// `root` or `alias` of a location.
#[derive(Debug)]
pub(crate) struct RootPlan {
    /// Absolute, unless it begins with a variable. Without a trailing slash, so `/` is empty.
    pub(crate) path: Template,
    /// Prefix for a path that begins with a variable and turns out to be relative; ends in a slash.
    pub(crate) prefix: Box<[u8]>,
    pub(crate) alias: Option<Alias>,
    /// Number of `..` segments that the configuration itself wrote in the path.
    pub(crate) parents: usize,
}

/// What an `alias` replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alias {
    /// This many bytes at the beginning of the URI: the name of the location that has the alias.
    Prefix(usize),
    /// The whole URI: the alias is in a location with an expression.
    Whole,
}

impl RootPlan {
    /// `$document_root`: the root or alias with its variables.
    pub(crate) fn write_root(&self, view: &dyn View, out: &mut Vec<u8>) {
        let start = out.len();
        self.path.write(view, out);
        if out.get(start) != Some(&b'/') {
            out.splice(start..start, self.prefix.iter().copied());
        }
    }

    /// Whether a path built from this root has no more `..` segments than the configuration wrote. URIs of clients are
    /// normalised, but an alias may cut one in the middle of a segment (`location /i { alias /data/; }` and `/i../x`),
    /// and variables may contain anything.
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        !path.contains(&0) && parent_segments(path) <= self.parents
    }

    /// `$request_filename`: the file for a URI. `below`: append the URI even if an alias replaces all of it, since
    /// `try_files` has found the file there.
    pub(crate) fn write_path(&self, view: &dyn View, uri: &[u8], below: bool, out: &mut Vec<u8>) {
        self.write_root(view, out);
        out.extend_from_slice(match self.alias {
            None => uri,
            Some(Alias::Prefix(length)) => uri.get(length..).unwrap_or_default(),
            Some(Alias::Whole) if below => uri,
            Some(Alias::Whole) => &[],
        });
    }

    /// The file for a path that `try_files` tests: the part that an alias replaces is already removed.
    pub(crate) fn write_tried(&self, view: &dyn View, path: &[u8], out: &mut Vec<u8>) {
        self.write_root(view, out);
        out.extend_from_slice(path);
    }
}

/// The path of a file, possibly with variables.
pub(crate) struct PathPlan {
    /// Absolute, unless it begins with a variable.
    pub(crate) path: Template,
    /// Prefix for a path that turns out to be relative; ends in a slash.
    pub(crate) prefix: Box<[u8]>,
}

impl PathPlan {
    pub(crate) fn write(&self, view: &dyn View, out: &mut Vec<u8>) {
        let start = out.len();
        self.path.write(view, out);
        if out.get(start) != Some(&b'/') {
            out.splice(start..start, self.prefix.iter().copied());
        }
    }
}

/// `autoindex`
pub(crate) struct ListingPlan {
    pub(crate) format: ListFormat,
    pub(crate) local_time: bool,
    pub(crate) exact_size: bool,
}

/// How a location serves files.
pub(crate) struct FilesPlan {
    /// `random_index`
    pub(crate) random_index: bool,
    /// `autoindex`
    pub(crate) listing: Option<ListingPlan>,
    pub(crate) index: Vec<Template>,
    pub(crate) types: Arc<MimeTypes>,
    pub(crate) sendfile: bool,
    /// Most bytes of one `sendfile(2)`.
    pub(crate) sendfile_chunk: usize,
    /// Bytes read at once if `sendfile` is off.
    pub(crate) read_chunk: usize,
    pub(crate) etag: bool,
    pub(crate) modified_since: ModifiedSince,
    pub(crate) ranges_max: usize,
    pub(crate) log_not_found: bool,
}

/// The entity tag of a file, in nginx's form: `"mtime-size"` in hexadecimal.
pub(crate) fn entity_tag(modified: i64, size: u64) -> String {
    let mut tag = String::with_capacity(36);
    // Writing to a string cannot fail.
    let _ = write!(tag, "\"{modified:x}-{size:x}\"");
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::variable::Variable;

    /// Knows only `$host`.
    struct Host;

    impl View for Host {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            let known = *variable == Variable::Host;
            out.extend_from_slice(if known { b"a.example" } else { b"" });
            known
        }
    }

    fn path(root: Template, alias: Option<Alias>, uri: &str) -> String {
        let mut out = Vec::new();
        RootPlan { path: root, prefix: b"/etc/x/".as_slice().into(), alias, parents: 0 }.write_path(
            &Host,
            uri.as_bytes(),
            false,
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_root_is_prepended_and_an_alias_replaces() {
        let fixed = || Template::constant(b"/srv/www");
        assert_eq!(path(fixed(), None, "/a/b.html"), "/srv/www/a/b.html");
        assert_eq!(path(Template::constant(b"/srv/i/"), Some(Alias::Prefix(3)), "/i/b.gif"), "/srv/i/b.gif");
        assert_eq!(path(Template::constant(b"/srv/one"), Some(Alias::Whole), "/i/b.gif"), "/srv/one");
        assert_eq!(path(fixed(), Some(Alias::Prefix(9)), "/i"), "/srv/www", "a URI shorter than the name");
        assert_eq!(path(Template::variable(Variable::Host), None, "/a"), "/etc/x/a.example/a");
    }

    #[test]
    fn the_tag_is_time_and_size() {
        assert_eq!(entity_tag(0x5e9f_2c80, 612), "\"5e9f2c80-264\"");
    }

    #[test]
    fn a_path_has_no_more_parents_than_its_root() {
        let root = |path: &[u8], parents| RootPlan {
            path: Template::constant(path),
            prefix: Box::default(),
            alias: None,
            parents,
        };
        for (path, holds) in
            [("/data/a..b/..c/...", true), ("/data/../x", false), ("/data/..", false), ("/data/a\0b", false)]
        {
            assert_eq!(root(b"/data", 0).holds(path.as_bytes()), holds, "{path:?}");
        }
        assert!(root(b"/etc/x/../html", 1).holds(b"/etc/x/../html/a"));
        assert!(!root(b"/etc/x/../html", 1).holds(b"/etc/x/../html/../a"));
    }
}
