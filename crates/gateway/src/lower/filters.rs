//! Lowers the filters of response bodies.

use crate::lower::Lowering;
use crate::plan::filters::{AdditionPlan, Coding, CodingPlan, GzipPlan, SoughtTexts, SsiPlan, SubstitutePlan};
use conf::diagnostic::Diagnostic;
use conf::model::{
    BrotliSettings, FilterSettings, GzipSettings, LocationSettings, ReadyMade, ResponseSettings, ZstdSettings,
};
use rules::ssi::PageSettings;
use rules::substitute::Searcher;
use std::sync::Arc;

impl Lowering<'_> {
    /// `ssi`. A page may name any variable.
    pub(super) fn ssi_plan(&mut self, settings: &FilterSettings) -> Option<Box<SsiPlan>> {
        if !settings.ssi {
            return None;
        }
        self.plan.keeps_sent = true;
        Some(Box::new(SsiPlan {
            types: settings.ssi_types.clone(),
            page: PageSettings {
                value_bytes_max: usize::try_from(settings.ssi_value_length).unwrap_or(usize::MAX),
                silent: settings.ssi_silent_errors,
            },
            keeps_last_modified: settings.ssi_last_modified,
        }))
    }

    /// `sub_filter`
    pub(super) fn substitute_plan(&mut self, settings: &FilterSettings) -> Option<Box<SubstitutePlan>> {
        if settings.substitutions.is_empty() {
            return None;
        }
        let written = &settings.substitutions;
        let fixed: Option<Vec<&[u8]>> = written.iter().map(|one| one.text.as_text()).collect();
        let texts = match fixed.map(|texts| Searcher::new(&texts)) {
            Some(searcher) => SoughtTexts::Fixed(Arc::new(searcher)),
            None => SoughtTexts::Templates(written.iter().map(|one| self.template(&one.text)).collect()),
        };
        Some(Box::new(SubstitutePlan {
            types: settings.sub_types.clone(),
            texts,
            replacements: written.iter().map(|one| self.template(&one.replacement)).collect(),
            once: settings.sub_once,
            keeps_last_modified: settings.sub_last_modified,
        }))
    }
}

/// The window of zstd as a power of two, as brotli's largest one: the encoder holds one window, and tables by its size.
const ZSTD_WINDOW: u8 = 19;

/// Whether this build has the encoder of zstd.
const HAS_ZSTD: bool = cfg!(feature = "zstd");

impl Lowering<'_> {
    /// `None` if compression and unpacking are off.
    pub(super) fn gzip_plan(&mut self, settings: &LocationSettings) -> Option<Box<GzipPlan>> {
        if let Some(span) = settings.zstd.on.filter(|_| !HAS_ZSTD) {
            let refused = Diagnostic::error(span, "this build of holdfast lacks the encoder of zstd").with_hint(
                "packages have it; from source, build with `--features zstd`. `zstd_static` needs no encoder",
            );
            if !self.found.contains(&refused) {
                self.found.push(refused);
            }
        }
        gzip_plan(&settings.gzip, coding_plans(&settings.brotli, &settings.zstd))
    }
}

/// brotli and zstd, in the order of preference: brotli makes the smaller bodies.
fn coding_plans(brotli: &BrotliSettings, zstd: &ZstdSettings) -> Box<[CodingPlan]> {
    let brotli = CodingPlan {
        coding: Coding::Brotli,
        on: brotli.on,
        ready_made: brotli.ready_made,
        types: brotli.types.clone(),
        length_min: brotli.length_min,
        level: brotli.level,
        window: brotli.window,
    };
    let zstd = CodingPlan {
        coding: Coding::Zstd,
        on: zstd.on.is_some(),
        ready_made: zstd.ready_made,
        types: zstd.types.clone(),
        length_min: zstd.length_min,
        level: zstd.level,
        window: ZSTD_WINDOW,
    };
    [brotli, zstd].into_iter().filter(|plan| plan.on || plan.ready_made != ReadyMade::Off).collect()
}

fn gzip_plan(settings: &GzipSettings, others: Box<[CodingPlan]>) -> Option<Box<GzipPlan>> {
    let is_used = settings.on || settings.gunzip || settings.ready_made != ReadyMade::Off || !others.is_empty();
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
            others,
        })
    })
}

pub(super) fn addition_plan(settings: &ResponseSettings) -> Option<Box<AdditionPlan>> {
    let uri = |uri: &[u8]| (!uri.is_empty()).then(|| uri.into());
    let (before, after) = (uri(&settings.before_body), uri(&settings.after_body));
    let types = || settings.addition_types.clone();
    (before.is_some() || after.is_some()).then(|| Box::new(AdditionPlan { before, after, types: types() }))
}
