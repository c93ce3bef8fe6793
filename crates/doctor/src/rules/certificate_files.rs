//! Certificate files that clients will refuse, now or soon.

use super::{Needs, Rule, at};
use crate::certificates::{CertificatePair, secure_listeners};
use crate::facts::Facts;
use conf::source::Span;
use report::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    name: "certificate-files",
    finds: "certificates that have ended or end soon, are for other names, lack their chain, have weak keys, or do not fit their key",
    needs: Needs::NOTHING,
    why: "Clients refuse such a certificate, and nothing on the server fails. A server does not start with a key that does not fit. \
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
        assert!(command.stderr(std::process::Stdio::null()).status().unwrap().success());
        let findings = scene.found("a.test", "weak.crt", "weak.key");
        assert!(findings.iter().any(|finding| finding.what.contains("1024 bits only")), "{findings:?}");
        fs::write(path("empty.crt"), "nothing").unwrap();
        only(&scene.found("a.test", "empty.crt", "good.key"), Severity::Error, "there is no certificate");
    }
}
