//! Certificate files that clients will refuse, now or soon.

use super::{Needs, Rule, at};
use crate::certificates::{CertificatePair, secure_listeners};
use crate::facts::Facts;
use conf::source::Span;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "certificate-files",
    finds: "certificates that have ended or end soon, are for other names or list none, lack their chain, have weak keys, or do not fit their key",
    needs: Needs::NOTHING,
    why: "Clients refuse such a certificate, and nothing on the server fails. Browsers read host names in subjectAltName only, not in the common name. A server does not start with a key that does not fit. \
        The files are read as they are now; those that variables name are left out.",
    example: "",
    instead: "",
    check,
};

const SIDE_EFFECT: &str = "None: clients that were refused are served.";

fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pair in &facts.certificates {
        for found in &pair.findings {
            let severity = match found.severity {
                tls::Severity::Error => Severity::Error,
                tls::Severity::Warning => Severity::Warning,
            };
            findings.push(of(facts, severity, pair.span, found.text.clone(), found.advice.clone()));
        }
        if let Some(certificate) = pair.facts.as_ref().filter(|certificate| certificate.names.is_empty()) {
            let what = format!("the certificate of {} lists no host names (subjectAltName)", certificate.subject);
            let fix = "get a certificate with the host names as subjectAltName: browsers refuse this one".to_owned();
            findings.push(of(facts, Severity::Warning, pair.span, what, fix));
        }
        if let Some(path) = &pair.unread {
            let what = format!("\"{}\" was not looked at: this user may not read it", path.display());
            let fix = "run `holdfast doctor` as root, or as the user that the server starts as".to_owned();
            findings.push(of(facts, Severity::Note, pair.span, what, fix));
        }
    }
    findings.extend(names(facts));
    findings
}

/// Reports server names that no certificate covers.
fn names(facts: &Facts) -> Vec<Finding> {
    let Some(configuration) = &facts.configuration else { return Vec::new() };
    let (mut findings, mut seen) = (Vec::new(), Vec::new());
    for listen in secure_listeners(configuration) {
        let lines = listen.inherited_all("ssl_certificate");
        let pair_of = |span| facts.certificates.iter().find(|pair: &&CertificatePair| pair.span == span);
        let read: Vec<_> = lines.iter().filter_map(|line| pair_of(line.span)?.facts.as_ref()).collect();
        // A certificate that was not read may have any name; a certificate without names is an old one.
        if read.len() < lines.len() || read.iter().all(|facts| facts.names.is_empty()) {
            continue;
        }
        for line in listen.inherited_all("server_name") {
            let names = line.args.iter().map(|word| word.text().into_owned());
            let is_host =
                |name: &String| name.contains('.') && !name.starts_with(['.', '*', '~']) && !name.ends_with('*');
            let uncovered = |name: &String| !read.iter().any(|facts| facts.is_for(name));
            let missing: Vec<String> = names.filter(is_host).filter(uncovered).collect();
            if missing.is_empty() || seen.contains(&line.span) {
                continue;
            }
            seen.push(line.span);
            let what = format!("no certificate of this server is for {}", missing.join(", "));
            let fix = "get a certificate with these names, or give them to a server of their own".to_owned();
            findings.push(of(facts, Severity::Warning, line.span, what, fix));
        }
    }
    findings
}

