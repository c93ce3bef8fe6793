//! The macros that declare rows of the table, and the reasons that many rows share. The rows are in the other files of
//! this folder, one file for some modules each.
//!
//! ```text
//! "name" (arguments) "syntax" = "default" in Context | Context, Inherit + REPEATABLE since "version", Support =>
//!     "What it is for.", "an example;";
//! ```
//! `(arguments)` is `(2)`, `(1..=2)`, `(1..)`, `(flag)` for `on | off`, or `(block 1)` where a block follows. The default,
//! `+ REPEATABLE`, `since` and the example may be left out. A missing version means that neither nginx's manual nor its
//! change log says when the directive came. `in every` means all contexts.

/// Written in a row whose directive may be repeated in one block.
pub(super) const REPEATABLE: bool = true;

// Why a directive has no effect here.
pub(super) const HASH: &str = "lookup tables are sized by what they hold";
pub(super) const EPOLL: &str = "the event loop always uses epoll";
pub(super) const ACCEPT: &str = "accepted connections go to the least loaded worker, so workers need not take turns";
pub(super) const PRIORITY: &str = "the threads keep the priority that the process was started with";
pub(super) const CLOCK: &str = "the clock is read once in each turn of the event loop";
pub(super) const CORES: &str =
    "the limit is that of the service: `LimitCORE=` of systemd, or `ulimit -c` before the program is started";
pub(super) const ALERTS: &str = "an internal inconsistency is logged with the level `alert`";
pub(super) const ONE_LEVEL: &str =
    "a log has one level for all clients; `holdfast ctl log-level` changes it while the program runs";
pub(super) const TURNS: &str = "the number of events that a turn takes is fixed";
pub(super) const AIO: &str = "file operations run on threads, not by the kernel's asynchronous I/O";
pub(super) const READ_AHEAD: &str = "the kernel decides how far it reads ahead";
pub(super) const JIT: &str = "expressions are compiled to machine code wherever PCRE2 can";
pub(super) const ONE_PIECE: &str = "a request body in memory is always in one piece";
pub(super) const NO_SPOOL: &str =
    "a response is held in memory within `proxy_buffers`, and a slow client slows the upstream; no file is written";
pub(super) const POOLS: &str = "memory is taken as needed, not from pools of a set size";
pub(super) const OPEN_FILES: &str = "whether a remembered file has changed is looked up after `open_file_cache_valid`";
pub(super) const OUTPUT: &str = "output is written at once, from buffers of a fixed size";
pub(super) const OFFLOAD: &str = "file operations that could block run on threads of their own";
pub(super) const BUILT_IN: &str = "modules that holdfast covers are built in, so there is nothing to load";
pub(super) const ENGINE: &str = "cryptography is built in and uses the processor's own instructions";
pub(super) const OBJECTS: &str = "certificates and keys are read again at each reload, and when their files change";
pub(super) const DHE: &str = "ciphers with DHE are not spoken, only those with ECDHE";
pub(super) const ECH: &str = "Encrypted Client Hello is not spoken: clients fall back to a hello in clear";
pub(super) const ACME_ZONE: &str = "certificates and challenges are kept in the memory of one process, as needed";
pub(super) const COMPRESSOR: &str = "the compressor has buffers of its own, of a fixed size";

// What a directive needs in order to have an effect. The checks look for each of these by its text.
pub(crate) const TLS: &str = "a TLS listener (`listen … ssl`)";
pub(crate) const PROXY_TLS: &str = "a `proxy_pass` that leads to `https://`";
pub(crate) const GRPC_TLS: &str = "a `grpc_pass` that leads to `grpcs://`";
pub(crate) const UWSGI_TLS: &str = "a `uwsgi_pass` that leads to `suwsgi://`";
pub(crate) const STREAM_TLS: &str = "`proxy_ssl on`";
pub(crate) const STREAM_LISTEN: &str = "a TLS listener in `stream` (`listen … ssl`)";
pub(crate) const STREAM_NAMES: &str = "`ssl_preread on`, or a TLS listener in `stream`";
pub(crate) const HTTP2: &str = "HTTP/2 (`http2 on`)";
pub(super) const QUIC: &str = "a QUIC listener (`listen … quic`)";
pub(super) const UWSGI: &str = "`uwsgi_pass`";
pub(super) const TUNNEL: &str = "`tunnel_pass`";
pub(super) const IMAGE_FILTER: &str = "`image_filter`";
pub(super) const MP4: &str = "`mp4`";
pub(super) const DAV: &str = "`dav_methods`";
pub(super) const GEOIP: &str = "`geoip_country`, `geoip_city` or `geoip_org`";
pub(super) const XSLT: &str = "`xslt_stylesheet`";
pub(super) const PROCESSES: &str = "workers that are processes and take turns";
pub(super) const NAMED_POOL: &str = "`aio threads=NAME` of a pool of one's own";

/// The arguments of a row.
macro_rules! args {
    ((flag)) => {
        $crate::table::Args { min: 1, max: 1, block: false, flag: true }
    };
    ((block $min:literal)) => {
        $crate::table::Args { min: $min, max: $min, block: true, flag: false }
    };
    ((block $min:literal ..= $max:literal)) => {
        $crate::table::Args { min: $min, max: $max, block: true, flag: false }
    };
    ((block $min:literal ..)) => {
        $crate::table::Args { min: $min, max: u8::MAX, block: true, flag: false }
    };
    (($min:literal)) => {
        $crate::table::Args { min: $min, max: $min, block: false, flag: false }
    };
    (($min:literal ..= $max:literal)) => {
        $crate::table::Args { min: $min, max: $max, block: false, flag: false }
    };
    (($min:literal ..)) => {
        $crate::table::Args { min: $min, max: u8::MAX, block: false, flag: false }
    };
}

/// The contexts of a row.
macro_rules! contexts {
    (every) => {
        $crate::table::Contexts::of(&$crate::table::Context::ALL)
    };
    ($($context:ident)|+) => {
        $crate::table::Contexts::of(&[$($crate::table::Context::$context),+])
    };
}

/// The value of an optional part of a row: the last one given counts.
macro_rules! last {
    ($only:expr) => {
        $only
    };
    ($fallback:expr, $given:expr) => {
        $given
    };
}

/// The rows of one file, as `ROWS`.
macro_rules! directives {
    ($(
        module $module:literal;
        $(
            $name:literal $args:tt $syntax:literal $(= $default:literal)? in $($context:ident)|+ ,
            $inherit:ident $(+ $repeatable:ident)? $(since $since:literal)? , $support:expr =>
            $doc:literal $(, $example:literal)? ;
        )+
    )+) => {
        #[allow(unused_imports)] // which words the rows of a file need changes with every row
        use $crate::table::{Support::{self, Accepted, OnlyWith, No, With, Yes}, rows::REPEATABLE};

        pub(super) const ROWS: &[$crate::table::Directive] = &[$($(
            $crate::table::Directive {
                name: $name,
                module: $crate::table::Module($module),
                contexts: $crate::table::rows::contexts!($($context)|+),
                args: $crate::table::rows::args!($args),
                syntax: $syntax,
                default: $crate::table::rows::last!(None $(, Some($default))?),
                inherit: $crate::table::Inherit::$inherit,
                repeatable: $crate::table::rows::last!(false $(, $repeatable)?),
                since: $crate::table::rows::last!("" $(, $since)?),
                doc: $doc,
                example: $crate::table::rows::last!("" $(, $example)?),
                support: $support,
            },
        )+)+];
    };
}
pub(super) use {args, contexts, directives, last};
