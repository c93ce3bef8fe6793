//! Conversations between a reactor and plain blocking sockets.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use reactor::{
    ConnectOptions, ListenOptions, Listener, PeerAddress, Reactor, Read, Ready, SourceId, Stream, TaskId, TcpState,
};
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// No conversation here takes longer, however loaded the machine is.
const DEADLINE: Duration = Duration::from_secs(20);

fn loopback() -> PeerAddress {
    PeerAddress::Ip(SocketAddr::from(([127, 0, 0, 1], 0)))
}

/// Turns until the closure has what it wants.
fn until<T>(reactor: &Reactor, mut wanted: impl FnMut(Option<Ready>) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = wanted(None) {
            return value;
        }
        reactor.turn(Some(50)).unwrap();
        while let Some(ready) = reactor.next_ready() {
            if let Some(value) = wanted(Some(ready)) {
                return value;
            }
        }
        assert!(begun.elapsed() < DEADLINE, "nothing happened in {DEADLINE:?}");
    }
}

/// A client socket and the reactor's end of the same connection.
fn pair(reactor: &Rc<Reactor>) -> (TcpStream, Stream, TaskId) {
    let listener = Listener::bind(&loopback(), &ListenOptions::default()).unwrap();
    let Some(PeerAddress::Ip(address)) = listener.local_address().unwrap() else { panic!("bound to no IP address") };
    reactor.watch(listener.descriptor(), SourceId(7), false).unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let accepted = until(reactor, |ready| match ready {
        Some(Ready::Source(SourceId(7))) => listener.accept().unwrap(),
        _ => None,
    });
    reactor.unwatch(listener.descriptor()).unwrap();
    let task = reactor.create_task();
    let stream = reactor.register(accepted.socket, task).unwrap();
    (client, stream, task)
}

fn read_some(reactor: &Reactor, stream: &Stream) -> Option<Vec<u8>> {
    until(reactor, |_| match stream.read_with(1 << 16, <[u8]>::to_vec).unwrap() {
        Read::Data(bytes) => Some(Some(bytes)),
        Read::NotReady => None,
        Read::Closed => Some(None),
    })
}

#[test]
fn bytes_arrive_before_the_end_is_seen() {
    let reactor = Reactor::new().unwrap();
    let (mut client, stream, _) = pair(&reactor);
    client.write_all(b"ping").unwrap();
    assert_eq!(read_some(&reactor, &stream).as_deref(), Some(&b"ping"[..]));
    assert_eq!(stream.write(&[IoSlice::new(b"po"), IoSlice::new(b"ng")], false).unwrap(), 4);
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");
    client.write_all(b"bye").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_some(&reactor, &stream).as_deref(), Some(&b"bye"[..]));
    assert_eq!(read_some(&reactor, &stream), None);
    assert!(stream.is_peer_closed() && !stream.is_failed());
}

#[test]
fn full_socket_reports_when_it_has_room() {
    let reactor = Reactor::new().unwrap();
    let (mut client, stream, task) = pair(&reactor);
    let block = vec![b'x'; 1 << 20];
    let mut sent = 0;
    while stream.is_writable() {
        sent += stream.write(&[IoSlice::new(&block)], false).unwrap();
    }
    assert_eq!(stream.write(&[IoSlice::new(&block)], false).unwrap(), 0);
    let mut taken = vec![0; sent];
    client.read_exact(&mut taken).unwrap();
    until(&reactor, |ready| (ready == Some(Ready::Task(task)) && stream.is_writable()).then_some(()));
    assert!(stream.write(&[IoSlice::new(b"more")], false).unwrap() > 0);
}

#[test]
fn a_reset_is_reported_as_failed() {
    let reactor = Reactor::new().unwrap();
    let (client, stream, task) = pair(&reactor);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    until(&reactor, |ready| (ready == Some(Ready::Task(task))).then_some(()));
    assert!(stream.is_failed());
    assert!(stream.read_with(10, |_| ()).is_err());
}

