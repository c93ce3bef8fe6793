//! The system calls that the hot path makes, and the few that `socket2` has no word for. Each wrapper turns -1 into the
//! errno and nothing else; decisions belong to the callers. All `unsafe` of this crate is here.
#![allow(unsafe_code)] // this module exists to contain it

use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Turns the -1 of a system call into its errno.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

pub(crate) fn clock_monotonic() -> Duration {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: clock_gettime fills the struct it is given; CLOCK_MONOTONIC exists on every Linux, so it cannot fail.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

pub(crate) fn epoll_create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; on success the kernel hands us a new descriptor that no one else owns.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?)) }
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: as for `epoll_create`.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)) }
}

/// `epoll_ctl` with `operation` one of `EPOLL_CTL_ADD`, `EPOLL_CTL_MOD` and `EPOLL_CTL_DEL`, which ignores the rest.
pub(crate) fn epoll_ctl(
    epoll: BorrowedFd<'_>,
    operation: libc::c_int,
    socket: BorrowedFd<'_>,
    events: libc::c_int,
    token: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: token };
    // SAFETY: both descriptors are borrowed, so they are open; `event` outlives the call.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, socket.as_raw_fd(), &raw mut event) }).map(drop)
}

/// Fills `events` from the front and returns how many; `timeout_ms` -1 waits without limit.
pub(crate) fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout_ms: libc::c_int,
) -> io::Result<usize> {
    let capacity = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel writes at most `capacity` entries, and the slice has that many.
    let count = check(unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), capacity, timeout_ms) })?;
    Ok(count as usize)
}

pub(crate) fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the slice.
    check_size(unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) })
}

/// Looks whether a read would return at once, without taking anything: `Ok(0)` at end of stream, `Ok(1)` with data.
pub(crate) fn peek(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut byte = 0u8;
    // SAFETY: the kernel writes at most the one byte that `byte` has room for.
    check_size(unsafe {
        libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT)
    })
}

pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: the kernel only reads the slice.
    check_size(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub(crate) fn send_vectored(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    // SAFETY: msghdr is plain data for which all-zero means "no name, no control data".
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: IoSlice is documented to have iovec's layout; the kernel only reads the parts, which outlive the call.
    check_size(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
}

/// Sends up to `count` bytes of `file` from `offset`, which is moved on.
pub(crate) fn sendfile(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: &mut i64,
    count: usize,
) -> io::Result<usize> {
    // SAFETY: `offset` outlives the call; no other memory is touched.
    check_size(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut *offset, count) })
}

/// Opens for reading if that needs nothing but what is in memory; `EAGAIN` otherwise.
pub(crate) fn open_cached(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: open_how is plain integers, for which all-zero is a value.
    let mut how: libc::open_how = unsafe { mem::zeroed() };
    how.flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_CACHED;
    // SAFETY: the path ends with NUL, `how` has the length that is passed, and both outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), &raw const how, size_of::<libc::open_how>())
    };
    let descriptor = check(result as libc::c_int)?;
    // SAFETY: openat2 succeeded, so the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The attributes of an open file, as far as the kernel knows them without asking a server.
pub(crate) fn status_cached(file: BorrowedFd<'_>) -> io::Result<libc::statx> {
    let mut status = MaybeUninit::<libc::statx>::uninit();
    // SAFETY: the empty path is a string, and on success the kernel has filled the whole struct.
    let status = unsafe {
        check(libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_TYPE | libc::STATX_SIZE | libc::STATX_MTIME | libc::STATX_CTIME | libc::STATX_NLINK,
            status.as_mut_ptr(),
        ))?;
        status.assume_init()
    };
    Ok(status)
}

/// Reads from `offset` what is in memory; `EAGAIN` where nothing is.
pub(crate) fn read_cached(file: BorrowedFd<'_>, buffer: &mut [u8], offset: i64) -> io::Result<usize> {
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: the kernel writes at most the length of the one part, which is the slice.
    check_size(unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) })
}

/// Reads from `offset`, and waits for a disk where it must.
pub(crate) fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: i64) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the length of the slice.
    check_size(unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset) })
}

/// Accepts one connection, non-blocking and close-on-exec; the address is that of the client.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, socket2::SockAddr)> {
    let mut fd: RawFd = -1;
    // SAFETY: the closure passes the storage and its length to accept4, which fills both; on success the descriptor is new.
    let ((), address) = unsafe {
        socket2::SockAddr::try_init(|storage, length| {
            fd = check(libc::accept4(
                listener.as_raw_fd(),
                storage.cast(),
                length,
                libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            ))?;
            Ok(())
        })?
    };
    // SAFETY: accept4 succeeded, so `fd` is a new descriptor without another owner.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, address))
}

/// Sets an integer socket option.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads one int, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// `TCP_INFO` as far as this build's struct goes; `None` on a socket that is not TCP.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    // SAFETY: tcp_info is plain integers, for which all-zero is a value; older kernels fill less of it.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (result == 0).then_some(info)
}

/// The beginning of the kernel's `struct tcp_info` (include/uapi/linux/tcp.h) as far as `tcpi_bytes_acked`, which not
/// every libc's struct reaches. The kernel only ever appends to it, and copies as much as is asked for.
#[repr(C)]
struct TcpInfoToAcked {
    state: u8,
    other_bytes: [u8; 7],
    other_words: [u32; 24],
    pacing_rates: [u64; 2],
    bytes_acked: u64,
}

