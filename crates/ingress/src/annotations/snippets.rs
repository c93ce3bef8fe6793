//! The annotations that are snippets.

use super::Planner;
use crate::assembly::stable_hash;
use crate::config_map::set;
use crate::snippet::{self, Snippet};
use conf::table::Context;
use conf::tree::Directive;

impl Planner<'_, '_> {
    pub(super) fn snippets(&mut self) {
        let global = [self.global.server_snippet.clone(), self.global.location_snippet.clone()];
        for text in global.into_iter().flatten() {
            match self.read(&text) {
                Ok(snippet) => self.take(snippet),
                Err(message) => self.reader.wrong("configuration-snippet", format!("of the ConfigMap: {message}")),
            }
        }
        for name in ["server-snippet", "configuration-snippet"] {
            if let Some(snippet) = self.allowed(name) {
                self.take(snippet);
            }
        }
    }

    /// The lines of a snippet for a location that is not one of the paths.
    pub(super) fn snippet(&mut self, name: &'static str) -> Vec<Directive> {
        let Some(snippet) = self.allowed(name) else { return Vec::new() };
        let headers = snippet.headers.iter().map(|(field, text)| self.origin.line("proxy_set_header", [field, text]));
        let mut out: Vec<Directive> = headers.collect();
        out.extend(snippet.program);
        out.extend(snippet.lines);
        out
    }

    fn allowed(&mut self, name: &'static str) -> Option<Snippet> {
        let text = self.reader.text(name)?;
        if !self.global.allow_snippets {
            self.reader.wrong(name, "snippets are not allowed: see --allow-snippet-annotations");
            return None;
        }
        self.read(text).map_err(|message| self.reader.wrong(name, message)).ok()
    }

    fn read(&self, text: &str) -> Result<Snippet, String> {
        let unique = stable_hash(self.owner.name.to_string().as_bytes());
        snippet::read(text, self.origin, self.reader.place, unique)
    }

    fn take(&mut self, snippet: Snippet) {
        for (name, text) in snippet.headers {
            set(&mut self.plan.headers, &name, text);
        }
        // A line of a snippet replaces that of an annotation, where there may be one only.
        for line in &snippet.lines {
            let name = line.name.text();
            let once = conf::table::find(&name, Context::Location).is_some_and(|row| !row.repeatable);
            if once {
                self.plan.location.retain(|known| known.name.value != line.name.value);
            }
        }
        self.plan.first.extend(snippet.program);
        self.plan.location.extend(snippet.lines);
    }
}
