//! Ingresses -> equivalent objects of the Gateway API: Gateways, routes, grants and policies, with a comment for what has
//! no equivalent. The fields are those of the standard channel of Gateway API 1.6, and of the experimental one if wanted.

mod annotations;
mod canary;
mod filters;
mod gateways;
mod matches;
mod policies;
mod routes;

use crate::{Cluster, Name};
use gateways::Gateways;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How it is written.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the `GatewayClass`; Gateways are named after it.
    pub class: String,
    /// One Gateway for all namespaces; `None`: one in each namespace, which needs no grants.
    pub gateway: Option<Name>,
    /// Fields of the experimental channel, too.
    pub experimental: bool,
    /// The prefix of annotations.
    pub annotations_prefix: String,
}

/// One object with its comments.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Lines above it.
    pub comments: Vec<String>,
    /// The object.
    pub object: Value,
}

/// The objects in the order in which they are applied.
#[derive(Debug, Default)]
pub struct Converted {
    /// The objects.
    pub objects: Vec<Written>,
    /// What has no equivalent: Ingress, annotation or field, reason.
    pub losses: Vec<(Name, String, String)>,
}

impl Converted {
    /// All objects as one YAML text.
    ///
    /// # Errors
    /// If a value cannot be written, which would be a mistake of this program.
    pub fn yaml(&self) -> Result<String, String> {
        let mut text = String::new();
        for (index, written) in self.objects.iter().enumerate() {
            if index > 0 {
                text.push_str("---\n");
            }
            // A comment comes from annotations, too: no line of it may become YAML.
            for line in written.comments.iter().flat_map(|comment| comment.split(['\n', '\r'])) {
                let _ = writeln!(text, "# {line}");
            }
            let object = serde_saphyr::to_string(&written.object).map_err(|error| error.to_string())?;
            text.push_str(object.trim_end());
            text.push('\n');
        }
        Ok(text)
    }
}

/// Converts the Ingresses of a cluster: all of them are of the class that is moved.
pub fn convert(cluster: &Cluster, options: &Options) -> Converted {
    let mut gateways = Gateways::new(cluster, options);
    let mut converted = Converted::default();
    let mut canaries = canary::Canaries::collect(cluster, options);
    let mut routes = Vec::new();
    let mut policies = BTreeMap::new();
    for (name, ingress) in &cluster.ingresses {
        if canaries.contains(name) {
            continue;
        }
        let mut one = routes::Conversion::new(name, ingress, cluster, options);
        one.run(&mut gateways, &mut canaries, &mut policies);
        let (objects, losses) = one.finish();
        routes.extend(objects);
        converted.losses.extend(losses);
    }
    converted.losses.extend(canaries.unused());
    converted.objects.extend(gateways.finish());
    converted.objects.extend(routes);
    converted.objects.extend(policies.into_values());
    converted
}

/// A name for an object: at most 63 characters of those that Kubernetes allows.
fn slug(host: &str) -> String {
    let text = host.replace("*.", "wildcard-").replace('.', "-").to_ascii_lowercase();
    text.chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .take(63)
        .collect::<String>()
        .trim_matches('-')
        .to_owned()
}
