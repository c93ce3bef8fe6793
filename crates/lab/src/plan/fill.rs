//! Resolves the names in templates for one arm, and collects the files that a program reads. Called by `plan`.

use super::{Content, StagedFile, StagedHost};
use crate::experiment::{Experiment, File};
use crate::fault::{Fault, Path, suggestion};
use crate::limits::TEMPLATE_DEPTH_MAX;
use crate::path;
use crate::template::{Meaning, fill};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The owner of a text: a process or a load with its folder.
pub(super) struct Owner {
    pub(super) folder: PathBuf,
    /// Names of the files that it reads.
    reads: BTreeSet<String>,
    /// Values that are already filled in, so that each is filled in only once.
    values: BTreeMap<String, String>,
}

impl Owner {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, reads: BTreeSet::new(), values: BTreeMap::new() }
    }
}

/// The names of one arm.
pub(super) struct Scope<'a> {
    experiment: &'a Experiment,
    /// The number of the arm.
    pub(super) arm: usize,
    hosts: &'a [StagedHost],
    faults: Vec<Fault>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(experiment: &'a Experiment, arm: usize, hosts: &'a [StagedHost]) -> Self {
        Self { experiment, arm, hosts, faults: Vec::new() }
    }

    /// Each fault once: a file that two processes read reports its faults twice.
    pub(super) fn into_faults(self) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        for fault in self.faults {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults
    }

    /// Fills in one text. Records faults, and then returns an empty text.
    pub(super) fn text(&mut self, owner: &mut Owner, text: &str, path: &Path) -> String {
        self.filled(owner, text, path, 0).unwrap_or_default()
    }

    /// Fills in a list of texts.
    pub(super) fn texts(&mut self, owner: &mut Owner, texts: &[String], path: &Path) -> Vec<String> {
        texts.iter().enumerate().map(|(at, text)| self.text(owner, text, &path.then(at))).collect()
    }

    /// The path of a file that is named outside of templates.
    pub(super) fn file(&mut self, owner: &mut Owner, name: &str, path: &Path) -> PathBuf {
        if !self.experiment.files.contains_key(name) {
            let hint = suggestion(name, self.experiment.files.keys().map(String::as_str));
            self.faults.push(Fault::new(path.clone(), format!("there is no file \"{name}\"")).with_hint(hint));
        }
        owner.reads.insert(name.to_owned());
        owner.folder.join(name)
    }

    /// All files that the owner reads, including those that these files refer to.
    pub(super) fn files(&mut self, owner: &mut Owner) -> Vec<StagedFile> {
        let mut staged: BTreeMap<String, StagedFile> = BTreeMap::new();
        // Each file is filled in once, so files that refer to each other do not loop.
        while let Some(name) = owner.reads.iter().find(|name| !staged.contains_key(*name)).cloned() {
            let content = match self.experiment.files.get(&name) {
                Some(File::Text(text)) => Content::Text(self.text(owner, text, &path!["files", &name, "text"])),
                Some(File::Bytes(bytes)) => Content::Fill(*bytes),
                Some(File::Path(_)) => {
                    let fault = Fault::new(path!["files", &name, "path"], "this file has not been read");
                    self.faults.push(fault);
                    Content::Fill(0)
                }
                // The text that named it has already reported the fault.
                None => Content::Fill(0),
            };
            staged.insert(name.clone(), StagedFile { path: owner.folder.join(&name), content });
        }
        staged.into_values().collect()
    }

    fn filled(&mut self, owner: &mut Owner, text: &str, path: &Path, depth: usize) -> Option<String> {
        let filled = fill(text, &mut |name| self.meaning(owner, name, depth));
        let errors = match filled {
            Ok(filled) => return Some(filled),
            Err(errors) => errors,
        };
        for error in errors {
            let fault = Fault::new(path.clone(), error.what).with_part(error.part);
            self.faults.push(match error.hint {
                Some(hint) => fault.with_hint(hint),
                None => fault,
            });
        }
        None
    }

    fn meaning(&mut self, owner: &mut Owner, name: &str, depth: usize) -> Meaning {
        if name == "folder" {
            return Ok(owner.folder.to_string_lossy().into_owned());
        }
        if let Some(file) = name.strip_prefix("file:") {
            return self.meaning_of_file(owner, file.trim());
        }
        let (experiment, arm) = (self.experiment, self.arm);
        let of_arm = experiment.arms.get(arm).and_then(|known| known.values.get(name));
        let value = match of_arm {
            Some(value) => Some((value, path!["arm", arm, "values", name])),
            None => experiment.values.get(name).map(|value| (value, path!["values", name])),
        };
        if let Some((value, path)) = value {
            if depth >= TEMPLATE_DEPTH_MAX {
                let hint = "values may speak of values, but not in a circle".to_owned();
                return Err((format!("`{name}` leads through more than {TEMPLATE_DEPTH_MAX} values"), Some(hint)));
            }
            if let Some(known) = owner.values.get(name) {
                return Ok(known.clone());
            }
            // A fault within the value is reported at the place of the value.
            let filled = self.filled(owner, value, &path, depth + 1).unwrap_or_default();
            owner.values.insert(name.to_owned(), filled.clone());
            return Ok(filled);
        }
        self.meaning_of_host(name)
    }

    fn meaning_of_file(&mut self, owner: &mut Owner, name: &str) -> Meaning {
        if self.experiment.files.contains_key(name) {
            owner.reads.insert(name.to_owned());
            return Ok(owner.folder.join(name).to_string_lossy().into_owned());
        }
        let hint = suggestion(name, self.experiment.files.keys().map(String::as_str));
        Err((format!("there is no file \"{name}\""), Some(hint)))
    }

    fn meaning_of_host(&self, name: &str) -> Meaning {
        let (host, which) = name.split_once('.').map_or((name, None), |(host, which)| (host, Some(which)));
        let Some(host) = self.hosts.iter().find(|known| known.name == host) else {
            let arm = self.experiment.arms.get(self.arm);
            let values = arm.into_iter().flat_map(|arm| arm.values.keys()).chain(self.experiment.values.keys());
            let hosts = self.hosts.iter().map(|host| host.name.as_str());
            let known: BTreeSet<&str> = values.map(String::as_str).chain(hosts).chain(["folder"]).collect();
            let arm = arm.map_or("", |arm| arm.name.as_str());
            let what = format!("nothing says what `{name}` is in arm \"{arm}\"");
            return Err((what, Some(suggestion(name, known.iter().copied()))));
        };
        let shown = |address: &std::net::Ipv4Addr| address.to_string();
        match which {
            None => Ok(host.addresses.first().map(shown).unwrap_or_default()),
            Some("*") => Ok(host.addresses.iter().map(shown).collect::<Vec<_>>().join(",")),
            Some(number) => {
                let address = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                address.and_then(|at| host.addresses.get(at)).map(shown).ok_or_else(|| {
                    let count = host.addresses.len();
                    let what = format!("host `{}` has no address \"{number}\"", host.name);
                    (
                        what,
                        Some(format!("it has {count}, from `.1`; `addresses` of the host says how many, `.*` is all")),
                    )
                })
            }
        }
    }
}
