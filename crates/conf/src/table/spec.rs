//! The shape of one row.

/// A block in which a directive may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Context {
    /// The top level.
    Main = 1,
    /// `events { }`
    Events = 1 << 1,
    /// `http { }`
    Http = 1 << 2,
    /// `server { }` in `http`
    Server = 1 << 3,
    /// `location { }`
    Location = 1 << 4,
    /// `if` in `server`
    IfInServer = 1 << 5,
    /// `if` in `location`
    IfInLocation = 1 << 6,
    /// `limit_except { }`
    LimitExcept = 1 << 7,
    /// `upstream { }` in `http`
    Upstream = 1 << 8,
    /// `stream { }`
    Stream = 1 << 9,
    /// `server { }` in `stream`
    StreamServer = 1 << 10,
    /// `upstream { }` in `stream`
    StreamUpstream = 1 << 11,
    /// `mail { }`
    Mail = 1 << 12,
    /// `server { }` in `mail`
    MailServer = 1 << 13,
    /// The body of `types`, `map`, `geo`, `split_clients`, `charset_map`: entries, not directives.
    Entries = 1 << 14,
    /// `acme_issuer { }`
    AcmeIssuer = 1 << 15,
    /// `otel_exporter { }`
    OtelExporter = 1 << 16,
}

impl Context {
    /// Every context, outer ones first.
    pub const ALL: [Self; 17] = [
        Self::Main,
        Self::Events,
        Self::Http,
        Self::Server,
        Self::Location,
        Self::IfInServer,
        Self::IfInLocation,
        Self::LimitExcept,
        Self::Upstream,
        Self::Stream,
        Self::StreamServer,
        Self::StreamUpstream,
        Self::Mail,
        Self::MailServer,
        Self::Entries,
        Self::AcmeIssuer,
        Self::OtelExporter,
    ];

    /// The context in words, as in the reference and in messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Events => "events",
            Self::Http => "http",
            Self::Server => "server",
            Self::Location => "location",
            Self::IfInServer => "if in server",
            Self::IfInLocation => "if in location",
            Self::LimitExcept => "limit_except",
            Self::Upstream => "upstream",
            Self::Stream => "stream",
            Self::StreamServer => "server in stream",
            Self::StreamUpstream => "upstream in stream",
            Self::Mail => "mail",
            Self::MailServer => "server in mail",
            Self::Entries => "the body of a table",
            Self::AcmeIssuer => "acme_issuer",
            Self::OtelExporter => "otel_exporter",
        }
    }
}

/// A set of [`Context`]s, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contexts(pub u32);

impl Contexts {
    /// The set of the given contexts.
    pub const fn of(contexts: &[Context]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < contexts.len() {
            bits |= contexts[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    /// Whether the context is one of the set.
    pub const fn contains(self, context: Context) -> bool {
        self.0 & context as u32 != 0
    }

    /// The contexts of the set, outer ones first.
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().filter(move |context| self.contains(*context))
    }
}

/// How many arguments a directive takes, and whether a block follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Args {
    /// Fewest arguments.
    pub min: u8,
    /// Most arguments; `u8::MAX` for any number.
    pub max: u8,
    /// A block follows instead of `;`.
    pub block: bool,
    /// The only argument is `on` or `off`.
    pub flag: bool,
}

impl Args {
    /// Whether this many arguments are right.
    pub const fn accepts(self, count: usize) -> bool {
        count >= self.min as usize && (self.max == u8::MAX || count <= self.max as usize)
    }
}

/// What a level inherits from the level around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    /// Nothing: the directive applies only where it is written (`proxy_pass`, `listen`, `return`).
    No,
    /// The outer value, unless this level sets one.
    Value,
    /// The outer list, unless this level has an entry of its own (`proxy_set_header`, `add_header`).
    ListReplaced,
    /// The outer list, followed by this level's entries (`more_set_headers`).
    ListJoined,
}

/// What holdfast does with the directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It takes effect.
    Yes,
    /// It is checked and has no effect here; the text gives the reason.
    Accepted(&'static str),
    /// It takes effect if the configuration has what the text names; otherwise it is accepted with a note.
    With(&'static str),
    /// It takes effect only together with something that holdfast lacks (`proxy_cache_*` without a response cache).
    /// Without that it is accepted with a note, otherwise it is an error. The text names what it needs.
    OnlyWith(&'static str),
    /// A real nginx directive that holdfast does not support: an error that says so.
    No,
}

/// The nginx module (or ours) that a directive belongs to, by nginx's own name, for example `ngx_http_proxy_module`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module(pub &'static str);

/// One directive of one module. A name may have several rows (`server` in `http`, in `upstream`, in `stream`); their
/// contexts are disjoint.
#[derive(Debug, Clone, Copy)]
pub struct Directive {
    /// Its name.
    pub name: &'static str,
    /// The module it comes from.
    pub module: Module,
    /// The contexts in which it may appear.
    pub contexts: Contexts,
    /// The number of its arguments.
    pub args: Args,
    /// Its arguments as shown in the reference, for example `time`, `on | off`, `address [parameters]`.
    pub syntax: &'static str,
    /// The default as documented by nginx, arguments only; `None` without one.
    pub default: Option<&'static str>,
    /// How levels inherit it.
    pub inherit: Inherit,
    /// Whether it may appear more than once in one block.
    pub repeatable: bool,
    /// The first nginx version that has it, for example `1.29.8`; `holdfast` for ours, `njs` for the scripting
    /// module's. Empty if neither nginx's manual nor its change log names it.
    pub since: &'static str,
    /// One line, in our own words.
    pub doc: &'static str,
    /// One line of configuration that uses it; empty for some unsupported directives.
    pub example: &'static str,
    /// What holdfast does with it.
    pub support: Support,
}
