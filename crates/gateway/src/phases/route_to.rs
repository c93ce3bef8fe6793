//! `route_to`: the first line with conditions that all hold leads the request to a named location.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::{Redirect, Step};
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::plan::route_to::RoutePlan;
use rules::pattern::MatchError;
use rules::route_to::{Condition, Subject, argument};
use rules::template::View as _;

impl Exchange {
    /// The step to the named location; `None`: the request stays here.
    pub(crate) fn route_to<T: Tracer>(&mut self, routes: &[RoutePlan], trace: T) -> Option<Step> {
        for route in routes {
            match self.meets(&route.conditions) {
                Ok(false) => {}
                Ok(true) => {
                    trace.note(self, Event::RoutedTo(route));
                    return Some(Step::Redirect(Redirect::Named(route.name.to_vec())));
                }
                Err(error) => {
                    self.error_log(&error.message);
                    return Some(Step::Reply(Reply::error(500)));
                }
            }
        }
        None
    }

    fn meets(&self, conditions: &[Condition]) -> Result<bool, MatchError> {
        for condition in conditions {
            let holds = match &condition.subject {
                Subject::Method => condition.test.holds(self.name_of(self.asked_method()))?,
                Subject::Header(name) => self.meets_header(name, condition)?,
                Subject::Arg(name) => match self.args().and_then(|args| argument(args, name)) {
                    Some(value) => condition.test.holds(&value)?,
                    None => false,
                },
                Subject::Variable(variable) => {
                    let mut value = Vec::new();
                    ExchangeView::of(self).write(variable, &mut value);
                    condition.test.holds(&value)?
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Several fields of one name are one list (RFC 9110 section 5.3).
    fn meets_header(&self, name: &[u8], condition: &Condition) -> Result<bool, MatchError> {
        let request = &self.request;
        let mut values = request
            .head
            .fields
            .iter()
            .filter(|field| field.name.of(&request.bytes).eq_ignore_ascii_case(name))
            .map(|field| field.value.of(&request.bytes));
        let Some(first) = values.next() else { return Ok(false) };
        let Some(second) = values.next() else { return condition.test.holds(first) };
        let mut joined = [first, second].join(&b", "[..]);
        for value in values {
            joined.extend_from_slice(b", ");
            joined.extend_from_slice(value);
        }
        condition.test.holds(&joined)
    }
}
