//! Runs `holdfast watch` next to test scenes in a separate network namespace, and reads it like Prometheus.

use super::{holdfast, until};
use nix::libc::{AF_NETLINK, EPROTONOSUPPORT, SYS_socket};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use testkit::Running;

/// Runs the work in a thread where the kernel refuses netlink to the thread and its children, as sandboxes do.
pub(crate) fn without_netlink<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| {
            let netlink = AF_NETLINK.unsigned_abs().into();
            let asked =
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, netlink).expect("a condition");
            let rules = [(SYS_socket, vec![SeccompRule::new(vec![asked]).expect("a rule")])];
            let refusal = SeccompAction::Errno(EPROTONOSUPPORT.unsigned_abs());
            let here = std::env::consts::ARCH.try_into().expect("an architecture that we build for");
            let filter = SeccompFilter::new(rules.into(), SeccompAction::Allow, refusal, here).expect("a filter");
            let program: BpfProgram = filter.try_into().expect("a program");
            seccompiler::apply_filter(&program).expect("a kernel with seccomp");
            work()
        });
        worked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The observer, in the namespace of the thread that starts it.
pub(crate) struct Observer {
    _running: Running,
    address: String,
}

impl Observer {
    /// Takes five readings a second and serves the last one; `more` are further flags.
    pub(crate) fn start(more: &[String]) -> Self {
        let flags = ["watch", "--interval", "0.2", "--listen", "127.0.0.1:0"];
        let running = Running::start(holdfast().args(flags).args(more));
        let line = running.wait_for_error("");
        let address = line.split("http://").nth(1).and_then(|rest| rest.strip_suffix("/metrics"));
        let observer = Self { address: address.unwrap_or_else(|| panic!("{line:?}")).to_owned(), _running: running };
        until("there was a look", || !observer.metrics().is_empty());
        observer
    }

    /// The served page.
    pub(crate) fn page(&self) -> String {
        testkit::fetch(&self.address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("answered").text()
    }

    /// Each series with its value.
    pub(crate) fn metrics(&self) -> BTreeMap<String, u64> {
        let page = self.page();
        let series = page.lines().filter(|line| line.starts_with("holdfast_"));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse::<f64>().ok()? as u64))
        };
        series.filter_map(pair).collect()
    }
}
