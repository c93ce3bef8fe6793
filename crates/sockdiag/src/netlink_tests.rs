//! Tests of the wire format: replies as a kernel sent them (Linux 6.18, in a namespace of its own, with what `ss -tanieom`
//! said of the same sockets beside each expectation), and bytes that no kernel sends.

use super::*;
use proptest::prelude::*;

const DUMP_V4: &[u8] = include_bytes!("../tests/fixtures/dump_v4.bin");
const DUMP_V6: &[u8] = include_bytes!("../tests/fixtures/dump_v6.bin");

fn sockets(bytes: &[u8]) -> Vec<Socket> {
    let (mut sockets, mut done) = (Vec::new(), false);
    parse_replies(bytes, None, |reply, interrupted| {
        assert!(!interrupted && !done);
        match reply {
            Reply::Socket(socket) => sockets.push(socket),
            Reply::Done => done = true,
            other => panic!("{other:?}"),
        }
    })
    .unwrap();
    assert!(done);
    sockets
}

fn with_remote(sockets: &[Socket], local: &str, remote: &str) -> Socket {
    let ends = (local.parse().unwrap(), remote.parse().unwrap());
    *sockets.iter().find(|socket| (socket.local, socket.remote) == ends).expect("captured")
}

#[test]
fn a_dump_of_ipv4_matches_ss() {
    let sockets = sockets(DUMP_V4);
    assert_eq!(sockets.len(), 7);
    // LISTEN     0      5               127.0.0.1:18080            0.0.0.0:*     ino:9441455 sk:1001 cgroup:/
    let listener = sockets.first().unwrap();
    assert_eq!((listener.state, listener.recv_queue, listener.send_queue), (State::Listen, 0, 5));
    assert_eq!((listener.inode, listener.cookie, listener.uid), (9_441_455, 0x1001, 0));
    assert!(listener.cgroup.is_some() && !listener.v6_socket);
    // ESTAB 0 0 127.0.0.1:54666 127.0.0.1:18080 ino:9441457 sk:1002 skmem:(r0,rb131072,t0,tb3939840,f0,w0,o0,bl0,d0)
    //   rto:204 rtt:0.037/0.02 mss:32768 cwnd:11 bytes_sent:5 bytes_acked:6 segs_out:3 segs_in:2 snd_wnd:65536
    let sender = with_remote(&sockets, "127.0.0.1:54666", "127.0.0.1:18080");
    let memory = sender.memory.unwrap();
    assert_eq!((memory.recv_limit, memory.send_limit, memory.drops), (131_072, 3_939_840, 0));
    let tcp = sender.tcp.unwrap();
    assert_eq!((tcp.rto_us, tcp.rtt_us, tcp.send_mss, tcp.congestion_window), (204_000, 37, 32_768, 11));
    let traffic = tcp.traffic.unwrap();
    assert_eq!((traffic.bytes_sent, traffic.bytes_acked, traffic.bytes_retrans), (5, 6, 0));
    assert_eq!((traffic.segments_out, traffic.segments_in, traffic.data_segments_out), (3, 2, 1));
    assert_eq!((traffic.send_window, traffic.not_sent), (65_536, 0));
    // ESTAB      5      0               127.0.0.1:18080          127.0.0.1:54666 ino:9441458 … bytes_received:5
    let receiver = with_remote(&sockets, "127.0.0.1:18080", "127.0.0.1:54666");
    assert_eq!((receiver.recv_queue, receiver.send_queue), (5, 0));
    assert_eq!(receiver.tcp.unwrap().traffic.unwrap().bytes_received, 5);
    assert_eq!(receiver.memory.unwrap().recv_allocated, 837);
    // TIME-WAIT  0      0               127.0.0.1:18080          127.0.0.1:54674 timer:(timewait,59sec,0) ino:0 sk:1007
    let waiting = with_remote(&sockets, "127.0.0.1:18080", "127.0.0.1:54674");
    assert_eq!((waiting.state, waiting.inode, waiting.tcp, waiting.memory), (State::TimeWait, 0, None, None));
    assert!(matches!(waiting.timer, Timer::TimeWait(ms) if (59_000..=60_000).contains(&ms)), "{:?}", waiting.timer);
}

