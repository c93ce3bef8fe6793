//! `-v`, `-V`, `-h`: the version in the form that existing tools expect of nginx.

use crate::instance;
use crate::report::say;
use conf::table::{self, Support};
use gateway::NGINX_VERSION;

/// nginx's build options for modules that are not built by default, with their modules.
const WITH: [(&str, &str); 21] = [
    ("http_ssl_module", "ngx_http_ssl_module"),
    ("http_v2_module", "ngx_http_v2_module"),
    ("http_v3_module", "ngx_http_v3_module"),
    ("http_realip_module", "ngx_http_realip_module"),
    ("http_addition_module", "ngx_http_addition_module"),
    ("http_sub_module", "ngx_http_sub_module"),
    ("http_dav_module", "ngx_http_dav_module"),
    ("http_flv_module", "ngx_http_flv_module"),
    ("http_mp4_module", "ngx_http_mp4_module"),
    ("http_gunzip_module", "ngx_http_gunzip_module"),
    ("http_gzip_static_module", "ngx_http_gzip_static_module"),
    ("http_auth_request_module", "ngx_http_auth_request_module"),
    ("http_random_index_module", "ngx_http_random_index_module"),
    ("http_secure_link_module", "ngx_http_secure_link_module"),
    ("http_slice_module", "ngx_http_slice_module"),
    ("http_stub_status_module", "ngx_http_stub_status_module"),
    ("stream", "ngx_stream_core_module"),
    ("stream_ssl_module", "ngx_stream_ssl_module"),
    ("stream_realip_module", "ngx_stream_realip_module"),
    ("stream_ssl_preread_module", "ngx_stream_ssl_preread_module"),
    ("mail", "ngx_mail_core_module"),
];

/// Prints the version to the standard error stream, as nginx does.
pub(crate) fn print(help: bool, configure: bool) {
    let ours = env!("CARGO_PKG_VERSION");
    if configure {
        say(&format!("holdfast {ours}: a reverse proxy that reads nginx.conf; it is not nginx and speaks its dialect"));
        // Tools match this line to its end.
        say(&format!("nginx version: nginx/{NGINX_VERSION}"));
        say(&format!("built in: {}", built_in().join(" ")));
        say(&format!("configure arguments: {}", configure_arguments()));
    } else {
        // In nginx this is the place of the build name.
        say(&format!("nginx version: nginx/{NGINX_VERSION} (holdfast/{ours})"));
    }
    if help {
        say(USAGE);
    }
}

/// The arguments of `configure` for an nginx with our features.
fn configure_arguments() -> String {
    let mut words = vec![
        format!("--prefix={}", instance::PREFIX),
        format!("--conf-path={}", instance::CONF_PATH),
        format!("--pid-path={}", instance::PID_PATH),
        format!("--error-log-path={}/{}", instance::PREFIX, instance::ERROR_LOG),
        format!("--http-log-path={}/logs/access.log", instance::PREFIX),
        format!("--http-client-body-temp-path={}/client_body_temp", instance::PREFIX),
        // Regular expressions are PCRE2, as in nginx.
        "--with-pcre".to_owned(),
        // `aio threads` is accepted: file operations that could block run on threads.
        "--with-threads".to_owned(),
    ];
    words.extend(WITH.iter().filter(|(_, module)| acts(module)).map(|(word, _)| format!("--with-{word}")));
    words.join(" ")
}

/// The nginx modules with a directive that takes effect, without the common prefix of their names.
fn built_in() -> Vec<&'static str> {
    let acting = table::all().iter().filter(|row| takes_effect(row.support));
    let mut modules: Vec<&str> =
        acting.filter_map(|row| row.module.0.strip_prefix("ngx_")?.strip_suffix("_module")).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

/// Whether directives of a module take effect. A module that is only planned is not listed.
fn acts(module: &str) -> bool {
    table::all().iter().any(|row| row.module.0 == module && takes_effect(row.support))
}

fn takes_effect(support: Support) -> bool {
    matches!(support, Support::Yes | Support::With(_))
}

/// The help of nginx's command line.
const USAGE: &str = "\
Usage: holdfast [-hvVtTq] [-c file] [-p prefix] [-e file] [-g directives] [-s signal] [--json]
       holdfast COMMAND …        (see holdfast --help)

Flags are nginx's; they may be joined (-tq), and a value may follow its flag at once (-c/etc/x.conf).

  -c file        read this configuration (default: /etc/holdfast/nginx.conf, else /etc/nginx/nginx.conf)
  -p prefix      take relative paths from here (default: /var/lib/holdfast)
  -g directives  read these global directives before the file
  -e file        log errors here where the configuration names no file; `stderr` for the terminal
  -t             test the configuration and exit
  -T             the same, and print every file that was read
  -q             with -t: say nothing but errors
  --json         with -t: give the verdict as JSON on standard output
  -s signal      tell the running instance: stop, quit, reload or reopen
  -v, -V         print the version; with -V also what is built in
  -h, -?         print this

Exit codes: 0 done, or ended as asked; 1 refused or failed, with the reason on standard error.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_effect_is_claimed() {
        let arguments = configure_arguments();
        assert!(arguments.contains("--with-http_stub_status_module"), "{arguments}");
        assert!(arguments.contains("--with-http_ssl_module"), "{arguments}");
        assert!(!arguments.contains("--with-mail"), "{arguments}");
        let modules = built_in();
        assert!(modules.contains(&"http_proxy") && modules.contains(&"http_limit_req"), "{modules:?}");
        assert!(!modules.iter().any(|module| module.starts_with("mail")), "{modules:?}");
        for (word, module) in WITH {
            assert!(table::all().iter().any(|row| row.module.0 == module), "{word}: {module} is in no row");
        }
    }

    /// Modules that an nginx has without a word for `configure`.
    const WITHOUT: &str = "core event_core epoll http_access http_auth_basic http_autoindex http_browser http_charset \
        http_core http_empty_gif http_fastcgi http_geo http_grpc http_gzip http_headers http_index http_limit_conn \
        http_limit_req http_log http_map http_memcached http_mirror http_proxy http_referer http_rewrite http_scgi \
        http_split_clients http_ssi http_tunnel http_upstream http_userid http_uwsgi stream_access stream_geo \
        stream_limit_conn stream_log stream_map stream_pass stream_proxy stream_return stream_set \
        stream_split_clients stream_upstream";

    /// Modules that are sources of their own, or part of NGINX Plus: `configure` has no `--with-` word for them.
    const APART: &str = "http_acme http_auth_jwt http_brotli_filter http_brotli_static http_geoip2 \
        http_headers_more_filter http_zstd_filter http_zstd_static otel stream_geoip2";

    #[test]
    fn each_module_that_takes_effect_has_its_word() {
        let with = WITH.iter().filter_map(|(_, module)| module.strip_prefix("ngx_")?.strip_suffix("_module"));
        let known: Vec<&str> =
            with.chain(WITHOUT.split_ascii_whitespace()).chain(APART.split_ascii_whitespace()).collect();
        let missing: Vec<&str> = built_in().into_iter().filter(|module| !known.contains(module)).collect();
        assert_eq!(missing, [""; 0], "in none of WITH, WITHOUT and APART");
        let arguments = configure_arguments();
        for word in ["stream_realip_module", "stream_ssl_preread_module", "threads"] {
            assert!(arguments.contains(&format!(" --with-{word}")), "{arguments}");
        }
    }
}
