//! Routes. What the route itself says decides: it is translated alone, at a Gateway and with Services
//! that accept every route. So other objects, and the order of objects, cannot refuse a route. A second translation,
//! beside the real Gateways and Services, finds what is worth a warning.

use super::Judgement;
use crate::cluster::{Objects, insert};
use crate::objects::Object;
use crate::objects::core::{Service, ServicePort};
use crate::objects::gateway::{Gateway, GatewayClass, Listener, ListenerTls};
use crate::objects::routes::{
    BackendRef, GrpcRoute, HttpFilter, HttpRoute, ParentReference, TcpRoute, TlsRoute, UdpRoute,
};
use crate::{Cluster, Finding, GatewayAddresses, Level, ObjectName, Settings, Translation, translate};
use std::collections::BTreeSet;

/// The name of what is not in the cluster: the Gateway of the first translation, and its class.
const OPEN: &str = "open";
/// Its port, if it is not that of HTTP.
const OPEN_PORT: u16 = 9;
/// Most items of a list in a route, as the API has it. The API server checks that before it asks; other clients of the port do not.
const ITEMS_MAX: usize = 64;
/// Most matches of all rules, as the API has it.
const MATCHES_MAX: usize = 128;

/// What all kinds have.
pub(super) trait Route: Object + Clone {
    /// The protocol of a listener that accepts it.
    const PROTOCOL: &'static str;

    fn objects(cluster: &mut Cluster) -> &mut Objects<Self>;
    /// Gives it this parent alone, and at most one hostname.
    fn attach_to(&mut self, parent: ParentReference);
    fn hostnames(&self) -> &[String] {
        &[]
    }
    fn rules(&self) -> Vec<RuleParts<'_>>;
    /// Visits the backends of all rules, and those that get copies.
    fn each_backend(&mut self, visit: &mut dyn FnMut(&mut BackendRef));
    /// Lets each rule match everything.
    fn forget_matches(&mut self);
}

/// The lists of a rule.
pub(super) struct RuleParts<'r> {
    filters: &'r [HttpFilter],
    backends: &'r [BackendRef],
    matches: usize,
    /// The most conditions of a match.
    conditions: usize,
}

/// Implements [`Route`] for a kind; `conditions` are the lists of a match.
macro_rules! route {
    ($type:ty, $objects:ident, $($conditions:ident),+) => {
        impl Route for $type {
            const PROTOCOL: &'static str = "HTTP";

            fn objects(cluster: &mut Cluster) -> &mut Objects<Self> {
                &mut cluster.$objects
            }

            fn attach_to(&mut self, parent: ParentReference) {
                self.spec.parent_refs = vec![parent];
                self.spec.hostnames.truncate(1);
            }

            fn hostnames(&self) -> &[String] {
                &self.spec.hostnames
            }

            fn rules(&self) -> Vec<RuleParts<'_>> {
                let rules = self.spec.rules.iter().map(|rule| RuleParts {
                    filters: &rule.filters,
                    backends: &rule.backend_refs,
                    matches: rule.matches.len(),
                    conditions: rule.matches.iter().flat_map(|it| [$(it.$conditions.len()),+]).max().unwrap_or(0),
                });
                rules.collect()
            }

            fn each_backend(&mut self, visit: &mut dyn FnMut(&mut BackendRef)) {
                for rule in &mut self.spec.rules {
                    each_copy(&mut rule.filters, visit);
                    for backend in &mut rule.backend_refs {
                        each_copy(&mut backend.filters, visit);
                        visit(backend);
                    }
                }
            }

            fn forget_matches(&mut self) {
                self.spec.rules.iter_mut().for_each(|rule| rule.matches.clear());
            }
        }
    };
}
route!(HttpRoute, http_routes, headers, query_params);
route!(GrpcRoute, grpc_routes, headers);

