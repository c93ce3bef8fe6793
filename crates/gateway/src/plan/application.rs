//! A location's settings for applications behind FastCGI, SCGI or uwsgi.

use conf::model::Scheme;
use rules::pattern::Pattern;
use rules::template::Template;
use std::collections::HashSet;

/// The settings of `fastcgi_pass`, `scgi_pass` or `uwsgi_pass`.
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
            ApplicationProtocol::Scgi | ApplicationProtocol::Uwsgi { .. } => None,
        }
    }

    /// The scheme of the protocol.
    pub(crate) fn scheme(&self) -> Scheme {
        match &self.protocol {
            ApplicationProtocol::Fastcgi(_) => Scheme::Fastcgi,
            ApplicationProtocol::Scgi => Scheme::Scgi,
            ApplicationProtocol::Uwsgi { .. } => Scheme::Uwsgi,
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
