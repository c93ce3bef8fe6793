//! Rules of `HTTPRoute`s and `GRPCRoute`s in one form.

use super::attach::{RouteFaults, RouteHead};
use super::matches::Match;
use super::secrets::age;
use super::status::Fault;
use crate::Kind;
use crate::objects::Object;
use crate::objects::routes::{
    BackendRef, GrpcMatch, GrpcRoute, HttpFilter, HttpMatch, HttpRetry, HttpRoute, HttpTimeouts, SessionPersistence,
};
use std::collections::BTreeSet;

/// Most rules of a route, and most matches of a rule. The API allows fewer.
const COUNT_MAX: usize = 128;

/// A rule.
pub(crate) struct Rule<'a> {
    pub(crate) matches: Vec<Match>,
    pub(crate) filters: &'a [HttpFilter],
    pub(crate) backends: &'a [BackendRef],
    pub(crate) timeouts: Option<&'a HttpTimeouts>,
    pub(crate) retry: Option<&'a HttpRetry>,
    pub(crate) persistence: Option<&'a SessionPersistence>,
}

/// A route with its rules.
pub(crate) struct HttpPlan<'a> {
    pub(crate) head: RouteHead<'a>,
    pub(crate) age: (&'a str, &'a str, &'a str),
    /// `None`: it has a match that is not supported.
    pub(crate) rules: Vec<Option<Rule<'a>>>,
    pub(crate) faults: RouteFaults,
    /// Rules that are answered with 500 because a filter is not supported.
    pub(crate) failed: BTreeSet<usize>,
}

impl HttpPlan<'_> {
    /// How many rules can be served.
    pub(crate) fn served_rules(&self) -> usize {
        let failed = |index: &usize| self.failed.contains(index);
        (0..self.rules.len())
            .filter(|index| self.rules.get(*index).is_some_and(Option::is_some) && !failed(index))
            .count()
    }

    pub(crate) fn is_grpc(&self) -> bool {
        self.head.kind == Kind::GrpcRoute
    }
}

fn plan<'a, T: Object>(
    object: &'a T,
    head: RouteHead<'a>,
    rules: impl Iterator<Item = Result<Rule<'a>, Fault>>,
) -> HttpPlan<'a> {
    let mut faults = RouteFaults::default();
    let rules = rules.take(COUNT_MAX).map(|rule| rule.map_err(|fault| faults.unsupported(fault)).ok()).collect();
    HttpPlan { head, age: age(object), rules, faults, failed: BTreeSet::new() }
}

/// The rules of an `HTTPRoute`.
pub(crate) fn of_http(route: &HttpRoute) -> HttpPlan<'_> {
    let spec = &route.spec;
    let head = RouteHead {
        kind: Kind::HttpRoute,
        metadata: &route.metadata,
        parents: &spec.parent_refs,
        hostnames: &spec.hostnames,
        status: &route.status,
    };
    let rules = spec.rules.iter().map(|rule| {
        let matches: Result<Vec<_>, Fault> = if rule.matches.is_empty() {
            Match::of_http(&HttpMatch::default()).map(|all| vec![all])
        } else {
            rule.matches.iter().take(COUNT_MAX).map(Match::of_http).collect()
        };
        Ok(Rule {
            matches: matches?,
            filters: &rule.filters,
            backends: &rule.backend_refs,
            timeouts: rule.timeouts.as_ref(),
            retry: rule.retry.as_ref(),
            persistence: rule.session_persistence.as_ref(),
        })
    });
    plan(route, head, rules)
}

/// The rules of a `GRPCRoute`.
pub(crate) fn of_grpc(route: &GrpcRoute) -> HttpPlan<'_> {
    let spec = &route.spec;
    let head = RouteHead {
        kind: Kind::GrpcRoute,
        metadata: &route.metadata,
        parents: &spec.parent_refs,
        hostnames: &spec.hostnames,
        status: &route.status,
    };
    let rules = spec.rules.iter().map(|rule| {
        let matches: Result<Vec<_>, Fault> = if rule.matches.is_empty() {
            Match::of_grpc(&GrpcMatch::default()).map(|all| vec![all])
        } else {
            rule.matches.iter().take(COUNT_MAX).map(Match::of_grpc).collect()
        };
        Ok(Rule {
            matches: matches?,
            filters: &rule.filters,
            backends: &rule.backend_refs,
            timeouts: None,
            retry: None,
            persistence: rule.session_persistence.as_ref(),
        })
    });
    plan(route, head, rules)
}