#[test]
fn reset_reaches_the_peer_as_an_error() {
    let reactor = Reactor::new().unwrap();
    let (mut client, stream, _) = pair(&reactor);
    stream.reset();
    assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn connecting_succeeds_from_the_source_address_asked_for() {
    let reactor = Reactor::new().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = ConnectOptions { source: Some([127, 0, 0, 9].into()), ..ConnectOptions::default() };
    let task = reactor.create_task();
    let stream = reactor.connect(&server.local_addr().unwrap().into(), &options, task).unwrap();
    until(&reactor, |_| stream.is_writable().then_some(()));
    assert!(stream.take_error().unwrap().is_none());
    assert_eq!(server.accept().unwrap().1.ip(), std::net::IpAddr::from([127, 0, 0, 9]));
}

/// The kernel's version, such as 6.18.
fn kernel() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn connecting_searches_all_ports_not_every_second_one() {
    if kernel() < (6, 8) {
        println!("skipped connecting_searches_all_ports_not_every_second_one: it needs Linux 6.8");
        return;
    }
    let reactor = Reactor::new().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap().into();
    for source in [None, Some([127, 0, 0, 9].into())] {
        let options = ConnectOptions { source, ..ConnectOptions::default() };
        let odd = |_| {
            let stream = reactor.connect(&to, &options, reactor.create_task()).unwrap();
            let port = stream.local_address().unwrap().unwrap().port();
            // Kept, so that no port comes twice.
            (port % 2, stream, server.accept().unwrap())
        };
        let connections: Vec<_> = (0..64).map(odd).collect();
        let odd = connections.iter().filter(|(parity, ..)| *parity == 1).count();
        // Fewer or more come once in 10^13 times.
        assert!((4..=60).contains(&odd), "{odd} of 64 ports are odd");
    }
}

#[test]
fn connecting_without_a_listener_is_refused() {
    let reactor = Reactor::new().unwrap();
    // Bound and not listening: no other process gets the port.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let silent = bound.local_addr().unwrap().as_socket().unwrap();
    let task = reactor.create_task();
    let refused = match reactor.connect(&silent.into(), &ConnectOptions::default(), task) {
        Err(error) => error,
        Ok(stream) => {
            until(&reactor, |_| stream.is_writable().then_some(()));
            stream.take_error().unwrap().expect("the connection was not refused")
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn parked_socket_reports_its_end_under_its_label() {
    let reactor = Reactor::new().unwrap();
    for close_first in [true, false] {
        let (client, stream, task) = pair(&reactor);
        let mut client = Some(client);
        if close_first {
            client = None;
            until(&reactor, |ready| (ready == Some(Ready::Task(task))).then_some(()));
        }
        let parked = { stream }.park();
        reactor.label_parked(parked.id(), 99);
        drop(client);
        until(&reactor, |ready| (ready == Some(Ready::Parked(99))).then_some(()));
    }
}

#[test]
fn parked_socket_finds_an_earlier_fin_on_another_thread() {
    let reactor = Reactor::new().unwrap();
    let (mut client, stream, _) = pair(&reactor);
    let parked = { stream }.park();
    reactor.label_parked(parked.id(), 1);
    let thief = std::thread::spawn(move || {
        let other = Reactor::new().unwrap();
        let task = other.create_task();
        let stream = parked.unpark(&other, task).unwrap();
        assert!(stream.write(&[IoSlice::new(b"from the thief")], false).unwrap() == 14);
        read_some(&other, &stream)
    });
    let mut got = [0; 14];
    client.read_exact(&mut got).unwrap();
    drop(client);
    assert_eq!(thief.join().unwrap(), None);
    // The owner's slot is free again and is used for the next connection.
    let (mut client, stream, _) = pair(&reactor);
    client.write_all(b"next").unwrap();
    assert_eq!(read_some(&reactor, &stream).as_deref(), Some(&b"next"[..]));
}

#[test]
fn deadline_wakes_its_task_once() {
    let reactor = Reactor::new().unwrap();
    let task = reactor.create_task();
    reactor.set_deadline(task, Some(reactor.now().after(Duration::from_millis(20))));
    until(&reactor, |ready| (ready == Some(Ready::Task(task))).then_some(()));
    assert!(reactor.take_deadline_fired(task));
    assert!(!reactor.take_deadline_fired(task));
}

#[test]
fn a_listener_reports_the_backlog_that_the_kernel_granted() {
    let limit: u32 = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let options = ListenOptions { backlog: limit + 5, ..ListenOptions::default() };
    let granted = Listener::bind(&loopback(), &options).unwrap().backlog_granted(options.backlog).unwrap();
    assert_eq!((granted.asked, granted.granted), (limit + 5, limit));
}

#[test]
fn a_message_from_another_thread_wakes_the_loop() {
    let reactor = Reactor::new().unwrap();
    let mailbox = std::sync::Arc::new(reactor::Mailbox::new().unwrap());
    reactor.watch(mailbox.descriptor(), SourceId(1), false).unwrap();
    let sender = std::sync::Arc::clone(&mailbox);
    let thread = std::thread::spawn(move || (0..100).for_each(|number| sender.send(number)));
    let mut all = Vec::new();
    until(&reactor, |ready| {
        if ready == Some(Ready::Source(SourceId(1))) {
            mailbox.take(&mut all);
        }
        (all.len() == 100).then_some(())
    });
    thread.join().unwrap();
    assert!(all.iter().copied().eq(0..100));
}

/// Sends in two segments, reads the kernel's answers when the connection is over, and returns the error and whether any of
/// it was acknowledged.
fn send_and_look(reactor: &Reactor, stream: &Stream, then: impl FnOnce()) -> (Option<i32>, bool) {
    let before = stream.progress().unwrap();
    let mut error = None;
    for part in [&b"reques"[..], b"t"] {
        if let Err(refused) = stream.write(&[IoSlice::new(part)], false) {
            error = error.or(refused.raw_os_error());
        }
    }
    then();
    let after = until(reactor, |_| stream.progress().filter(|now| now.state == TcpState::Closed));
    let error = error.or_else(|| stream.take_error().unwrap()?.raw_os_error());
    (error, after.acked_bytes != before.acked_bytes)
}

fn reset(client: TcpStream) {
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
}

#[test]
fn fin_before_the_request_gives_epipe_and_no_acknowledgement() {
    let reactor = Reactor::new().unwrap();
    let (client, stream, _) = pair(&reactor);
    assert_eq!(stream.progress().unwrap().state, TcpState::Established);
    drop(client);
    until(&reactor, |_| (stream.progress().unwrap().state == TcpState::CloseWait).then_some(()));
    assert_eq!(send_and_look(&reactor, &stream, || {}), (Some(libc::EPIPE), false));
}

#[test]
fn peer_that_received_the_request_acknowledges_or_resets() {
    let reactor = Reactor::new().unwrap();
    let mut buffer = [0; 16];
    // It executes, then resets.
    let (mut client, stream, _) = pair(&reactor);
    let (error, _) = send_and_look(&reactor, &stream, || {
        client.read_exact(&mut buffer[..7]).unwrap();
        reset(client);
    });
    assert_eq!(error, Some(libc::ECONNRESET));
    // It half-closes, still executes, and resets before a delayed acknowledgement is due.
    let (mut client, stream, _) = pair(&reactor);
    stream.as_socket().set_tcp_nodelay(true).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let looked = send_and_look(&reactor, &stream, || {
        client.read_exact(&mut buffer[..7]).unwrap();
        reset(client);
    });
    assert_eq!(looked, (Some(libc::EPIPE), true));
}

/// Whether the kernel keeps TIME_WAIT for a connection from this address to that one.
fn is_in_time_wait(from: SocketAddr, to: SocketAddr) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let [from, to] = [from, to].map(|address| format!(":{:04X}", address.port()));
    table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()).any(
        |fields| matches!(fields[..], [_, local, remote, "06", ..] if local.ends_with(&from) && remote.ends_with(&to)),
    )
}

/// Ends a connection in this way and drops our end; checks that the kernel agrees with the stream.
fn time_wait_after(end: impl FnOnce(&Rc<Reactor>, &mut Option<TcpStream>, &Stream)) -> bool {
    let reactor = Reactor::new().unwrap();
    let (client, stream, _) = pair(&reactor);
    let (ours, theirs) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
    let mut client = Some(client);
    end(&reactor, &mut client, &stream);
    let expected = stream.leaves_time_wait();
    drop((stream, client));
    let begun = Instant::now();
    while expected != is_in_time_wait(ours, theirs) {
        assert!(begun.elapsed() < DEADLINE, "expected TIME_WAIT: {expected}");
        std::thread::yield_now();
    }
    expected
}

fn until_closed(reactor: &Rc<Reactor>, stream: &Stream) {
    assert_eq!(read_some(reactor, stream), None);
    // The event of the FIN may come after the read that has found it.
    reactor.turn(Some(0)).unwrap();
}

#[test]
fn the_side_that_closes_first_has_time_wait() {
    let peer_closes = |reactor: &Rc<Reactor>, client: &mut Option<TcpStream>, stream: &Stream| {
        drop(client.take());
        until_closed(reactor, stream);
    };
    assert!(time_wait_after(|_, _, _| {}), "we close first");
    assert!(!time_wait_after(peer_closes));
    assert!(time_wait_after(|reactor, client, stream| {
        stream.shutdown_write().unwrap();
        peer_closes(reactor, client, stream);
    }));
    assert!(!time_wait_after(|reactor, client, stream| {
        client.as_ref().unwrap().shutdown(std::net::Shutdown::Write).unwrap();
        until_closed(reactor, stream);
        stream.shutdown_write().unwrap();
    }));
    assert!(!time_wait_after(|reactor, client, stream| {
        stream.shutdown_write().unwrap();
        reset(client.take().unwrap());
        until(reactor, |_| stream.is_failed().then_some(()));
    }));
}

#[test]
fn connections_that_go_on_come_before_those_that_end() {
    let reactor = Reactor::new().unwrap();
    let tasks: Vec<TaskId> = (0..200).map(|_| reactor.create_task()).collect();
    let lively = reactor.create_task();
    for task in &tasks {
        reactor.wake(*task);
    }
    let (mut ended, mut turns) = (Vec::new(), 0);
    while ended.len() < tasks.len() {
        reactor.wake(lively);
        reactor.turn(Some(0)).unwrap();
        let (mut is_lively, mut waiting) = (false, Vec::new());
        while let Some(ready) = reactor.next_ready() {
            match ready {
                Ready::Task(task) if task == lively => is_lively = true,
                Ready::Task(task) if reactor.may_end(task) => ended.push(task),
                Ready::Task(task) => waiting.push(task),
                _ => {}
            }
        }
        assert!(is_lively, "in each turn");
        // A further event of a task that waits neither brings it forward nor makes it wait twice.
        for task in waiting {
            reactor.wake(task);
        }
        turns += 1;
    }
    assert_eq!((ended, turns), (tasks, 4), "in the order of their events, 64 in each turn");
}
