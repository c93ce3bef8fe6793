//! For each Ingress: does Holdfast serve it unchanged, with differences, or not at all? The findings are those of the
//! translation that the controller runs, so the answer and the controller cannot disagree.

use super::Manifests;
use crate::objects::core::{Service, ServicePort};
use crate::objects::networking::{Ingress, IngressBackend, IngressClass};
use crate::{Cluster, Finding, Kind, Level, Name, ObjectName, Settings, translate};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// `spec.controller` of ingress-nginx.
const INGRESS_NGINX: &str = "k8s.io/ingress-nginx";
/// The old way to name a class.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
/// Makes a class the one of Ingresses without a class.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// What is to be moved.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Ingresses of this class, which ingress-nginx serves now.
    pub class: String,
    /// Ingresses without a class, too.
    pub without_class: bool,
    /// ingress-nginx's `ConfigMap`; `None`: the one that has the name of its installation.
    pub config_map: Option<Name>,
    /// The flag of both controllers.
    pub allow_snippets: bool,
    /// The flag of both controllers.
    pub annotations_prefix: String,
}

/// How an object fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It works unchanged.
    Unchanged,
    /// It is served, with a difference that a finding explains.
    Differs,
    /// It, or a rule of it, is not served.
    Refused,
}

impl Verdict {
    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "works unchanged",
            Self::Differs => "differs",
            Self::Refused => "refused",
        }
    }
}

/// The answer about one object.
#[derive(Debug, Clone)]
pub struct Report {
    /// The object.
    pub object: ObjectName,
    /// The file.
    pub source: String,
    /// The worst finding decides.
    pub verdict: Verdict,
    /// Annotations, or keys of the `ConfigMap`, that no finding mentions.
    pub unchanged: Vec<String>,
    /// All findings, the worst first.
    pub findings: Vec<Finding>,
}

/// The answer about all of them.
#[derive(Debug, Default)]
pub struct Analysis {
    /// The objects without Ingresses of other classes.
    pub cluster: Cluster,
    /// Each Ingress of the class.
    pub ingresses: Vec<Report>,
    /// The `ConfigMap`.
    pub config_map: Option<Report>,
    /// Ingresses of other classes: they stay with their controllers.
    pub others: Vec<(Name, String)>,
    /// Findings about other objects.
    pub rest: Vec<Finding>,
    /// Objects that Ingresses name and that were not among the manifests.
    pub missing: Vec<ObjectName>,
}

impl Analysis {
    /// The number of Ingresses with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.ingresses.iter().filter(|it| it.verdict == verdict).count()
    }

    /// Whether something is refused.
    pub fn refuses(&self) -> bool {
        let reports = self.ingresses.iter().chain(&self.config_map);
        reports.into_iter().any(|it| it.verdict == Verdict::Refused)
            || self.rest.iter().any(|it| it.level == Level::Refused)
    }
}

/// Translates the objects and sorts what was found.
pub fn analyse(manifests: &Manifests, wanted: &Wanted) -> Analysis {
    let mut cluster = manifests.cluster.clone();
    let mut analysis = Analysis { others: keep_class(&mut cluster, wanted), ..Analysis::default() };
    analysis.cluster = cluster.clone();
    let config_map = wanted.config_map.clone().or_else(|| find_config_map(&cluster));
    add_class(&mut cluster, wanted);
    analysis.missing = complete(&mut cluster);

    let settings = settings(wanted, config_map.as_ref(), &cluster);
    let mut findings: BTreeMap<ObjectName, Vec<Finding>> = BTreeMap::new();
    for finding in translate(&cluster, &settings).findings {
        match absent(&finding.message) {
            // It says something about the manifests, not about the migration.
            Some(object) if !analysis.missing.contains(&object) => analysis.missing.push(object),
            Some(_) => {}
            None => findings.entry(finding.object.clone()).or_default().push(finding),
        }
    }
    for (name, ingress) in &cluster.ingresses {
        let object = ObjectName { kind: Kind::Ingress, name: name.clone() };
        let found = findings.remove(&object).unwrap_or_default();
        let prefix = format!("{}/", wanted.annotations_prefix);
        let words = ingress.metadata.annotations.keys().filter_map(|key| key.strip_prefix(&prefix));
        analysis.ingresses.push(report(manifests, object, words, found));
    }
    if let Some((name, map)) = config_map.and_then(|name| cluster.config_maps.get_key_value(&name)) {
        let object = ObjectName { kind: Kind::ConfigMap, name: name.clone() };
        let found = findings.remove(&object).unwrap_or_default();
        analysis.config_map = Some(report(manifests, object, map.data.keys().map(String::as_str), found));
    }
    analysis.rest = findings.into_values().flatten().collect();
    analysis
}

