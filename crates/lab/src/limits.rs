//! Limits of an experiment's size. Each limit turns a typing error into an error message instead of a run that takes all
//! night.

/// Bytes of an experiment file: the shipped ones have some ten thousand, including complete configurations.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a file beside the experiment file; the record contains the whole file.
pub const BESIDE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file filled with `x`: bodies of hundreds of megabytes are served from files, and a disk has room for two.
pub const FILL_BYTES_MAX: u64 = 1 << 28;
/// The smallest number that is too large.
pub(crate) const TOO_MANY_FILL_BYTES: u64 = FILL_BYTES_MAX + 1;
/// Characters of a name, because names head the columns of tables.
pub const NAME_CHARS_MAX: usize = 60;
/// Arms: more than colours and columns can distinguish.
pub const ARMS_MAX: usize = 32;
/// Hosts: the third byte of a host's addresses is its number, and a chain with its clients has some ten.
pub const HOSTS_MAX: usize = 32;
/// Addresses of a host: the last byte of an address is its number in the host, and a million connections need 36.
pub const ADDRESSES_MAX: u32 = 250;
/// Processes: twice the longest chain that `plan` knows.
pub const PROCESSES_MAX: usize = 64;
/// Loads: the experiment of report 3 has two, and all run at the same time on one machine.
pub const LOADS_MAX: usize = 8;
/// Shares: each is a row of one table.
pub const SHARES_MAX: usize = 64;
/// Probes: each costs a look at all sockets of a host, again and again.
pub const PROBES_MAX: usize = 64;
/// Claims: one report contains all of them.
pub const CLAIMS_MAX: usize = 256;
/// Files: each is written again for each sample.
pub const FILES_MAX: usize = 64;
/// Arguments of a process or load; kernels allow more, but longer command lines are unreadable.
pub const ARGUMENTS_MAX: usize = 128;
/// Values of an arm, or sysctls of a host.
pub const VALUES_MAX: usize = 64;
/// Combinations of a sweep: each is a whole run, and 64 short ones take a night.
pub const CELLS_MAX: usize = 64;
/// Rounds: 100 pairs detect an effect of a fifth of the noise; beyond that a quieter machine helps more than more pairs.
pub const ROUNDS_MAX: u32 = 100;
/// Seconds of a load: the experiment of report 0 lasted 300, a soak lasts hours.
pub const SECONDS_MAX: f64 = 14_400.0;
/// Requests of a load: at 100,000 a second these take nearly three hours.
pub const REQUESTS_MAX: u64 = 1_000_000_000;
/// Seconds of a warm-up or an idle time: ten times the kernel's minute of TIME_WAIT.
pub const WAIT_SECONDS_MAX: f64 = 600.0;
/// Shortest interval between two looks: at a million sockets one look takes a second, and more than 20 a second are
/// unreadable in a chart.
pub const LOOK_SECONDS_MIN: f64 = 0.05;
/// Longest interval between two looks: with a longer one, a short load ends before the second look.
pub const LOOK_SECONDS_MAX: f64 = 60.0;
/// Descriptors of a process: about ten times the default of `fs.nr_open`; a larger number is a typing error.
pub const DESCRIPTORS_MAX: u64 = 10_000_000;
/// Core numbers: machines with more cores exist, but no experiment names them by number.
pub const CORE_MAX: usize = 4095;
/// Seconds of all loads, waits and warm-ups in all rounds and arms: two days.
pub const DURATION_SECONDS_MAX: f64 = 172_800.0;
/// Nesting of values in values; a deeper one refers to itself.
pub const TEMPLATE_DEPTH_MAX: usize = 4;
/// Bytes of a filled-in template: a configuration of 100,000 lines has six million.
pub const FILLED_BYTES_MAX: usize = 1 << 24;
