//! A location's settings for applications behind FastCGI, SCGI or uwsgi, and for memcached.

use conf::model::Scheme;
use rules::mime::MimeTypes;
use rules::pattern::Pattern;
use rules::template::Template;
use std::collections::HashSet;
use std::sync::Arc;

/// The settings of `fastcgi_pass`, `scgi_pass`, `uwsgi_pass` or `memcached_pass`.
pub(crate) struct ApplicationPlan {
    pub(crate) protocol: ApplicationProtocol,
    pub(crate) params: Vec<ParamPlan>,
    /// Names of parameters that the configuration sets: a request field with the same name is dropped.
    pub(crate) names: HashSet<Box<[u8]>>,
}

/// The protocol towards an application.
pub(crate) enum ApplicationProtocol {
    Fastcgi(FastcgiPlan),
    Scgi,
    Uwsgi { modifier1: u8, modifier2: u8 },
    Memcached(MemcachedPlan),
}

/// Settings of memcached only.
pub(crate) struct MemcachedPlan {
    /// `$memcached_key`
    pub(crate) key: Template,
    /// `memcached_gzip_flag`
    pub(crate) gzip_flag: u32,
    /// A value has no media type: the ending of the URI gives it, as for files.
    pub(crate) types: Arc<MimeTypes>,
}

/// Settings of FastCGI only.
pub(crate) struct FastcgiPlan {
    /// `fastcgi_keep_conn`
    pub(crate) keeps_connections: bool,
    /// `fastcgi_catch_stderr`
    pub(crate) fatal_texts: Vec<Box<[u8]>>,
}

impl ApplicationPlan {
    /// The settings of FastCGI, if that is the protocol.
    pub(crate) fn fastcgi(&self) -> Option<&FastcgiPlan> {
        match &self.protocol {
            ApplicationProtocol::Fastcgi(fastcgi) => Some(fastcgi),
            ApplicationProtocol::Scgi | ApplicationProtocol::Uwsgi { .. } | ApplicationProtocol::Memcached(_) => None,
        }
    }

    /// The settings of memcached, if that is the protocol.
    pub(crate) fn memcached(&self) -> Option<&MemcachedPlan> {
        match &self.protocol {
            ApplicationProtocol::Memcached(memcached) => Some(memcached),
            ApplicationProtocol::Fastcgi(_) | ApplicationProtocol::Scgi | ApplicationProtocol::Uwsgi { .. } => None,
        }
    }

    /// The scheme of the protocol, with TLS or without.
    pub(crate) fn scheme(&self, is_secure: bool) -> Scheme {
        match &self.protocol {
            ApplicationProtocol::Uwsgi { .. } if is_secure => Scheme::Suwsgi,
            ApplicationProtocol::Fastcgi(_) => Scheme::Fastcgi,
            ApplicationProtocol::Scgi => Scheme::Scgi,
            ApplicationProtocol::Uwsgi { .. } => Scheme::Uwsgi,
            ApplicationProtocol::Memcached(_) => Scheme::Memcached,
        }
    }
}

/// `fastcgi_param`, `scgi_param`, `uwsgi_param`
pub(crate) struct ParamPlan {
    pub(crate) name: Box<[u8]>,
    pub(crate) value: Template,
    /// `if_not_empty`
    pub(crate) unless_empty: bool,
}

/// How a URI becomes `$fastcgi_script_name` and `$fastcgi_path_info`.
pub(crate) struct ScriptPlan {
    /// `fastcgi_index`
    pub(crate) index: Option<Box<[u8]>>,
    /// `fastcgi_split_path_info`
    pub(crate) split: Option<Pattern>,
}
