//! Quick mode: the nginx.conf that two addresses mean. What is printed is what is loaded, so it is also where a
//! configuration of one's own begins. Text in, text out.

/// What the main file is called in messages.
pub(crate) const NAME: &str = "/quick-mode/nginx.conf";

/// What the configuration depends on besides the two addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here {
    /// Who starts it.
    pub(crate) user: u32,
    /// What `worker_processes auto` comes to.
    pub(crate) workers: u64,
    /// Descriptors that the process may have.
    pub(crate) descriptors: u64,
}

/// An instance that two addresses mean.
#[derive(Debug)]
pub(crate) struct Quick {
    /// Its nginx.conf.
    pub(crate) text: String,
    /// What it prints once it serves.
    pub(crate) welcome: String,
}

/// Client connections of each worker where descriptors are plenty.
const CONNECTIONS_MAX: u64 = 16_384;
/// Descriptors that no connection has: logs, listeners, event loops.
const DESCRIPTORS_BESIDE: u64 = 64;

impl Quick {
    /// Passes everything that comes in at `listen` on to `to`, for an instance that this user starts.
    pub(crate) fn new(to: &str, listen: &str, here: &Here) -> Result<Self, String> {
        let (to, listen) = (upstream(to), listener(listen));
        for (flag, value) in [("--to", &to), ("--listen", &listen)] {
            // These would end the word in the text, or begin another.
            let bad = |letter: char| letter.is_whitespace() || letter.is_control() || "\"'\\;{}$#".contains(letter);
            if value.is_empty() || value.contains(bad) {
                return Err(format!(
                    "{flag} \"{value}\" is no address: `127.0.0.1:3000`, `3000`, `unix:/run/app.sock`"
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
    // Two descriptors for a connection that is passed on, so that nothing has to be warned of.
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

/// A port alone is one of loopback: only who names an address opens it to others.
fn listener(listen: &str) -> String {
    let is_port = !listen.is_empty() && listen.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { format!("127.0.0.1:{listen}") } else { listen.to_owned() }
}

/// What to type into a browser on this machine. A socket of a file system has none, and a port that the kernel chooses is not known.
fn page(listen: &str) -> Option<String> {
    let (host, port) = listen.rsplit_once(':').filter(|_| !listen.starts_with("unix:"))?;
    let host = if matches!(host, "*" | "0.0.0.0" | "[::]") { "localhost" } else { host };
    match port.parse::<u16>().ok()? {
        0 => None,
        80 => Some(format!("http://{host}/")),
        port => Some(format!("http://{host}:{port}/")),
    }
}

/// An address as `server` of an upstream group takes it: what a browser's address bar holds is understood too.
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
    fn a_value_cannot_bring_directives_of_its_own() {
        for bad in ["", "a;b", "a b", "{", "a\n", "$host", "#"] {
            assert!(Quick::new(bad, "8080", &HERE).is_err(), "{bad:?}");
            assert!(Quick::new("3000", bad, &HERE).is_err(), "{bad:?}");
        }
    }
}
