//! `userid`: cookies that identify clients.

use conf::model::{UserIdExpiry, UserIdMode};
use rules::template::Template;

/// `userid` and its kin, if it is not off.
pub(crate) struct UserIdPlan {
    pub(crate) mode: UserIdMode,
    /// `userid_service`; `None`: the server's address.
    pub(crate) service: Option<u32>,
    pub(crate) name: Box<str>,
    pub(crate) expires: UserIdExpiry,
    /// The cookie's attributes: domain, path and flags.
    pub(crate) attributes: Box<[u8]>,
    pub(crate) p3p: Option<Box<[u8]>>,
    pub(crate) mark: Option<u8>,
    /// `$uid_reset`
    pub(crate) reset: Template,
}
