//! `route_to`, lowered.

use crate::lower::Lowering;
use crate::plan::route_to::RoutePlan;
use conf::diagnostic::Diagnostic;
use conf::model::{RouteCondition, RouteSubject, RouteTest, RouteTo};
use rules::pattern::Pattern;
use rules::route_to::{Condition, Subject, Test};

impl Lowering<'_> {
    pub(super) fn route_plans(&mut self, routes: &[RouteTo]) -> Box<[RoutePlan]> {
        let mut plans = Vec::with_capacity(routes.len());
        for route in routes {
            let conditions = route.conditions.iter().filter_map(|condition| self.route_condition(condition)).collect();
            let name = [b"@", route.name.as_bytes()].concat().into();
            plans.push(RoutePlan { name, conditions, span: route.span });
        }
        plans.into()
    }

    /// `None`: an error was reported.
    fn route_condition(&mut self, written: &RouteCondition) -> Option<Condition> {
        let subject = match &written.subject {
            RouteSubject::Method => Subject::Method,
            RouteSubject::Header(name) => Subject::Header(name.as_slice().into()),
            RouteSubject::Arg(name) => Subject::Arg(name.as_slice().into()),
            RouteSubject::Variable(name) => Subject::Variable(self.variable(name, written.span)?),
        };
        let test = match &written.test {
            RouteTest::Equal(text) => Test::Equal(text.as_slice().into()),
            RouteTest::Match(regex) => match Pattern::compile_unnamed(&regex.pattern, regex.caseless) {
                Ok(pattern) => Test::Match(pattern),
                Err(message) => {
                    self.found.push(Diagnostic::error(written.span, message));
                    return None;
                }
            },
        };
        Some(Condition { subject, test })
    }
}
