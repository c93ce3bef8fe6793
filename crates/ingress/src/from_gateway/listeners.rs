//! Listeners of Gateways and `ListenerSet`s: which are valid, which are in conflict, and which routes they take.

use super::classes::is_own_group;
use super::frontend::{self, ClientCheck};
use super::gateways::GatewayPlan;
use super::grants::GROUP;
use super::secrets::{Lookup, Reasons};
use super::status::{Condition, Fault, conditions};
use crate::objects::gateway::{Listener, RouteNamespaces, Selector};
use crate::{Cluster, Kind, Name, ObjectName};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most listeners of one Gateway together with its `ListenerSet`s. A Gateway alone may have 64.
const LISTENERS_MAX: usize = 1024;

/// What a listener speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http,
    Https,
    /// TLS that is decrypted here.
    TlsTerminate,
    /// TLS that goes on as it is.
    TlsPassthrough,
    Tcp,
    Udp,
}

impl Protocol {
    fn of(listener: &Listener) -> Result<Self, Fault> {
        let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref()).unwrap_or("Terminate");
        match (listener.protocol.as_str(), mode) {
            ("HTTP", _) => Ok(Self::Http),
            ("HTTPS", "Terminate") => Ok(Self::Https),
            ("TLS", "Terminate") => Ok(Self::TlsTerminate),
            ("TLS", "Passthrough") => Ok(Self::TlsPassthrough),
            ("TCP", _) => Ok(Self::Tcp),
            ("UDP", _) => Ok(Self::Udp),
            ("HTTPS" | "TLS", mode) => {
                Err(Fault::new("UnsupportedValue", format!("{} has no TLS mode {mode}", listener.protocol)))
            }
            (other, _) => Err(Fault::new("UnsupportedProtocol", format!("the protocol {other} is not supported"))),
        }
    }

    /// The kinds of routes that it takes.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Http | Self::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
            Self::TlsTerminate | Self::TlsPassthrough => &[Kind::TlsRoute],
            Self::Tcp => &[Kind::TcpRoute],
            Self::Udp => &[Kind::UdpRoute],
        }
    }

    /// Whether hostnames distinguish connections.
    pub(crate) fn has_hostnames(self) -> bool {
        !matches!(self, Self::Tcp | Self::Udp)
    }

    fn is_decrypted(self) -> bool {
        matches!(self, Self::Https | Self::TlsTerminate)
    }
}

/// Whether two listeners can be opened at one port: with the same protocol, or with TLS of both modes, which server names
/// distinguish.
pub(crate) fn may_share_port(one: Option<Protocol>, other: Option<Protocol>) -> bool {
    let is_tls = |protocol| matches!(protocol, Some(Protocol::TlsTerminate | Protocol::TlsPassthrough));
    one == other || is_tls(one) && is_tls(other)
}

/// A listener.
pub(crate) struct ListenerPlan<'a> {
    /// The Gateway.
    pub(crate) gateway: Name,
    /// The object that it is written in: a Gateway or a `ListenerSet`.
    pub(crate) owner: ObjectName,
    /// When that object was created.
    pub(crate) created: &'a str,
    pub(crate) listener: &'a Listener,
    pub(crate) hostname: String,
    /// `None`: not supported.
    pub(crate) protocol: Option<Protocol>,
    /// Where it is opened; empty: where the settings say.
    pub(crate) listen: Vec<IpAddr>,
    /// Secrets.
    pub(crate) certificates: Vec<Name>,
    /// Which client certificates are accepted.
    pub(crate) clients: Option<ClientCheck>,
    kinds: Vec<Kind>,
    namespaces: Namespaces<'a>,
    /// Why it is not accepted.
    refused: Option<Fault>,
    /// Another listener has its port, or its port and hostname.
    conflict: Option<Fault>,
    /// A reference that cannot be used.
    unresolved: Option<Fault>,
    /// Its Gateway, or all that it would serve with, is not there.
    idle: Option<Fault>,
    /// Routes that are attached.
    pub(crate) attached: usize,
}

