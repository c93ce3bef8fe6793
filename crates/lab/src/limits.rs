//! How much of everything an experiment may have. Each bound is there so that a slip of the keyboard is an error and not a night.

/// Bytes of an experiment file: the founding ones have some ten thousand, whole configurations included.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a file beside the experiment file, which the record keeps whole.
pub const BESIDE_BYTES_MAX: u64 = 1 << 20;
/// Of a file of this many `x`: bodies of hundreds of megabytes are served from files, and a disk has room for two.
pub const FILL_BYTES_MAX: u64 = 1 << 28;
/// The first number that is too many.
pub(crate) const TOO_MANY_FILL_BYTES: u64 = FILL_BYTES_MAX + 1;
/// Characters of a name, which heads columns of tables.
pub const NAME_CHARS_MAX: usize = 60;
/// More sides than colours and columns can tell apart.
pub const ARMS_MAX: usize = 32;
/// The third byte of a host's addresses is its number, and a chain with its clients has some ten.
pub const HOSTS_MAX: usize = 32;
/// The last byte of an address is its number in the host, and a million connections need 36.
pub const ADDRESSES_MAX: u32 = 250;
/// Twice the longest chain that `plan` knows.
pub const PROCESSES_MAX: usize = 64;
/// F3 has two, and all run at the same time on one machine.
pub const LOADS_MAX: usize = 8;
/// Each is a row of one table.
pub const SHARES_MAX: usize = 64;
/// Each costs a look at all sockets of a host, again and again.
pub const PROBES_MAX: usize = 64;
/// One report holds them all.
pub const CLAIMS_MAX: usize = 256;
/// Each is written anew for each sample.
pub const FILES_MAX: usize = 64;
/// Of a process or load; kernels allow more, command lines that people read do not.
pub const ARGUMENTS_MAX: usize = 128;
/// Of an arm, or sysctls of a host.
pub const VALUES_MAX: usize = 64;
/// Of a sweep, all combinations: each is a whole run, and 64 short ones are a night.
pub const CELLS_MAX: usize = 64;
/// With 100 pairs an effect of a fifth of the noise is found; more pairs buy less than a quieter machine does.
pub const ROUNDS_MAX: u32 = 100;
/// Of a load: F0 lasted 300, a soak lasts hours.
pub const SECONDS_MAX: f64 = 14_400.0;
/// Of a load: at 100,000 a second these are nearly three hours.
pub const REQUESTS_MAX: u64 = 1_000_000_000;
/// Of a warm-up or an idle time: ten of the kernel's minutes of TIME_WAIT.
pub const WAIT_SECONDS_MAX: f64 = 600.0;
/// Between two looks: at a million sockets one takes a second, and more than 20 a second are unreadable in a chart.
pub const LOOK_SECONDS_MIN: f64 = 0.05;
/// Between two looks: more, and a short load is over before the second.
pub const LOOK_SECONDS_MAX: f64 = 60.0;
/// Of a process: twice the kernel's own `fs.nr_open` would need a changed machine, ten times is a slip.
pub const DESCRIPTORS_MAX: u64 = 10_000_000;
/// Machines with more cores exist; experiments that name them by number do not.
pub const CORE_MAX: usize = 4095;
/// All loads, waits and warm-ups of all rounds and arms: two days.
pub const DURATION_SECONDS_MAX: f64 = 172_800.0;
/// Values may speak of values; deeper than this they speak of themselves.
pub const TEMPLATE_DEPTH_MAX: usize = 4;
/// Of a template filled in: a configuration of 100,000 lines has six million.
pub const FILLED_BYTES_MAX: usize = 1 << 24;