/// The Secret or `ConfigMap` that a finding misses.
fn absent(message: &str) -> Option<ObjectName> {
    [(Kind::Secret, "there is no Secret \""), (Kind::ConfigMap, "there is no ConfigMap \"")].into_iter().find_map(
        |(kind, words)| {
            let (name, _) = message.split_once(words)?.1.split_once('"')?;
            let (namespace, name) = name.split_once('/')?;
            Some(ObjectName { kind, name: Name::new(namespace, name) })
        },
    )
}

fn report<'a>(
    manifests: &Manifests,
    object: ObjectName,
    words: impl Iterator<Item = &'a str>,
    mut findings: Vec<Finding>,
) -> Report {
    findings.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.message.cmp(&b.message)));
    let verdict = match findings.first().map(|it| it.level) {
        None => Verdict::Unchanged,
        Some(Level::Refused) => Verdict::Refused,
        Some(_) => Verdict::Differs,
    };
    let unchanged = words.filter(|word| !findings.iter().any(|it| mentions(&it.message, word))).map(str::to_owned);
    let unchanged = unchanged.collect();
    let source = manifests.origins.get(&object.to_string()).cloned().unwrap_or_default();
    Report { object, source, verdict, unchanged, findings }
}

/// Whether a message names this annotation or key, and not a longer one.
fn mentions(message: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    message.match_indices(word).any(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + word.len()..]);
        !before.ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

/// Removes Ingresses of other classes, and returns them with their class.
fn keep_class(cluster: &mut Cluster, wanted: &Wanted) -> Vec<(Name, String)> {
    let default = cluster
        .ingress_classes
        .values()
        .find(|it| it.metadata.annotations.get(DEFAULT_CLASS).is_some_and(|it| it == "true"));
    let default = default.map(|it| it.metadata.name.clone());
    let class = |ingress: &Ingress| {
        let named = ingress.spec.ingress_class_name.clone();
        named.or_else(|| ingress.metadata.annotations.get(OLD_CLASS).cloned()).or_else(|| default.clone())
    };
    let mut others = Vec::new();
    cluster.ingresses.retain(|name, ingress| {
        let class = class(ingress);
        let keep = class.as_ref().map_or(wanted.without_class, |class| *class == wanted.class);
        if !keep {
            others.push((name.clone(), class.unwrap_or_default()));
        }
        keep
    });
    others
}

/// The `ConfigMap` of an installation by ingress-nginx's chart or manifests.
fn find_config_map(cluster: &Cluster) -> Option<Name> {
    let named = |name: &&Name| &*name.name == "nginx-configuration" || name.name.ends_with("ingress-nginx-controller");
    cluster.config_maps.keys().find(named).cloned()
}

/// Adds the class if no manifest has it.
fn add_class(cluster: &mut Cluster, wanted: &Wanted) {
    let name = Name::new("", wanted.class.as_str());
    cluster.ingress_classes.entry(name).or_insert_with(|| {
        let mut class = IngressClass::default();
        class.metadata.name.clone_from(&wanted.class);
        class.spec.controller = INGRESS_NGINX.into();
        Arc::new(class)
    });
}

/// Adds the Services that are named and missing, with the ports that are named, and leaves out missing certificates:
/// their absence says something about the manifests, not about the migration.
fn complete(cluster: &mut Cluster) -> Vec<ObjectName> {
    let mut missing = BTreeSet::new();
    let mut services: BTreeMap<Name, Service> = BTreeMap::new();
    for (name, ingress) in &mut cluster.ingresses {
        for (service, port) in backends(ingress).filter_map(|it| it.service.as_ref()).map(|it| (&it.name, &it.port)) {
            let key = Name::new(&*name.namespace, service.as_str());
            if cluster.services.contains_key(&key) {
                continue;
            }
            missing.insert(ObjectName { kind: Kind::Service, name: key.clone() });
            let added = services.entry(key).or_default();
            added.metadata.name.clone_from(service);
            added.metadata.namespace = name.namespace.to_string();
            added.spec.cluster_ip = "10.0.0.1".into();
            let number = if port.number == 0 { 80 } else { port.number };
            let port = ServicePort { name: port.name.clone(), port: number, ..ServicePort::default() };
            if !added.spec.ports.contains(&port) {
                added.spec.ports.push(port);
            }
        }
        let secrets = &cluster.secrets;
        let absent = |secret: &str| !secret.is_empty() && !secrets.contains_key(&Name::new(&*name.namespace, secret));
        if ingress.spec.tls.iter().any(|it| absent(&it.secret_name)) {
            let mut changed = Ingress::clone(ingress);
            for tls in changed.spec.tls.iter_mut().filter(|it| absent(&it.secret_name)) {
                let secret = std::mem::take(&mut tls.secret_name);
                missing.insert(ObjectName { kind: Kind::Secret, name: Name::new(&*name.namespace, secret) });
            }
            *ingress = Arc::new(changed);
        }
    }
    for service in services.into_values() {
        crate::cluster::insert(&mut cluster.services, service);
    }
    missing.into_iter().collect()
}

