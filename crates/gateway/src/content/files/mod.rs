//! Static files: a URI becomes a path, a path a reply. Nothing here waits for a disk on the worker's thread: the
//! offload pool opens files that the kernel does not have in memory.

pub(crate) mod listing;
pub(crate) mod ready_made;
pub(crate) mod send;

use crate::base::logs::error::{Level, errno, quoted};
use crate::downstream::reply_head::ReplyHead;
use crate::exchange::Exchange;
use crate::exchange::file_parts::FileParts;
use crate::exchange::prefetched::Prefetched;
use crate::exchange::reply::{FileReply, Reply, ReplyBody};
use crate::exchange::step::{Redirect, Step};
use crate::exchange::view::ExchangeView;
use crate::filter::additions::adds;
use crate::plan::files::{FilesPlan, entity_tag};
use crate::plan::symlinks::PathGuard;
use http1::{FieldId, Method};
use reactor::{
    FileKind, OpenFile, c_path, is_link_loop, open_file, open_file_cached, open_guarded, open_guarded_cached,
    status_guarded,
};
use rules::precondition::{Conditions, Validators, Verdict, evaluate, is_same_version};
use rules::range::{Wanted, parse_range};
use rules::time_format::Moment;
use std::borrow::Cow;
use std::ffi::{CString, OsStr};
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// The result of looking for one index file.
enum Index {
    Found,
    Missing,
    Failed(Reply),
}

impl Exchange {
    /// Serves the file of the URI, or an index file if the URI ends in a slash.
    pub(crate) async fn files(&mut self, plan: &FilesPlan) -> Step {
        if !matches!(self.routing.method(), Method::Get | Method::Head | Method::Post) {
            return Step::Reply(Reply::error(405));
        }
        if self.uri().ends_with(b"/") { self.index(plan).await } else { Step::Reply(self.file(plan).await) }
    }

    /// The path of the present URI with a suffix, in the request's path buffer; or the answer to a path that leaves its
    /// root.
    pub(super) fn path_of(&mut self, index: Option<&[u8]>) -> Result<Vec<u8>, Reply> {
        self.check_alias()?;
        let mut path = std::mem::take(&mut self.request.path);
        path.clear();
        let root = &self.location().root;
        root.write_path(&ExchangeView::of(self), self.uri(), self.routing.target.is_below_alias(), &mut path);
        path.extend_from_slice(index.unwrap_or_default());
        if root.holds(&path) {
            return Ok(path);
        }
        self.error_log(&format!("\"{}\" leaves its root: it is not opened", quoted(&path)));
        Err(Reply::error(404))
    }

    /// An alias replaces a part of the URI that the client asked for; after `rewrite … break` that part is gone.
    pub(crate) fn check_alias(&self) -> Result<(), Reply> {
        if !self.routing.target.is_name_stale() || self.location().root.alias.is_none() {
            return Ok(());
        }
        let name = self.location().name.escape_ascii();
        self.error_log(&format!("\"alias\" cannot be used in location \"{name}\" where URI was rewritten"));
        Err(Reply::error(500))
    }

    /// Opens a file, or takes it from `open_file_cache`.
    pub(crate) async fn open(&self, path: &[u8]) -> io::Result<Arc<OpenFile>> {
        let guard = self.path_guard(path);
        let Some(plan) = &self.location().open_files else { return self.open_now(path, guard).await.map(Arc::new) };
        let (generation, now) = (self.generation.number, self.thread.reactor.now());
        let key = guard.map_or(Cow::Borrowed(path), |guard| Cow::Owned(guard.key_of(path)));
        let known = self.thread.open_files.borrow_mut().look(generation, plan, &key, now);
        if let Some(known) = known {
            return known.map_err(io::Error::from_raw_os_error);
        }
        let opened = self.open_now(path, guard).await.map(Arc::new);
        let kept = match &opened {
            Ok(file) => Some(Ok(Arc::clone(file))),
            Err(error) => error.raw_os_error().map(Err),
        };
        if let Some(kept) = kept {
            self.thread.open_files.borrow_mut().keep(generation, plan, &key, &kept, now);
        }
        opened
    }