#[test]
fn a_dump_of_ipv6_shows_ipv4_peers_as_ipv4() {
    let sockets = sockets(DUMP_V6);
    assert_eq!(sockets.len(), 4);
    assert!(sockets.iter().all(|socket| socket.v6_socket));
    // LISTEN     0      9                       *:18081                  *:*     ino:9441456
    let listener = sockets.first().unwrap();
    assert_eq!((listener.state, listener.send_queue, listener.inode), (State::Listen, 9, 9_441_456));
    // ESTAB      0      0      [::ffff:127.0.0.1]:18081 [::ffff:127.0.0.1]:40530
    let mapped = with_remote(&sockets, "127.0.0.1:18081", "127.0.0.1:40530");
    assert_eq!(mapped.state, State::Established);
    // FIN-WAIT-2 0      0                   [::1]:41868              [::1]:18081 timer:(timewait,59sec,0) ino:0
    let closer = with_remote(&sockets, "[::1]:41868", "[::1]:18081");
    assert_eq!((closer.state, closer.inode), (State::FinWait2, 0));
    // CLOSE-WAIT 1      0                   [::1]:18081              [::1]:41868 … bytes_received:11
    let left = with_remote(&sockets, "[::1]:18081", "[::1]:41868");
    assert_eq!((left.state, left.recv_queue), (State::CloseWait, 1));
}

#[test]
fn a_question_is_encoded_as_the_kernel_reads_it() {
    let message = encode_dump(DumpRequest {
        family: AF_INET6,
        states: StateSet::of(&[State::Listen]),
        tcp_info: true,
        memory: true,
        bytecode: &[11, 8, 12, 0, 0, 0, 80, 0],
        sequence: 7,
    });
    assert_eq!(message.len(), 16 + 56 + 4 + 8);
    assert_eq!(u32_at(&message, 0) as usize, message.len());
    assert_eq!((u16_at(&message, 4), u16_at(&message, 6), u32_at(&message, 8)), (20, 0x301, 7));
    assert_eq!(message.get(16..20), Some([10, 6, 1 << 1 | 1 << 6, 0].as_slice()));
    assert_eq!((u32_at(&message, 20), u16_at(&message, 72), u16_at(&message, 74)), (1 << 10, 12, 1));
}

/// A header around a payload.
fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + payload.len() as u32).to_ne_bytes().to_vec();
    bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].concat());
    bytes.extend([sequence.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    bytes.extend(payload);
    bytes
}

fn replies(bytes: &[u8], sequence: Option<u32>) -> Result<Vec<(Reply, bool)>, Error> {
    let mut replies = Vec::new();
    parse_replies(bytes, sequence, |reply, interrupted| replies.push((reply, interrupted)))?;
    Ok(replies)
}

#[test]
fn distinguishes_refusals_interruptions_and_foreign_answers() {
    let done = message(NLMSG_DONE, NLM_F_DUMP_INTR, 3, &0_i32.to_ne_bytes());
    assert_eq!(replies(&done, Some(3)).unwrap(), [(Reply::Done, true)]);
    assert_eq!(replies(&done, Some(4)).unwrap(), []);
    let late = message(NLMSG_DONE, 0, 3, &(-5_i32).to_ne_bytes());
    assert_eq!(replies(&late, Some(3)).unwrap(), [(Reply::Refused(5), false)]);
    let error = message(NLMSG_ERROR, 0, 3, &(-2_i32).to_ne_bytes());
    assert_eq!(replies(&error, Some(3)).unwrap(), [(Reply::Refused(2), false)]);
    let acknowledged = message(NLMSG_ERROR, 0, 3, &0_i32.to_ne_bytes());
    assert_eq!(replies(&acknowledged, Some(3)).unwrap(), [(Reply::Other, false)]);
    let mut odd = [0; 72];
    odd[0] = 1; // a Unix socket
    odd[1] = 1;
    assert_eq!(replies(&message(SOCK_DIAG_BY_FAMILY, 0, 3, &odd), None).unwrap(), [(Reply::Unknown, false)]);
}

#[test]
fn refuses_truncated_input() {
    let problem = |bytes: &[u8]| replies(bytes, None).unwrap_err().to_string();
    assert_eq!(problem(&[0; 15]), "a reply over netlink is malformed: a header is cut off");
    assert_eq!(problem(&[0; 16]), "a reply over netlink is malformed: a message is shorter than its header");
    let whole = message(SOCK_DIAG_BY_FAMILY, 0, 0, &[2; 71]);
    assert_eq!(problem(&whole), "a reply over netlink is malformed: a socket is cut off");
    assert_eq!(problem(&DUMP_V4[..100]), "a reply over netlink is malformed: a message is longer than what was read");
    let mut short = DUMP_V4.to_vec();
    // The first attribute of the first socket is longer than its socket.
    short.splice(88..90, u16::MAX.to_ne_bytes());
    assert_eq!(problem(&short), "a reply over netlink is malformed: an attribute is longer than its socket");
    // An attribute of length 0 would never end.
    short.splice(88..90, 0_u16.to_ne_bytes());
    assert_eq!(problem(&short), "a reply over netlink is malformed: an attribute is longer than its socket");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = replies(&bytes, None);
    }

    #[test]
    fn no_change_to_a_real_reply_panics(changes in prop::collection::vec((0..DUMP_V4.len(), any::<u8>()), 1..20)) {
        let mut bytes = DUMP_V4.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let _ = replies(&bytes, None);
    }
}
