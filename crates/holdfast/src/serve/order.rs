//! A master's order to a child: the texts that the master read, so that both lower the same bytes, and the meaning of
//! each descriptor. Bytes in, bytes out.

use crate::instance::Instance;
use crate::process::Part;
use gateway::{ZoneKind, ZoneSpec};
use handover::wire::{Reader, put, put_count, put_number};
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tls::TicketState;

/// The texts that a configuration was read from. One loader fills it, and as a loader it returns them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Texts {
    files: HashMap<PathBuf, Vec<u8>>,
    masks: HashMap<PathBuf, Vec<PathBuf>>,
}

/// Reads through another loader, and keeps each text.
pub(super) struct Remembering<L> {
    pub(super) inner: L,
    pub(super) texts: Texts,
}

impl Texts {
    /// The paths of its files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    /// The text of a file.
    pub(super) fn text(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Replaces the texts of files that it has by newer ones.
    pub(super) fn update(&mut self, newer: &Self) {
        let files = newer.files.iter().map(|(path, text)| (path.clone(), text.clone()));
        self.files.extend(files);
    }

    /// Removes all files except these.
    pub(super) fn retain(&mut self, files: &[PathBuf]) {
        self.files.retain(|path, _| files.contains(path));
    }

    /// These texts with the current content of some files; `None` if nothing changes. An unreadable file is left out,
    /// so that reading it gives an error.
    pub(super) fn with_changed(&self, files: &[PathBuf], loader: &mut dyn conf::Loader) -> Option<Self> {
        let mut new = self.clone();
        for path in files {
            match loader.read(path) {
                Ok(text) => new.files.insert(path.clone(), text),
                Err(_) => new.files.remove(path),
            };
        }
        (new != *self).then_some(new)
    }
}

impl<L: conf::Loader> conf::Loader for Remembering<L> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let text = self.inner.read(path)?;
        self.texts.files.insert(path.to_path_buf(), text.clone());
        Ok(text)
    }

    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        let found = self.inner.glob(mask)?;
        self.texts.masks.insert(mask.to_path_buf(), found.clone());
        Ok(found)
    }
}

impl conf::Loader for Texts {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        self.masks.get(mask).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// One order. Descriptors are in the order of `zones`, then of `listeners`, then of `logs`; then the meeting place, and what is shared with other
/// processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// What is configured.
    pub(super) instance: Instance,
    /// The texts of its configuration.
    pub(super) texts: Texts,
    /// Addresses as text, and the number of sockets of each.
    pub(super) listeners: Vec<(String, usize)>,
    /// Paths of logs.
    pub(super) logs: Vec<PathBuf>,
    /// Whether the order has a socket by which the child can be reached if its master dies.
    pub(super) meeting_place: bool,
    /// Which of the processes the child is; set when it is started.
    pub(super) part: Option<Part>,
    /// How many processes share something with it; 0: none.
    pub(super) commons: usize,
    /// Zones of limits and caches that several processes share. The first descriptors are their memory.
    pub(super) zones: Vec<ZoneSpec>,
    /// Keys of session tickets made by the master.
    pub(super) tickets: Vec<TicketState>,
}

impl Order {
    /// An empty order.
    pub(super) fn new(instance: Instance) -> Self {
        let (texts, listeners, logs) = (Texts::default(), Vec::new(), Vec::new());
        Self {
            instance,
            texts,
            listeners,
            logs,
            meeting_place: false,
            part: None,
            commons: 0,
            zones: Vec::new(),
            tickets: Vec::new(),
        }
    }

