//! `more_set_headers` and its kin: a location's edits of request and response fields.

use http1::FieldId;
use http1::outgoing::FieldToken;
use rules::template::Template;

/// The edits of a location; outer levels come first.
#[derive(Default)]
pub(crate) struct MoreHeadersPlan {
    pub(crate) responses: Vec<HeaderCommandPlan>,
    pub(crate) requests: Vec<HeaderCommandPlan>,
}

/// One directive.
pub(crate) struct HeaderCommandPlan {
    /// The statuses that it applies to; empty for all.
    pub(crate) statuses: Vec<u16>,
    /// The values of Content-Type that it applies to; empty for all.
    pub(crate) types: Vec<Box<[u8]>>,
    pub(crate) edits: Vec<HeaderEditPlan>,
}

/// The edit of the fields with a name.
pub(crate) struct HeaderEditPlan {
    pub(crate) name: HeaderNamePlan,
    pub(crate) change: HeaderChangePlan,
}

/// Which fields are meant.
pub(crate) enum HeaderNamePlan {
    Exact(FieldToken),
    Beginning(Box<[u8]>),
}

/// The change. A value that evaluates to empty clears them.
pub(crate) enum HeaderChangePlan {
    Clear,
    Set(Template),
    /// Only if the field exists.
    Replace(Template),
    Add(Template),
}

impl MoreHeadersPlan {
    /// Whether a whole response of this type, with status 200, loses Accept-Ranges. As in the nginx module, it then has no
    /// ranges either.
    pub(crate) fn clears_ranges(&self, media: &[u8]) -> bool {
        let clears = |edit: &HeaderEditPlan| {
            let HeaderNamePlan::Exact(name) = &edit.name else { return false };
            matches!(edit.change, HeaderChangePlan::Clear) && FieldId::of_name(name.as_bytes()) == FieldId::AcceptRanges
        };
        let covers = |command: &&HeaderCommandPlan| command.covers_status(200) && command.covers_type(media);
        self.responses.iter().filter(covers).any(|command| command.edits.iter().any(clears))
    }
}

impl HeaderCommandPlan {
    pub(crate) fn covers_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    /// As in the nginx module, a type is compared with the whole value.
    pub(crate) fn covers_type(&self, content_type: &[u8]) -> bool {
        self.types.is_empty() || self.types.iter().any(|known| **known == *content_type)
    }
}