/// Implements [`Route`] for a kind with backends only. `hostnames` is its list of host names, if it has one.
macro_rules! stream_route {
    ($type:ty, $objects:ident, $protocol:literal $(, $hostnames:ident)?) => {
        impl Route for $type {
            const PROTOCOL: &'static str = $protocol;

            fn objects(cluster: &mut Cluster) -> &mut Objects<Self> {
                &mut cluster.$objects
            }

            fn attach_to(&mut self, parent: ParentReference) {
                self.spec.parent_refs = vec![parent];
                $(self.spec.$hostnames.truncate(1);)?
            }

            $(fn hostnames(&self) -> &[String] {
                &self.spec.$hostnames
            })?

            fn rules(&self) -> Vec<RuleParts<'_>> {
                let parts = |backends| RuleParts { filters: &[], backends, matches: 0, conditions: 0 };
                self.spec.rules.iter().map(|rule| parts(rule.backend_refs.as_slice())).collect()
            }

            fn each_backend(&mut self, visit: &mut dyn FnMut(&mut BackendRef)) {
                self.spec.rules.iter_mut().flat_map(|rule| &mut rule.backend_refs).for_each(visit);
            }

            fn forget_matches(&mut self) {}
        }
    };
}
stream_route!(TlsRoute, tls_routes, "TLS", hostnames);
stream_route!(TcpRoute, tcp_routes, "TCP");
stream_route!(UdpRoute, udp_routes, "UDP");

fn each_copy(filters: &mut [HttpFilter], visit: &mut dyn FnMut(&mut BackendRef)) {
    let mirrors = filters.iter_mut().filter_map(|filter| filter.request_mirror.as_mut());
    mirrors.for_each(|mirror| visit(&mut mirror.backend_ref));
}

/// Judges a route.
pub(super) fn judge<R: Route>(cluster: &Cluster, settings: &Settings, route: R) -> Judgement {
    let object = ObjectName { kind: R::KIND, name: route.metadata().key() };
    if is_too_large(&route) {
        let message = "it has more hostnames, rules, matches or items of a list than the API allows".to_owned();
        let refused = vec![Finding { object, level: Level::Refused, reason: "TooLarge", message }];
        return Judgement { refused, ..Judgement::default() };
    }
    let Some(mut warnings) = in_the_cluster(cluster, settings, &object, route.clone()) else {
        // All of its parents are others' or not there yet.
        return Judgement::default();
    };
    let (refused, partial) = alone(settings, &object, route);
    if !refused.is_empty() {
        return Judgement { refused, ..Judgement::default() };
    }
    warnings.extend(partial);
    Judgement { refused, warnings: warnings.into_iter().collect() }
}

/// Whether it has more than the API server would store, and could take long to translate.
fn is_too_large<R: Route>(route: &R) -> bool {
    let rules = route.rules();
    let is_long = |filters: &[HttpFilter]| filters.len() > ITEMS_MAX || filters.iter().any(has_long_list);
    let is_rule_long = |rule: &RuleParts<'_>| {
        let backends = rule.backends;
        let longest = rule.conditions.max(backends.len());
        longest > ITEMS_MAX || is_long(rule.filters) || backends.iter().any(|backend| is_long(&backend.filters))
    };
    let matches: usize = rules.iter().map(|rule| rule.matches).sum();
    matches > MATCHES_MAX || rules.len().max(route.hostnames().len()) > ITEMS_MAX || rules.iter().any(is_rule_long)
}

fn has_long_list(filter: &HttpFilter) -> bool {
    let fields = filter.request_header_modifier.iter().chain(&filter.response_header_modifier);
    let of_fields = fields.flat_map(|it| [it.set.len(), it.add.len(), it.remove.len()]);
    let cors = filter.cors.iter().flat_map(|it| {
        [it.allow_origins.len(), it.allow_methods.len(), it.allow_headers.len(), it.expose_headers.len()]
    });
    of_fields.chain(cors).any(|length| length > ITEMS_MAX)
}

