//! Gateways: which are served, and at which addresses.

use super::listeners::Listeners;
use super::secrets::{Lookup, Reasons, by_age};
use super::status::{Condition, Fault, conditions};
use crate::objects::Object as _;
use crate::objects::gateway::{Gateway, GatewayAddress};
use crate::settings::GatewayAddresses;
use crate::{Cluster, Kind, Name, ObjectName, Settings, StatusWish};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A Gateway that is served.
pub(crate) struct GatewayPlan<'a> {
    pub(crate) object: &'a Gateway,
    pub(crate) name: Name,
    /// The addresses that its listeners are opened at; empty: those of the settings.
    pub(crate) listen: Vec<IpAddr>,
    /// The addresses that its status shows.
    pub(crate) shown: Vec<IpAddr>,
    /// It is not accepted.
    pub(crate) refused: Option<Fault>,
    /// It has no address.
    pub(crate) homeless: Option<Fault>,
    /// The Secret with the certificate that is shown to backends.
    pub(crate) client_certificate: Option<Name>,
    /// The reference to it cannot be used.
    unresolved: Option<Fault>,
}

impl GatewayPlan<'_> {
    /// Whether its listeners can take traffic.
    pub(crate) fn serves(&self) -> bool {
        self.refused.is_none() && self.homeless.is_none()
    }

    fn has_insecure_fallback(&self) -> bool {
        let frontend = self.object.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
        let modes = frontend.into_iter().flat_map(|frontend| {
            std::iter::once(&frontend.default).chain(frontend.per_port.iter().map(|port| &port.tls))
        });
        modes
            .filter_map(|tls| tls.validation.as_ref())
            .any(|each| each.mode.as_deref() == Some("AllowInsecureFallback"))
    }

    /// Its status.
    pub(crate) fn wish(&self, listeners: &Listeners<'_>) -> StatusWish {
        let generation = self.object.metadata.generation;
        let own = listeners.of(Kind::Gateway, &self.name);
        let all: Vec<_> = listeners.of_gateway(&self.name).collect();
        let (valid, total) = (all.iter().filter(|each| each.is_accepted()).count(), all.len());
        let none_valid = Fault::new("ListenersNotValid", "no listener is valid");
        let refused = self.refused.as_ref().or((valid == 0).then_some(&none_valid));
        let accepted = match refused {
            None if valid < total && own.iter().any(|each| !each.is_accepted()) => Condition {
                message: "some listeners are not valid".to_owned(),
                ..Condition::yes("Accepted", "ListenersNotValid")
            },
            fault => Condition::unless("Accepted", fault),
        };
        let idle = Fault::new("Invalid", "no listener is programmed");
        let not_accepted = refused.map(|fault| Fault::new("Invalid", fault.message.clone()));
        let is_idle = !all.iter().any(|each| each.is_programmed());
        let unprogrammed = not_accepted.as_ref().or(self.homeless.as_ref()).or(is_idle.then_some(&idle));
        let mut list = vec![
            accepted,
            Condition::unless("Programmed", unprogrammed),
            Condition::unless("ResolvedRefs", self.unresolved.as_ref()),
        ];
        if self.has_insecure_fallback() {
            list.push(Condition {
                message: "clients without a valid certificate are let in".to_owned(),
                ..Condition::yes("InsecureFrontendValidationMode", "ConfigurationChanged")
            });
        }
        let shown = self.shown.iter().map(|ip| json!({ "type": "IPAddress", "value": ip.to_string() }));
        StatusWish {
            object: ObjectName { kind: Kind::Gateway, name: self.name.clone() },
            generation,
            status: json!({
                "addresses": shown.collect::<Vec<_>>(),
                "conditions": conditions(&list, generation),
                "listeners": own.iter().map(|each| each.json(generation)).collect::<Vec<_>>(),
                "attachedListenerSets": listeners.sets_attached(&self.name),
            }),
        }
    }
}

/// The Gateways of the classes that are served, the older first.
pub(crate) fn plan<'a>(
    cluster: &'a Cluster,
    settings: &Settings,
    classes: &BTreeSet<&str>,
    lookup: Lookup<'_>,
) -> Vec<GatewayPlan<'a>> {
    let gateways = by_age(&cluster.gateways);
    let gateways: Vec<_> =
        gateways.into_iter().filter(|gateway| classes.contains(gateway.spec.gateway_class_name.as_str())).collect();
    let mut pool = Pool::new(settings, &gateways);
    let mut plans: Vec<GatewayPlan<'a>> = Vec::with_capacity(gateways.len());
    for gateway in gateways {
        let name = gateway.metadata.key();
        let refused = unsupported_address(gateway).or_else(|| unsupported_parameters(gateway));
        let assigned = pool.assign(&name, gateway);
        let (listen, homeless) = assigned.map_or_else(|fault| (Vec::new(), Some(fault)), |listen| (listen, None));
        let shown = pool.shown(gateway, &listen);
        let backend = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
        let reference = backend.and_then(|backend| backend.client_certificate_ref.as_ref());
        let certificate = reference.map(|reference| {
            const INVALID: &str = "InvalidClientCertificateRef";
            let from = ("Gateway", gateway.metadata.namespace.as_str());
            lookup.certificate(from, reference, Reasons { invalid: INVALID, kind: INVALID })
        });
        let (client_certificate, unresolved) = match certificate {
            None => (None, None),
            Some(Ok(name)) => (Some(name), None),
            Some(Err(fault)) => (None, Some(fault)),
        };
        plans.push(GatewayPlan {
            object: gateway,
            name,
            listen,
            shown,
            refused,
            homeless,
            client_certificate,
            unresolved,
        });
    }
    plans
}

