//! `auth_jwt` and its kin: the tokens that a location needs, and where their keys are.

use crate::plan::files::PathPlan;
use jwt::{Content, KeySet};
use rules::template::Template;
use std::sync::Arc;
use std::time::Duration;

/// The tokens that a location needs.
pub(crate) struct JwtPlan {
    pub(crate) realm: Template,
    /// What has the token; `None`: `Authorization: Bearer`.
    pub(crate) token: Option<Template>,
    /// What an encrypted token contains; `None`: the token is signed only.
    pub(crate) encrypted: Option<Content>,
    pub(crate) key_files: Vec<KeyFilePlan>,
    /// URIs of subrequests for keys.
    pub(crate) key_requests: Vec<Template>,
    /// How long keys are used without looking at their source.
    pub(crate) key_cache: Duration,
    pub(crate) leeway_s: u64,
    pub(crate) requires: Vec<JwtRequirePlan>,
}

/// A file of keys.
pub(crate) struct KeyFilePlan {
    pub(crate) path: PathPlan,
    /// What it had when the configuration was read; `None` if variables name it.
    pub(crate) at_start: Option<Arc<KeySet>>,
}

/// `auth_jwt_require`
pub(crate) struct JwtRequirePlan {
    /// All of them must be neither empty nor `0`.
    pub(crate) values: Vec<Template>,
    /// The status if one is.
    pub(crate) status: u16,
}
