//! Which Ingresses are served: those of our classes.

use crate::objects::networking::{Ingress, IngressClass};
use crate::{Cluster, Name, Settings};

/// The annotation that came before `spec.ingressClassName`.
const OLD: &str = "kubernetes.io/ingress.class";
/// Marks the class of Ingresses that name none.
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Whether an Ingress is served here.
pub(crate) fn is_ours(cluster: &Cluster, settings: &Settings, ingress: &Ingress) -> bool {
    if let Some(class) = ingress.metadata.annotations.get(OLD).filter(|class| !class.is_empty()) {
        return *class == settings.ingress_class;
    }
    if let Some(name) = ingress.spec.ingress_class_name.as_deref().filter(|name| !name.is_empty()) {
        let class = cluster.ingress_classes.get(&Name::new("", name));
        let by_name = settings.ingress_class_by_name && name == settings.ingress_class;
        return by_name || class.is_some_and(|class| is_our_class(settings, class));
    }
    let mut classes = cluster.ingress_classes.values();
    let default = classes.any(|class| {
        is_our_class(settings, class) && class.metadata.annotations.get(DEFAULT).is_some_and(|value| value == "true")
    });
    default || settings.watch_ingress_without_class
}

fn is_our_class(settings: &Settings, class: &IngressClass) -> bool {
    class.spec.controller == settings.controller_class
}