/// All backends of an Ingress.
fn backends(ingress: &Ingress) -> impl Iterator<Item = &IngressBackend> {
    let paths = ingress.spec.rules.iter().filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
    paths.map(|path| &path.backend).chain(&ingress.spec.default_backend)
}

fn settings(wanted: &Wanted, config_map: Option<&Name>, cluster: &Cluster) -> Settings {
    let data = config_map.and_then(|name| cluster.config_maps.get(name)).map(|map| &map.data);
    let says = |key: &str| data.and_then(|data| data.get(key)).is_some_and(|value| value.trim() == "true");
    Settings {
        controller_class: INGRESS_NGINX.into(),
        ingress_class: wanted.class.clone(),
        ingress_class_by_name: true,
        watch_ingress_without_class: wanted.without_class,
        config_map: config_map.cloned(),
        allow_snippets: wanted.allow_snippets || says("allow-snippet-annotations"),
        annotations_prefix: wanted.annotations_prefix.clone(),
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            class: "nginx".into(),
            without_class: false,
            config_map: None,
            allow_snippets: false,
            annotations_prefix: "nginx.ingress.kubernetes.io".into(),
        }
    }

    fn ingress(name: &str, class: &str) -> String {
        format!(
            "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  ingressClassName: {class}\n  tls: [{{hosts: [a.example], secretName: cert}}]\n  rules:\n  \
             - host: a.example\n    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: \
             {{name: http}}}}}}}}]}}\n---\n"
        )
    }

    #[test]
    fn only_ingresses_of_the_class_are_judged() {
        let mut manifests = Manifests::default();
        manifests.read("all.yaml", &(ingress("a", "nginx") + &ingress("b", "traefik")));
        let found = analyse(&manifests, &wanted());
        assert_eq!(found.ingresses.len(), 1);
        assert_eq!(found.ingresses[0].object.to_string(), "Ingress shop/a");
        assert_eq!(found.ingresses[0].source, "all.yaml");
        assert_eq!(found.others, [(Name::new("shop", "b"), "traefik".to_owned())]);
    }

    #[test]
    fn missing_objects_are_listed_and_not_blamed_on_the_ingress() {
        let mut manifests = Manifests::default();
        manifests.read("all.yaml", &ingress("a", "nginx"));
        let found = analyse(&manifests, &wanted());
        let missing: Vec<_> = found.missing.iter().map(ToString::to_string).collect();
        assert_eq!(missing, ["Service shop/web", "Secret shop/cert"]);
        assert_eq!(found.ingresses[0].verdict, Verdict::Unchanged, "{:?}", found.ingresses[0].findings);
    }

    #[test]
    fn passwords_that_were_not_read_are_missing_and_not_refused() {
        let annotations = "annotations: {nginx.ingress.kubernetes.io/auth-type: basic, \
                           nginx.ingress.kubernetes.io/auth-secret: people}, name: a,";
        let mut manifests = Manifests::default();
        manifests.read("all.yaml", &ingress("a", "nginx").replace("name: a,", annotations));
        let found = analyse(&manifests, &wanted());
        assert!(found.missing.iter().any(|it| it.to_string() == "Secret shop/people"), "{:?}", found.missing);
        assert_eq!(found.ingresses[0].verdict, Verdict::Unchanged, "{:?}", found.ingresses[0].findings);
    }

    #[test]
    fn annotations_get_the_verdict_of_the_translation() {
        for (annotation, verdict) in [
            ("enable-modsecurity: \"true\"", Verdict::Refused),
            ("proxy-body-size: 8m", Verdict::Unchanged),
            ("no-such-annotation: x", Verdict::Differs),
        ] {
            let annotations = format!("annotations: {{nginx.ingress.kubernetes.io/{annotation}}}, name: a,");
            let mut manifests = Manifests::default();
            manifests.read("all.yaml", &ingress("a", "nginx").replace("name: a,", &annotations));
            let found = analyse(&manifests, &wanted());
            assert_eq!(found.ingresses[0].verdict, verdict, "{annotation}: {:?}", found.ingresses[0].findings);
            assert_eq!(found.refuses(), verdict == Verdict::Refused);
        }
    }

    #[test]
    fn a_message_mentions_whole_names() {
        assert!(mentions("annotation \"auth-url\": refused", "auth-url"));
        assert!(!mentions("annotation \"auth-url-x\": refused", "auth-url"));
        assert!(!mentions("annotation \"enable-cors\": refused", "cors"));
    }
}
