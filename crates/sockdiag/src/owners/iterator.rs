//! Finds all descriptors of all processes in one walk inside the kernel. A BPF program of some twenty instructions runs for each
//! descriptor, and writes the inode and process of those that are sockets (`kernel/bpf/task_iter.c`). It reads and changes nothing.
//! If the kernel does not support or permit this, the caller reads `/proc` instead.

use super::btf::{self, Layout};
use crate::Error;
use rustix::io::{Errno, read};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::OnceLock;

/// The file in which the kernel describes its types.
pub(super) const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The file of a large distribution has 7 MB; a longer one is not read.
const TYPES_BYTES_MAX: u64 = 64 << 20;
/// Read at a time: 8,192 sockets.
const READ_BYTES: usize = 64 * 1024;
/// As many as a table of [`super::Owners`] has room for; beyond that, `/proc` is no worse.
const FOUND_MAX: usize = super::HELD_MAX;
/// The first namespace of processes (`PROC_PID_INIT_INO`), in which they have the kernel's own numbers. In others they have further
/// ones, which the program does not tell.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The commands, types and structures of `include/uapi/linux/bpf.h`.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_PROG_TYPE_TRACING: u32 = 26;
const BPF_TRACE_ITER: u32 = 28;
const BPF_FUNC_SEQ_WRITE: i32 = 127;

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions_len: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_kind: u32,
    types_fd: u32,
    function_info_size: u32,
    function_info: u64,
    function_info_len: u32,
    line_info_size: u32,
    line_info: u64,
    line_info_len: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct Link {
    program: u32,
    target: u32,
    attach_kind: u32,
    flags: u32,
    details: [u64; 2],
}

#[repr(C)]
#[derive(Default)]
struct Create {
    link: u32,
    flags: u32,
}

/// Inode and process id for every descriptor that is a socket, in no order and with repetitions. `None` if the kernel does not
/// support or permit the walk.
pub(super) fn sockets() -> Option<Vec<(u32, u32)>> {
    /// The attached program serves all later walks. After a refusal the kernel is not asked again.
    static ATTACHED: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let link = ATTACHED.get_or_init(|| attach().ok().flatten()).as_ref()?;
    let walk = bpf(BPF_ITER_CREATE, &Create { link: number(link.as_raw_fd()), flags: 0 }).ok()?;
    let mut found = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match read(&walk, &mut buffer[..]) {
            Ok(0) => return Some(found),
            Ok(length) => found.extend(buffer.get(..length)?.chunks_exact(8).filter_map(parse_pair)),
            // The kernel rests after each million descriptors without a socket.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
        if found.len() > FOUND_MAX {
            return None;
        }
    }
}

fn parse_pair(bytes: &[u8]) -> Option<(u32, u32)> {
    let (inode, rest) = bytes.split_first_chunk()?;
    Some((u32::from_ne_bytes(*inode), u32::from_ne_bytes(*rest.first_chunk()?)))
}

/// Loads the program and attaches it to the kernel's walk.
fn attach() -> Result<Option<OwnedFd>, Error> {
    // The program is written for registers of 64 bits, and the nibbles of its instructions for this byte order.
    let fits = cfg!(all(target_pointer_width = "64", target_endian = "little"));
    let is_first = std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_PID_NAMESPACE);
    if !fits || !is_first {
        return Ok(None);
    }
    let mut types = Vec::new();
    let opened = File::open(TYPES).and_then(|file| file.take(TYPES_BYTES_MAX).read_to_end(&mut types));
    let Some(layout) = opened.ok().and_then(|_| btf::parse(&types)) else { return Ok(None) };
    let code = program(&layout);
    let load = Load {
        kind: BPF_PROG_TYPE_TRACING,
        instructions_len: code.len() as u32,
        instructions: code.as_ptr() as u64,
        // The kernel's structures are for programs alone that may be had under its own licence, too.
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        name: *b"holdfast_owners\0",
        attach_kind: BPF_TRACE_ITER,
        attach_type: layout.function,
        ..Load::default()
    };
    let program = bpf(BPF_PROG_LOAD, &load)?;
    let link = Link { program: number(program.as_raw_fd()), attach_kind: BPF_TRACE_ITER, ..Link::default() };
    bpf(BPF_LINK_CREATE, &link).map(Some)
}

