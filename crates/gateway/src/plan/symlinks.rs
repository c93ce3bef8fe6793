//! `disable_symlinks`.

use reactor::LinkRule;
use rules::template::Template;

/// Which symbolic links in the paths of files are followed.
pub(crate) struct SymlinkPlan {
    pub(crate) rule: LinkRule,
    /// `from=`: links in this beginning of a path are followed.
    pub(crate) from: Option<Template>,
}

/// Which links one path may lead through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathGuard {
    pub(crate) rule: LinkRule,
    /// Bytes at its beginning that may lead through any links.
    pub(crate) trusted: usize,
}

impl PathGuard {
    /// The key of a path in `open_file_cache`. A file opened under one rule is not found under another: no path has a
    /// zero byte, so the key begins where no path goes on.
    pub(crate) fn key_of(self, path: &[u8]) -> Vec<u8> {
        let rule = match self.rule {
            LinkRule::Refused => b'r',
            LinkRule::SameOwner => b'o',
        };
        [path, &[0, rule], &self.trusted.to_le_bytes()].concat()
    }
}

impl SymlinkPlan {
    /// The guard of a path; `None` for one that is trusted as a whole. As in nginx a path that does not begin with `from` is checked
    /// as a whole.
    pub(crate) fn guard(&self, path: &[u8], from: &[u8]) -> Option<PathGuard> {
        let rule = self.rule;
        let all = PathGuard { rule, trusted: 0 };
        let Some(rest) = path.strip_prefix(from).filter(|_| !from.is_empty()) else { return Some(all) };
        match rest.first() {
            None => None,
            Some(b'/') => Some(PathGuard { rule, trusted: from.len() }),
            Some(_) if from.ends_with(b"/") => Some(PathGuard { rule, trusted: from.len() - 1 }),
            Some(_) => Some(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_symlink_rule_has_a_key() {
        let guards =
            [(LinkRule::Refused, 0), (LinkRule::Refused, 4), (LinkRule::SameOwner, 0), (LinkRule::SameOwner, 4)];
        let guards = guards.map(|(rule, trusted)| PathGuard { rule, trusted });
        let keys = guards.iter().flat_map(|guard| [guard.key_of(b"/srv/a"), guard.key_of(b"/srv/b")]);
        let keys: std::collections::HashSet<_> = keys.chain([b"/srv/a".to_vec(), b"/srv/b".to_vec()]).collect();
        assert_eq!(keys.len(), 10);
    }

    #[test]
    fn path_is_trusted_up_to_a_folder_boundary() {
        let plan = SymlinkPlan { rule: LinkRule::Refused, from: None };
        let trusted = |path: &str, from: &str| plan.guard(path.as_bytes(), from.as_bytes()).map(|guard| guard.trusted);
        for (path, from, expected) in [
            ("/srv/www/a", "", Some(0)),
            ("/srv/www/a", "/srv/www", Some(8)),
            ("/srv/www/a", "/srv/www/", Some(8)),
            ("/srv/www/a", "/srv/ww", Some(0)),
            ("/srv/www/a", "/srv/www/a", None),
            ("/srv/www/a", "/srv/www/a/b", Some(0)),
            ("/a", "/", Some(0)),
        ] {
            assert_eq!(trusted(path, from), expected, "{path} from {from}");
        }
    }
}
