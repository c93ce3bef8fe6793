//! The Gateway API: classes, Gateways, routes and policies become servers, and each object gets its status.
//!
//! `gateways`, `listeners` and `listener_sets` say what is listened on; `attach` brings routes to listeners; `http` and
//! `streams` write the servers; `status` has the form of conditions. The older object wins every conflict.

mod attach;
mod backend_tls;
mod backends;
mod claims;
mod classes;
mod cors;
mod filters;
mod frontend;
mod gateways;
mod grants;
mod hostname;
mod http;
mod listener_sets;
mod listeners;
mod matches;
mod proxy;
mod render;
mod rules;
mod secrets;
mod status;
mod streams;
mod words;

pub(crate) use claims::Claims;
pub use classes::SUPPORTED_FEATURES;
pub(crate) use grants::Grants;

use crate::assembly::Assembly;
use crate::cluster::Cluster;
use crate::{Kind, Name, ObjectName, Settings, StatusWish};
use attach::RoutePlan;
use backend_tls::Policies;
use backends::Backends;
use gateways::GatewayPlan;
use http::AttachedHttp;
use listener_sets::SetPlan;
use listeners::{Listeners, Protocol};
use rules::HttpPlan;
use secrets::{Lookup, by_age};
use status::Fault;
use std::collections::{BTreeMap, BTreeSet};
use streams::AttachedStream;

/// What the objects of the Gateway API ask for, before anything is written.
pub(crate) struct Wanted<'a> {
    classes: Vec<StatusWish>,
    gateways: Vec<GatewayPlan<'a>>,
    sets: Vec<SetPlan<'a>>,
    listeners: Listeners<'a>,
    http: Vec<AttachedHttp<'a>>,
    /// The hosts of the ports that Ingresses use, too.
    pub(crate) claims: Claims,
}

/// Finds out what the objects ask for.
pub(crate) fn plan<'a>(cluster: &'a Cluster, settings: &Settings, grants: &'a Grants<'a>) -> Wanted<'a> {
    let (names, classes) = classes::accept(cluster, settings);
    let lookup = Lookup { cluster, grants };
    let gateways = gateways::plan(cluster, settings, &names, lookup);
    let mut listeners = Listeners::new();
    for gateway in &gateways {
        let owner = ObjectName { kind: Kind::Gateway, name: gateway.name.clone() };
        let age = &gateway.object.metadata.creation_timestamp;
        listeners.add(gateway, &owner, age, &gateway.object.spec.listeners, lookup);
    }
    let sets = listener_sets::add(cluster, &gateways, &mut listeners, lookup);
    listeners.find_conflicts();
    let http = http_routes(cluster, &mut listeners);
    let ports = [(settings.http_port, Protocol::Http), (settings.https_port, Protocol::Https)];
    let claims = Claims::of(ports, &listeners, &http);
    Wanted { classes, gateways, sets, listeners, http, claims }
}

/// Writes all of the Gateway API.
pub(crate) fn write<'a>(assembly: &mut Assembly<'a>, wanted: Wanted<'a>, grants: &'a Grants<'a>) {
    let (cluster, settings) = (assembly.cluster, assembly.settings);
    let Wanted { classes, gateways, sets, mut listeners, mut http, .. } = wanted;
    for wish in classes {
        assembly.status(wish);
    }
    let policies = Policies::new(cluster, Lookup { cluster, grants });
    let backends = Backends { cluster, grants, policies: &policies };
    let streams = stream_routes(cluster, backends, &mut listeners);
    let certificates: BTreeMap<Name, Name> = gateways
        .iter()
        .filter_map(|gateway| Some((gateway.name.clone(), gateway.client_certificate.clone()?)))
        .collect();
    http::write(assembly, &mut listeners, &mut http, backends, &certificates);
    streams::write(assembly, &mut listeners, &streams, backends);
    let controller = &settings.gateway_controller;
    for gateway in &gateways {
        assembly.status(gateway.wish(&listeners));
    }
    for set in &sets {
        assembly.status(set.wish(&listeners));
    }
    for each in &mut http {
        finish_faults(assembly, each);
        let wish = each.route.wish(&listeners, &each.plan.faults, controller);
        if let Some(wish) = wish {
            assembly.status(wish);
        }
    }
    for each in &streams {
        let wish = each.route.wish(&listeners, &each.faults, controller);
        if let Some(wish) = wish {
            assembly.status(wish);
        }
    }
    let used = used_services(&http, &streams, &listeners, backends);
    for wish in policies.wishes(&used, controller) {
        assembly.status(wish);
    }
}

fn http_routes<'a>(cluster: &'a Cluster, listeners: &mut Listeners<'_>) -> Vec<AttachedHttp<'a>> {
    let http = by_age(&cluster.http_routes).into_iter().map(rules::of_http);
    let grpc = by_age(&cluster.grpc_routes).into_iter().map(rules::of_grpc);
    let attach = |plan: HttpPlan<'a>| {
        let route = RoutePlan::attach(cluster, listeners, plan.head);
        AttachedHttp { plan, route }
    };
    http.chain(grpc).map(attach).collect()
}

fn stream_routes<'a>(
    cluster: &'a Cluster,
    backends: Backends<'_>,
    listeners: &mut Listeners<'_>,
) -> Vec<AttachedStream<'a>> {
    let tls = by_age(&cluster.tls_routes).into_iter().map(streams::of_tls);
    let tcp = by_age(&cluster.tcp_routes).into_iter().map(streams::of_tcp);
    let udp = by_age(&cluster.udp_routes).into_iter().map(streams::of_udp);
    tls.chain(tcp).chain(udp).map(|route| AttachedStream::new(backends, listeners, route)).collect()
}

/// What the configuration language refused is refused as a whole; a route of which some rules are served is partly invalid.
fn finish_faults(assembly: &Assembly<'_>, each: &mut AttachedHttp<'_>) {
    if assembly.is_refused(&each.route.name) {
        let message = "a value is not valid, such as a regular expression; the Event says which";
        each.plan.faults.unsupported = Some((Fault::new("UnsupportedValue", message), false));
        return;
    }
    let served = each.plan.served_rules();
    if let Some((_, is_partial)) = &mut each.plan.faults.unsupported {
        *is_partial = served > 0;
    }
}

/// Services -> the Gateways through which routes reach them.
fn used_services(
    http: &[AttachedHttp<'_>],
    streams: &[AttachedStream<'_>],
    listeners: &Listeners<'_>,
    backends: Backends<'_>,
) -> BTreeMap<Name, BTreeSet<Name>> {
    let mut used: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for each in http {
        let gateways = each.route.gateways(listeners);
        let from = (each.plan.head.kind, each.plan.head.metadata.namespace.as_str());
        let references = each.plan.rules.iter().flatten().flat_map(|rule| rule.backends);
        for backend in references.filter_map(|reference| backends.resolve(from, reference).ok()) {
            used.entry(backend.service).or_default().extend(gateways.iter().cloned());
        }
    }
    for each in streams {
        let gateways = each.route.gateways(listeners);
        for backend in each.services() {
            used.entry(backend.service.clone()).or_default().extend(gateways.iter().cloned());
        }
    }
    used
}
