//! `more_set_input_headers` and `more_clear_input_headers`: request fields that the location sets and removes before
//! its limits, access rules and content see the request.

use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::more_headers::{HeaderChangePlan, HeaderEditPlan, HeaderNamePlan, MoreHeadersPlan};
use http1::FieldId;
use http1::edit::{InvalidHost, Names, SetHow};
use rules::template::Template;

impl Exchange {
    /// Edits the request's head. The error is the answer if the new Host is invalid.
    pub(crate) fn edit_request(&mut self, plan: &MoreHeadersPlan) -> Result<(), Reply> {
        for command in &plan.requests {
            let media = self.request.head.value(FieldId::ContentType, &self.request.bytes).unwrap_or_default();
            if command.covers_type(media) {
                for edit in &command.edits {
                    self.edit_field(edit)?;
                }
            }
        }
        Ok(())
    }

    fn edit_field(&mut self, edit: &HeaderEditPlan) -> Result<(), Reply> {
        let (template, how) = match &edit.change {
            HeaderChangePlan::Clear => (None, SetHow::Always),
            HeaderChangePlan::Replace(value) => (Some(value), SetHow::IfPresent),
            HeaderChangePlan::Set(value) | HeaderChangePlan::Add(value) => (Some(value), SetHow::Always),
        };
        let value = template.map(|template| self.field_value(template, "more_set_input_headers")).unwrap_or_default();
        let request = &mut *self.request;
        match &edit.name {
            HeaderNamePlan::Beginning(start) => request.head.remove_fields(&request.bytes, Names::Beginning(start)),
            HeaderNamePlan::Exact(name) if value.is_empty() => {
                request.head.remove_fields(&request.bytes, Names::Exact(name.as_bytes()));
            }
            HeaderNamePlan::Exact(name) => {
                let set = request.head.set_field(&mut request.bytes, name.as_bytes(), &value, how);
                if let Err(InvalidHost) = set {
                    self.error_log(&format!(
                        "\"more_set_input_headers\" would set the invalid host \"{}\"",
                        quoted(&value)
                    ));
                    return Err(Reply::error(500));
                }
            }
        }
        Ok(())
    }

    /// The value of a field, as one line.
    fn field_value(&self, template: &Template, directive: &str) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(&ExchangeView::of(self), &mut value);
        self.one_line(value, || format!("\"{directive}\""))
    }
}
