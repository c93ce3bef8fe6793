//! A filter as the kernel's own program (`INET_DIAG_REQ_BYTECODE`): a sequence of conditional jumps forward, run over each
//! socket (`inet_diag_bc_run()` in `net/ipv4/inet_diag.c`). A program that arrives exactly at its end passes the socket; one
//! that jumps four bytes beyond stops it.

use super::{Compare, Filter, Side, Test};
use std::net::IpAddr;

const JMP: u8 = 1;
const S_GE: u8 = 2;
const S_LE: u8 = 3;
const D_GE: u8 = 4;
const D_LE: u8 = 5;
const S_COND: u8 = 7;
const D_COND: u8 = 8;
const S_EQ: u8 = 11;
const D_EQ: u8 = 12;
const CGROUP_COND: u8 = 13;

/// `struct inet_diag_bc_op`: code, jump if it holds, jump if not.
const OP_BYTES: u16 = 4;

/// The kernel's jumps have 16 bits; beyond this we filter ourselves. The longest filter that is accepted stays far below.
const PROGRAM_BYTES_MAX: usize = 32 * 1024;

/// A program, and whether it decides exactly what the filter asks, or passes some more.
struct Program {
    bytes: Vec<u8>,
    exact: bool,
}

pub(super) fn encode(filter: &Filter) -> Vec<u8> {
    program(filter)
        .filter(|program| program.bytes.len() <= PROGRAM_BYTES_MAX)
        .map(|program| program.bytes)
        .unwrap_or_default()
}

/// A program that passes at least what the filter passes; `None` if that would be everything.
fn program(filter: &Filter) -> Option<Program> {
    match filter {
        Filter::Test(test) => of_test(test),
        // Of a program that passes too much the contrary would pass too little.
        Filter::Not(inner) => program(inner).filter(|program| program.exact).map(not),
        Filter::And(left, right) => match (program(left), program(right)) {
            (Some(left), Some(right)) => Some(and(left, &right)),
            (Some(one), None) | (None, Some(one)) => Some(Program { exact: false, ..one }),
            (None, None) => None,
        },
        Filter::Or(left, right) => Some(or(program(left)?, &program(right)?)),
    }
}

fn of_test(test: &Test) -> Option<Program> {
    match test {
        Test::Port(side, compare, port) => Some(both_sides(*side, |remote| of_port(remote, *compare, *port))),
        Test::Net(side, network, prefix, port) => {
            Some(both_sides(*side, |remote| of_net(remote, *network, *prefix, *port)))
        }
        Test::Cgroup(inode) => Some(operation(CGROUP_COND, &inode.to_ne_bytes())),
        // States are a mask of the request, and the kernel does not look for processes.
        Test::State(_) | Test::Pid(_) | Test::Process(_) => None,
    }
}

fn both_sides(side: Side, of: impl Fn(bool) -> Program) -> Program {
    match side {
        Side::Local => of(false),
        Side::Remote => of(true),
        Side::Either => or(of(false), &of(true)),
    }
}

fn of_port(remote: bool, compare: Compare, port: u16) -> Program {
    let at_least = |port| port_operation(if remote { D_GE } else { S_GE }, port);
    let at_most = |port| port_operation(if remote { D_LE } else { S_LE }, port);
    let equal = |port| port_operation(if remote { D_EQ } else { S_EQ }, port);
    match compare {
        Compare::Equal => equal(port),
        Compare::NotEqual => not(equal(port)),
        Compare::AtLeast => at_least(port),
        Compare::AtMost => at_most(port),
        Compare::Above => not(at_most(port)),
        Compare::Below => not(at_least(port)),
    }
}

/// The port is in the `no` field of a second operation that is none.
fn port_operation(code: u8, port: u16) -> Program {
    let [low, high] = port.to_ne_bytes();
    operation(code, &[0, 0, low, high])
}

/// `struct inet_diag_hostcond`: family, prefix, two bytes of padding, port or -1, address.
fn of_net(remote: bool, network: IpAddr, prefix: u8, port: Option<u16>) -> Program {
    let (family, octets) = match network {
        IpAddr::V4(address) => (crate::netlink::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (crate::netlink::AF_INET6, address.octets().to_vec()),
    };
    let mut condition = vec![family, prefix, 0, 0];
    condition.extend_from_slice(&port.map_or(-1, i32::from).to_ne_bytes());
    condition.extend_from_slice(&octets);
    let program = operation(if remote { D_COND } else { S_COND }, &condition);
    // To the kernel an IPv4 peer of an IPv6 socket lies within ::/0, to us it is IPv4.
    Program { exact: network.is_ipv4(), ..program }
}

/// One operation with its arguments: on to what follows, or beyond the end.
fn operation(code: u8, arguments: &[u8]) -> Program {
    let length = OP_BYTES + arguments.len() as u16;
    let mut bytes = op(code, length as u8, length + OP_BYTES).to_vec();
    bytes.extend_from_slice(arguments);
    Program { bytes, exact: true }
}

fn op(code: u8, yes: u8, no: u16) -> [u8; 4] {
    let [low, high] = no.to_ne_bytes();
    [code, yes, low, high]
}

/// A jump always takes its `no`.
fn jump(no: u16) -> [u8; 4] {
    op(JMP, OP_BYTES as u8, no)
}

/// A socket that fails the left one must jump over the right one, too.
fn and(mut left: Program, right: &Program) -> Program {
    let beyond = left.bytes.len() + usize::from(OP_BYTES);
    let mut at = 0;
    while let Some([_, yes, low, high]) = left.bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut::<4>()) {
        let no = u16::from_ne_bytes([*low, *high]);
        if at + usize::from(no) == beyond {
            [*low, *high] = (no + right.bytes.len() as u16).to_ne_bytes();
        }
        at += usize::from((*yes).max(OP_BYTES as u8));
    }
    left.bytes.extend_from_slice(&right.bytes);
    Program { bytes: left.bytes, exact: left.exact && right.exact }
}

