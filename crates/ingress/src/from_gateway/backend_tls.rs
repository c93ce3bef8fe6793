//! `BackendTLSPolicy`: TLS towards the Pods of a Service.

use super::grants::GROUP;
use super::secrets::{Lookup, Reasons, by_age};
use super::status::{Condition, Fault, conditions};
use crate::objects::gateway::{BackendTlsPolicy, ObjectReference, SubjectAltName};
use crate::translation::FileSource;
use crate::{Cluster, Kind, Name, ObjectName, StatusWish};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most ancestors in the status of a policy, as the API allows.
const ANCESTORS_MAX: usize = 16;

/// Longest name, as the API has it.
const NAME_BYTES_MAX: usize = 253;

/// What is verified of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verification {
    /// For SNI, and the name in the certificate unless it has others.
    pub(crate) hostname: String,
    /// Names of which the certificate needs one, in the words of `proxy_ssl_verify_san`; empty: `hostname`.
    pub(crate) names: Vec<String>,
    /// Empty: the authorities of the system.
    pub(crate) authorities: Vec<FileSource>,
}

/// A policy.
struct PolicyPlan<'a> {
    object: &'a BackendTlsPolicy,
    /// `Err`: it cannot be used; requests to its backends are answered with an error.
    verification: Result<Verification, Fault>,
    unresolved: Option<Fault>,
    /// An older policy has all its targets.
    conflict: Option<Fault>,
}

/// All policies.
pub(crate) struct Policies<'a> {
    plans: BTreeMap<Name, PolicyPlan<'a>>,
    /// Service, and perhaps the name of a port -> the policy that counts.
    targets: BTreeMap<(Name, Option<String>), Name>,
}

impl<'a> Policies<'a> {
    pub(crate) fn new(cluster: &'a Cluster, lookup: Lookup<'_>) -> Self {
        let mut policies = Self { plans: BTreeMap::new(), targets: BTreeMap::new() };
        for object in by_age(&cluster.backend_tls_policies) {
            let name = object.metadata.key();
            let (mut won, mut lost_to) = (false, None);
            for target in
                object.spec.target_refs.iter().filter(|target| target.group.is_empty() && target.kind == "Service")
            {
                let service = Name::new(name.namespace.clone(), target.name.as_str());
                let key = (service, target.section_name.clone());
                let winner = policies.targets.entry(key).or_insert_with(|| name.clone());
                if *winner == name {
                    won = true;
                } else {
                    lost_to = Some(winner.clone());
                }
            }
            let conflict = lost_to.filter(|_| !won).map(|winner| {
                Fault::new("Conflicted", format!("the older BackendTLSPolicy {winner} has the same target"))
            });
            let (verification, unresolved) = verification(object, lookup);
            policies.plans.insert(name, PolicyPlan { object, verification, unresolved, conflict });
        }
        policies
    }

    /// The policy for a port of a Service. One for the port goes before one for the whole Service.
    pub(crate) fn of(&self, service: &Name, port: &str) -> Option<&Name> {
        let of_port = self.targets.get(&(service.clone(), Some(port.to_owned())));
        of_port.or_else(|| self.targets.get(&(service.clone(), None)))
    }

    /// What a policy verifies.
    pub(crate) fn verification(&self, name: &Name) -> Option<&Verification> {
        self.plans.get(name)?.verification.as_ref().ok()
    }

