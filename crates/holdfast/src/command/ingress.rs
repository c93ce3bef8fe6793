//! `holdfast ingress`: the controller for Kubernetes. Flags have the names and meanings of ingress-nginx's where it has
//! them, so that a Deployment needs another image and no other arguments.

use crate::serve::cluster::{self, AcmeStart, Start};
use crate::{exit, report};
use ingress::{GatewayAddresses, Name, Settings};
use kubernetes::{Options, Selector, WebhookOptions};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Serve a Kubernetes cluster's Ingress and Gateway API objects
///
/// Controller and proxy in one process. It follows the API server, and changes of endpoints and certificates need no reload.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(super) struct Args {
    /// Credentials of the API server; without it, those of the Pod
    #[arg(long, value_name = "FILE", help_heading = "API server")]
    kubeconfig: Option<PathBuf>,
    /// Address of the API server, such as <https://127.0.0.1:6443>
    #[arg(long, value_name = "URL", help_heading = "API server")]
    apiserver_host: Option<String>,
    /// Serve only objects of this namespace
    #[arg(long, value_name = "NAMESPACE", help_heading = "API server")]
    watch_namespace: Option<String>,
    /// Serve only objects of namespaces with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "", value_parser = Selector::parse, help_heading = "API server")]
    watch_namespace_selector: Selector,
    /// Keep the last known state here, for a restart while the API server is away: a memory-backed emptyDir, as it has Secrets
    #[arg(long, value_name = "DIR", help_heading = "API server")]
    state_directory: Option<PathBuf>,

    /// Serve IngressClasses that name this controller
    #[arg(long, value_name = "NAME", default_value_t = Settings::default().controller_class, help_heading = "Objects")]
    controller_class: String,
    /// Serve Ingresses with this class in the annotation kubernetes.io/ingress.class
    #[arg(long, value_name = "CLASS", default_value_t = Settings::default().ingress_class, help_heading = "Objects")]
    ingress_class: String,
    /// Serve the IngressClass with the name of --ingress-class, whichever controller it names
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Objects")]
    ingress_class_by_name: bool,
    /// Serve Ingresses without a class
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Objects")]
    watch_ingress_without_class: bool,
    /// Serve every `GatewayClass` that names this controller
    #[arg(long, value_name = "NAME", default_value_t = Settings::default().gateway_controller, help_heading = "Objects")]
    gateway_controller_name: String,
    /// Settings of all Ingresses: a ConfigMap
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Objects")]
    configmap: Option<Name>,
    /// TCP services: a ConfigMap
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Objects")]
    tcp_services_configmap: Option<Name>,
    /// UDP services: a ConfigMap
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Objects")]
    udp_services_configmap: Option<Name>,
    /// The Service for requests that no rule matches
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Objects")]
    default_backend_service: Option<Name>,
    /// The certificate for hosts without one: a Secret; without it, one is made at the start
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Objects")]
    default_ssl_certificate: Option<Name>,
    /// The prefix of annotations
    #[arg(long, value_name = "PREFIX", default_value_t = Settings::default().annotations_prefix, help_heading = "Objects")]
    annotations_prefix: String,
    /// Pass TLS on to Services whose Ingress says so
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Objects")]
    enable_ssl_passthrough: bool,
    /// Refuse Ingresses without a host
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Objects")]
    disable_catch_all: bool,
    /// Read snippets in annotations: they are checked and confined
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Objects")]
    allow_snippet_annotations: bool,

    /// Port for HTTP
    #[arg(long, value_name = "PORT", default_value = "80", value_parser = port, help_heading = "Listeners")]
    http_port: u16,
    /// Port for HTTPS
    #[arg(long, value_name = "PORT", default_value = "443", value_parser = port, help_heading = "Listeners")]
    https_port: u16,
    /// Listen on these addresses; without it, on all
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Listeners")]
    listen_address: Vec<IpAddr>,
    /// Port for /healthz, /readyz and /metrics
    #[arg(long, value_name = "PORT", default_value = "10254", value_parser = port, help_heading = "Listeners")]
    healthz_port: u16,
    /// Address for /healthz, /readyz and /metrics; without it, all
    #[arg(long, value_name = "ADDRESS", help_heading = "Listeners")]
    healthz_host: Option<IpAddr>,
    /// A further path that answers as /healthz does
    #[arg(long, value_name = "PATH", default_value = "/healthz", help_heading = "Listeners")]
    health_check_path: String,
    /// Worker threads; without it, one for each processor
    #[arg(long, value_name = "COUNT", value_parser = crate::typed::small, help_heading = "Listeners")]
    workers: Option<u32>,

    /// Write the addresses of this Service to the status of Ingresses
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name, help_heading = "Status")]
    publish_service: Option<Name>,
    /// Write these addresses to the status of Ingresses
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Status")]
    publish_status_address: Vec<String>,
    /// Write these addresses to the status of Gateways; without it, those of Ingresses
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = "Status")]
    gateway_addresses: Vec<String>,
    /// Give each Gateway one of these addresses and listen there. Ingresses are then served at --listen-address, because a
    /// port that is open at all addresses cannot be opened at one of them
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        conflicts_with = "gateway_addresses",
        requires = "listen_address",
        help_heading = "Status"
    )]
    gateway_address_pool: Vec<IpAddr>,
    /// Write statuses and Events, if this replica leads
    #[arg(long, default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Status")]
    update_status: bool,
    /// The Lease by which replicas agree on a leader
    #[arg(long, value_name = "NAME", default_value = "holdfast-ingress-leader", help_heading = "Status")]
    election_id: String,

    /// Address of the admission webhook, such as :8443, which reviews Ingresses and routes before they are stored; without it, there is none
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true, value_parser = webhook, help_heading = "Admission webhook")]
    validating_webhook: Listening,
    /// Its certificate, in PEM; read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Admission webhook"
    )]
    validating_webhook_certificate: OsString,
    /// The key of its certificate
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Admission webhook"
    )]
    validating_webhook_key: OsString,

    /// Order certificates for Ingresses that ask for them: the directory of an authority that speaks ACME, such as
    /// <https://acme-v02.api.letsencrypt.org/directory>
    #[arg(long, value_name = "URL", value_parser = directory, help_heading = "Certificates by ACME")]
    acme_directory: Option<String>,
    /// Where the authority can reach the operator; an address without a scheme is mailto:
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires = "acme_directory",
        help_heading = "Certificates by ACME"
    )]
    acme_contact: Vec<String>,
    /// Accept the authority's terms of service
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, help_heading = "Certificates by ACME")]
    acme_accept_terms: bool,
    /// PEM file with CAs to trust for the ACME server; default: the system's
    #[arg(long, value_name = "FILE", requires = "acme_directory", help_heading = "Certificates by ACME")]
    acme_trusted_certificate: Option<PathBuf>,
    /// Secret for the ACME account, in the namespace of the Pod; challenges are in NAME-challenges
    #[arg(long, value_name = "NAME", default_value = "holdfast-acme", value_parser = secret, help_heading = "Certificates by ACME")]
    acme_secret: String,

    /// Time from SIGTERM to the drain; /readyz already fails
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = crate::typed::duration, help_heading = "End")]
    shutdown_grace_period: Duration,
    /// Time from the drain to the end; open requests and tunnels may finish
    #[arg(long, value_name = "TIME", default_value = "240s", value_parser = crate::typed::duration, help_heading = "End")]
    worker_shutdown_timeout: Duration,

    /// Flags of ingress-nginx without effect here, with a value
    #[arg(long = "v", short = 'v', value_name = "VALUE", hide = true, aliases = WITH_VALUE)]
    without_effect: Vec<String>,
    /// The same without one
    #[arg(long = "enable-metrics", value_name = "VALUE", hide = true, aliases = SWITCHES, default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    switched_without_effect: Vec<String>,
}

