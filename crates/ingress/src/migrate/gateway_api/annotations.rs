//! The annotations of one Ingress. An annotation that the conversion does not read has no equivalent.

use crate::objects::networking::Ingress;
use std::collections::{BTreeMap, BTreeSet};

/// Reasons that are better than "no field": annotation, reason.
const REASONS: [(&str, &str); 16] = [
    ("configuration-snippet", "directives of nginx have no field; keep the Ingress for this host"),
    ("server-snippet", "directives of nginx have no field; keep the Ingress for this host"),
    ("auth-url", "authentication by another server is not in the standard channel (ExternalAuth is experimental)"),
    ("auth-signin", "authentication by another server is not in the standard channel (ExternalAuth is experimental)"),
    ("auth-type", "passwords have no field"),
    ("auth-secret", "passwords have no field"),
    ("auth-tls-secret", "write frontend validation in the Gateway: spec.tls.frontend.default.validation"),
    ("whitelist-source-range", "addresses of clients have no field; a policy of the network may do it"),
    ("denylist-source-range", "addresses of clients have no field; a policy of the network may do it"),
    ("proxy-body-size", "the size of requests has no field"),
    ("limit-rps", "limits of rates have no field"),
    ("limit-connections", "limits of connections have no field"),
    ("proxy-buffering", "buffers have no field"),
    ("proxy-connect-timeout", "the time to connect has no field; it is part of backendRequest"),
    ("proxy-send-timeout", "the time between two writes has no field"),
    ("mirror-target", "RequestMirror needs a Service, and this is a URL"),
];

/// Annotations that only say what the conversion does anyway.
const SILENT: [&str; 2] = ["service-upstream", "enable-access-log"];

/// The annotations of an Ingress without their prefix.
pub(super) struct Annotations<'a> {
    values: BTreeMap<&'a str, &'a str>,
    used: BTreeSet<&'static str>,
}

impl<'a> Annotations<'a> {
    pub(super) fn new(ingress: &'a Ingress, prefix: &str) -> Self {
        let all = ingress.metadata.annotations.iter();
        let values = all.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.strip_prefix('/')?, value.trim())));
        Self { values: values.collect(), used: BTreeSet::new() }
    }

    /// The value, which counts as converted.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a str> {
        self.used.insert(key);
        self.values.get(key).copied().filter(|value| !value.is_empty())
    }

    /// Whether it is `true`.
    pub(super) fn is_on(&mut self, key: &'static str) -> bool {
        self.take(key) == Some("true")
    }

    /// Whether it is `false`.
    pub(super) fn is_off(&mut self, key: &'static str) -> bool {
        self.take(key) == Some("false")
    }

    /// A list, separated by commas.
    pub(super) fn list(&mut self, key: &'static str) -> Vec<&'a str> {
        let value = self.take(key).unwrap_or_default();
        value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
    }

    /// A number.
    pub(super) fn number(&mut self, key: &'static str) -> Option<u32> {
        self.take(key)?.parse().ok()
    }

    /// What was not asked for, with the reason that it has no equivalent.
    pub(super) fn rest(&self) -> Vec<(String, String)> {
        let rest = self.values.iter().filter(|(key, _)| !self.used.contains(**key) && !SILENT.contains(key));
        rest.map(|(key, _)| {
            let reason = REASONS.iter().find(|(known, _)| known == key).map(|(_, reason)| *reason);
            ((*key).to_owned(), reason.unwrap_or("no field of the Gateway API does this").to_owned())
        })
        .collect()
    }
}
