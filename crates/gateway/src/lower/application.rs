//! `fastcgi_pass`, `scgi_pass` and `uwsgi_pass`: settings that only applications have.

use crate::lower::Lowering;
use crate::plan::application::{ApplicationPlan, ApplicationProtocol, FastcgiPlan, ParamPlan, ScriptPlan};
use conf::model::{ApplicationSettings, LocationSettings, Scheme};

impl Lowering<'_> {
    /// The settings of an application with this scheme; `None` for an HTTP scheme.
    pub(super) fn application_plan(&mut self, settings: &LocationSettings, scheme: Scheme) -> Option<ApplicationPlan> {
        let words = settings.application_words(scheme)?;
        let protocol = match scheme {
            Scheme::Http | Scheme::Https | Scheme::Grpc | Scheme::Grpcs => return None,
            Scheme::Fastcgi => ApplicationProtocol::Fastcgi(FastcgiPlan {
                keeps_connections: words.keep_conn,
                fatal_texts: words.catch_stderr.iter().map(|text| text.as_slice().into()).collect(),
            }),
            Scheme::Scgi => ApplicationProtocol::Scgi,
            Scheme::Uwsgi => {
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

    /// How a location splits URIs, if it is configured.
    pub(super) fn script_plan(&mut self, words: &ApplicationSettings) -> Option<Box<ScriptPlan>> {
        let split = words.split_path_info.as_ref().and_then(|regex| self.pattern(regex));
        let index = words.index.as_ref().map(|index| index.as_slice().into());
        (index.is_some() || split.is_some()).then(|| Box::new(ScriptPlan { index, split }))
    }
}