/// Flags of ingress-nginx that have a value and no effect here.
const WITH_VALUE: [&str; 28] = [
    "bucket-factor",
    "certificate-authority",
    "default-server-port",
    "dynamic-configuration-retries",
    "election-ttl",
    "exclude-socket-metrics",
    "internal-logger-address",
    "kubelet-timeout",
    "length-buckets",
    "max-buckets",
    "maxmind-edition-ids",
    "maxmind-license-key",
    "maxmind-mirror",
    "maxmind-retries-count",
    "maxmind-retries-timeout",
    "monitor-max-batch-size",
    "nginx-configuration",
    "post-shutdown-grace-period",
    "profiler-address",
    "profiler-port",
    "size-buckets",
    "ssl-passthrough-proxy-port",
    "status-port",
    "status-update-interval",
    "stream-port",
    "sync-period",
    "sync-rate-limit",
    "time-buckets",
];

/// Switches of ingress-nginx without effect here.
const SWITCHES: [&str; 16] = [
    "alsologtostderr",
    "deep-inspect",
    "disable-full-test",
    "disable-leader-election",
    "disable-svc-external-name",
    "disable-sync-events",
    "enable-annotation-validation",
    "enable-ssl-chain-completion",
    "enable-topology-aware-routing",
    "logtostderr",
    "metrics-per-host",
    "metrics-per-undefined-host",
    "profiling",
    "report-node-internal-ip-address",
    "report-status-classes",
    "update-status-on-shutdown",
];

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> u8 {
    for note in notes(std::env::args_os()) {
        report::complain(&note);
    }
    if args.health_check_path.is_empty() || !args.health_check_path.starts_with('/') {
        report::say("holdfast: --health-check-path begins with /");
        return exit::USAGE;
    }
    let files = [&args.validating_webhook_certificate, &args.validating_webhook_key];
    if args.validating_webhook.0.is_some() && files.into_iter().any(|file| file.is_empty()) {
        report::say(
            "holdfast: --validating-webhook needs --validating-webhook-certificate and --validating-webhook-key",
        );
        return exit::USAGE;
    }
    if args.acme_directory.is_some() && !args.update_status {
        report::say("holdfast: --acme-directory needs --update-status, because only a leader orders");
        return exit::USAGE;
    }
    cluster::run(args.start(|name| std::env::var(name).ok().filter(|value| !value.is_empty())))
}