/// From which namespaces routes may attach.
pub(crate) enum Namespaces<'a> {
    All,
    None,
    Same,
    Selected(&'a Selector),
}

impl<'a> Namespaces<'a> {
    pub(crate) fn of(written: Option<&'a RouteNamespaces>, default: &str) -> Self {
        let from = written.and_then(|written| written.from.as_deref()).unwrap_or(default);
        match (from, written.and_then(|written| written.selector.as_ref())) {
            ("All", _) => Self::All,
            ("Same", _) => Self::Same,
            ("Selector", Some(selector)) => Self::Selected(selector),
            _ => Self::None,
        }
    }

    pub(crate) fn allow(&self, cluster: &Cluster, own: &str, other: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Same => own == other,
            Self::Selected(selector) => {
                let namespace = cluster.namespaces.get(&Name::new("", other));
                namespace.is_some_and(|namespace| selects(selector, &namespace.metadata.labels))
            }
        }
    }
}

fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().all(|each| {
            let label = labels.get(&each.key);
            match each.operator.as_str() {
                "In" => label.is_some_and(|label| each.values.contains(label)),
                "NotIn" => label.is_none_or(|label| !each.values.contains(label)),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

impl<'a> ListenerPlan<'a> {
    fn new(
        gateway: &GatewayPlan<'_>,
        (owner, created): (ObjectName, &'a str),
        listener: &'a Listener,
        lookup: Lookup<'_>,
    ) -> Self {
        let (protocol, refused) = match Protocol::of(listener) {
            Ok(protocol) => (Some(protocol), None),
            Err(fault) => (None, Some(fault)),
        };
        let allowed = listener.allowed_routes.as_ref();
        let mut plan = Self {
            gateway: gateway.name.clone(),
            owner,
            created,
            listener,
            hostname: listener.hostname.to_ascii_lowercase(),
            protocol,
            listen: gateway.listen.clone(),
            certificates: Vec::new(),
            clients: None,
            kinds: Vec::new(),
            namespaces: Namespaces::of(allowed.and_then(|allowed| allowed.namespaces.as_ref()), "Same"),
            refused,
            conflict: None,
            unresolved: None,
            idle: (!gateway.serves()).then(|| Fault::new("Invalid", "the Gateway is not served")),
            attached: 0,
        };
        plan.resolve_kinds();
        if protocol.is_some_and(Protocol::is_decrypted) {
            plan.resolve_certificates(lookup);
            plan.resolve_clients(gateway, lookup);
        }
        plan
    }

    fn resolve_kinds(&mut self) {
        let Some(protocol) = self.protocol else { return };
        let written = self.listener.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
        if written.is_empty() {
            self.kinds = protocol.kinds().to_vec();
            return;
        }
        for kind in written {
            let found = protocol.kinds().iter().find(|known| known.word() == kind.kind);
            match found.filter(|_| is_own_group(kind.group.as_deref())) {
                Some(found) if !self.kinds.contains(found) => self.kinds.push(*found),
                Some(_) => {}
                None => {
                    let message = format!("{} does not take routes of kind {}", self.listener.protocol, kind.kind);
                    self.unresolved.get_or_insert(Fault::new("InvalidRouteKinds", message));
                }
            }
        }
    }

    fn resolve_certificates(&mut self, lookup: Lookup<'_>) {
        const INVALID: &str = "InvalidCertificateRef";
        let references = self.listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
        let from = (self.owner.kind.word(), &*self.owner.name.namespace);
        for reference in references {
            match lookup.certificate(from, reference, Reasons { invalid: INVALID, kind: INVALID }) {
                Ok(name) => self.certificates.push(name),
                Err(fault) => {
                    self.unresolved.get_or_insert(fault);
                }
            }
        }
        if references.is_empty() {
            self.unresolved.get_or_insert(Fault::new(INVALID, "the listener has no certificateRefs"));
        }
        if self.certificates.is_empty() {
            self.idle.get_or_insert(Fault::new("Invalid", "the listener has no certificate"));
        }
    }

    fn resolve_clients(&mut self, gateway: &GatewayPlan<'_>, lookup: Lookup<'_>) {
        match frontend::client_check(gateway.object, self.listener.port, lookup) {
            None => {}
            Some(Ok((check, fault))) => {
                self.clients = Some(check);
                if let Some(fault) = fault {
                    self.unresolved.get_or_insert(fault);
                }
            }
            Some(Err(fault)) => {
                self.refused.get_or_insert(Fault::new("NoValidCACertificate", fault.message.clone()));
                self.unresolved.get_or_insert(fault);
            }
        }
    }

    /// Whether a route of this kind and namespace may attach.
    pub(crate) fn allows(&self, cluster: &Cluster, kind: Kind, namespace: &str) -> bool {
        self.kinds.contains(&kind) && self.namespaces.allow(cluster, &self.owner.name.namespace, namespace)
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.refused.is_none() && self.conflict.is_none()
    }

    /// Whether it takes traffic.
    pub(crate) fn is_programmed(&self) -> bool {
        self.is_accepted() && self.idle.is_none()
    }

    /// Another object has its port, or its port and hostname.
    pub(crate) fn set_conflict(&mut self, fault: Fault) {
        self.conflict.get_or_insert(fault);
    }

    /// Its entry in the status of its object.
    pub(crate) fn json(&self, generation: i64) -> Value {
        let refused = self.refused.as_ref().or(self.conflict.as_ref());
        let unprogrammed = self
            .conflict
            .clone()
            .or_else(|| self.refused.as_ref().map(|fault| Fault::new("Invalid", fault.message.clone())))
            .or_else(|| self.idle.clone());
        let conflicted = match &self.conflict {
            None => Condition { holds: false, ..Condition::yes("Conflicted", "NoConflicts") },
            Some(fault) => Condition { holds: true, ..Condition::no("Conflicted", fault) },
        };
        let list = [
            Condition::unless("Accepted", refused),
            conflicted,
            Condition::unless("ResolvedRefs", self.unresolved.as_ref()),
            Condition::unless("Programmed", unprogrammed.as_ref()),
        ];
        // What is in conflict takes no routes.
        let kinds = self
            .kinds
            .iter()
            .filter(|_| self.conflict.is_none())
            .map(|kind| json!({ "group": GROUP, "kind": kind.word() }))
            .collect::<Vec<_>>();
        json!({
            "name": self.listener.name,
            "supportedKinds": kinds,
            "attachedRoutes": self.attached,
            "conditions": conditions(&list, generation),
        })
    }
}

/// All listeners of all Gateways that are served.
pub(crate) struct Listeners<'a> {
    pub(crate) all: Vec<ListenerPlan<'a>>,
    by_owner: BTreeMap<ObjectName, Vec<usize>>,
    by_gateway: BTreeMap<Name, Vec<usize>>,
    /// Objects of this controller, even those without listeners.
    known: BTreeSet<ObjectName>,
}

impl<'a> Listeners<'a> {
    pub(crate) fn new() -> Self {
        Self { all: Vec::new(), by_owner: BTreeMap::new(), by_gateway: BTreeMap::new(), known: BTreeSet::new() }
    }

    /// Adds the listeners of an object.
    pub(crate) fn add(
        &mut self,
        gateway: &GatewayPlan<'_>,
        owner: &ObjectName,
        created: &'a str,
        listeners: &'a [Listener],
        lookup: Lookup<'_>,
    ) {
        self.known.insert(owner.clone());
        for listener in listeners {
            let mut plan = ListenerPlan::new(gateway, (owner.clone(), created), listener, lookup);
            let siblings = self.by_gateway.entry(gateway.name.clone()).or_default();
            if siblings.len() >= LISTENERS_MAX {
                let message = format!("the Gateway has more than {LISTENERS_MAX} listeners");
                plan.refused.get_or_insert(Fault::new("TooManyListeners", message));
            }
            siblings.push(self.all.len());
            self.by_owner.entry(owner.clone()).or_default().push(self.all.len());
            self.all.push(plan);
        }
    }

    /// Notes an object of this controller of which no listener is added.
    pub(crate) fn know(&mut self, owner: ObjectName) {
        self.known.insert(owner);
    }

    /// Whether an object is of this controller.
    pub(crate) fn is_known(&self, kind: Kind, name: &Name) -> bool {
        self.known.contains(&ObjectName { kind, name: name.clone() })
    }

    pub(crate) fn indexes(&self, kind: Kind, name: &Name) -> &[usize] {
        let owner = ObjectName { kind, name: name.clone() };
        self.by_owner.get(&owner).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn of(&self, kind: Kind, name: &Name) -> Vec<&ListenerPlan<'a>> {
        self.indexes(kind, name).iter().filter_map(|index| self.all.get(*index)).collect()
    }

    pub(crate) fn of_gateway(&self, name: &Name) -> impl Iterator<Item = &ListenerPlan<'a>> {
        let indexes = self.by_gateway.get(name).map(Vec::as_slice).unwrap_or_default();
        indexes.iter().filter_map(|index| self.all.get(*index))
    }

    /// The number of `ListenerSet`s with at least one listener that is valid.
    pub(crate) fn sets_attached(&self, gateway: &Name) -> usize {
        let mut sets: Vec<_> = self
            .of_gateway(gateway)
            .filter(|each| each.owner.kind == Kind::ListenerSet && each.is_programmed())
            .map(|each| &each.owner.name)
            .collect();
        sets.dedup();
        sets.len()
    }

    /// Finds listeners that cannot be opened together. Of two objects, the first one wins; of two listeners of one object,
    /// neither.
    pub(crate) fn find_conflicts(&mut self) {
        let mut ports: BTreeMap<(&[IpAddr], bool, u16), Vec<usize>> = BTreeMap::new();
        for (index, plan) in self.all.iter().enumerate() {
            if let (Some(protocol), None) = (plan.protocol, &plan.refused) {
                let key = (plan.listen.as_slice(), protocol == Protocol::Udp, plan.listener.port);
                ports.entry(key).or_default().push(index);
            }
        }
        let mut conflicts: Vec<(usize, Fault)> = Vec::new();
        for indexes in ports.values() {
            self.conflicts_at_port(indexes, &mut conflicts);
        }
        for (index, fault) in conflicts {
            if let Some(plan) = self.all.get_mut(index) {
                plan.set_conflict(fault);
            }
        }
    }

    /// Listeners are in order of precedence. What lost already wins against nothing.
    fn conflicts_at_port(&self, indexes: &[usize], conflicts: &mut Vec<(usize, Fault)>) {
        let mut holder: Option<&ListenerPlan<'_>> = None;
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for index in indexes {
            let Some(plan) = self.all.get(*index) else { continue };
            let same_object = |other: usize| self.all.get(other).is_some_and(|other| other.owner == plan.owner);
            let port = plan.listener.port;
            if let Some(first) = holder
                && !may_share_port(first.protocol, plan.protocol)
            {
                let message = format!("{} speaks another protocol at port {port}", first.owner);
                let fault = Fault::new("ProtocolConflict", message);
                if first.owner == plan.owner {
                    let equals = indexes.iter().filter(|each| same_object(**each));
                    conflicts.extend(equals.map(|each| (*each, fault.clone())));
                } else {
                    conflicts.push((*index, fault));
                }
                continue;
            }
            holder.get_or_insert(plan);
            let hostname = if plan.protocol.is_some_and(Protocol::has_hostnames) { &plan.hostname } else { "" };
            if let Some(first) = names.get(hostname) {
                let owner = &self.all.get(*first).unwrap_or(plan).owner;
                let fault = Fault::new("HostnameConflict", format!("{owner} has port {port} with the same hostname"));
                if same_object(*first) {
                    conflicts.push((*first, fault.clone()));
                }
                conflicts.push((*index, fault));
                continue;
            }
            names.insert(hostname, *index);
        }
    }
}