/// A socket that passes the left one jumps over the right one; one that fails it arrives there.
fn or(mut left: Program, right: &Program) -> Program {
    left.bytes.extend_from_slice(&jump(OP_BYTES + right.bytes.len() as u16));
    left.bytes.extend_from_slice(&right.bytes);
    Program { bytes: left.bytes, exact: left.exact && right.exact }
}

/// A socket that passes jumps beyond the end; one that fails arrives at it.
fn not(mut inner: Program) -> Program {
    inner.bytes.extend_from_slice(&jump(2 * OP_BYTES));
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's loop, with a socket of which only the two ports are looked at.
    fn kernel_passes(program: &[u8], local: u16, remote: u16) -> bool {
        let mut at = 0;
        while at < program.len() {
            let [code, yes, low, high] = *program[at..].first_chunk().unwrap();
            let no = usize::from(u16::from_ne_bytes([low, high]));
            let argument = || u16::from_ne_bytes(*program[at + 6..].first_chunk().unwrap());
            let holds = match code {
                JMP => false,
                S_GE => local >= argument(),
                S_LE => local <= argument(),
                S_EQ => local == argument(),
                D_GE => remote >= argument(),
                D_LE => remote <= argument(),
                D_EQ => remote == argument(),
                _ => panic!("code {code}"),
            };
            // What the kernel's audit asks of a program.
            assert!(no >= 4 && no % 4 == 0 && at + no <= program.len() + 4, "jump of {no} at {at}");
            assert!(yes >= 4 && yes % 4 == 0 && at + usize::from(yes) <= program.len() + 4);
            at += if holds { usize::from(yes) } else { no };
        }
        at == program.len()
    }

    #[test]
    fn programs_decide_as_the_filter_reads() {
        for (words, passing, failing) in [
            ("dport = :80", vec![(9, 80)], vec![(80, 9)]),
            ("dport != :80", vec![(80, 9)], vec![(9, 80)]),
            ("sport gt :1024", vec![(1025, 1)], vec![(1024, 1)]),
            ("sport lt :0", vec![], vec![(0, 0), (9, 9)]),
            ("port = :80", vec![(80, 1), (1, 80)], vec![(1, 1)]),
            ("dport = :80 or dport = :443", vec![(1, 80), (1, 443)], vec![(1, 81)]),
            ("not ( dport = :80 or dport = :443 )", vec![(1, 81)], vec![(1, 80), (1, 443)]),
            (
                "( sport = :1 or sport = :2 ) and ( dport = :3 or dport = :4 )",
                vec![(1, 3), (1, 4), (2, 3), (2, 4)],
                vec![(1, 1), (3, 3), (2, 2)],
            ),
            ("sport ge :5 and sport le :9 and not dport = :7", vec![(5, 1), (9, 8)], vec![(4, 1), (10, 1), (6, 7)]),
            ("not not ( sport = :1 and dport = :2 )", vec![(1, 2)], vec![(1, 1), (2, 2)]),
        ] {
            let filter = Filter::parse(words, &mut ()).unwrap();
            let program = filter.encode();
            for (local, remote) in passing {
                assert!(kernel_passes(&program, local, remote), "{words}: {local} {remote}");
            }
            for (local, remote) in failing {
                assert!(!kernel_passes(&program, local, remote), "{words}: {local} {remote}");
            }
        }
    }

    #[test]
    fn leaves_out_filters_that_the_kernel_cannot_decide() {
        let encode = |words| Filter::parse(words, &mut ()).unwrap().encode();
        assert_eq!(encode("process nginx"), b"");
        assert_eq!(encode("dport = :80 or process nginx"), b"");
        assert_eq!(encode("dport = :80 and process nginx"), encode("dport = :80"));
        assert_eq!(encode("not ( dport = :80 and process nginx )"), b"");
        assert_eq!(encode("not dst [2001:db8::]/32"), b"");
    }
}
