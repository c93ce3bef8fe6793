//! Completes the tree of a translation with what only the process knows: that it runs in the foreground and in one piece,
//! and where it logs. And reads the name servers of the Pod.

use conf::source::Span;
use conf::tree::{Block, Directive, Quote, Word};
use std::net::IpAddr;

/// What the process adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProcessLines {
    /// `worker_processes`, if a flag gives it.
    pub(super) workers: Option<u16>,
    /// `worker_shutdown_timeout` in seconds.
    pub(super) shutdown_seconds: u64,
}

/// Name servers that are used: as many as the C library reads.
const NAME_SERVERS_MAX: usize = 3;

/// Adds the lines. What the objects may not decide is replaced; the rest is added if it is not there.
pub(super) fn complete(tree: &mut Block, lines: &ProcessLines) {
    let span = tree.open;
    let forced: [(&str, Vec<String>); 4] = [
        ("daemon", vec!["off".into()]),
        ("master_process", vec!["off".into()]),
        ("pid", vec!["/dev/null".into()]),
        ("ctl_socket", vec!["off".into()]),
    ];
    tree.directives.retain(|line| !forced.iter().any(|(name, _)| line.name.value == name.as_bytes()));
    let mut added: Vec<Directive> = forced.iter().map(|(name, words)| line(name, words, span)).collect();
    if let Some(workers) = lines.workers {
        tree.directives.retain(|line| line.name.value != b"worker_processes");
        added.push(line("worker_processes", &[workers.to_string()], span));
    }
    let defaults = [
        ("worker_processes", vec!["auto".to_owned()]),
        ("error_log", vec!["stderr".to_owned(), "notice".to_owned()]),
        ("worker_shutdown_timeout", vec![format!("{}s", lines.shutdown_seconds)]),
    ];
    for (name, words) in defaults {
        let is_there = |directive: &Directive| directive.name.value == name.as_bytes();
        if !tree.directives.iter().any(is_there) && !added.iter().any(is_there) {
            added.push(line(name, &words, span));
        }
    }
    tree.directives.splice(0..0, added);
}

fn word(text: &str, span: Span) -> Word {
    Word { value: text.as_bytes().into(), span, quote: Quote::Bare }
}

fn line(name: &str, args: &[String], span: Span) -> Directive {
    Directive { name: word(name, span), args: args.iter().map(|arg| word(arg, span)).collect(), block: None, span }
}

/// The name servers of `/etc/resolv.conf`.
pub(super) fn name_servers(text: &str) -> Vec<IpAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        // A zone index (`fe80::1%eth0`) is not an address of a resolver.
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok()).flatten()
    });
    addresses.take(NAME_SERVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(block: &Block, name: &str) -> Vec<String> {
        let found = block.directives.iter().filter(|line| line.name.value == name.as_bytes());
        found
            .map(|line| {
                line.args
                    .iter()
                    .map(|word| String::from_utf8_lossy(&word.value).into_owned())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect()
    }

    fn tree() -> Block {
        ingress::translate(&ingress::Cluster::default(), &ingress::Settings::default()).tree
    }

    #[test]
    fn objects_do_not_decide_about_the_process() {
        let mut tree = tree();
        let span = tree.open;
        tree.directives.insert(0, line("daemon", &["on".into()], span));
        tree.directives.insert(0, line("error_log", &["stderr".into(), "info".into()], span));
        complete(&mut tree, &ProcessLines { workers: Some(3), shutdown_seconds: 240 });
        assert_eq!(
            (words(&tree, "daemon"), words(&tree, "pid")),
            (vec!["off".to_owned()], vec!["/dev/null".to_owned()])
        );
        assert_eq!(words(&tree, "worker_processes"), ["3"]);
        assert_eq!(words(&tree, "error_log"), ["stderr info"]);
        assert_eq!(words(&tree, "worker_shutdown_timeout"), ["240s"]);
    }

    #[test]
    fn name_servers_are_those_of_the_pod() {
        let found = name_servers("# a\nsearch x\nnameserver 10.96.0.10\nnameserver fd00::a\nnameserver fe80::1%eth0\n");
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.96.0.10", "fd00::a"]);
    }
}
