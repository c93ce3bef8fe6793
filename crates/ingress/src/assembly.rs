//! The configuration under construction: what both translations, of Ingresses and of the Gateway API, write into.

use crate::tree::{Origin, Origins};
use crate::{Cluster, Kind, Name, ObjectName, Settings, Translation};
use conf::tree::Directive;
use std::collections::BTreeMap;

/// A configuration under construction.
pub(crate) struct Assembly<'a> {
    cluster: &'a Cluster,
    settings: &'a Settings,
    origins: Origins,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(cluster: &'a Cluster, settings: &'a Settings) -> Self {
        Self { cluster, settings, origins: Origins::default() }
    }

    /// The place of what no object asked for. It has the name of the controller's `ConfigMap`, which can change it.
    fn own(&mut self) -> Origin {
        let name = self.settings.config_map.clone().unwrap_or_else(|| Name::new("", "defaults"));
        self.origins.of(&ObjectName { kind: Kind::ConfigMap, name })
    }

    /// The finished configuration.
    pub(crate) fn finish(mut self) -> Translation {
        let own = self.own();
        let _ = self.cluster;
        let port = self.settings.http_port.to_string();
        let server = vec![own.line("listen", [port.as_str(), "default_server"]), own.line("return", ["404"])];
        let http: Vec<Directive> = vec![own.block::<&str>("server", [], server)];
        let tree = own.braces(vec![own.block::<&str>("events", [], vec![]), own.block::<&str>("http", [], http)]);
        let (sources, owners) = self.origins.into_parts();
        Translation {
            tree,
            sources,
            owners,
            endpoints: BTreeMap::new(),
            files: BTreeMap::new(),
            findings: Vec::new(),
            statuses: Vec::new(),
        }
    }
}
