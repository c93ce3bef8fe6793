//! Certificates and authorities that Gateways and policies name.

use super::grants::Grants;
use super::status::Fault;
use crate::cluster::Cluster;
use crate::objects::core::Secret;
use crate::objects::gateway::ObjectReference;
use crate::translation::FileSource;
use crate::{Name, objects};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The object that refers: its kind and its namespace.
pub(crate) type Referrer<'a> = (&'a str, &'a str);

/// The reasons of the specification differ with the place of a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reasons {
    /// The object is not there, or is not what it should be.
    pub(crate) invalid: &'static str,
    /// Another kind of object.
    pub(crate) kind: &'static str,
}

/// Looks references up.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) grants: &'a Grants<'a>,
}

impl Lookup<'_> {
    /// A Secret with a certificate and its key.
    pub(crate) fn certificate(
        &self,
        from: Referrer<'_>,
        reference: &ObjectReference,
        reasons: Reasons,
    ) -> Result<Name, Fault> {
        let group = reference.group.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or("Secret");
        if (group, kind) != ("", "Secret") {
            return Err(Fault::new(reasons.kind, format!("{kind} \"{}\" is not a Secret", reference.name)));
        }
        let name = self.permitted(from, reference, kind)?;
        let Some(secret) = self.cluster.secrets.get(&name) else {
            return Err(Fault::new(reasons.invalid, format!("there is no Secret {name}")));
        };
        let is_whole = has_pem(secret, "tls.crt", b"-----BEGIN CERTIFICATE-----")
            && has_pem(secret, "tls.key", b"PRIVATE KEY-----");
        if !is_whole {
            let message = format!("Secret {name} has no certificate in tls.crt, or no key in tls.key");
            return Err(Fault::new(reasons.invalid, message));
        }
        Ok(name)
    }

    /// A `ConfigMap` or Secret with authorities in `ca.crt`.
    pub(crate) fn authority(
        &self,
        from: Referrer<'_>,
        reference: &ObjectReference,
        reasons: Reasons,
    ) -> Result<FileSource, Fault> {
        const KEY: &str = "ca.crt";
        let group = reference.group.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or("ConfigMap");
        if !group.is_empty() || !matches!(kind, "ConfigMap" | "Secret") {
            let message = format!("{kind} \"{}\" is neither a ConfigMap nor a Secret", reference.name);
            return Err(Fault::new(reasons.kind, message));
        }
        let name = self.permitted(from, reference, kind)?;
        let begin: &[u8] = b"-----BEGIN CERTIFICATE-----";
        let found = if kind == "Secret" {
            self.cluster.secrets.get(&name).map(|secret| has_pem(secret, KEY, begin))
        } else {
            let map = self.cluster.config_maps.get(&name);
            map.map(|map| map.data.get(KEY).is_some_and(|text| contains(text.as_bytes(), begin)))
        };
        match found {
            None => Err(Fault::new(reasons.invalid, format!("there is no {kind} {name}"))),
            Some(false) => Err(Fault::new(reasons.invalid, format!("{kind} {name} has no certificate in {KEY}"))),
            Some(true) if kind == "Secret" => Ok(FileSource::Secret(name, KEY.to_owned())),
            Some(true) => Ok(FileSource::ConfigMap(name, KEY.to_owned())),
        }
    }

    fn permitted(&self, from: Referrer<'_>, reference: &ObjectReference, kind: &str) -> Result<Name, Fault> {
        let namespace = reference.namespace.as_deref().unwrap_or(from.1);
        let name = Name::new(namespace, reference.name.as_str());
        if !self.grants.allow(from, ("", kind, namespace), &reference.name) {
            let message = format!("no ReferenceGrant in {namespace} allows {kind} {name}");
            return Err(Fault::new("RefNotPermitted", message));
        }
        Ok(name)
    }
}

fn has_pem(secret: &Secret, key: &str, label: &[u8]) -> bool {
    let value = secret.data.get(key).and_then(|text| STANDARD.decode(text).ok());
    value.is_some_and(|value| contains(&value, label))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The older object first; among objects of one age, the name decides.
pub(crate) fn by_age<T: objects::Object>(objects: &crate::cluster::Objects<T>) -> Vec<&T> {
    let mut list: Vec<&T> = objects.values().map(AsRef::as_ref).collect();
    list.sort_by(|one, other| age(*one).cmp(&age(*other)));
    list
}

/// Sorts objects by their age.
pub(crate) fn age<T: objects::Object>(object: &T) -> (&str, &str, &str) {
    let metadata = object.metadata();
    (&metadata.creation_timestamp, &metadata.namespace, &metadata.name)
}