/// `tcpi_state` and `tcpi_bytes_acked`; `None` on a socket that is not TCP, and on a kernel before 4.1.
pub(crate) fn tcp_state_and_acked(socket: BorrowedFd<'_>) -> Option<(u8, u64)> {
    // SAFETY: the struct is plain integers, for which all-zero is a value; older kernels fill less of it.
    let mut info: TcpInfoToAcked = unsafe { mem::zeroed() };
    let mut length = size_of::<TcpInfoToAcked>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    let is_whole = length as usize == size_of::<TcpInfoToAcked>();
    (result == 0 && is_whole).then_some((info.state, info.bytes_acked))
}

/// Values of `SO_MEMINFO` (`include/uapi/linux/sock_diag.h`), of which the last counts what a socket has dropped.
const MEMINFO_VALUES: usize = 9;

/// What a socket has dropped since it was made; for a listener: connections that found its accept queue full.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    let mut values = [0u32; MEMINFO_VALUES];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `values`, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0 && length as usize == size_of_val(&values)).then(|| values[MEMINFO_VALUES - 1])
}

/// Takes over a descriptor that this process was started with: a close-on-exec copy, and the original is closed.
/// `is_expected` looks at the socket: another one is left alone.
pub(crate) fn take_inherited(
    number: RawFd,
    is_expected: impl FnOnce(&socket2::Socket) -> io::Result<bool>,
) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a number that is not open gives EBADF, and the copy is new and ours.
    let copy = unsafe { OwnedFd::from_raw_fd(check(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3))?) };
    if !is_expected(&socket2::SockRef::from(&copy))? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number was handed to this process as such a socket and still is one, so nothing here has opened it.
    unsafe { libc::close(number) };
    Ok(copy)
}

/// The soft and hard limit of open descriptors.
pub(crate) fn descriptor_limits() -> io::Result<(u64, u64)> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct it is given.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) })?;
    Ok((limits.rlim_cur, limits.rlim_max))
}

pub(crate) fn set_descriptor_limits(soft: u64, hard: u64) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the kernel only reads the struct.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) }).map(drop)
}

/// Adds one to an eventfd.
pub(crate) fn write_counter(eventfd: BorrowedFd<'_>) -> io::Result<()> {
    let one = 1u64;
    // SAFETY: the kernel reads the eight bytes of `one`.
    check_size(unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), 8) }).map(drop)
}

/// Takes the count of an eventfd, which is zero afterwards.
pub(crate) fn read_counter(eventfd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut count = 0u64;
    // SAFETY: the kernel writes eight bytes into `count`.
    check_size(unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut count).cast(), 8) })?;
    Ok(count)
}

/// Memory of this many 32-bit words that every process shares which maps the same file. Only atomics are reached through it.
#[derive(Debug)]
pub(crate) struct SharedWords {
    start: NonNull<AtomicU32>,
    count: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and what is reached through it is atomics.
unsafe impl Send for SharedWords {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedWords {}

/// A file in memory with this many bytes, all zero, that can grow but not shrink: an access behind its end would kill.
pub(crate) fn memory_file(bytes: usize) -> io::Result<OwnedFd> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string that outlives the call; the new descriptor is ours alone.
    let file = unsafe { OwnedFd::from_raw_fd(check(libc::memfd_create(c"holdfast".as_ptr(), flags))?) };
    // SAFETY: the descriptor is open; no pointers.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), length) })?;
    // SAFETY: the same.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) })?;
    Ok(file)
}

impl SharedWords {
    /// Maps the first `count` words of a file that [`memory_file`] made, here or in another process; `InvalidInput` for any other
    /// file, and for one that is shorter.
    pub(crate) fn map(file: BorrowedFd<'_>, count: usize) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let bytes = count.checked_mul(size_of::<AtomicU32>()).filter(|bytes| *bytes > 0).ok_or_else(invalid)?;
        // SAFETY: the descriptor is open; no pointers.
        let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        // SAFETY: all-zero bytes are a valid `stat`, which is plain data.
        let mut status: libc::stat = unsafe { mem::zeroed() };
        // SAFETY: the descriptor is open, and `status` outlives the call that fills it.
        check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut status) })?;
        if seals & libc::F_SEAL_SHRINK == 0 || usize::try_from(status.st_size).map_or(true, |size| size < bytes) {
            return Err(invalid());
        }
        // SAFETY: the kernel chooses the place, so nothing of ours is mapped over; length and descriptor were checked.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<AtomicU32>()).ok_or_else(invalid)?;
        Ok(Self { start, count })
    }

    pub(crate) fn as_slice(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, has `count` words, and cannot lose its pages, since the file
        // is sealed against shrinking. Every value that other processes write there is a valid atomic.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<AtomicU32>()) };
    }
}

/// Returns free memory of all of glibc's arenas to the system; see `malloc_trim(3)`.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, locks what it touches, and leaves every live allocation where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes that are free on the file system of a path.
pub(crate) fn free_bytes(path: &CStr) -> io::Result<u64> {
    let mut facts = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends in a NUL, and there is room for the structure.
    if unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so it has filled the structure.
    let facts = unsafe { facts.assume_init() };
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}