/// Notes about flags without effect.
fn notes(words: impl Iterator<Item = OsString>) -> Vec<String> {
    let known: Vec<&str> = WITH_VALUE.iter().chain(&SWITCHES).copied().chain(["v", "enable-metrics"]).collect();
    let note = |word: OsString| {
        let word = word.to_string_lossy().into_owned();
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let is_one = word.starts_with('-') && known.contains(&name);
        is_one.then(|| {
            format!("[notice] --{name} has no effect: it is a flag of ingress-nginx that Holdfast does not need")
        })
    };
    words.filter_map(note).collect()
}

impl Args {
    fn start(&self, environment: impl Fn(&str) -> Option<String>) -> Start {
        let maps = [&self.configmap, &self.tcp_services_configmap, &self.udp_services_configmap];
        let health = SocketAddr::new(self.healthz_host.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), self.healthz_port);
        let settings = self.settings();
        let webhook = self.validating_webhook.0.map(|address| WebhookOptions {
            address,
            certificate: self.validating_webhook_certificate.clone().into(),
            key: self.validating_webhook_key.clone().into(),
            settings: settings.clone(),
        });
        let options = Options {
            kubeconfig: self.kubeconfig.clone(),
            apiserver_host: self.apiserver_host.clone(),
            watch_namespace: self.watch_namespace.clone().filter(|namespace| !namespace.is_empty()),
            namespace_selector: self.watch_namespace_selector.clone(),
            annotations_prefix: self.annotations_prefix.clone(),
            gateway_controller: self.gateway_controller_name.clone(),
            reporting_controller: self.controller_class.clone(),
            config_maps: maps.into_iter().flatten().cloned().collect(),
            secrets: self.default_ssl_certificate.iter().cloned().collect(),
            publish_service: self.publish_service.clone(),
            publish_addresses: self.publish_status_address.clone(),
            gateway_addresses: self.gateway_addresses.clone(),
            update_status: self.update_status,
            election_id: self.election_id.clone(),
            namespace: environment("POD_NAMESPACE"),
            identity: environment("POD_NAME")
                .unwrap_or_else(|| format!("{}_{}", crate::verdict::hostname(), std::process::id())),
            node: environment("NODE_NAME"),
            state_directory: self.state_directory.clone(),
            health_address: Some(health),
            health_path: self.health_check_path.clone(),
            webhook,
            // Made from the settings below when it starts.
            acme: None,
        };
        let acme = self.acme_directory.clone().map(|directory| AcmeStart {
            directory,
            contacts: self.acme_contact.clone(),
            accepts_terms: self.acme_accept_terms,
            trusted: self.acme_trusted_certificate.clone(),
            secret: self.acme_secret.clone(),
        });
        Start {
            settings,
            options,
            acme,
            grace: self.shutdown_grace_period,
            shutdown_timeout: self.worker_shutdown_timeout,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            controller_class: self.controller_class.clone(),
            ingress_class: self.ingress_class.clone(),
            ingress_class_by_name: self.ingress_class_by_name,
            watch_ingress_without_class: self.watch_ingress_without_class,
            gateway_controller: self.gateway_controller_name.clone(),
            config_map: self.configmap.clone(),
            tcp_services: self.tcp_services_configmap.clone(),
            udp_services: self.udp_services_configmap.clone(),
            default_backend: self.default_backend_service.clone(),
            default_certificate: self.default_ssl_certificate.clone(),
            http_port: self.http_port,
            https_port: self.https_port,
            listen_addresses: self.listen_address.clone(),
            annotations_prefix: self.annotations_prefix.clone(),
            ssl_passthrough: self.enable_ssl_passthrough,
            disable_catch_all: self.disable_catch_all,
            allow_snippets: self.allow_snippet_annotations,
            acme: self.acme_directory.is_some(),
            resolvers: Vec::new(),
            gateway_addresses: self.addresses_of_gateways(),
            workers: self.workers.map(|workers| u16::try_from(workers).unwrap_or(u16::MAX)),
        }
    }
}

