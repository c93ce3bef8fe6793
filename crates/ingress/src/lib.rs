//! Kubernetes objects become a configuration: Ingress (with ingress-nginx's annotations and ConfigMap keys) and the
//! Gateway API. Pure: a [`Cluster`] of objects and [`Settings`] come in; a [`Translation`] goes out: the tree of a
//! configuration, the upstreams that follow Services, findings for each object, and statuses. The crate `kubernetes`
//! reads the objects and writes the statuses; the program serves the tree.
//!
//! Every word of the tree points to the object that it comes from, so that an error of the configuration language names
//! the object, and [`translate`] leaves that object out, alone.

pub mod admission;
pub mod annotations;
mod assembly;
pub mod cluster;
pub mod config_map;
mod from_gateway;
mod from_ingress;
pub mod migrate;
pub mod name;
pub mod objects;
pub mod pages;
mod rounds;
pub mod settings;
mod snippet;
pub mod translation;
pub mod tree;
mod value;

pub use assembly::{DEFAULT_CERTIFICATE, DEFAULT_KEY};
pub use cluster::Cluster;
pub use from_gateway::SUPPORTED_FEATURES;
pub use from_ingress::Memory;
pub use name::{Kind, Name, ObjectName};
pub use settings::{GatewayAddresses, Settings};
pub use translation::{CertificateWish, EndpointSource, FileSource, Finding, Level, StatusWish, Translation};

/// Makes the configuration of a cluster.
pub fn translate(cluster: &Cluster, settings: &Settings) -> Translation {
    rounds::translate(cluster, settings)
}

/// The same without the checks of the configuration language, which take as long as the translation: for a caller that checks the
/// tree itself, and calls [`translate`] if there is an error.
pub fn draft(cluster: &Cluster, settings: &Settings) -> Translation {
    rounds::draft(cluster, settings)
}

/// The same for one of several clusters that follow each other: what was made of objects that are the same is used again. The
/// translation is that of [`draft`], but for the numbers of its sources.
pub fn draft_reusing(cluster: &Cluster, settings: &Settings, memory: &mut Memory) -> Translation {
    rounds::draft_reusing(cluster, settings, memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cluster_gives_a_configuration_without_errors() {
        let translation = translate(&Cluster::default(), &Settings::default());
        let (model, found) = conf::model::lower(&translation.tree, &translation.sources);
        assert!(found.is_empty(), "{found:?}");
        assert!(model.http.is_some());
    }
}
