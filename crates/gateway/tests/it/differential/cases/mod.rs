//! The test cases: suites of cases, each suite with one configuration for both sides. A case is a line in a table; this
//! module turns tables into bytes.

mod access;
mod applications;
mod arrived;
pub(crate) mod caching;
mod changed;
mod charset;
mod choosing;
mod clients;
mod codings;
mod controls;
mod fastcgi;
mod files;
mod geoip2;
mod gzip;
mod headers_more;
mod heads;
mod keeping;
mod limits;
mod links;
mod listings;
mod memcached;
mod pages;
mod proxying;
mod responses;
mod rewriting;
mod ssi;
mod steering;
pub(crate) mod storing;
mod subrequests;
mod symlinks;
mod upstream_words;
mod userid;
mod variables;
pub(crate) mod words;

mod wire;

/// One conversation on one connection.
pub(crate) struct Case {
    /// Unique in its suite; printable, and the key of `accepted.txt`.
    pub(crate) name: String,
    /// Number of the listener.
    pub(crate) listener: usize,
    /// All bytes that the client sends.
    pub(crate) bytes: Vec<u8>,
    /// For each request in it, whether it is a HEAD.
    pub(crate) to_head: Vec<bool>,
}

/// Cases with their configuration.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// The content of `http {}`.
    pub(crate) text: &'static str,
    pub(crate) cases: Vec<Case>,
    /// Files in the prefix directory.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
}

/// The databases of `geoip2`, in a folder that is `{geo}` in the suites: they must be there before a server starts.
pub(crate) fn geo_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, name, epoch) in [("places.mmdb", "A-land", 1_700_000_000), ("others.mmdb", "Others", 1)] {
        std::fs::write(folder.path().join(file), crate::mmdb::places(name, epoch)).unwrap();
    }
    folder
}

impl Suite {
    /// The content of `http {}`, with the folder of the databases of `geoip2`.
    pub(crate) fn text_with(&self, geo: &tempfile::TempDir) -> String {
        self.text.replace("{geo}", geo.path().to_str().unwrap())
    }

    /// The name of a case, unique among all suites.
    pub(crate) fn path_of(&self, case: &Case) -> String {
        format!("{}/{}", self.name, case.name)
    }
}

