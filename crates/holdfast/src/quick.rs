//! Quick mode: the nginx.conf that two addresses stand for. What is printed is what is loaded, so it is also where a
//! configuration of one's own begins. Text in, text out.

/// What the main file is called in messages.
pub(crate) const NAME: &str = "/quick-mode/nginx.conf";

/// The configuration that passes everything that comes in at `listen` on to `to`, for an instance that this user starts.
pub(crate) fn configuration(to: &str, listen: &str, user: u32) -> Result<String, String> {
    let to = upstream(to);
    for (flag, value) in [("--to", to.as_str()), ("--listen", listen)] {
        // These would end the word in the text, or begin another.
        let bad = |letter: char| letter.is_whitespace() || letter.is_control() || "\"'\\;{}$#".contains(letter);
        if value.is_empty() || value.contains(bad) {
            return Err(format!("{flag} \"{value}\" is no address: `127.0.0.1:3000`, `3000`, `unix:/run/app.sock`"));
        }
    }
    Ok(format!(
        "\
# What `holdfast serve --to {to} --listen {listen}` stands for.
daemon off;
master_process off;
worker_processes auto;
error_log stderr notice;
pid /dev/null;

events {{
    worker_connections 16384;
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
    ))
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

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        for (to, server) in [
            ("127.0.0.1:3000", "server 127.0.0.1:3000;"),
            ("3000", "server 127.0.0.1:3000;"),
            ("http://localhost:3000/", "server localhost:3000;"),
            ("unix:/run/app.sock", "server unix:/run/app.sock;"),
        ] {
            let text = configuration(to, "8080", 0).expect("an address");
            assert!(text.contains(server) && text.contains("listen 8080;"), "{text}");
        }
    }

    #[test]
    fn a_value_cannot_bring_directives_of_its_own() {
        for bad in ["", "a;b", "a b", "{", "a\n", "$host", "#"] {
            assert!(configuration(bad, "8080", 0).is_err(), "{bad:?}");
            assert!(configuration("3000", bad, 0).is_err(), "{bad:?}");
        }
    }
}