fn unsupported_address(gateway: &Gateway) -> Option<Fault> {
    let other = gateway.spec.addresses.iter().find(|address| !is_ip(address))?;
    let kind = other.kind.as_deref().unwrap_or_default();
    Some(Fault::new("UnsupportedAddress", format!("addresses of type {kind} are not supported; use IPAddress")))
}

fn unsupported_parameters(gateway: &Gateway) -> Option<Fault> {
    let parameters = gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    let name = &parameters.name;
    Some(Fault::new("InvalidParameters", format!("infrastructure.parametersRef {name} is not supported; remove it")))
}

fn is_ip(address: &GatewayAddress) -> bool {
    address.kind.as_deref().is_none_or(|kind| kind == "IPAddress")
}

/// The addresses that a Gateway wants; empty values mean any.
fn wanted(gateway: &Gateway) -> impl Iterator<Item = &str> {
    gateway.spec.addresses.iter().filter(|each| is_ip(each) && !each.value.is_empty()).map(|each| each.value.as_str())
}

/// The addresses that Gateways can have.
struct Pool<'s> {
    addresses: &'s GatewayAddresses,
    /// Address -> the Gateway that has it.
    taken: BTreeMap<IpAddr, Name>,
}

impl<'s> Pool<'s> {
    /// Gateways keep what they ask for, then what they have; the older goes first.
    fn new(settings: &'s Settings, gateways: &[&Gateway]) -> Self {
        let mut pool = Self { addresses: &settings.gateway_addresses, taken: BTreeMap::new() };
        if let GatewayAddresses::Pool(addresses) = pool.addresses {
            for gateway in gateways {
                for ip in wanted(gateway).filter_map(|value| value.parse().ok()) {
                    pool.take(addresses, ip, gateway);
                }
            }
            for gateway in gateways.iter().filter(|gateway| wanted(gateway).next().is_none()) {
                let had = gateway.status.addresses.iter().filter_map(|each| each.value.parse().ok());
                for ip in had.take(1) {
                    pool.take(addresses, ip, gateway);
                }
            }
        }
        pool
    }

    fn take(&mut self, addresses: &[IpAddr], ip: IpAddr, gateway: &Gateway) {
        if addresses.contains(&ip) {
            self.taken.entry(ip).or_insert_with(|| gateway.metadata().key());
        }
    }

    /// Where the listeners of a Gateway are opened.
    fn assign(&mut self, name: &Name, gateway: &Gateway) -> Result<Vec<IpAddr>, Fault> {
        let wanted: Vec<&str> = wanted(gateway).collect();
        let addresses = match self.addresses {
            GatewayAddresses::Shared(addresses) => {
                let is_missing = |value: &&&str| !value.parse().is_ok_and(|ip: IpAddr| addresses.contains(&ip));
                return match wanted.iter().find(is_missing) {
                    Some(value) => Err(unusable(value)),
                    None => Ok(Vec::new()),
                };
            }
            GatewayAddresses::Pool(addresses) => addresses,
        };
        let is_own = |value: &&&str| value.parse().is_ok_and(|ip: IpAddr| self.taken.get(&ip) == Some(name));
        if let Some(value) = wanted.iter().find(|value| !is_own(value)) {
            return Err(unusable(value));
        }
        let mut own: Vec<IpAddr> = self.taken.iter().filter(|(_, owner)| *owner == name).map(|(ip, _)| *ip).collect();
        if own.is_empty() {
            let Some(free) = addresses.iter().find(|ip| !self.taken.contains_key(*ip)) else {
                let message = "all addresses of --gateway-address-pool are taken";
                return Err(Fault::new("AddressNotAssigned", message));
            };
            self.taken.insert(*free, name.clone());
            own.push(*free);
        }
        Ok(own)
    }

    /// What the status shows: of the addresses that are wanted, those that the Gateway has.
    fn shown(&self, gateway: &Gateway, listen: &[IpAddr]) -> Vec<IpAddr> {
        let mut wanted = wanted(gateway).filter_map(|value| value.parse().ok()).peekable();
        let has_wishes = wanted.peek().is_some();
        match self.addresses {
            GatewayAddresses::Shared(all) if has_wishes => wanted.filter(|ip| all.contains(ip)).collect(),
            GatewayAddresses::Shared(all) => all.clone(),
            GatewayAddresses::Pool(_) => listen.to_vec(),
        }
    }
}

fn unusable(value: &str) -> Fault {
    Fault::new(
        "AddressNotUsable",
        format!("the address {value} is not one of this controller, or another Gateway has it"),
    )
}