    /// Opens a file, on another thread if it is not cached.
    async fn open_now(&self, path: &[u8], guard: Option<PathGuard>) -> io::Result<OpenFile> {
        let path = c_path(path.to_vec()).ok_or(ErrorKind::NotFound)?;
        if let Some(PathGuard { rule, trusted }) = guard {
            return match open_guarded_cached(&path, trusted) {
                Some(file) => Ok(file),
                None => self.offload(move || open_guarded(&path, trusted, rule)).await?,
            };
        }
        if let Some(file) = open_file_cached(&path)? {
            return Ok(file);
        }
        self.offload(move || open_file(&path)).await?
    }

    /// What is at a path, without opening it: that may be forbidden.
    async fn status(&self, name: CString, guard: Option<PathGuard>) -> io::Result<Metadata> {
        let look = move || match guard {
            None => std::fs::metadata(OsStr::from_bytes(name.to_bytes())),
            Some(PathGuard { rule, trusted }) => status_guarded(&name, trusted, rule),
        };
        self.offload(look).await.flatten()
    }

    /// The same for tests of the configuration; `None`, and a line in the log unless nothing is there, if it fails.
    pub(crate) async fn tested(&self, name: CString, guard: Option<PathGuard>) -> Option<Metadata> {
        let shown = quoted(name.to_bytes());
        let error = match self.status(name, guard).await {
            Ok(status) => return Some(status),
            Err(error) => error,
        };
        let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::InvalidFilename];
        if !absent.contains(&error.kind()) {
            self.log_at(Level::Crit, &format!("stat() \"{shown}\" failed ({})", errno(&error)));
        }
        None
    }

    /// Whether a path leads to what `try_files` wants. A file that may not be opened exists all the same, and its
    /// location answers 403.
    pub(crate) async fn is_there(&self, path: &[u8], wanted: FileKind) -> bool {
        let Some(name) = c_path(path.to_vec()) else { return false };
        let status = self.tested(name, self.path_guard(path)).await;
        status.is_some_and(|status| match wanted {
            FileKind::Regular => status.is_file(),
            FileKind::Directory => status.is_dir(),
            FileKind::Other => false,
        })
    }

    /// What `disable_symlinks` says about a path.
    pub(crate) fn path_guard(&self, path: &[u8]) -> Option<PathGuard> {
        let plan = self.location().symlinks.as_ref()?;
        let mut from = Vec::new();
        if let Some(template) = &plan.from {
            template.write(&ExchangeView::of(self), &mut from);
        }
        plan.guard(path, &from)
    }

    /// Keeps a file that was opened as a test: what follows nearly always serves it.
    pub(crate) fn prefetch(&mut self, path: Vec<u8>, file: Arc<OpenFile>) {
        let guard = self.path_guard(&path);
        self.routing.prefetch(Prefetched { path, guard, file });
    }

    /// The call that opens files here, for the error log.
    fn opening_call(&self) -> &'static str {
        if self.location().symlinks.is_some() { "openat()" } else { "open()" }
    }

    async fn index(&mut self, plan: &FilesPlan) -> Step {
        if plan.random_index
            && let Some(step) = self.random_index().await
        {
            return step;
        }
        let mut tested = false;
        for template in &plan.index {
            let mut name = Vec::new();
            template.write(&ExchangeView::of(self), &mut name);
            let (mut uri, args) = (self.uri().to_vec(), self.args().map(<[u8]>::to_vec));
            if name.starts_with(b"/") {
                return Step::Redirect(Redirect::Uri { uri: name, args });
            }
            match self.find_index(plan, &name, &mut tested).await {
                Index::Found => {
                    uri.extend_from_slice(&name);
                    return Step::Redirect(Redirect::Uri { uri, args });
                }
                Index::Missing => {}
                Index::Failed(reply) => return Step::Reply(reply),
            }
        }
        let path = match self.path_of(None) {
            Ok(path) => path,
            Err(reply) => return Step::Reply(reply),
        };
        if let Some(listing) = &plan.listing
            && matches!(self.routing.method(), Method::Get | Method::Head)
        {
            let reply = self.listing(listing, &path).await;
            self.request.path = path;
            return Step::Reply(self.under_conditions(reply));
        }
        self.error_log(&format!("directory index of \"{}\" is forbidden", quoted(&path)));
        self.request.path = path;
        Step::Reply(Reply::error(403))
    }

    async fn find_index(&mut self, plan: &FilesPlan, name: &[u8], tested: &mut bool) -> Index {
        let path = match self.path_of(Some(name)) {
            Ok(path) => path,
            Err(reply) => return Index::Failed(reply),
        };
        let error = match self.open(&path).await {
            Ok(file) => {
                self.prefetch(path, file);
                return Index::Found;
            }
            Err(error) => error,
        };
        let found = match error.kind() {
            ErrorKind::PermissionDenied => self.closed_index(&path).await,
            ErrorKind::NotFound if *tested => Index::Missing,
            ErrorKind::NotFound => {
                *tested = true;
                let directory = &path[..path.len() - name.len()];
                match self.open(directory).await {
                    Err(error) if error.kind() == ErrorKind::NotFound => self.index_not_found(plan, &path, &error),
                    _ => Index::Missing,
                }
            }
            ErrorKind::NotADirectory | ErrorKind::InvalidFilename => self.index_not_found(plan, &path, &error),
            _ => Index::Failed(self.open_failed(plan, &path, &error)),
        };
        self.request.path = path;
        found
    }

    /// An index file that cannot be opened. If it exists, the request goes to its location, which may not read it itself.
    async fn closed_index(&self, path: &[u8]) -> Index {
        let Some(name) = c_path(path.to_vec()) else { return Index::Missing };
        match self.status(name, self.path_guard(path)).await {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.error_log(&format!("\"{}\" is forbidden ({})", quoted(path), errno(&error)));
                Index::Failed(Reply::error(403))
            }
            _ => Index::Found,
        }
    }

    fn index_not_found(&self, plan: &FilesPlan, path: &[u8], error: &io::Error) -> Index {
        if plan.log_not_found {
            self.error_log(&format!("\"{}\" is not found ({})", quoted(path), errno(error)));
        }
        Index::Failed(Reply::error(404))
    }

    async fn file(&mut self, plan: &FilesPlan) -> Reply {
        let path = match self.path_of(None) {
            Ok(path) => path,
            Err(reply) => return reply,
        };
        if let Some(reply) = self.ready_made(plan, &path).await {
            self.routing.take_prefetched();
            self.request.path = path;
            return self.shown(reply);
        }
        let opened = match self.routing.take_prefetched() {
            Some(known) if known.path == path && known.guard == self.path_guard(&path) => Ok(known.file),
            _ => self.open(&path).await,
        };
        let reply = match opened {
            Err(error) => self.open_failed(plan, &path, &error),
            Ok(file) => match file.status.kind {
                FileKind::Directory => self.directory_redirect(),
                FileKind::Other => {
                    self.error_log(&format!("\"{}\" is not a regular file", quoted(&path)));
                    Reply::error(404)
                }
                FileKind::Regular if self.routing.method() == Method::Post => Reply::error(405),
                FileKind::Regular => self.file_reply(plan, file, None),
            },
        };
        self.request.path = path;
        self.shown(reply)
    }

    fn shown(&mut self, reply: Reply) -> Reply {
        if matches!(reply.status, 206 | 304) {
            // The result of the conditions takes precedence over the status that the page is shown under.
            self.response.show_under(None);
        }
        reply
    }

    fn open_failed(&self, plan: &FilesPlan, path: &[u8], error: &io::Error) -> Reply {
        let status = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => 404,
            ErrorKind::PermissionDenied => 403,
            _ if is_link_loop(error) => 403,
            _ => 500,
        };
        if status != 404 || plan.log_not_found {
            let call = self.opening_call();
            self.error_log(&format!("{call} \"{}\" failed ({})", quoted(path), errno(error)));
        }
        Reply::error(status)
    }

    /// 301 to the same URI with a slash.
    fn directory_redirect(&self) -> Reply {
        let (mut uri, mut location) = (self.uri().to_vec(), Vec::new());
        uri.push(b'/');
        rules::uri::write_redirect(&uri, self.args(), &mut location);
        Reply { fields: vec![(FieldId::Location, self.absolute_location(location))], ..Reply::error(301) }
    }

    /// The file, a part of it, or the result of the request's conditions.
    pub(crate) fn file_reply(&self, plan: &FilesPlan, file: Arc<OpenFile>, coding: Option<&'static str>) -> Reply {
        let status = file.status;
        let tag = plan.etag.then(|| entity_tag(status.modified, status.size));
        let validators = Validators { modified: Some(status.modified), tag: tag.as_deref().map(str::as_bytes) };
        let conditional = self.is_conditional();
        if conditional {
            match evaluate(&self.conditions(), &validators, plan.modified_since) {
                Verdict::Send => {}
                Verdict::Failed => return Reply::error(412),
                Verdict::NotModified => return not_modified(status.modified, tag),
            }
        }
        let media = plan.types.type_of(self.uri());
        let may_have_ranges = conditional && plan.ranges_max > 0 && !self.clears_ranges(media);
        let ranges = may_have_ranges && !self.changes_file(plan, &file, tag.as_deref(), coding);
        let wanted = if ranges { self.wanted_range(plan, &validators, status.size) } else { Wanted::Whole };
        let (code, parts) = match wanted {
            Wanted::Whole => (200, FileParts::whole(status.size)),
            Wanted::Parts(parts) => match &parts[..] {
                [part] => (206, FileParts::one(part.clone())),
                parts => {
                    let media = self.with_charset(media);
                    (206, FileParts::several(parts, status.size, &media, self.request_id() as u64))
                }
            },
            Wanted::Unsatisfiable => {
                let range = format!("bytes */{}", status.size).into_bytes();
                return Reply { fields: vec![(FieldId::ContentRange, range)], ..Reply::error(416) };
            }
        };
        Reply {
            status: code,
            content_type: Some(parts.content_type(media)),
            body: ReplyBody::File(Box::new(FileReply {
                file,
                parts,
                tag,
                coding,
                ranges,
                sendfile: plan.sendfile,
                chunk: if plan.sendfile { plan.sendfile_chunk } else { plan.read_chunk },
            })),
            ..Reply::default()
        }
    }

    /// Whether filters would compress or add to the file. Then, as in nginx, parts cannot be asked for.
    fn changes_file(&self, plan: &FilesPlan, file: &OpenFile, tag: Option<&str>, coding: Option<&str>) -> bool {
        let location = self.location();
        let changes = location.changes_bodies() || location.additions.is_some();
        if !changes || self.request_value(FieldId::Range).is_none() {
            return false;
        }
        let mut head = ReplyHead::whole(file.status.size);
        head.fields.push(FieldId::ContentType, plan.types.type_of(self.uri()));
        head.fields.push(FieldId::LastModified, &Moment::new(file.status.modified, 0).http_date());
        if let Some(tag) = tag {
            head.fields.push(FieldId::ETag, tag.as_bytes());
        }
        if let Some(coding) = coding {
            head.fields.push(FieldId::ContentEncoding, coding.as_bytes());
        }
        adds(self, head.with(b"")) || self.would_change(&mut head)
    }

    fn request_value(&self, id: FieldId) -> Option<&[u8]> {
        self.request.head.value(id, &self.request.bytes)
    }

    /// Whether the request's conditions apply. They do not for an error page, unless it is shown as a 200: the client's
    /// validators belong to the page that it asked for.
    pub(crate) fn is_conditional(&self) -> bool {
        self.response.shown_status().is_none_or(|status| status == 200) && !self.is_subrequest()
    }

    pub(crate) fn conditions(&self) -> Conditions<'_> {
        Conditions {
            match_: self.request_value(FieldId::IfMatch),
            none_match: self.request_value(FieldId::IfNoneMatch),
            modified_since: self.request_value(FieldId::IfModifiedSince),
            unmodified_since: self.request_value(FieldId::IfUnmodifiedSince),
        }
    }

    /// The range of the file that the client wants. If `If-Range` names another version, the file is sent whole.
    fn wanted_range(&self, plan: &FilesPlan, file: &Validators<'_>, size: u64) -> Wanted {
        let Some(range) = self.request_value(FieldId::Range) else { return Wanted::Whole };
        let version = self.request_value(FieldId::IfRange);
        if version.is_some_and(|version| !is_same_version(version, file.tag, file.modified)) {
            return Wanted::Whole;
        }
        parse_range(range, size, plan.ranges_max)
    }
}

fn not_modified(modified: i64, tag: Option<String>) -> Reply {
    let mut fields = vec![(FieldId::LastModified, Moment::new(modified, 0).http_date().to_vec())];
    fields.extend(tag.map(|tag| (FieldId::ETag, tag.into_bytes())));
    Reply { fields, ..Reply::empty(304) }
}