fn of(facts: &Facts, severity: Severity, span: Span, what: String, fix: String) -> Finding {
    Finding { side_effect: SIDE_EFFECT.to_owned(), ..at(facts, &RULE, severity, span, what, fix) }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fired, http};
    use super::*;
    use std::fs;
    use testkit::Authority;

    const NOW: i64 = 1_900_000_000;
    const DAY: i64 = 86_400;

    struct Scene {
        folder: tempfile::TempDir,
        authority: Authority,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new("Authority") };
            scene.issue("good", NOW + 90 * DAY);
            scene.issue("late", NOW + 10 * DAY);
            scene.issue("old", NOW - 2 * DAY);
            scene
        }

        fn issue(&self, name: &str, end: i64) {
            let issued = self.authority.issue_with(&["a.test", "*.b.test"], |params| {
                let start = params.not_before;
                params.not_before = start.replace_year(2020).unwrap();
                params.not_after = start + std::time::Duration::from_secs((end - start.unix_timestamp()) as u64);
            });
            issued.write(self.folder.path(), name);
        }

        /// The findings for a server with these names, certificate and key.
        fn found(&self, names: &str, certificate: &str, key: &str) -> Vec<Finding> {
            let at = self.folder.path().display();
            let text = format!(
                "server {{ listen 443 ssl; server_name {names}; ssl_certificate {at}/{certificate}; ssl_certificate_key {at}/{key}; }}"
            );
            let mut facts = http(&text);
            facts.certificates = crate::certificates::read(facts.configuration.as_ref().unwrap(), NOW);
            let findings = check(&facts);
            fired(&findings);
            findings
        }
    }

    fn only(findings: &[Finding], severity: Severity, part: &str) {
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].severity == severity && findings[0].what.contains(part), "{findings:?}");
    }

    #[test]
    fn finds_dates_names_and_keys_that_do_not_fit() {
        let scene = Scene::new();
        assert_eq!(scene.found("a.test x.b.test .a.test ~^c\\.test$ _", "good.crt", "good.key"), []);
        only(&scene.found("a.test", "late.crt", "late.key"), Severity::Warning, "expires in 10 days");
        only(&scene.found("a.test", "old.crt", "old.key"), Severity::Error, "has expired 2 days ago");
        only(&scene.found("c.test a.test", "good.crt", "good.key"), Severity::Warning, "is for c.test");
        only(&scene.found("a.test", "good.crt", "late.key"), Severity::Error, "does not belong");
        only(&scene.found("a.test", "none.crt", "good.key"), Severity::Error, "cannot be read");
        assert_eq!(scene.found("c.test", "$ssl_server_name.crt", "good.key"), [], "handshakes name it");
    }

    #[test]
    fn finds_a_weak_key_and_a_file_without_a_certificate() {
        let scene = Scene::new();
        let mut command = std::process::Command::new(testkit::peer_program("openssl"));
        let path = |name: &str| scene.folder.path().join(name);
        command.args([
            "req",
            "-x509",
            "-newkey",
            "rsa:1024",
            "-nodes",
            "-subj",
            "/CN=a.test",
            "-days",
            "9000",
            "-keyout",
        ]);
        command.arg(path("weak.key")).arg("-out").arg(path("weak.crt"));
        run(&mut command);
        let findings = scene.found("a.test", "weak.crt", "weak.key");
        assert!(findings.iter().any(|finding| finding.what.contains("1024 bits only")), "{findings:?}");
        fs::write(path("empty.crt"), "nothing").unwrap();
        only(&scene.found("a.test", "empty.crt", "good.key"), Severity::Error, "there is no certificate");
    }

    /// Runs openssl; it says a lot on its standard error.
    fn run(command: &mut std::process::Command) {
        assert!(command.stderr(std::process::Stdio::null()).status().unwrap().success(), "{command:?}");
    }

    #[test]
    fn finds_a_certificate_that_is_not_valid_yet() {
        let scene = Scene::new();
        let issued = scene.authority.issue_with(&["a.test"], |params| {
            params.not_before = params.not_before.replace_year(2031).unwrap();
            params.not_after = params.not_before.replace_year(2035).unwrap();
        });
        issued.write(scene.folder.path(), "early");
        only(&scene.found("a.test", "early.crt", "early.key"), Severity::Error, "is not valid before");
    }

    #[test]
    fn finds_chains_in_the_wrong_order_and_without_their_issuer() {
        let scene = Scene::new();
        let middle = scene.authority.under("Middle", |_| ());
        let write = |name: &str, chain: &[&str]| fs::write(scene.folder.path().join(name), chain.concat()).unwrap();
        let leaf = middle.issue(&["a.test"]);
        leaf.write(scene.folder.path(), "leaf");
        write("whole.crt", &[&leaf.chain, &middle.pem(), &scene.authority.pem()]);
        assert_eq!(scene.found("a.test", "whole.crt", "leaf.key"), []);
        write("mixed.crt", &[&leaf.chain, &scene.authority.pem(), &middle.pem()]);
        let mixed = scene.found("a.test", "mixed.crt", "leaf.key");
        assert!(mixed.iter().any(|finding| finding.what.contains("did not issue it")), "{mixed:?}");
        // A public authority says where its certificate is: clients need it.
        let alone = middle.issue_with(&["a.test"], |params| testkit::names_responder(params, 7, "http://ocsp.test"));
        alone.write(scene.folder.path(), "alone");
        only(&scene.found("a.test", "alone.crt", "alone.key"), Severity::Warning, "no intermediate certificate");
    }

    #[test]
    fn finds_a_weak_signature() {
        let scene = Scene::new();
        let at = scene.folder.path();
        fs::write(at.join("ca.pem"), scene.authority.pem()).unwrap();
        fs::write(at.join("ca.key"), scene.authority.key_pem()).unwrap();
        fs::write(at.join("of_leaf"), "subjectAltName=DNS:a.test\n").unwrap();
        let openssl = |arguments: &str| {
            let mut command = std::process::Command::new(testkit::peer_program("openssl"));
            run(command.current_dir(at).args(arguments.split(' ')));
        };
        openssl("req -new -key good.key -subj /CN=a.test -out old.csr");
        let by = "-CA ca.pem -CAkey ca.key -set_serial 7 -days 9000 -extfile of_leaf";
        openssl(&format!("x509 -req -sha1 -in old.csr {by} -out sha1.crt"));
        only(&scene.found("a.test", "sha1.crt", "good.key"), Severity::Error, "signed with SHA-1 or MD5");
    }

    #[test]
    fn finds_a_certificate_without_host_names() {
        let scene = Scene::new();
        scene.authority.issue(&[]).write(scene.folder.path(), "bare");
        let found = scene.found("a.test", "bare.crt", "bare.key");
        only(&found, Severity::Warning, "lists no host names (subjectAltName)");
    }

    #[test]
    fn finds_keys_that_cannot_be_used() {
        let scene = Scene::new();
        let path = |name: &str| scene.folder.path().join(name);
        fs::write(path("no.key"), "nothing").unwrap();
        only(&scene.found("a.test", "good.crt", "no.key"), Severity::Error, "no private key that can be read");
        let mut command = std::process::Command::new(testkit::peer_program("openssl"));
        command.args(["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", "pass:x", "-in"]).arg(path("good.key"));
        run(command.arg("-out").arg(path("old.key")));
        let found = scene.found("a.test", "good.crt", "old.key");
        only(&found, Severity::Error, "encrypted with PBE-SHA1-3DES, which is not supported");
        assert!(found[0].fix.contains("openssl pkcs8 -topk8 -in KEY -out NEW"), "{found:?}");
    }

    #[test]
    fn unreadable_certificate_is_a_note() {
        let scene = Scene::new();
        let text = "server { listen 443 ssl; server_name a.test; ssl_certificate a.crt; ssl_certificate_key a.key; }";
        let mut facts = http(text);
        let span = facts.configuration.as_ref().unwrap().all("ssl_certificate")[0].directive.span;
        // Root may read every file: this is what another user gets.
        let unread = Some(scene.folder.path().join("a.key"));
        facts.certificates = vec![CertificatePair { span, findings: vec![], facts: None, unread }];
        only(&check(&facts), Severity::Note, "was not looked at");
    }
}
