//! Ingresses: translated with those that name one of their hosts.
//!
//! Contents of Secrets and of `ConfigMap`s of tenants are not known here: where an annotation names one, an empty one takes
//! its place. So an answer cannot tell what is in them, and an Ingress may come before its Secret.

use super::Judgement;
use crate::cluster::insert;
use crate::from_ingress::{CERT_MANAGER, OWN_ACME, SHARED_ACME, is_ours};
use crate::objects::core::{ConfigMap, Secret};
use crate::objects::networking::Ingress;
use crate::{Cluster, Finding, Kind, Level, Name, ObjectName, Settings, translate, value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// PEM in base64 that only looks like a certificate or a key: `-----BEGIN `.
const LOOKS_LIKE_PEM: &str = "LS0tLS1CRUdJTiA=";
/// The class annotation that came before `spec.ingressClassName`.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// Annotations that name a `ConfigMap`.
const NAME_CONFIG_MAPS: [&str; 3] = ["auth-proxy-set-headers", "custom-headers", "fastcgi-params-configmap"];
/// Annotations that name a Secret.
const NAME_SECRETS: [&str; 3] = ["auth-secret", "auth-tls-secret", "proxy-ssl-secret"];

/// Judges an Ingress as it would be stored, beside the objects of the cluster, which may have an older version of it.
pub(super) fn judge(cluster: &Cluster, settings: &Settings, ingress: Ingress) -> Judgement {
    let object = ObjectName { kind: Kind::Ingress, name: ingress.metadata.key() };
    if !is_ours(cluster, settings, &ingress) {
        return Judgement::default();
    }
    let mut before = surroundings(cluster, settings, &ingress);
    let mut after = before.clone();
    insert(&mut after.ingresses, ingress);
    add_placeholders(&mut after, settings);
    let (own, others): (Vec<Finding>, Vec<Finding>) =
        translate(&after, settings).findings.into_iter().partition(|finding| finding.object == object);
    let (mut refused, mut warnings): (Vec<Finding>, Vec<Finding>) =
        own.into_iter().partition(|finding| finding.level == Level::Refused);
    let takes = |finding: &Finding| finding.level == Level::Refused && finding.reason == "Conflict";
    if others.iter().any(takes) {
        // The older object wins. An Ingress that is changed may be older than the one that it takes a path from.
        add_placeholders(&mut before, settings);
        let known: BTreeSet<Finding> = translate(&before, settings).findings.into_iter().collect();
        for loser in others.into_iter().filter(|finding| takes(finding) && !known.contains(finding)) {
            let message = format!("{} would lose a path: {}", loser.object, loser.message);
            refused.push(Finding { object: object.clone(), message, ..loser });
        }
    }
    refused.sort();
    // Warnings before notes.
    warnings.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.message.cmp(&b.message)));
    Judgement { refused, warnings }
}

/// Whether two versions of an Ingress ask for the same, so that nothing new is to be judged.
pub(super) fn asks_the_same(settings: &Settings, one: &Ingress, two: &Ingress) -> bool {
    let prefix = format!("{}/", settings.annotations_prefix);
    let annotations = |ingress: &Ingress| {
        let all = ingress.metadata.annotations.clone().into_iter();
        let matters = |key: &str| {
            key.starts_with(&prefix) || [OLD_CLASS, OWN_ACME, SHARED_ACME].contains(&key) || CERT_MANAGER.contains(&key)
        };
        all.filter(|(key, _)| matters(key)).collect::<Vec<_>>()
    };
    one.spec == two.spec && annotations(one) == annotations(two)
}

/// The objects that decide about the Ingress: settings, Services, and Ingresses that name one of its hosts.
fn surroundings(cluster: &Cluster, settings: &Settings, ingress: &Ingress) -> Cluster {
    let own_hosts = hosts(settings, ingress);
    let near = cluster.ingresses.iter().filter(|(_, other)| !hosts(settings, other).is_disjoint(&own_hosts));
    let own_map = settings.config_map.as_ref().and_then(|name| cluster.config_maps.get_key_value(name));
    let clone = |(name, object): (&Name, &Arc<_>)| (name.clone(), Arc::clone(object));
    Cluster {
        ingresses: near.map(|(name, object)| (name.clone(), Arc::clone(object))).collect(),
        ingress_classes: cluster.ingress_classes.clone(),
        services: cluster.services.clone(),
        config_maps: own_map.map(clone).into_iter().collect(),
        ..Cluster::default()
    }
}

/// The hosts that an Ingress names, in its rules or as aliases. The empty one is that of all hosts.
fn hosts(settings: &Settings, ingress: &Ingress) -> BTreeSet<String> {
    let mut hosts: BTreeSet<String> = ingress.spec.rules.iter().map(|rule| rule.host.to_ascii_lowercase()).collect();
    if hosts.is_empty() {
        hosts.insert(String::new());
    }
    let aliases = ingress.metadata.annotations.get(&format!("{}/server-alias", settings.annotations_prefix));
    hosts.extend(aliases.iter().flat_map(|text| text.split(',')).map(|alias| alias.trim().to_ascii_lowercase()));
    hosts
}

/// Adds an empty Secret or `ConfigMap` for each one that an Ingress names in its own namespace.
fn add_placeholders(cluster: &mut Cluster, settings: &Settings) {
    for ingress in cluster.ingresses.values() {
        let namespace = ingress.metadata.namespace.as_str();
        let named = |annotation: &&str| {
            let text = ingress.metadata.annotations.get(&format!("{}/{annotation}", settings.annotations_prefix))?;
            let (of, name) = text.trim().split_once('/').unwrap_or((namespace, text.trim()));
            (of == namespace).then_some(name)
        };
        let certificates = ingress.spec.tls.iter().map(|tls| tls.secret_name.as_str());
        for name in NAME_SECRETS.iter().filter_map(named).chain(certificates).filter(|it| value::is_object_name(it)) {
            let mut secret = Secret::default();
            (secret.metadata.namespace, secret.metadata.name) = (namespace.to_owned(), name.to_owned());
            let keys = ["tls.crt", "tls.key", "ca.crt", "auth"];
            secret.data = keys.map(|key| (key.to_owned(), LOOKS_LIKE_PEM.to_owned())).into_iter().collect();
            insert(&mut cluster.secrets, secret);
        }
        for name in NAME_CONFIG_MAPS.iter().filter_map(named).filter(|it| value::is_object_name(it)) {
            let name = Name::new(namespace, name);
            // The controller's own one stays as it is.
            cluster.config_maps.entry(name).or_insert_with_key(|name| {
                let mut map = ConfigMap::default();
                (map.metadata.namespace, map.metadata.name) = (name.namespace.to_string(), name.name.to_string());
                Arc::new(map)
            });
        }
    }
}
