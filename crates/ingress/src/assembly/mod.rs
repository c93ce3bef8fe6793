//! The configuration under construction: what both translations, of Ingresses and of the Gateway API, write into.
//!
//! Upstreams are made once for each distinct wish, servers once for each port and host. The first object that asks for a
//! port, a host or a path has it; a later one is told who was first. So callers go through their objects from the oldest
//! to the newest.

mod journal;
mod servers;
mod streams;
mod upstreams;

use crate::tree::{Origin, Origins};
use crate::{
    CertificateWish, Cluster, EndpointSource, FileSource, Finding, Kind, Level, Name, ObjectName, Settings, StatusWish,
    Translation,
};
use conf::tree::Directive;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use journal::Journal;
pub(crate) use servers::{Conflict, Listen, Matcher, ServerDraft, ServerId, Spot};
pub(crate) use upstreams::{BackendWish, Balance, Keepalive, Place, Sticky, Target, UpstreamName};

/// Path of the certificate that the controller makes for hosts without one.
pub const DEFAULT_CERTIFICATE: &str = "/kubernetes/default/tls.crt";
/// Path of the key of [`DEFAULT_CERTIFICATE`].
pub const DEFAULT_KEY: &str = "/kubernetes/default/tls.key";

/// Most findings of one object. An object with thousands of wrong paths must not flood the events of its namespace.
const FINDINGS_MAX: usize = 16;

