//! `fastcgi_pass`, `scgi_pass` and `uwsgi_pass`: settings that only applications have.

use crate::lower::Lowering;
use crate::plan::application::{
    ApplicationPlan, ApplicationProtocol, FastcgiPlan, MemcachedPlan, ParamPlan, ScriptPlan,
};
use conf::model::{ApplicationSettings, LocationSettings, Scheme};
use conf::value::{Part, Template};
use std::collections::HashSet;

/// The variable with the key of a value.
const KEY: &str = "memcached_key";

impl Lowering<'_> {
    /// The settings of an application with this scheme; `None` for an HTTP scheme.
    pub(super) fn application_plan(&mut self, settings: &LocationSettings, scheme: Scheme) -> Option<ApplicationPlan> {
        if scheme == Scheme::Memcached {
            return Some(self.memcached_plan(settings));
        }
        let words = settings.application_words(scheme)?;
        let protocol = match scheme {
            Scheme::Http | Scheme::Https | Scheme::Memcached | Scheme::Grpc | Scheme::Grpcs => return None,
            Scheme::Fastcgi => ApplicationProtocol::Fastcgi(FastcgiPlan {
                keeps_connections: words.keep_conn,
                fatal_texts: words.catch_stderr.iter().map(|text| text.as_slice().into()).collect(),
            }),
            Scheme::Scgi => ApplicationProtocol::Scgi,
            Scheme::Uwsgi | Scheme::Suwsgi => {
                let modifiers = &settings.uwsgi_modifiers;
                ApplicationProtocol::Uwsgi { modifier1: modifiers.modifier1, modifier2: modifiers.modifier2 }
            }
        };
        let params: Vec<ParamPlan> = words
            .params
            .iter()
            .map(|param| ParamPlan {
                name: param.name.as_slice().into(),
                value: self.template(&param.value),
                // As in nginx, an empty value removes the client's field.
                unless_empty: param.unless_empty || param.name.starts_with(b"HTTP_"),
            })
            .collect();
        Some(ApplicationPlan { protocol, names: params.iter().map(|param| param.name.clone()).collect(), params })
    }

    /// As in nginx, the variable `$memcached_key` has to be defined somewhere, by `set` or `map`.
    fn memcached_plan(&mut self, settings: &LocationSettings) -> ApplicationPlan {
        let span = self.http.span;
        let key = Template { parts: vec![Part::Variable(KEY.to_owned())], span };
        let memcached = MemcachedPlan {
            key: self.template(&key),
            gzip_flag: settings.memcached_words.gzip_flag,
            types: self.mime_types(&settings.files),
        };
        ApplicationPlan {
            protocol: ApplicationProtocol::Memcached(memcached),
            params: Vec::new(),
            names: HashSet::default(),
        }
    }

    /// How a location splits URIs, if it is configured.
    pub(super) fn script_plan(&mut self, words: &ApplicationSettings) -> Option<Box<ScriptPlan>> {
        let split = words.split_path_info.as_ref().and_then(|regex| self.pattern(regex));
        let index = words.index.as_ref().map(|index| index.as_slice().into());
        (index.is_some() || split.is_some()).then(|| Box::new(ScriptPlan { index, split }))
    }
}
