//! What to use in place of a directive that is not supported. The hint of `-t`, the column "instead" of `holdfast migrate`
//! and the reference print these texts. Every row with `Support::No` has one.

use super::{Directive, Module, geoip2};

/// Modules with rows in the table that are no part of nginx; distributions have packages of them.
const THIRD_PARTY: [&str; 7] = [
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_geoip2_module",
    "ngx_stream_geoip2_module",
];

impl Module {
    /// The owner of its directives, as in "it belongs to …".
    pub fn owner(self) -> String {
        if THIRD_PARTY.contains(&self.0) {
            return format!("{}, a module that is no part of nginx", self.0);
        }
        format!("nginx's {}", self.0)
    }
}

/// What to use in place of a directive that is not supported; empty for a supported one.
pub fn instead_of(row: &Directive) -> &'static str {
    match of_name(row) {
        "" => of_module(row.module),
        text => text,
    }
}

/// Lines that do here what an unsupported directive does; `None` if there are none to show.
pub fn lines_instead_of(name: &str) -> Option<&'static str> {
    geoip2::instead_of(name)
}

/// The texts of single directives, where their modules are supported or need several texts.
fn of_name(row: &Directive) -> &'static str {
    match row.name {
        "client_body_early_read" => {
            "the body decides nothing here before the upstream has the request: let the application read it, or let clients \
             repeat the value in a path, an argument or a header field"
        }
        "preferred_chain" => "the chain that the authority offers first is used: take the directive out",
        "read_ahead" => "the kernel alone decides how far it reads ahead: take it out",
        "send_lowat" | "proxy_send_lowat" => "it has no effect on Linux, not in nginx either: take it out",
        "msie_padding" | "msie_refresh" => "it is for Internet Explorer: take it out",
        "post_action" => "`mirror` sends a copy of each request; for the outcome of requests read the access log",
        "zstd_dict_file" => "browsers cannot read such responses: take it out; `zstd` compresses without a dictionary",
        "debug_connection" => "`holdfast explain` and `request_trace_secret` show what happens to one request",
        "debug_points" => "an internal inconsistency is a line in the error log: take it out",
        "timer_resolution" => "the clock is read once for each round of events: take it out",
        "worker_rlimit_core" => "set `LimitCORE=` in the systemd unit, or `ulimit -C` before the start",
        "working_directory" => {
            "set `WorkingDirectory=` in the systemd unit; `kernel.core_pattern` says where core files go"
        }
        "epoll_events" | "worker_aio_requests" => "the event loop has sizes of its own: take it out",
        "proxy_ssl_key_log" => {
            "secrets of TLS sessions are written nowhere; to capture traffic in clear, let a second `server` on the loopback do the TLS"
        }
        _ => "",
    }
}

/// The texts of whole modules.
fn of_module(module: Module) -> &'static str {
    match module.0 {
        "ngx_http_js_module" | "ngx_http_perl_module" => {
            "no scripts run here; `map`, `if`, `rewrite` and `split_clients` do much of what they are used for"
        }
        "ngx_stream_js_module" => {
            "no scripts run here; `map`, `geo` and `split_clients` do much of what they are used for"
        }
        "ngx_http_json_module" => {
            "bodies are not parsed here; `map` and `route_to` choose by paths, arguments and header fields, and the \
             application reads its JSON itself"
        }
        // Its databases have not been published since 2022.
        "ngx_http_geoip_module" | "ngx_stream_geoip_module" => {
            "`geoip2` reads the databases that MaxMind publishes now, and `geo` chooses by networks"
        }
        "ngx_http_browser_module" => "`map $http_user_agent` sets variables by expressions",
        "ngx_http_image_filter_module" => {
            "pass these paths to an image service such as imgproxy by `proxy_pass`, and keep its results with `proxy_cache`"
        }
        "ngx_http_xslt_module" => "transform in the application, or in a service behind `proxy_pass` and `proxy_cache`",
        "ngx_http_mp4_module" | "ngx_http_flv_module" => {
            "players seek by Range requests, which files here answer; for long videos make HLS or DASH segments and serve them as files"
        }
        "ngx_http_dav_module" => "pass the path to a WebDAV server by `proxy_pass`: Apache's mod_dav, rclone or sftpgo",
        "ngx_http_tunnel_module" => {
            "a forward proxy such as Squid answers CONNECT; to lead TCP to fixed places use `stream`"
        }
        "ngx_http_degradation_module" => "`memory_budget` and `max_connections` shed load before memory runs out",
        "ngx_google_perftools_module" => "`perf record -p PID` profiles the process",
        "ngx_devpoll_module" | "ngx_eventport_module" | "ngx_kqueue_module" | "ngx_iocp_module" => {
            "it is for another operating system: take it out"
        }
        name if name.starts_with("ngx_mail_") => {
            "keep `mail` in an nginx beside holdfast; ports that need only TCP or TLS can move to `stream`"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Support, all, rows};

    #[test]
    fn every_unsupported_directive_has_a_text() {
        for row in all() {
            let text = instead_of(row);
            assert!(row.support != Support::No || !text.is_empty(), "{} of {}", row.name, row.module.0);
            assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn directives_in_texts_take_effect() {
        for row in all() {
            for word in instead_of(row).split('`').skip(1).step_by(2) {
                let name = word.split(' ').next().unwrap();
                let are_ours = rows(name).iter().any(|row| row.support != Support::No);
                let is_no_directive =
                    ["$", "holdfast", "ctl", "ulimit", "perf", "kernel."].iter().any(|start| name.starts_with(start))
                        || name.ends_with('=');
                assert!(are_ours || is_no_directive || name == "mail", "{}: {word}", row.name);
            }
        }
    }

    #[test]
    fn a_third_party_is_the_owner_of_its_directives() {
        assert_eq!(rows("mp4")[0].module.owner(), "nginx's ngx_http_mp4_module");
        let owner = rows("zstd_dict_file")[0].module.owner();
        assert_eq!(owner, "ngx_http_zstd_filter_module, a module that is no part of nginx");
        let known: Vec<_> = all().iter().map(|row| row.module.0).collect();
        assert!(THIRD_PARTY.iter().all(|module| known.contains(module)));
    }
}
