//! Another network namespace, by path and by pid. Creating one takes root; without root these tests report that they were
//! skipped, and under CI they fail.

use crate::elsewhere::Elsewhere;
use sockdiag::{Census, Counters, Namespace, Question, Source, State};

#[test]
fn a_census_of_another_namespace_shows_its_sockets_alone() {
    let Some(elsewhere) = Elsewhere::start("a_census_of_another_namespace_shows_its_sockets_alone") else { return };
    let ours = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = ours.local_addr().expect("bound").port();
    // One for both: a program that another test starts may hold a copy of a closed one for a moment.
    let (_theirs, there) = Namespace::Pid(elsewhere.pid())
        .run(|| {
            let theirs = std::net::TcpListener::bind("0.0.0.0:0").expect("bound");
            let there = theirs.local_addr().expect("bound").port();
            (theirs, there)
        })
        .expect("root may enter");
    for namespace in [Namespace::Pid(elsewhere.pid()), Namespace::Path(elsewhere.path())] {
        let (mut census, mut slow, counters) = namespace
            .run(|| {
                let slow = Census::open_proc("the test wants it".to_owned()).expect("/proc is there");
                (Census::open().expect("a kernel"), slow, Counters::read().expect("/proc is there"))
            })
            .expect("root may enter");
        assert_eq!(census.source(), &Source::Netlink);
        // Opened there, used here.
        for census in [&mut census, &mut slow] {
            let mut found = Vec::new();
            census
                .for_each(&Question::default(), |socket| found.push((socket.state, socket.local.port())))
                .expect("asked");
            assert_eq!(found, [(State::Listen, there)], "and not {port}");
        }
        assert_eq!(counters.passive_opens, Some(0));
    }
}

#[test]
fn reports_a_namespace_that_is_gone() {
    let error = Namespace::Pid(u32::MAX).run(|| ()).expect_err("no such process");
    assert_eq!(error.to_string(), "opening the network namespace: No such file or directory (os error 2)");
    let error = Namespace::Path("/proc/self/status".into()).run(|| ()).expect_err("no namespace");
    assert_eq!(error.to_string(), "entering the network namespace: Invalid argument (os error 22)");
}
