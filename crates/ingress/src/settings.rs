//! What the flags of `holdfast ingress` say.

use crate::Name;
use std::net::IpAddr;

/// Settings of the controller. Names and defaults follow ingress-nginx's flags where it has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--controller-class`: the value of `spec.controller` of the `IngressClass`es that are served.
    pub controller_class: String,
    /// `--ingress-class`: the class of the old annotation `kubernetes.io/ingress.class`.
    pub ingress_class: String,
    /// `--ingress-class-by-name`: an `IngressClass` of that name is served, whichever controller it names.
    pub ingress_class_by_name: bool,
    /// `--watch-ingress-without-class`.
    pub watch_ingress_without_class: bool,
    /// `--gateway-controller-name`: of the `GatewayClass`es that are served.
    pub gateway_controller: String,
    /// `--configmap`: the settings of all.
    pub config_map: Option<Name>,
    /// `--tcp-services-configmap`.
    pub tcp_services: Option<Name>,
    /// `--udp-services-configmap`.
    pub udp_services: Option<Name>,
    /// `--default-backend-service`.
    pub default_backend: Option<Name>,
    /// `--default-ssl-certificate`: a Secret.
    pub default_certificate: Option<Name>,
    /// `--http-port`.
    pub http_port: u16,
    /// `--https-port`.
    pub https_port: u16,
    /// `--listen-address`: where listeners are opened; empty: all addresses, IPv4 and IPv6.
    pub listen_addresses: Vec<IpAddr>,
    /// Name servers for `ExternalName`s and for hosts in annotations, as `/etc/resolv.conf` names them. Without any, such
    /// names have no addresses.
    pub resolvers: Vec<IpAddr>,
    /// `--annotations-prefix`.
    pub annotations_prefix: String,
    /// `--enable-ssl-passthrough`.
    pub ssl_passthrough: bool,
    /// `--disable-catch-all`: Ingresses without a host are refused.
    pub disable_catch_all: bool,
    /// `--allow-snippet-annotations`: snippets are read, checked and confined.
    pub allow_snippets: bool,
    /// `--acme-directory`: the controller orders certificates for Ingresses that ask for them.
    pub acme: bool,
    /// `--gateway-address`: addresses of Gateways.
    pub gateway_addresses: GatewayAddresses,
    /// The number of worker threads; `None`: one for each core.
    pub workers: Option<u16>,
}

/// At which addresses Gateways are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayAddresses {
    /// All Gateways have the same addresses, as behind one Service; listeners are opened as `listen_addresses` says.
    Shared(Vec<IpAddr>),
    /// Each Gateway gets one address of its own, in the order of age, and opens its listeners at it alone. Then two
    /// Gateways can have the same port and hostname.
    Pool(Vec<IpAddr>),
}

impl Default for GatewayAddresses {
    fn default() -> Self {
        Self::Shared(Vec::new())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_class: "holdfast.dev/ingress".into(),
            ingress_class: "holdfast".into(),
            ingress_class_by_name: false,
            watch_ingress_without_class: false,
            gateway_controller: "holdfast.dev/gateway".into(),
            config_map: None,
            tcp_services: None,
            udp_services: None,
            default_backend: None,
            default_certificate: None,
            http_port: 80,
            https_port: 443,
            listen_addresses: Vec::new(),
            resolvers: Vec::new(),
            annotations_prefix: "nginx.ingress.kubernetes.io".into(),
            ssl_passthrough: false,
            disable_catch_all: false,
            allow_snippets: false,
            acme: false,
            gateway_addresses: GatewayAddresses::default(),
            workers: None,
        }
    }
}
