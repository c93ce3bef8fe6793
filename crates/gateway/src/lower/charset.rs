//! Character sets: their tables, and the settings of locations.

use crate::lower::Lowering;
use crate::plan::filters::CharsetPlan;
use conf::diagnostic::Diagnostic;
use conf::model::{CharsetSettings, Http};
use rules::charset::{Charsets, MapLines};
use rules::template::Template;

/// The tables of a configuration.
pub(super) fn lower_charsets(http: &Http) -> Charsets {
    let mut charsets = Charsets::default();
    for map in &http.charset_maps {
        charsets.add_map(&MapLines { from: &map.from, to: &map.to, lines: &map.lines });
    }
    charsets
}

impl Lowering<'_> {
    /// The settings of a location; `None` if they change nothing.
    pub(super) fn charset_plan(&mut self, settings: &CharsetSettings) -> Option<Box<CharsetPlan>> {
        self.check_map(settings);
        let mut plan = self.charset_templates(settings);
        for template in [&mut plan.charset, &mut plan.source].into_iter().flatten() {
            let Some(name) = template.as_constant() else { continue };
            self.plan.charsets.add_name(name);
            // As in nginx, a name is sent with its first spelling in the configuration.
            if let Some(spelling) = self.plan.charsets.spelling(name) {
                *template = Template::constant(spelling);
            }
        }
        (plan.charset.is_some() || plan.source.is_some()).then(|| Box::new(plan))
    }

    /// The same, without checking for tables.
    pub(super) fn charset_templates(&mut self, settings: &CharsetSettings) -> CharsetPlan {
        CharsetPlan {
            charset: settings.charset.as_ref().map(|name| self.template(name)),
            source: settings.source.as_ref().map(|name| self.template(name)),
            overrides: settings.overrides,
            types: settings.types.clone(),
        }
    }

    /// Two different names need a table between them.
    fn check_map(&mut self, settings: &CharsetSettings) {
        let (Some(charset), Some(source)) = (&settings.charset, &settings.source) else { return };
        let (Some(to), Some(from)) = (charset.as_text(), source.as_text()) else { return };
        if to.eq_ignore_ascii_case(from) || self.plan.charsets.recoding(from, to).is_some() {
            return;
        }
        let (from, to) = (from.escape_ascii(), to.escape_ascii());
        let message = format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"");
        if !self.found.iter().any(|known| known.message == message) {
            let hint = format!("write `charset_map {from} {to} {{ ... }}` in `http`, or take `source_charset` out");
            self.found.push(Diagnostic::error(charset.span, message).with_hint(hint));
        }
    }
}