/// A configuration under construction.
pub(crate) struct Assembly<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) settings: &'a Settings,
    /// Objects that are left out because the configuration language refused what they gave.
    pub(crate) refused: &'a BTreeSet<ObjectName>,
    pub(crate) origins: Origins,
    /// Lines of the top level.
    pub(crate) main: Vec<Directive>,
    /// Lines of `events`.
    pub(crate) events: Vec<Directive>,
    /// Lines of `http` before its servers: defaults, maps, zones.
    pub(crate) http: Vec<Directive>,
    /// Lines of `stream` before its servers.
    pub(crate) stream: Vec<Directive>,
    upstreams: upstreams::Upstreams,
    servers: servers::Servers,
    streams: streams::Streams,
    endpoints: BTreeMap<String, EndpointSource>,
    files: BTreeMap<String, FileSource>,
    findings: Vec<Finding>,
    counts: BTreeMap<ObjectName, usize>,
    statuses: Vec<StatusWish>,
    /// What Ingresses ask the controller to order.
    pub(crate) certificates: Vec<CertificateWish>,
    /// Names of variables of the translation's own, by the values that they replace.
    variables: BTreeMap<String, String>,
    writing: journal::Writing,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        settings: &'a Settings,
        refused: &'a BTreeSet<ObjectName>,
        origins: Origins,
    ) -> Self {
        Self {
            cluster,
            settings,
            refused,
            origins,
            main: Vec::new(),
            events: Vec::new(),
            http: Vec::new(),
            stream: Vec::new(),
            upstreams: upstreams::Upstreams::default(),
            servers: servers::Servers::default(),
            streams: streams::Streams::default(),
            endpoints: BTreeMap::new(),
            files: BTreeMap::new(),
            findings: Vec::new(),
            counts: BTreeMap::new(),
            statuses: Vec::new(),
            certificates: Vec::new(),
            variables: BTreeMap::new(),
            writing: journal::Writing::default(),
        }
    }

    /// The owner of what no object asked for: the controller's `ConfigMap`.
    pub(crate) fn own_name(&self) -> ObjectName {
        let name = self.settings.config_map.clone().unwrap_or_else(|| Name::new("", "defaults"));
        ObjectName { kind: Kind::ConfigMap, name }
    }

    /// The place of what no object asked for. It has the name of the controller's `ConfigMap`, which can change it.
    pub(crate) fn own(&mut self) -> Origin {
        let name = self.own_name();
        self.origins.of(&name)
    }

    /// The place of what an object writes.
    pub(crate) fn origin(&mut self, object: &ObjectName) -> Origin {
        self.origins.of(object)
    }

    /// Whether the object is left out.
    pub(crate) fn is_refused(&self, object: &ObjectName) -> bool {
        self.refused.contains(object)
    }

    /// Says something about an object.
    pub(crate) fn find(&mut self, object: &ObjectName, level: Level, reason: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.note_finding(object, level, reason, &message);
        let count = self.counts.entry(object.clone()).or_default();
        *count += 1;
        if *count <= FINDINGS_MAX {
            self.findings.push(Finding { object: object.clone(), level, reason, message });
        }
    }

    /// Asks for a status.
    #[cfg_attr(not(test), allow(dead_code))] // called by the translation of the Gateway API
    pub(crate) fn status(&mut self, wish: StatusWish) {
        self.statuses.push(wish);
    }

    /// A path at which the configuration finds the value of a Secret or a `ConfigMap`.
    pub(crate) fn file(&mut self, source: FileSource) -> String {
        let path = match &source {
            FileSource::Secret(name, key) => format!("/kubernetes/secrets/{name}/{key}"),
            FileSource::ConfigMap(name, key) => format!("/kubernetes/configmaps/{name}/{key}"),
            FileSource::SecretJoined(name, keys) => format!("/kubernetes/secrets/{name}/{}", keys.join("+")),
            FileSource::SecretPasswords(name) => format!("/kubernetes/passwords/{name}"),
        };
        self.note_file(&source);
        self.files.entry(path.clone()).or_insert(source);
        path
    }

    /// Whether a Secret has a value in PEM.
    pub(crate) fn has_pem(&mut self, secret: &Name, key: &str) -> bool {
        self.note_secret(secret);
        self.cluster.secrets.get(secret).and_then(|known| known.data.get(key)).is_some_and(|value| is_pem(value))
    }

    /// The paths of the certificate and the key of a Secret, which must have both.
    pub(crate) fn certificate(&mut self, secret: &Name) -> Option<(String, String)> {
        if !["tls.crt", "tls.key"].iter().all(|key| self.has_pem(secret, key)) {
            return None;
        }
        let certificate = self.file(FileSource::Secret(secret.clone(), "tls.crt".into()));
        Some((certificate, self.file(FileSource::Secret(secret.clone(), "tls.key".into()))))
    }

    /// The certificate for hosts without one.
    pub(crate) fn default_certificate(&mut self) -> (String, String) {
        let settings = self.settings;
        let named = settings.default_certificate.as_ref().and_then(|secret| self.certificate(secret));
        named.unwrap_or_else(|| (DEFAULT_CERTIFICATE.into(), DEFAULT_KEY.into()))
    }

    /// The name of a variable, `$hf_…`, for a table of the translation's own; `true` if the caller must define it now.
    pub(crate) fn variable(&mut self, stands_for: &str) -> (String, bool) {
        // Its name has its number.
        self.entangle();
        if let Some(name) = self.variables.get(stands_for) {
            return (name.clone(), false);
        }
        let name = format!("$hf_{:016x}_{}", stable_hash(stands_for.as_bytes()), self.variables.len());
        self.variables.insert(stands_for.to_owned(), name.clone());
        (name, true)
    }

    /// The finished configuration, and the places of objects for the next one.
    pub(crate) fn finish(mut self) -> (Translation, Origins) {
        self.default_servers();
        let own = self.own();
        let mut http = vec![self.resolver_line(own)];
        http.append(&mut self.http);
        http.extend(self.upstreams.take_http());
        let stream = self.write_streams(own);
        let servers = std::mem::take(&mut self.servers);
        http.extend(self.write_servers(own, servers));
        let mut main = std::mem::take(&mut self.main);
        main.push(own.block::<&str>("events", [], std::mem::take(&mut self.events)));
        main.push(own.block::<&str>("http", [], http));
        if !stream.is_empty() {
            main.push(own.block::<&str>("stream", [], stream));
        }
        let (sources, owners) = self.origins.parts();
        let translation = Translation {
            tree: own.braces(main),
            sources,
            owners,
            endpoints: self.endpoints,
            files: self.files,
            findings: self.findings,
            statuses: self.statuses,
            certificates: self.certificates,
        };
        (translation, self.origins)
    }
}

/// Whether a value of a Secret, base64, looks like PEM. What is in it is checked where it is loaded.
fn is_pem(value: &str) -> bool {
    use base64::Engine as _;
    let decoded = base64::engine::general_purpose::STANDARD.decode(value.trim());
    decoded.is_ok_and(|bytes| bytes.windows(11).any(|window| window == b"-----BEGIN "))
}

/// FNV-1a. Names that come from it are the same in every run and every replica, so that a new configuration keeps what
/// did not change.
pub(crate) fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
