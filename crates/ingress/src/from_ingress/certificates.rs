//! Certificates that Ingresses ask this controller for, by ACME. A host is ordered only for the namespace that has it: every
//! host of the cluster would pass the authority's check here, so the check says nothing about tenants.

use super::Served;
use crate::annotations::reader_flag;
use crate::assembly::Assembly;
use crate::objects::Metadata;
use crate::objects::networking::IngressTls;
use crate::translation::CertificateWish;
use crate::{Level, Name, ObjectName, value};
use std::collections::{BTreeMap, BTreeSet};

/// The own annotation.
pub(crate) const OWN: &str = "holdfast.dev/acme";
/// The one that controllers of certificates have shared since kube-lego.
pub(crate) const SHARED: &str = "kubernetes.io/tls-acme";
/// Annotations that give an Ingress to cert-manager.
pub(crate) const CERT_MANAGER: [&str; 2] = ["cert-manager.io/issuer", "cert-manager.io/cluster-issuer"];

/// Most names of a certificate. Let's Encrypt's number; others have the same or more.
const HOSTS_MAX: usize = 100;
/// Most certificates of a namespace. At the pace of orders they take two days, and a tenant cannot fill the memory.
const OF_NAMESPACE_MAX: usize = 1000;
const REASON: &str = "CertificateRefused";

/// Gathers the wishes. `owners` has the oldest Ingress of each host that is served.
pub(super) fn write(assembly: &mut Assembly<'_>, served: &[Served], owners: &BTreeMap<String, ObjectName>) {
    let mut wishes: BTreeMap<Name, CertificateWish> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for it in served.iter().filter(|it| it.plan.canary.is_none()) {
        if !asks(assembly, it) {
            continue;
        }
        for entry in &it.ingress.spec.tls {
            let hosts = match hosts(entry, &it.name, owners) {
                Ok(hosts) => hosts,
                Err(message) => {
                    assembly.find(&it.name, Level::Warning, REASON, message);
                    continue;
                }
            };
            let secret = Name::new(it.name.name.namespace.as_ref(), entry.secret_name.as_str());
            if !wishes.contains_key(&secret) {
                let count = counts.entry(&it.ingress.metadata.namespace).or_default();
                *count += 1;
                if *count > OF_NAMESPACE_MAX {
                    let message = format!("the namespace asks for more than {OF_NAMESPACE_MAX} certificates");
                    assembly.find(&it.name, Level::Warning, REASON, message);
                    continue;
                }
            }
            let wish = wishes.entry(secret.clone()).or_insert_with(|| CertificateWish::new(secret));
            let more = hosts.difference(&wish.hosts).count();
            if wish.hosts.len() + more > HOSTS_MAX {
                let message = format!("the Secret \"{}\" would be for more than {HOSTS_MAX} hosts", wish.secret.name);
                assembly.find(&it.name, Level::Warning, REASON, message);
                continue;
            }
            wish.hosts.extend(hosts);
            if !wish.objects.contains(&it.name) {
                wish.objects.push(it.name.clone());
            }
        }
    }
    assembly.certificates = wishes.into_values().filter(|wish| !wish.hosts.is_empty()).collect();
}

/// Whether an Ingress asks for certificates, and gets them here.
fn asks(assembly: &mut Assembly<'_>, it: &Served) -> bool {
    let metadata = &it.ingress.metadata;
    let own = metadata.annotations.get(OWN).map(|text| reader_flag(text.trim()));
    if let Some(Err(message)) = &own {
        let message = format!("\"{OWN}\" has no effect: {message}");
        assembly.find(&it.name, Level::Warning, "WrongAnnotation", message);
        return false;
    }
    if !asks_by(metadata) || CERT_MANAGER.iter().any(|name| metadata.annotations.contains_key(*name)) {
        return false;
    }
    if !assembly.settings.acme && own.is_some() {
        let message = format!("\"{OWN}\" has no effect: the controller has no authority (--acme-directory)");
        assembly.find(&it.name, Level::Warning, "NoAuthority", message);
    }
    assembly.settings.acme
}

/// What the annotations say; the own one decides.
fn asks_by(metadata: &Metadata) -> bool {
    let says = |name: &str| metadata.annotations.get(name).and_then(|text| reader_flag(text.trim()).ok());
    says(OWN).or_else(|| says(SHARED)).unwrap_or(false)
}

/// The hosts of an entry, or why there is no certificate for them.
fn hosts(
    entry: &IngressTls,
    object: &ObjectName,
    owners: &BTreeMap<String, ObjectName>,
) -> Result<BTreeSet<String>, String> {
    let secret = &entry.secret_name;
    if !value::is_object_name(secret) {
        return Err("an entry of \"tls\" has no valid \"secretName\", so there is no place for a certificate".into());
    }
    if entry.hosts.is_empty() {
        return Err(format!("the entry of the Secret \"{secret}\" names no hosts"));
    }
    let mut hosts = BTreeSet::new();
    for host in &entry.hosts {
        let host = host.to_ascii_lowercase();
        let why = match owners.get(&host) {
            _ if host.starts_with("*.") => "a name with * needs a DNS challenge, which is not supported".to_owned(),
            None => "no rule of an Ingress that is served has this host".to_owned(),
            Some(owner) if owner.name.namespace != object.name.namespace => {
                format!("the older {owner} of another namespace has this host")
            }
            Some(_) => {
                hosts.insert(host);
                continue;
            }
        };
        return Err(format!("no certificate for the Secret \"{secret}\": {}: {why}", host.escape_debug()));
    }
    Ok(hosts)
}