/// What the route itself has wrong, and what of it would not be served.
fn alone<R: Route>(settings: &Settings, object: &ObjectName, mut route: R) -> (Vec<Finding>, Vec<Finding>) {
    let namespace = object.name.namespace.to_string();
    let mut cluster = Cluster::default();
    let mut class = GatewayClass::default();
    class.metadata.name = OPEN.into();
    class.spec.controller_name.clone_from(&settings.gateway_controller);
    insert(&mut cluster.gateway_classes, class);
    let mut gateway = Gateway::default();
    (gateway.metadata.namespace, gateway.metadata.name) = (namespace.clone(), OPEN.to_owned());
    gateway.spec.gateway_class_name = OPEN.into();
    let (name, protocol) = (OPEN.to_owned(), R::PROTOCOL.to_owned());
    let tls =
        (protocol == "TLS").then(|| ListenerTls { mode: Some("Passthrough".to_owned()), ..ListenerTls::default() });
    let port = if protocol == "HTTP" { settings.http_port } else { OPEN_PORT };
    gateway.spec.listeners = vec![Listener { name, port, protocol, tls, ..Listener::default() }];
    insert(&mut cluster.gateways, gateway);
    // The API server has checked the form of hostnames. Each one repeats the matches, which would take most of the time.
    route.attach_to(ParentReference { name: OPEN.to_owned(), ..ParentReference::default() });
    route.each_backend(&mut |backend| {
        // A grant may come later.
        backend.namespace = None;
        let name = crate::Name::new(namespace.as_str(), backend.name.as_str());
        let mut service = cluster.services.get(&name).map(|known| Service::clone(known)).unwrap_or_default();
        (service.metadata.namespace, service.metadata.name) = (namespace.clone(), backend.name.clone());
        let port = ServicePort { port: backend.port.unwrap_or_default(), ..ServicePort::default() };
        service.spec.ports.push(port);
        insert(&mut cluster.services, service);
    });
    insert(R::objects(&mut cluster), route);
    let settings = Settings { gateway_addresses: GatewayAddresses::default(), ..settings.clone() };
    let translation = translate(&cluster, &settings);
    let own = translation.findings.iter().filter(|it| it.object == *object && it.level == Level::Refused);
    let mut refused: Vec<Finding> = own.cloned().collect();
    let mut partial = Vec::new();
    for found in conditions(&translation, object).unwrap_or_default() {
        match found.kind {
            // The finding says the same with the reason.
            "Accepted" if refused.is_empty() => refused.push(found.finding(object, Level::Refused, "UnsupportedValue")),
            "PartiallyInvalid" => partial.push(found.finding(object, Level::Warning, "PartiallyInvalid")),
            _ => {}
        }
    }
    (refused, partial)
}

/// What the route lacks in the cluster as it is. `None`: no parent of it is this controller's.
fn in_the_cluster<R: Route>(
    cluster: &Cluster,
    settings: &Settings,
    object: &ObjectName,
    mut route: R,
) -> Option<BTreeSet<Finding>> {
    // They decide nothing here, and would take most of the time.
    route.forget_matches();
    let mut near = Cluster {
        gateway_classes: cluster.gateway_classes.clone(),
        gateways: cluster.gateways.clone(),
        listener_sets: cluster.listener_sets.clone(),
        namespaces: cluster.namespaces.clone(),
        services: cluster.services.clone(),
        reference_grants: cluster.reference_grants.clone(),
        ..Cluster::default()
    };
    insert(R::objects(&mut near), route);
    let translation = translate(&near, settings);
    let found = conditions(&translation, object)?;
    let warnings = found.into_iter().filter(|it| matches!(it.kind, "Accepted" | "ResolvedRefs"));
    Some(warnings.map(|it| it.finding(object, Level::Warning, it.kind)).collect())
}

/// A condition that says that something is wrong.
struct Bad {
    kind: &'static str,
    message: String,
}

impl Bad {
    fn finding(&self, object: &ObjectName, level: Level, reason: &'static str) -> Finding {
        Finding { object: object.clone(), level, reason, message: self.message.clone() }
    }
}

/// The bad conditions in the status of a route. `None`: it has no parent there.
fn conditions(translation: &Translation, object: &ObjectName) -> Option<Vec<Bad>> {
    let wish = translation.statuses.iter().find(|wish| wish.object == *object)?;
    let parents = wish.status["parents"].as_array().filter(|parents| !parents.is_empty())?;
    let all = parents.iter().filter_map(|parent| parent["conditions"].as_array()).flatten();
    let bad = all.filter_map(|condition| {
        let (kind, when) = [("Accepted", "False"), ("ResolvedRefs", "False"), ("PartiallyInvalid", "True")]
            .into_iter()
            .find(|(kind, _)| condition["type"] == *kind)?;
        (condition["status"] == when)
            .then(|| Bad { kind, message: condition["message"].as_str().unwrap_or_default().to_owned() })
    });
    Some(bad.collect())
}
