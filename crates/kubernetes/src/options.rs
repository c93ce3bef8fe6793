//! The settings of the API server's side.

use crate::acme::AcmeOptions;
use crate::selector::Selector;
use ingress::{Name, Settings};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings; the flags of `holdfast ingress` fill them.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `--kubeconfig`; without it and `apiserver_host`, the credentials of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// `--apiserver-host`.
    pub apiserver_host: Option<String>,
    /// `--watch-namespace`: only objects of this namespace; `None`: of all.
    pub watch_namespace: Option<String>,
    /// `--watch-namespace-selector`: only objects of namespaces with these labels.
    pub namespace_selector: Selector,
    /// The prefix of annotations, which may name Secrets.
    pub annotations_prefix: String,
    /// The name of the own controller in statuses of the Gateway API.
    pub gateway_controller: String,
    /// The name of the own controller in Events.
    pub reporting_controller: String,
    /// `ConfigMap`s that flags name.
    pub config_maps: Vec<Name>,
    /// Secrets that flags name.
    pub secrets: Vec<Name>,
    /// `--publish-service`.
    pub publish_service: Option<Name>,
    /// `--publish-status-address`.
    pub publish_addresses: Vec<String>,
    /// `--gateway-addresses`; empty: those of Ingresses.
    pub gateway_addresses: Vec<String>,
    /// `--update-status`.
    pub update_status: bool,
    /// `--election-id`: the name of the Lease.
    pub election_id: String,
    /// The namespace of the Lease: that of the Pod.
    pub namespace: Option<String>,
    /// The name of the replica: that of the Pod.
    pub identity: String,
    /// The node that the Pod runs on; its zone is that of the replica.
    pub node: Option<String>,
    /// `--state-directory`.
    pub state_directory: Option<PathBuf>,
    /// Where `/healthz`, `/readyz` and `/metrics` are.
    pub health_address: Option<SocketAddr>,
    /// `--health-check-path`.
    pub health_path: String,
    /// The admission webhook; `None`: there is none.
    pub webhook: Option<WebhookOptions>,
    /// Certificates that this controller orders; `None`: it orders none.
    pub acme: Option<AcmeOptions>,
}

/// Settings of the admission webhook.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// `--validating-webhook`.
    pub address: SocketAddr,
    /// `--validating-webhook-certificate`: PEM, and read again when it changes.
    pub certificate: PathBuf,
    /// `--validating-webhook-key`: the same.
    pub key: PathBuf,
    /// How Ingresses are translated.
    pub settings: Settings,
}

/// How much a line of the log matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Notice,
    /// Something does not work now.
    Warning,
    /// Something does not work until someone acts.
    Error,
}

/// The program that serves what is read.
pub trait Host: Send + Sync + 'static {
    /// Objects changed, and a new configuration may be due.
    fn objects_changed(&self);
    /// The endpoints of a name are these from now on.
    fn endpoints(&self, name: &str, addresses: &[SocketAddr]);
    /// An authority that asks for one of these tokens gets its key authorization, and no other token is answered.
    fn challenges(&self, answers: &BTreeMap<String, String>);
    /// The figures of the data plane as Prometheus reads them.
    fn metrics(&self) -> Vec<u8>;
    /// Writes a line to the error log.
    fn log(&self, severity: Severity, message: &str);
}
