//! The shape of one row.

/// A place in which a directive may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
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
}

impl Context {
    /// Every context, outer ones first.
    pub const ALL: [Self; 16] = [
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
    ];

    /// The context in words, as the reference and messages name it.
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
        }
    }
}

/// A set of [`Context`]s, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contexts(pub u16);

impl Contexts {
    /// The set of the given contexts.
    pub const fn of(contexts: &[Context]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < contexts.len() {
            bits |= contexts[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Whether the context is one of the set.
    pub const fn contains(self, context: Context) -> bool {
        self.0 & context as u16 != 0
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

/// What a level takes over from the level around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    /// Nothing: the directive means only where it is written (`proxy_pass`, `listen`, `return`).
    No,
    /// The value of the outer level, unless this level sets one.
    Value,
    /// The outer level's whole list, unless this level has one entry of its own (`proxy_set_header`, `add_header`).
    ListReplaced,
    /// The outer level's whole list, and this level's entries behind it (`more_set_headers`).
    ListJoined,
}

/// What holdfast does with the directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It takes effect.
    Yes,
    /// It is checked and has no effect here; the text says why.
    Accepted(&'static str),
    /// It takes effect where the configuration has what the text names; without that it is accepted with a note.
    With(&'static str),
    /// It takes effect only together with something that holdfast lacks (`proxy_cache_*` without a response cache):
    /// accepted with a note while that is lacking, otherwise an error. The text names what it needs.
    OnlyWith(&'static str),
    /// A real nginx directive that is not on our list: an error that says so.
    No,
}

/// The nginx module (or ours) that a directive belongs to, by nginx's own name, for example `ngx_http_proxy_module`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module(pub &'static str);

/// One directive in one module. A name may have several rows (`server` in `http`, in `upstream`, in `stream`): rows with
/// the same name have disjoint contexts.
#[derive(Debug, Clone, Copy)]
pub struct Directive {
    /// Its name.
    pub name: &'static str,
    /// Where it comes from.
    pub module: Module,
    /// Where it may appear.
    pub contexts: Contexts,
    /// How many arguments it takes.
    pub args: Args,
    /// Its arguments as the reference shows them, for example `time`, `on | off`, `address [parameters]`.
    pub syntax: &'static str,
    /// The default as nginx documents it, arguments only; `None` where there is none.
    pub default: Option<&'static str>,
    /// How levels inherit it.
    pub inherit: Inherit,
    /// The same directive may appear more than once in one block.
    pub repeatable: bool,
    /// The first nginx version that has it, for example `1.29.8`; `holdfast` for ours, `njs` for the scripting module's.
    /// Empty where neither nginx's manual nor its change log says.
    pub since: &'static str,
    /// One line, in our own words.
    pub doc: &'static str,
    /// One line of configuration that uses it; empty for some of the directives that are not supported.
    pub example: &'static str,
    /// What holdfast does with it.
    pub support: Support,
}
