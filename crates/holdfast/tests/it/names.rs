//! Names that the real program resolves at run time. The control plane runs in the process that serves, with or without
//! a master, and still works after a reload.

use crate::support::{Instance, until};
use testkit::NameServer;

#[test]
fn child_resolves_names_before_and_after_a_reload() {
    let server = NameServer::script(|question| match &*question.name {
        "app.test" => vec![question.addresses(1, &["127.0.0.1"])],
        _ => vec![question.absent(1)],
    });
    let servers = |text: &str| {
        format!(
            "resolver {} ipv6=off;
             upstream app {{ zone app 64k; server app.test:PORT resolve; }}
             server {{
                 listen 127.0.0.1:PORT;
                 location /inner {{ return 200 {text}; }}
                 location /variable {{ proxy_pass http://$arg_to:PORT/inner; }}
                 location /group {{ proxy_pass http://app/inner; }}
             }}",
            server.address()
        )
    };
    for top in ["", "master_process off;"] {
        let mut instance = Instance::new(top, &servers("first"));
        instance.start();
        for path in ["/variable?to=app.test", "/group"] {
            let answer = instance.fetch(path).expect("an answer");
            assert!(answer.ends_with("first"), "{top} {path}: {answer}");
        }
        assert!(instance.fetch("/variable?to=gone.test").expect("an answer").starts_with("HTTP/1.1 502 "));
        instance.wait_for_line("gone.test could not be resolved (3: Host not found)");
        instance.configure(top, &servers("second"));
        instance.signal("reload");
        until("the new configuration holds", || {
            instance.fetch("/group").is_ok_and(|answer| answer.ends_with("second"))
        });
        instance.signal("quit");
        assert_eq!(instance.wait(), Some(0));
    }
}
