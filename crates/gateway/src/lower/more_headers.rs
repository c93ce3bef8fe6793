//! `more_set_headers` and its kin.

use crate::lower::Lowering;
use crate::plan::more_headers::{HeaderChangePlan, HeaderCommandPlan, HeaderEditPlan, HeaderNamePlan, MoreHeadersPlan};
use conf::model::{HeaderChange, HeaderCommand, HeaderEdit, HeaderName, MoreHeadersSettings};

impl Lowering<'_> {
    /// The field edits of a location; `None` if there are none.
    pub(super) fn more_headers_plan(&mut self, settings: &MoreHeadersSettings) -> Option<Box<MoreHeadersPlan>> {
        let responses = self.header_commands(&settings.responses, "more_set_headers");
        let requests = self.header_commands(&settings.requests, "more_set_input_headers");
        (!responses.is_empty() || !requests.is_empty()).then(|| Box::new(MoreHeadersPlan { responses, requests }))
    }

    fn header_commands(&mut self, commands: &[HeaderCommand], directive: &str) -> Vec<HeaderCommandPlan> {
        let mut plans = Vec::with_capacity(commands.len());
        for command in commands {
            plans.push(HeaderCommandPlan {
                statuses: command.statuses.clone(),
                types: command.types.iter().map(|media| media.as_slice().into()).collect(),
                edits: command.edits.iter().filter_map(|edit| self.header_edit(edit, directive)).collect(),
            });
        }
        plans
    }

    fn header_edit(&mut self, edit: &HeaderEdit, directive: &str) -> Option<HeaderEditPlan> {
        let name = match &edit.name {
            HeaderName::Exact(name) => HeaderNamePlan::Exact(self.field_token(directive, name, edit.span)?),
            HeaderName::Beginning(start) => HeaderNamePlan::Beginning(start.as_slice().into()),
        };
        let change = match &edit.change {
            HeaderChange::Clear => HeaderChangePlan::Clear,
            HeaderChange::Set(value) => HeaderChangePlan::Set(self.template(value)),
            HeaderChange::Replace(value) => HeaderChangePlan::Replace(self.template(value)),
            HeaderChange::Add(value) => HeaderChangePlan::Add(self.template(value)),
        };
        Some(HeaderEditPlan { name, change })
    }
}