/// Every suite.
pub(crate) fn suites() -> Vec<Suite> {
    let mut suites = vec![
        Suite { name: "arrived", text: include_str!("arrived.conf"), cases: arrived::cases(), files: Vec::new() },
        Suite { name: "controls", text: include_str!("controls.conf"), cases: controls::cases(), files: Vec::new() },
        Suite { name: "heads", text: include_str!("heads.conf"), cases: heads::cases(), files: Vec::new() },
        Suite { name: "proxying", text: include_str!("proxying.conf"), cases: proxying::cases(), files: Vec::new() },
        Suite { name: "choosing", text: include_str!("choosing.conf"), cases: choosing::cases(), files: Vec::new() },
        Suite { name: "files", text: include_str!("files.conf"), cases: files::cases(), files: files::files() },
        Suite {
            name: "responses",
            text: include_str!("responses.conf"),
            cases: responses::cases(),
            files: responses::files(),
        },
        Suite {
            name: "rewriting",
            text: include_str!("rewriting.conf"),
            cases: rewriting::cases(),
            files: rewriting::files(),
        },
        Suite {
            name: "steering",
            text: include_str!("steering.conf"),
            cases: steering::cases(),
            files: steering::files(),
        },
        Suite { name: "fastcgi", text: include_str!("fastcgi.conf"), cases: fastcgi::cases(), files: fastcgi::files() },
        Suite {
            name: "subrequests",
            text: include_str!("subrequests.conf"),
            cases: subrequests::cases(),
            files: subrequests::files(),
        },
        Suite {
            name: "upstream_words",
            text: include_str!("upstream_words.conf"),
            cases: upstream_words::cases(),
            files: Vec::new(),
        },
        Suite { name: "variables", text: include_str!("variables.conf"), cases: variables::cases(), files: Vec::new() },
        Suite { name: "clients", text: include_str!("clients.conf"), cases: clients::cases(), files: clients::files() },
        Suite { name: "gzip", text: include_str!("gzip.conf"), cases: gzip::cases(), files: gzip::files() },
        Suite { name: "limits", text: include_str!("limits.conf"), cases: limits::cases(), files: limits::files() },
        Suite {
            name: "applications",
            text: include_str!("applications.conf"),
            cases: applications::cases(),
            files: applications::files(),
        },
        Suite { name: "pages", text: include_str!("pages.conf"), cases: pages::cases(), files: pages::files() },
        Suite { name: "wire", text: include_str!("wire.conf"), cases: wire::cases(), files: Vec::new() },
        Suite { name: "access", text: include_str!("access.conf"), cases: access::cases(), files: access::files() },
        Suite { name: "changed", text: include_str!("changed.conf"), cases: changed::cases(), files: changed::files() },
        Suite { name: "charset", text: include_str!("charset.conf"), cases: charset::cases(), files: charset::files() },
        Suite { name: "userid", text: include_str!("userid.conf"), cases: userid::cases(), files: Vec::new() },
        Suite { name: "links", text: include_str!("links.conf"), cases: links::cases(), files: links::files() },
        Suite {
            name: "listings",
            text: include_str!("listings.conf"),
            cases: listings::cases(),
            files: listings::files(),
        },
        Suite { name: "keeping", text: include_str!("keeping.conf"), cases: keeping::cases(), files: Vec::new() },
    ];
    suites.extend(of_other_modules());
    suites
}

/// Suites of links, of modules that are no part of nginx, and of upstreams that are not HTTP.
fn of_other_modules() -> Vec<Suite> {
    vec![
        Suite {
            name: "symlinks",
            text: include_str!("symlinks.conf"),
            cases: symlinks::cases(),
            files: symlinks::files(),
        },
        Suite { name: "codings", text: include_str!("codings.conf"), cases: codings::cases(), files: codings::files() },
        Suite {
            name: "headers_more",
            text: include_str!("headers_more.conf"),
            cases: headers_more::cases(),
            files: headers_more::files(),
        },
        Suite { name: "geoip2", text: include_str!("geoip2.conf"), cases: geoip2::cases(), files: Vec::new() },
        Suite { name: "memcached", text: include_str!("memcached.conf"), cases: memcached::cases(), files: Vec::new() },
        Suite { name: "ssi", text: include_str!("ssi.conf"), cases: ssi::cases(), files: ssi::files() },
    ]
}

impl Case {
    /// A request as given, byte by byte.
    pub(crate) fn raw(name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::pipeline(name, &[bytes.as_ref()])
    }

    /// Several requests in one write.
    pub(crate) fn pipeline(name: impl Into<String>, requests: &[&[u8]]) -> Self {
        Self {
            name: name.into().escape_debug().to_string(),
            listener: 0,
            bytes: requests.concat(),
            to_head: requests.iter().map(|request| request.starts_with(b"HEAD ")).collect(),
        }
    }

    /// A request line and a Host field.
    pub(crate) fn simple(method: &str, host: &str, target: &str) -> Self {
        Self::raw(format!("{method} {target}"), format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }

    /// The same for another listener.
    pub(crate) fn on(self, listener: usize) -> Self {
        Self { listener, ..self }
    }

    /// The same with something before its name.
    pub(crate) fn named(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}: {}", self.name), ..self }
    }
}

/// A body that reveals any loss or repetition.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    let mut bytes = b"abcdefghijklmnopqrstuvw".repeat(count.div_ceil(23));
    bytes.truncate(count);
    bytes
}

/// A chunked body with chunks of this size.
pub(crate) fn chunked(body: &[u8], chunk: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(chunk.max(1)) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