fn number(descriptor: RawFd) -> u32 {
    descriptor.unsigned_abs()
}

/// The three commands that are used here return a descriptor.
fn bpf<T>(command: libc::c_int, attributes: &T) -> Result<OwnedFd, Error> {
    // SAFETY: the kernel reads this many bytes of `attributes`, which is one of its own structures, and what its addresses point to
    // (the instructions and the licence) outlives the call.
    #[allow(unsafe_code)]
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    let descriptor = RawFd::try_from(result).ok().filter(|descriptor| *descriptor >= 0);
    let failed = || Error::System { what: "bpf()", error: std::io::Error::last_os_error() };
    let descriptor = descriptor.ok_or_else(failed)?;
    // SAFETY: a new descriptor, without another owner; the kernel sets close-on-exec on it.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// One instruction (`struct bpf_insn`): operation, source and destination register, offset, immediate value.
fn instruction(operation: u8, destination: u8, source: u8, offset: i16, value: i32) -> u64 {
    let [o0, o1] = offset.to_le_bytes();
    let [v0, v1, v2, v3] = value.to_le_bytes();
    u64::from_le_bytes([operation, source << 4 | destination, o0, o1, v0, v1, v2, v3])
}

/// What is run for each descriptor: `struct bpf_iter__task_file` in register 1 has the walk (0), the task (8), and the open
/// file (24), which are null behind the last one.
fn program(layout: &Layout) -> Vec<u64> {
    const LOAD: u8 = 0x79;
    const LOAD_32: u8 = 0x61;
    const LOAD_16: u8 = 0x69;
    const STORE_32: u8 = 0x63;
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const ADD: u8 = 0x07;
    const AND: u8 = 0x57;
    const JUMP_EQUAL: u8 = 0x15;
    const JUMP_UNEQUAL: u8 = 0x55;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// `S_IFMT` and `S_IFSOCK`.
    const KIND_MASK: i32 = 0xf000;
    const SOCKET: i32 = 0xc000;
    vec![
        instruction(LOAD, 6, 1, 24, 0),
        instruction(LOAD, 7, 1, 8, 0),
        instruction(JUMP_EQUAL, 6, 0, 15, 0),
        instruction(JUMP_EQUAL, 7, 0, 14, 0),
        instruction(LOAD, 2, 6, layout.file_inode, 0),
        instruction(LOAD_16, 3, 2, layout.inode_mode, 0),
        instruction(AND, 3, 0, 0, KIND_MASK),
        instruction(JUMP_UNEQUAL, 3, 0, 10, SOCKET),
        instruction(LOAD, 3, 2, layout.inode_number, 0),
        instruction(STORE_32, 10, 3, -8, 0),
        instruction(LOAD_32, 3, 7, layout.task_process, 0),
        instruction(STORE_32, 10, 3, -4, 0),
        // The walk's first member is the file that is read from; eight bytes from the stack go there.
        instruction(LOAD, 1, 1, 0, 0),
        instruction(LOAD, 1, 1, 0, 0),
        instruction(MOVE, 2, 10, 0, 0),
        instruction(ADD, 2, 0, 0, -8),
        instruction(SET, 3, 0, 0, 8),
        instruction(CALL, 0, 0, 0, BPF_FUNC_SEQ_WRITE),
        instruction(SET, 0, 0, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_the_end() {
        let layout = Layout { function: 1, file_inode: 32, inode_mode: 0, inode_number: 64, task_process: 1268 };
        let code = program(&layout);
        for (at, operation) in [(2, 0x15), (3, 0x15), (7, 0x55)] {
            let [found, _, low, high, ..] = code[at].to_le_bytes();
            assert_eq!((found, at + 1 + usize::from(u16::from_le_bytes([low, high]))), (operation, code.len() - 2));
        }
        assert_eq!(
            parse_pair(&[1, 0, 0, 0, 2, 0, 0, 0]),
            Some((u32::from_ne_bytes([1, 0, 0, 0]), u32::from_ne_bytes([2, 0, 0, 0])))
        );
        assert_eq!(parse_pair(&[1, 2, 3]), None);
    }
}