    /// Encodes it for the channel.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Instance { conf_path, prefix, globals, error_log, pid_path, text } = &self.instance;
        for path in [conf_path, prefix, error_log, pid_path] {
            put(&mut out, path.as_os_str().as_bytes());
        }
        for option in [globals, text] {
            put_count(&mut out, usize::from(option.is_some()));
            if let Some(text) = option {
                put(&mut out, text.as_bytes());
            }
        }
        put_count(&mut out, self.texts.files.len());
        for (path, text) in &self.texts.files {
            put(&mut out, path.as_os_str().as_bytes());
            put(&mut out, text);
        }
        put_count(&mut out, self.texts.masks.len());
        for (mask, found) in &self.texts.masks {
            put(&mut out, mask.as_os_str().as_bytes());
            put_paths(&mut out, found);
        }
        put_count(&mut out, self.listeners.len());
        for (address, count) in &self.listeners {
            put(&mut out, address.as_bytes());
            put_count(&mut out, *count);
        }
        put_paths(&mut out, &self.logs);
        put_count(&mut out, usize::from(self.meeting_place));
        put_count(&mut out, usize::from(self.part.is_some()));
        for number in self.part.iter().flat_map(|part| [part.index, part.of]) {
            put_number(&mut out, number.into());
        }
        put_count(&mut out, self.commons);
        put_count(&mut out, self.zones.len());
        for ZoneSpec { kind, name, bytes } in &self.zones {
            put_count(&mut out, ZoneKind::ALL.iter().position(|known| known == kind).unwrap_or_default());
            put(&mut out, name.as_bytes());
            put_number(&mut out, *bytes);
        }
        put_count(&mut out, self.tickets.len());
        for state in &self.tickets {
            put(&mut out, &state.encode());
        }
        out
    }

    /// Decodes it; `None` if the bytes are not an order.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let (conf_path, prefix) = (from.path()?, from.path()?);
        let (error_log, pid_path) = (from.path()?, from.path()?);
        // An option is a list with at most one entry.
        let (globals, text) = (from.list(Reader::string)?.pop(), from.list(Reader::string)?.pop());
        let instance = Instance { conf_path, prefix, globals, error_log, pid_path, text };
        let files = from.list(|from| Some((from.path()?, from.bytes()?.to_vec())))?;
        let masks = from.list(|from| Some((from.path()?, from.list(Reader::path)?)))?;
        let listeners = from.list(|from| Some((from.string()?, from.count()?)))?;
        let logs = from.list(Reader::path)?;
        let meeting_place = from.count()? > 0;
        let number = |from: &mut Reader<'_>| u16::try_from(from.number()?).ok();
        let part = from.list(|from| Some(Part { index: number(from)?, of: number(from)? }))?.pop();
        let commons = from.count()?;
        let zones = from.list(|from| {
            let kind = *ZoneKind::ALL.get(from.count()?)?;
            Some(ZoneSpec { kind, name: from.string()?, bytes: from.number()? })
        })?;
        let tickets = from.list(|from| TicketState::decode(from.bytes()?))?;
        let texts = Texts { files: files.into_iter().collect(), masks: masks.into_iter().collect() };
        let order = Self { instance, texts, listeners, logs, meeting_place, part, commons, zones, tickets };
        from.is_at_end().then_some(order)
    }
}

fn put_paths(out: &mut Vec<u8>, paths: &[PathBuf]) {
    put_count(out, paths.len());
    for path in paths {
        put(out, path.as_os_str().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Wanted;

    #[test]
    fn an_order_comes_back_as_it_was() {
        let wanted = Wanted { conf_path: Some("/c".into()), globals: Some("x;".into()), ..Wanted::default() };
        let mut texts = Texts::default();
        texts.files.insert("/c".into(), vec![0, 255, 7]);
        texts.masks.insert("/d/*".into(), vec!["/d/a".into(), "/d/b".into()]);
        let order = Order {
            instance: Instance::find(&wanted),
            texts,
            listeners: vec![("127.0.0.1:80".to_owned(), 1), ("unix:/s".to_owned(), 2)],
            logs: vec!["/l".into()],
            meeting_place: true,
            part: Some(Part { index: 2, of: 3 }),
            commons: 3,
            zones: ZoneKind::ALL.map(|kind| ZoneSpec { kind, name: "z".to_owned(), bytes: 7 }).into(),
            tickets: tls::TicketKeys::random().state().into_iter().collect(),
        };
        let bytes = order.encode();
        assert_eq!(Order::decode(&bytes), Some(order));
        for cut in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }
}
