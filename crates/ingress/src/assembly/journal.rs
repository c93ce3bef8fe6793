//! What a part of a translation reads and leaves in the assembly, so that it can be left there again without making the part
//! anew. See `from_ingress::memory`.

use super::{Assembly, BackendWish, UpstreamName};
use crate::{FileSource, Finding, Level, Name, ObjectName};
use conf::tree::Directive;

/// What one part has left.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    findings: Vec<Finding>,
    upstreams: Vec<(ObjectName, BackendWish, UpstreamName)>,
    files: Vec<FileSource>,
    /// Lines of `http`.
    http: Vec<Directive>,
    /// Services that were looked up, whether they are there or not.
    pub(crate) services: Vec<Name>,
    /// Secrets that were looked up.
    pub(crate) secrets: Vec<Name>,
    /// It depends on what other parts have left, such as the number of a variable.
    pub(crate) is_entangled: bool,
}

/// The journal of the part that is being made.
#[derive(Debug, Default)]
pub(super) struct Writing {
    journal: Option<Journal>,
    /// Lines of `http` before the part.
    http: usize,
}

impl Assembly<'_> {
    /// Begins the journal of a part.
    pub(crate) fn begin_part(&mut self) {
        self.writing = Writing { journal: Some(Journal::default()), http: self.http.len() };
    }

    /// Ends it.
    pub(crate) fn end_part(&mut self) -> Journal {
        let Writing { journal, http } = std::mem::take(&mut self.writing);
        let mut journal = journal.unwrap_or_default();
        journal.http = self.http.get(http..).unwrap_or_default().to_vec();
        journal
    }

    /// Leaves what a part has left before. `false` if it would not be the same; then the part must be made anew.
    pub(crate) fn repeat(&mut self, journal: &Journal) -> bool {
        let Journal { findings, upstreams, files, http, is_entangled, .. } = journal;
        // An upstream that is made here is made in any case.
        if *is_entangled || !upstreams.iter().all(|(owner, wish, name)| self.upstream(owner, wish) == *name) {
            return false;
        }
        for Finding { object, level, reason, message } in findings {
            self.find(object, *level, reason, message.as_str());
        }
        for source in files {
            self.file(source.clone());
        }
        self.http.extend(http.iter().cloned());
        true
    }

    pub(super) fn note_finding(&mut self, object: &ObjectName, level: Level, reason: &'static str, message: &str) {
        if let Some(journal) = &mut self.writing.journal {
            journal.findings.push(Finding { object: object.clone(), level, reason, message: message.to_owned() });
        }
    }

    pub(super) fn note_upstream(&mut self, owner: &ObjectName, wish: &BackendWish, name: &str) {
        if let Some(journal) = &mut self.writing.journal {
            journal.upstreams.push((owner.clone(), wish.clone(), name.to_owned()));
        }
    }

    pub(super) fn note_file(&mut self, source: &FileSource) {
        if let Some(journal) = &mut self.writing.journal {
            journal.files.push(source.clone());
        }
    }

    /// The part depends on other parts.
    pub(crate) fn entangle(&mut self) {
        if let Some(journal) = &mut self.writing.journal {
            journal.is_entangled = true;
        }
    }

    /// The part depends on a Service.
    pub(crate) fn note_service(&mut self, name: &Name) {
        if let Some(journal) = &mut self.writing.journal {
            journal.services.push(name.clone());
        }
    }

    /// The part depends on a Secret.
    pub(crate) fn note_secret(&mut self, name: &Name) {
        if let Some(journal) = &mut self.writing.journal {
            journal.secrets.push(name.clone());
        }
    }
}
