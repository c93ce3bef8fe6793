//! `GatewayClass`: those that name this controller are accepted.

use super::grants::GROUP;
use super::status::{Condition, Fault, conditions};
use crate::cluster::Cluster;
use crate::{Kind, ObjectName, Settings, StatusWish};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What works, in the words of the conformance suite. In the order of the alphabet, as the API wants it.
pub const SUPPORTED_FEATURES: [&str; 47] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

/// The names of the classes that are served, with the statuses of all that name this controller.
pub(crate) fn accept<'a>(cluster: &'a Cluster, settings: &Settings) -> (BTreeSet<&'a str>, Vec<StatusWish>) {
    let (mut names, mut wishes) = (BTreeSet::new(), Vec::new());
    for class in cluster.gateway_classes.values() {
        if class.spec.controller_name != settings.gateway_controller {
            continue;
        }
        let fault = class.spec.parameters_ref.as_ref().map(|parameters| {
            let name = &parameters.name;
            Fault::new("InvalidParameters", format!("parametersRef {name} is not supported; remove it"))
        });
        if fault.is_none() {
            names.insert(class.metadata.name.as_str());
        }
        let generation = class.metadata.generation;
        let list =
            [Condition::unless("Accepted", fault.as_ref()), Condition::yes("SupportedVersion", "SupportedVersion")];
        let features: Vec<Value> = SUPPORTED_FEATURES.iter().map(|name| json!({ "name": name })).collect();
        wishes.push(StatusWish {
            object: ObjectName { kind: Kind::GatewayClass, name: class.metadata.key() },
            generation,
            status: json!({ "conditions": conditions(&list, generation), "supportedFeatures": features }),
        });
    }
    (names, wishes)
}

/// Whether a group, which may be missing, is that of the Gateway API.
pub(crate) fn is_own_group(group: Option<&str>) -> bool {
    group.is_none_or(|group| group == GROUP)
}
