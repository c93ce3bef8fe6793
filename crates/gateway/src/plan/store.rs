//! `proxy_store` and its kin: where a location saves responses as plain files.

use crate::base::logs::place::parent_segments;
use crate::plan::files::PathPlan;

/// How responses are saved.
pub(crate) struct StorePlan {
    /// `None`: under the path of the request's file.
    pub(crate) path: Option<StorePath>,
    /// Permission bits of the files.
    pub(crate) mode: u32,
}

/// A path that the directive gives.
pub(crate) struct StorePath {
    pub(crate) plan: PathPlan,
    /// Number of `..` segments that the configuration itself wrote.
    pub(crate) parents: usize,
}

impl StorePath {
    /// Whether a path made from it has no more `..` segments than the configuration wrote: values of variables may
    /// contain anything, and must not choose another directory.
    pub(crate) fn holds(&self, path: &[u8]) -> bool {
        !path.contains(&0) && parent_segments(path) <= self.parents
    }
}