    /// The statuses. `used`: Services -> the Gateways through which they are reached.
    pub(crate) fn wishes(&self, used: &BTreeMap<Name, BTreeSet<Name>>, controller: &str) -> Vec<StatusWish> {
        let mut wishes = Vec::new();
        for (name, plan) in &self.plans {
            let services =
                plan.object.spec.target_refs.iter().map(|to| Name::new(name.namespace.clone(), to.name.as_str()));
            let ancestors: BTreeSet<&Name> = services.filter_map(|service| used.get(&service)).flatten().collect();
            let generation = plan.object.metadata.generation;
            let refused = plan.conflict.as_ref().or(plan.verification.as_ref().err());
            let list =
                [Condition::unless("Accepted", refused), Condition::unless("ResolvedRefs", plan.unresolved.as_ref())];
            let ancestors: Vec<_> = ancestors
                .into_iter()
                .take(ANCESTORS_MAX)
                .map(|gateway| {
                    json!({
                        "ancestorRef": {
                            "group": GROUP,
                            "kind": "Gateway",
                            "namespace": &*gateway.namespace,
                            "name": &*gateway.name,
                        },
                        "controllerName": controller,
                        "conditions": conditions(&list, generation),
                    })
                })
                .collect();
            let object = ObjectName { kind: Kind::BackendTlsPolicy, name: name.clone() };
            wishes.push(StatusWish { object, generation, status: json!({ "ancestors": ancestors }) });
        }
        wishes
    }
}

fn verification(object: &BackendTlsPolicy, lookup: Lookup<'_>) -> (Result<Verification, Fault>, Option<Fault>) {
    let written = &object.spec.validation;
    let (authorities, unresolved) = authorities(object, &written.ca_certificate_refs, lookup);
    let hostname = written.hostname.to_ascii_lowercase();
    let names: Result<Vec<String>, Fault> = written.subject_alt_names.iter().map(subject_name).collect();
    let (names, fault) = names.map_or_else(|fault| (Vec::new(), Some(fault)), |names| (names, None));
    let refused = if fault.is_some() {
        fault
    } else if !is_server_name(&hostname) {
        Some(Fault::new("Invalid", format!("hostname {hostname:?} is no name that TLS can ask for")))
    } else if written.ca_certificate_refs.is_empty() {
        let known = written.well_known_ca_certificates.as_deref();
        (known != Some("System")).then(|| {
            let name = known.unwrap_or("\"\"");
            Fault::new("Invalid", format!("wellKnownCACertificates {name} is not supported"))
        })
    } else {
        authorities.is_empty().then(|| Fault::new("NoValidCACertificate", "no caCertificateRef can be used"))
    };
    (refused.map_or(Ok(Verification { hostname, names, authorities }), Err), unresolved)
}

/// Whether TLS can ask for a name. The API takes some more, such as `a.123`, and the data plane would refuse the routes.
fn is_server_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
    (is_host && !name.rsplit('.').next().is_some_and(is_number)) || name.parse::<IpAddr>().is_ok()
}

/// A name as a word of `proxy_ssl_verify_san`.
fn subject_name(name: &SubjectAltName) -> Result<String, Fault> {
    let unusable =
        |value: &str| value.is_empty() || value.len() > NAME_BYTES_MAX || value.chars().any(char::is_control);
    let (word, value) = match name.kind.as_str() {
        "Hostname" => ("DNS", name.hostname.to_ascii_lowercase()),
        "URI" => ("URI", name.uri.clone()),
        other => return Err(Fault::new("Invalid", format!("subjectAltNames of type {other:?} are not supported"))),
    };
    if unusable(&value) {
        return Err(Fault::new("Invalid", format!("subjectAltNames has the unusable name {value:?}")));
    }
    Ok(format!("{word}:{value}"))
}

fn authorities(
    object: &BackendTlsPolicy,
    references: &[ObjectReference],
    lookup: Lookup<'_>,
) -> (Vec<FileSource>, Option<Fault>) {
    const REASONS: Reasons = Reasons { invalid: "InvalidCACertificateRef", kind: "InvalidKind" };
    let from = ("BackendTLSPolicy", object.metadata.namespace.as_str());
    let (mut found, mut first) = (Vec::new(), None);
    for reference in references {
        // References of policies are local.
        let local = ObjectReference { namespace: None, ..reference.clone() };
        match lookup.authority(from, &local, REASONS) {
            Ok(source) => found.push(source),
            Err(fault) => {
                first.get_or_insert(fault);
            }
        }
    }
    (found, first)
}
