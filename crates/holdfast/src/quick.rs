//! Quick mode: makes an nginx.conf from two addresses. The printed text is the one that is loaded, so users can start
//! their own configuration with it. Text in, text out.

/// Name of the main file in messages.
pub(crate) const NAME: &str = "/quick-mode/nginx.conf";

/// Facts about the machine that the configuration depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here {
    /// The user who starts it.
    pub(crate) user: u32,
    /// The number that `worker_processes auto` gives.
    pub(crate) workers: u64,
    /// Descriptors allowed for the process.
    pub(crate) descriptors: u64,
}

/// An instance made from two addresses.
#[derive(Debug)]
pub(crate) struct Quick {
    /// Its nginx.conf.
    pub(crate) text: String,
    /// Printed once it serves.
    pub(crate) welcome: String,
}

/// Most client connections of each worker.
const CONNECTIONS_MAX: u64 = 16_384;
/// Descriptors that are not connections: logs, listeners, event loops.
const DESCRIPTORS_BESIDE: u64 = 64;

impl Quick {
    /// Passes everything that arrives at `listen` to `to`, for an instance that this user starts.
    pub(crate) fn new(to: &str, listen: &str, here: &Here) -> Result<Self, String> {
        let (to, listen) = (upstream(to), listener(listen));
        for (flag, value) in [("--to", &to), ("--listen", &listen)] {
            // These characters would end the word in the text, or begin another.
            let bad = |letter: char| letter.is_whitespace() || letter.is_control() || "\"'\\;{}$#".contains(letter);
            if value.is_empty() || value.contains(bad) {
                return Err(format!(
                    "{flag} \"{value}\" is not an address: `127.0.0.1:3000`, `3000`, `unix:/run/app.sock`"
                ));
            }
        }
        let page = page(&listen).map_or_else(|| format!("listens on {listen}"), |page| format!("open {page}"));
        let welcome = format!("holdfast: {page} (requests go to {to}); Ctrl-C ends it");
        Ok(Self { text: configuration(&to, &listen, here), welcome })
    }
}

fn configuration(to: &str, listen: &str, here: &Here) -> String {
    let user = here.user;
    // A proxied connection takes two descriptors; with this limit there is no warning.
    let granted = here.descriptors.saturating_sub(DESCRIPTORS_BESIDE) / (2 * here.workers.max(1));
    let connections = granted.clamp(1, CONNECTIONS_MAX);
    format!(
        "\
# What `holdfast serve --to {to} --listen {listen}` means.
daemon off;
master_process off;
worker_processes auto;
error_log stderr notice;
pid /dev/null;
events {{
    worker_connections {connections};
}}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_temp_path /tmp/holdfast-{user};
    # Idle connections are kept and used again: what nginx does by default since 1.29.7.
    upstream app {{
        server {to};
    }}
    server {{
        listen {listen};
        location / {{
            proxy_pass http://app;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            # WebSocket. Upgrade is not sent where the client sent none, and alone the other asks for nothing.
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }}
    }}
}}
"
    )
}

/// A port alone means loopback: others get access only if the user names an address.
fn listener(listen: &str) -> String {
    let is_port = !listen.is_empty() && listen.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { format!("127.0.0.1:{listen}") } else { listen.to_owned() }
}

/// The URL to open in a browser on this machine. A Unix socket has none, and a port chosen by the kernel is not known.
fn page(listen: &str) -> Option<String> {
    let (host, port) = listen.rsplit_once(':').filter(|_| !listen.starts_with("unix:"))?;
    let host = if matches!(host, "*" | "0.0.0.0" | "[::]") { "localhost" } else { host };
    match port.parse::<u16>().ok()? {
        0 => None,
        80 => Some(format!("http://{host}/")),
        port => Some(format!("http://{host}:{port}/")),
    }
}

/// An address in the form of an upstream's `server`; the URL of a browser is accepted too.
fn upstream(to: &str) -> String {
    let address = to.strip_prefix("http://").unwrap_or(to).trim_end_matches('/');
    if !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("127.0.0.1:{address}");
    }
    address.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here { user: 0, workers: 2, descriptors: 20_000 };

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (to, server) in [
            ("127.0.0.1:3000", "server 127.0.0.1:3000;"),
            ("3000", "server 127.0.0.1:3000;"),
            ("http://localhost:3000/", "server localhost:3000;"),
            ("unix:/run/app.sock", "server unix:/run/app.sock;"),
        ] {
            let text = Quick::new(to, "8080", &HERE).expect("an address").text;
            assert!(text.contains(server) && text.contains("listen 127.0.0.1:8080;"), "{text}");
        }
    }

    #[test]
    fn prints_the_page_to_open() {
        for (listen, said) in [
            ("8080", "open http://127.0.0.1:8080/ "),
            ("*:80", "open http://localhost/ "),
            ("[::]:8080", "open http://localhost:8080/ "),
            ("10.0.0.1:8080", "open http://10.0.0.1:8080/ "),
            ("unix:/run/h.sock", "listens on unix:/run/h.sock "),
            ("127.0.0.1:0", "listens on 127.0.0.1:0 "),
        ] {
            let quick = Quick::new("3000", listen, &HERE).expect("an address");
            assert!(quick.welcome.contains(said) && quick.welcome.contains("127.0.0.1:3000"), "{}", quick.welcome);
        }
    }

    #[test]
    fn connections_fit_the_descriptors() {
        let text = |descriptors| Quick::new("1", "2", &Here { descriptors, ..HERE }).expect("addresses").text;
        assert!(text(20_000).contains("worker_connections 4984;"), "{}", text(20_000));
        assert!(text(1_000_000).contains("worker_connections 16384;") && text(0).contains("worker_connections 1;"));
    }

    #[test]
    fn value_cannot_inject_directives() {
        for bad in ["", "a;b", "a b", "{", "a\n", "$host", "#"] {
            assert!(Quick::new(bad, "8080", &HERE).is_err(), "{bad:?}");
            assert!(Quick::new("3000", bad, &HERE).is_err(), "{bad:?}");
        }
    }
}
