//! Kubernetes without a cluster: a real API server with etcd and controllers ([`ControlPlane`]), and one machine that turns Pods
//! into processes ([`FakeNode`]), each in a network namespace ([`Network`]). There is no scheduler, no kubelet and no
//! kube-proxy: the node binds Pods to itself, and a gateway takes its endpoints from `EndpointSlice`s.

mod api;
mod container;
mod definitions;
mod environment;
mod files;
mod kubelet;
mod network;
mod node;
mod objects;
mod plane;
mod pod;
mod pod_status;
mod process;
mod relay;
mod services;
mod warden;

pub use api::path;
pub use definitions::Channel;
pub use network::Network;
pub use node::{FakeNode, Image};
pub use objects::Event;
pub use plane::ControlPlane;
pub use services::Endpoint;

use std::time::Duration;

/// The API server starts in seconds; a loaded machine takes longer. Objects that a controller makes come as late.
pub const KUBERNETES_DEADLINE: Duration = Duration::from_mins(1);
