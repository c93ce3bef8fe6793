//! What a translation gives.

use crate::{Name, ObjectName};
use conf::source::{FileId, SourceMap};
use conf::tree::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The result of [`crate::translate`].
#[derive(Debug)]
pub struct Translation {
    /// The configuration: checked and lowered by the caller as if it had been read from a file.
    pub tree: Block,
    /// One source for each object that wrote a part of it; its name is that of the object, as in `Ingress shop/front`.
    pub sources: SourceMap,
    /// The object of each source.
    pub owners: BTreeMap<FileId, ObjectName>,
    /// Name of an upstream's `server NAME:1 resolve` line -> the endpoints behind it.
    pub endpoints: BTreeMap<String, EndpointSource>,
    /// Paths that the tree names -> the Secret or `ConfigMap` value behind them; read instead of a file.
    pub files: BTreeMap<String, FileSource>,
    /// What was found wrong or worth saying about objects.
    pub findings: Vec<Finding>,
    /// Statuses that the objects should have.
    pub statuses: Vec<StatusWish>,
    /// Certificates that the controller should get, sorted by Secret.
    pub certificates: Vec<CertificateWish>,
}

/// A certificate that Ingresses of one namespace ask the controller for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateWish {
    /// Where it is kept, in the namespace of the Ingresses.
    pub secret: Name,
    /// The names of the certificate: hosts of rules of this namespace, in lower case and without `*`.
    pub hosts: BTreeSet<String>,
    /// The Ingresses, the oldest first.
    pub objects: Vec<ObjectName>,
}

impl CertificateWish {
    pub(crate) fn new(secret: Name) -> Self {
        Self { secret, hosts: BTreeSet::new(), objects: Vec::new() }
    }
}

/// A port of a Service, as the backend of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointSource {
    /// The Service.
    pub service: Name,
    /// The port of the Service, by number.
    pub port: u16,
    /// UDP instead of TCP.
    pub udp: bool,
}

/// Where the content of a path comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSource {
    /// A value of a Secret.
    Secret(Name, String),
    /// A value of a `ConfigMap`.
    ConfigMap(Name, String),
    /// Several values of a Secret, one after another.
    SecretJoined(Name, Vec<String>),
    /// All values of a Secret as a file of passwords: a line `KEY:VALUE` for each.
    SecretPasswords(Name),
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Worth knowing: an annotation without effect, with the reason.
    Note,
    /// A part of the object has no effect.
    Warning,
    /// The object, or a rule of it, is not served.
    Refused,
}

/// A finding about one object. It becomes an Event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The object.
    pub object: ObjectName,
    /// How much it matters.
    pub level: Level,
    /// A reason in one word, as Events have it: `UnknownAnnotation`.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// The status that an object should have: `status` is written if it differs from the present one.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWish {
    /// The object.
    pub object: ObjectName,
    /// Its generation that was looked at.
    pub generation: i64,
    /// The fields of `status` that this controller owns.
    pub status: serde_json::Value,
}
