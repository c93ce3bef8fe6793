//! Lowers the filters of response bodies.

use crate::lower::Lowering;
use crate::plan::filters::{AdditionPlan, FilterPlan, GzipPlan, SoughtTexts, SubstitutePlan};
use conf::model::{FilterSettings, GzipSettings, ReadyMade, ResponseSettings};
use rules::substitute::Searcher;
use std::sync::Arc;

impl Lowering<'_> {
    /// The filters of a location, in their order.
    pub(super) fn filter_plans(&mut self, settings: &FilterSettings) -> Box<[FilterPlan]> {
        self.substitute_plan(settings).map(FilterPlan::Substitute).into_iter().collect()
    }

    fn substitute_plan(&mut self, settings: &FilterSettings) -> Option<SubstitutePlan> {
        if settings.substitutions.is_empty() {
            return None;
        }
        let written = &settings.substitutions;
        let fixed: Option<Vec<&[u8]>> = written.iter().map(|one| one.text.as_text()).collect();
        let texts = match fixed.map(|texts| Searcher::new(&texts)) {
            Some(searcher) => SoughtTexts::Fixed(Arc::new(searcher)),
            None => SoughtTexts::Templates(written.iter().map(|one| self.template(&one.text)).collect()),
        };
        Some(SubstitutePlan {
            types: settings.sub_types.clone(),
            texts,
            replacements: written.iter().map(|one| self.template(&one.replacement)).collect(),
            once: settings.sub_once,
            keeps_last_modified: settings.sub_last_modified,
        })
    }
}

/// `None` if compression and unpacking are off.
pub(super) fn gzip_plan(settings: &GzipSettings) -> Option<Box<GzipPlan>> {
    let is_used = settings.on || settings.gunzip || settings.ready_made != ReadyMade::Off;
    is_used.then(|| {
        Box::new(GzipPlan {
            on: settings.on,
            unpacks: settings.gunzip,
            ready_made: settings.ready_made,
            types: settings.types.clone(),
            length_min: settings.length_min,
            level: settings.level,
            vary: settings.vary,
            proxied: settings.proxied,
            http_version: settings.http_version,
            msie6: settings.disable.msie6,
            agents: settings.disable.agents.clone(),
        })
    })
}

pub(super) fn addition_plan(settings: &ResponseSettings) -> Option<Box<AdditionPlan>> {
    let uri = |uri: &[u8]| (!uri.is_empty()).then(|| uri.into());
    let (before, after) = (uri(&settings.before_body), uri(&settings.after_body));
    let types = || settings.addition_types.clone();
    (before.is_some() || after.is_some()).then(|| Box::new(AdditionPlan { before, after, types: types() }))
}
