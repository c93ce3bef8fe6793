//! Files and error pages of a location.

use crate::base::logs::place::parent_segments;
use crate::lower::Lowering;
use crate::plan::added_fields::{AddedField, AddedPlan, ExpiresPlan};
use crate::plan::files::{Alias, FilesPlan, ListingPlan, PathPlan, RootPlan};
use crate::plan::open_files::OpenFilesPlan;
use crate::plan::symlinks::SymlinkPlan;
use conf::model::{
    AddHeader, ErrorStatus, ErrorTarget, Expires, FileSettings, IfModifiedSince, LocationSettings, ResponseSettings,
    Root, Types,
};
use conf::source::Span;
use conf::value::Part;
use reactor::{LinkRule, SCRATCH_BYTES};
use rules::mime::MimeTypes;
use rules::precondition::ModifiedSince;
use rules::reply::{ErrorPage, ErrorPages, Overwrite};
use rules::template::Template;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one `sendfile(2)` if the configuration sets no limit, so that a turn ends. 2 MB at 10 Gbit/s take 1.6 ms.
const SENDFILE_BYTES_MAX: u64 = 2 << 20;

/// Tables of types that were compiled already: locations nearly always share one.
pub(super) struct KnownTypes {
    written: Arc<Types>,
    default_type: Vec<u8>,
    compiled: Arc<MimeTypes>,
}

/// How `If-Modified-Since` is compared.
pub(super) fn modified_since(files: &FileSettings) -> ModifiedSince {
    match files.if_modified_since {
        IfModifiedSince::Off => ModifiedSince::Off,
        IfModifiedSince::Exact => ModifiedSince::Exact,
        IfModifiedSince::Before => ModifiedSince::Before,
    }
}