impl Args {
    /// Host names among the shared addresses are for the status only.
    fn addresses_of_gateways(&self) -> GatewayAddresses {
        if self.gateway_address_pool.is_empty() {
            GatewayAddresses::Shared(self.gateway_addresses.iter().filter_map(|text| text.parse().ok()).collect())
        } else {
            GatewayAddresses::Pool(self.gateway_address_pool.clone())
        }
    }
}

/// `NAMESPACE/NAME`
fn name(text: &str) -> Result<Name, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(Name::new(namespace, name))
        }
        _ => Err("NAMESPACE/NAME".to_owned()),
    }
}

/// The URL of an authority's directory.
fn directory(text: &str) -> Result<String, String> {
    let is_url =
        text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
    if is_url { Ok(text.to_owned()) } else { Err("a URL that begins with https://".to_owned()) }
}

/// The name of a Secret, with room for a suffix.
fn secret(text: &str) -> Result<String, String> {
    const BYTES_MAX: usize = 200;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = !text.is_empty() && text.len() <= BYTES_MAX && text.bytes().all(is_plain);
    let is_name = is_name && !text.starts_with('-') && !text.ends_with('-');
    if is_name { Ok(text.to_owned()) } else { Err("a name of small letters, digits and -".to_owned()) }
}

/// An address to listen at; none for an empty text, as in ingress-nginx.
#[derive(Debug, Clone, Copy)]
struct Listening(Option<SocketAddr>);

