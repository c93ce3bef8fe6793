//! `more_set_headers` and its kin: what a location does to fields of requests and responses.

use http1::outgoing::FieldToken;
use rules::template::Template;

/// What a location does; outer levels come first.
#[derive(Default)]
pub(crate) struct MoreHeadersPlan {
    pub(crate) responses: Vec<HeaderCommandPlan>,
    pub(crate) requests: Vec<HeaderCommandPlan>,
}

/// One directive.
pub(crate) struct HeaderCommandPlan {
    /// The statuses that it is for; none means all.
    pub(crate) statuses: Vec<u16>,
    /// The values of Content-Type that it is for; none means all.
    pub(crate) types: Vec<Box<[u8]>>,
    pub(crate) edits: Vec<HeaderEditPlan>,
}

/// What happens to the fields of a name.
pub(crate) struct HeaderEditPlan {
    pub(crate) name: HeaderNamePlan,
    pub(crate) change: HeaderChangePlan,
}

/// The fields that are meant.
pub(crate) enum HeaderNamePlan {
    Exact(FieldToken),
    Beginning(Box<[u8]>),
}

/// What becomes of them. A value that turns out to be empty clears them.
pub(crate) enum HeaderChangePlan {
    Clear,
    Set(Template),
    /// Where there is one.
    Replace(Template),
    Add(Template),
}

impl HeaderCommandPlan {
    pub(crate) fn covers_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    /// As in the module a type is compared with all of the value.
    pub(crate) fn covers_type(&self, content_type: &[u8]) -> bool {
        self.types.is_empty() || self.types.iter().any(|known| **known == *content_type)
    }
}