impl Lowering<'_> {
    /// Notes the location whose name an `alias` replaces: the outermost one with this `alias`. Returns the previous
    /// value.
    pub(super) fn enter_alias(&mut self, root: &Root, alias: Alias) -> Option<(Span, Alias)> {
        let outer = self.alias;
        let written = root.span.filter(|_| root.alias);
        if written != outer.map(|(span, _)| span) {
            self.alias = written.map(|span| (span, alias));
        }
        outer
    }

    pub(super) fn root_plan(&mut self, root: &Root) -> RootPlan {
        let mut prefix = self.options.prefix.as_os_str().as_bytes().to_vec();
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        let mut path = root.path.clone();
        match path.parts.first_mut() {
            // `root /;` has lost its slash; the URI starts with one.
            Some(Part::Text(text)) if text.is_empty() || text.starts_with(b"/") => prefix.clear(),
            Some(Part::Text(text)) => {
                text.splice(..0, prefix.drain(..));
            }
            // A path that begins with a variable may be absolute; evaluation decides.
            Some(Part::Variable(_) | Part::Capture(_)) | None => {}
        }
        let written = path.parts.iter().map(|part| match part {
            Part::Text(text) => parent_segments(text),
            Part::Variable(_) | Part::Capture(_) => 0,
        });
        let parents = parent_segments(&prefix) + written.sum::<usize>();
        let path = self.template(&path);
        let alias = self.alias.filter(|_| root.alias).map(|(_, alias)| alias);
        RootPlan { path, prefix: prefix.into(), alias, parents }
    }

    /// The path of a file, possibly with variables, relative to a directory.
    pub(super) fn path_plan(&mut self, written: &conf::value::Template, base: &Path) -> PathPlan {
        let mut prefix = base.as_os_str().as_bytes().to_vec();
        if !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        let mut path = written.clone();
        match path.parts.first_mut() {
            Some(Part::Text(text)) if text.starts_with(b"/") => prefix.clear(),
            Some(Part::Text(text)) => {
                text.splice(..0, prefix.drain(..));
            }
            // A path that begins with a variable may be absolute; evaluation decides.
            Some(Part::Variable(_) | Part::Capture(_)) | None => {}
        }
        PathPlan { path: self.template(&path), prefix: prefix.into() }
    }

    /// `open_file_cache`: locations that inherit the same line share its cache.
    pub(super) fn open_files_plan(&mut self, files: &FileSettings) -> Option<OpenFilesPlan> {
        let cache = files.open_file_cache?;
        let known = self.open_files.iter().position(|span| *span == cache.span);
        let place = known.unwrap_or_else(|| {
            self.open_files.push(cache.span);
            self.open_files.len() - 1
        });
        if let Some(sharing) = &mut self.sharing {
            sharing.note_open_files(place);
        }
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(OpenFilesPlan {
            cache: place as u32,
            paths_max: usize::try_from(cache.max).unwrap_or(usize::MAX),
            inactive_ms: milliseconds(cache.inactive),
            valid_ms: milliseconds(files.open_file_valid),
            min_uses: files.open_file_min_uses,
            keeps_errors: files.open_file_errors,
        })
    }

    /// `disable_symlinks`
    pub(super) fn symlink_plan(&mut self, files: &FileSettings) -> Option<Box<SymlinkPlan>> {
        let words = files.disable_symlinks.as_ref()?;
        let rule = if words.follows_same_owner { LinkRule::SameOwner } else { LinkRule::Refused };
        let from = words.from.as_ref().map(|from| self.template(from));
        Some(Box::new(SymlinkPlan { rule, from }))
    }

    pub(super) fn files_plan(&mut self, settings: &LocationSettings) -> FilesPlan {
        let files = &*settings.files;
        let chunk = match files.sendfile_max_chunk {
            0 => SENDFILE_BYTES_MAX,
            limit => limit.min(SENDFILE_BYTES_MAX),
        };
        FilesPlan {
            random_index: files.random_index,
            listing: files.listed.then_some(ListingPlan {
                format: files.list_format,
                local_time: files.list_local_time,
                exact_size: files.list_exact_size,
            }),
            index: files.index.iter().map(|name| self.template(name)).collect(),
            types: self.mime_types(files),
            sendfile: files.sendfile,
            sendfile_chunk: chunk as usize,
            read_chunk: (files.output_buffers.total() as usize).clamp(1, SCRATCH_BYTES),
            etag: files.etag,
            modified_since: modified_since(files),
            ranges_max: files.max_ranges.map_or(usize::MAX, |ranges| ranges as usize),
            log_not_found: settings.log.not_found,
        }
    }

    /// The media types by extension of the URI.
    pub(super) fn mime_types(&mut self, files: &FileSettings) -> Arc<MimeTypes> {
        let known =
            |known: &&KnownTypes| Arc::ptr_eq(&known.written, &files.types) && known.default_type == files.default_type;
        if let Some(known) = self.types.iter().find(known) {
            return Arc::clone(&known.compiled);
        }
        let pairs = files.types.iter().map(|(extension, media)| (extension.as_slice(), media.as_slice()));
        let compiled = Arc::new(MimeTypes::build(pairs, &files.default_type));
        self.types.push(KnownTypes {
            written: Arc::clone(&files.types),
            default_type: files.default_type.clone(),
            compiled: Arc::clone(&compiled),
        });
        compiled
    }

    pub(super) fn error_pages(&mut self, settings: &ResponseSettings) -> ErrorPages {
        let pages = settings.error_pages.iter().map(|page| ErrorPage {
            status: page.status,
            overwrite: match page.replace {
                ErrorStatus::Keep => Overwrite::Keep,
                ErrorStatus::Code(status) => Overwrite::Status(status),
                ErrorStatus::OfPage => Overwrite::OfPage,
            },
            target: match &page.target {
                ErrorTarget::Named(name) => Template::constant(&[b"@", name.as_bytes()].concat()),
                ErrorTarget::Uri(target) | ErrorTarget::Redirect(target) => self.template(target),
            },
        });
        ErrorPages(pages.collect())
    }
    pub(super) fn added_plan(&mut self, settings: &ResponseSettings) -> Option<Box<AddedPlan>> {
        let nothing = settings.add_headers.is_empty() && settings.add_trailers.is_empty();
        if nothing && settings.expires == Expires::Off {
            return None;
        }
        let expires = match &settings.expires {
            Expires::Template { modified, value } => {
                ExpiresPlan::Template { modified: *modified, value: self.template(value) }
            }
            fixed => ExpiresPlan::Fixed(fixed.clone()),
        };
        let mut fields = |directive: &'static str, written: &[AddHeader]| -> Vec<AddedField> {
            let field = |field: &AddHeader| {
                Some(AddedField {
                    name: self.field_token(directive, &field.name, field.value.span)?,
                    directive,
                    value: self.template(&field.value),
                    always: field.always,
                })
            };
            written.iter().filter_map(field).collect()
        };
        let trailers = fields("add_trailer", &settings.add_trailers);
        let fields = fields("add_header", &settings.add_headers);
        Some(Box::new(AddedPlan { expires, fields, trailers }))
    }
}