/// `:PORT` or `ADDRESS:PORT`
fn webhook(text: &str) -> Result<Listening, String> {
    let all = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let address = match text.strip_prefix(':') {
        _ if text.is_empty() => return Ok(Listening(None)),
        Some(number) => port(number).map(|number| SocketAddr::new(all, number)),
        None => text.parse().map_err(|_| "an address and a port, such as :8443 or 127.0.0.1:8443".to_owned()),
    };
    address.map(|address| Listening(Some(address)))
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| "a port: 1 to 65535".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Args {
        Cli::try_parse_from(["ingress"].iter().chain(words)).expect("valid flags").args
    }

    #[test]
    fn the_arguments_of_an_ingress_nginx_deployment_are_accepted() {
        let args = parse(&[
            "--publish-service=ingress-nginx/ingress-nginx-controller",
            "--election-id=ingress-nginx-leader",
            "--controller-class=k8s.io/ingress-nginx",
            "--ingress-class=nginx",
            "--configmap=ingress-nginx/ingress-nginx-controller",
            "--validating-webhook=:8443",
            "--validating-webhook-certificate=/usr/local/certificates/cert",
            "--validating-webhook-key=/usr/local/certificates/key",
            "--enable-metrics=false",
            "--watch-ingress-without-class",
            "--update-status=false",
            "--v=2",
            "--shutdown-grace-period=30",
        ]);
        let start = args.start(|name| (name == "NODE_NAME").then(|| "node-1".to_owned()));
        assert_eq!(start.settings.controller_class, "k8s.io/ingress-nginx");
        assert!(start.settings.watch_ingress_without_class && !start.options.update_status);
        assert_eq!(start.grace, Duration::from_secs(30));
        assert_eq!(start.options.config_maps, [Name::new("ingress-nginx", "ingress-nginx-controller")]);
        assert_eq!(start.options.node.as_deref(), Some("node-1"));
        let webhook = start.options.webhook.expect("a webhook");
        assert_eq!(webhook.address.to_string(), "[::]:8443");
        assert_eq!(webhook.key.to_str(), Some("/usr/local/certificates/key"));
        assert_eq!(webhook.settings, start.settings);
    }

    #[test]
    fn without_an_address_there_is_no_webhook() {
        for words in
            [&[][..], &["--validating-webhook="], &["--validating-webhook-key=/a", "--validating-webhook-certificate="]]
        {
            assert!(parse(words).start(|_| None).options.webhook.is_none(), "{words:?}");
        }
        let address = |word| parse(&[word]).validating_webhook.0.expect("an address").to_string();
        assert_eq!(address("--validating-webhook=127.0.0.1:8443"), "127.0.0.1:8443");
        assert_eq!(address("--validating-webhook=[::1]:1"), "[::1]:1");
    }

    #[test]
    fn an_authority_has_defaults_and_without_one_nothing_is_ordered() {
        let start = parse(&[]).start(|_| None);
        assert!(start.acme.is_none() && !start.settings.acme);
        let words = ["--acme-directory=https://ca.test/dir", "--acme-contact=a@b.test,c@d.test", "--acme-accept-terms"];
        let start = parse(&words).start(|_| None);
        let expected = AcmeStart {
            directory: "https://ca.test/dir".into(),
            contacts: vec!["a@b.test".into(), "c@d.test".into()],
            accepts_terms: true,
            trusted: None,
            secret: "holdfast-acme".into(),
        };
        assert_eq!(start.acme, Some(expected));
        assert!(start.settings.acme);
    }

    #[test]
    fn flags_without_effect_are_named() {
        let words =
            ["holdfast", "ingress", "--v=2", "--profiling=false", "--configmap=a/b", "-v", "3"].map(OsString::from);
        let found = notes(words.into_iter());
        assert_eq!(found.len(), 3);
        assert!(found[0].contains("--v ") && found[1].contains("--profiling "), "{found:?}");
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "--configmap=x",
            "--http-port=0",
            "--http-port=99999",
            "--shutdown-grace-period=x",
            "--listen-address=a",
            "--gateway-address-pool=192.0.2.1",
            "--watch-namespace-selector=a b",
            "--validating-webhook=8443",
            "--validating-webhook=:0",
            "--validating-webhook=host:1",
            "--acme-directory=http://ca.test/dir",
            "--acme-directory=https://",
            "--acme-secret=Big",
            "--acme-contact=a@b.test",
            "--unknown=1",
        ] {
            assert!(Cli::try_parse_from(["ingress", bad]).is_err(), "{bad}");
        }
    }
}
