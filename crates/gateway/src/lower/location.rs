//! Locations, flattened: each gets a number and a plan with all inherited settings.

use crate::base::body_file::{BodyFiles, FileNames};
use crate::lower::Lowering;
use crate::lower::access::mirror_plan;
use crate::lower::files::modified_since;
use crate::lower::filters::addition_plan;
use crate::lower::otel::route_of;
use crate::plan::client::ClientPlan;
use crate::plan::files::Alias;
use crate::plan::location::{
    Content, LimitExceptPlan, LocationId, LocationPlan, RedirectPlan, TryFallbackPlan, TryFilePlan, TryFilesPlan,
};
use crate::plan::program::ReturnPlan;
use crate::plan::slice::SlicePlan;
use conf::diagnostic::Diagnostic;
use conf::model::{
    self, BodyInFile, Instruction, LimitExcept, LingeringClose, Location, LocationSettings, Matcher, Program,
    ResponseSettings, Return, ReturnBody, Server, ServerTokens, TryFallback, TryFiles,
};
use conf::source::Span;
use conf::value::words::MethodSet;
use http1::Method;
use rules::location::{LocationMatch, LocationSpec};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

/// Smallest status of an answer: a lower one does not end the exchange.
const RETURN_STATUS_MIN: u16 = 200;

/// Our product name.
const NAME: &str = "holdfast";

impl Lowering<'_> {
    /// The plan of requests that no location matches.
    pub(super) fn location_of_server(&mut self, server: &Server) -> LocationId {
        let content = self.content(server.content.as_ref(), &Program::default(), &server.location, b"");
        let try_files = server.try_files.as_deref().map(|plan| self.try_files_plan(plan));
        self.add((b"", server.span), &server.location, content, try_files)
    }

    pub(super) fn location_spec(&mut self, location: &Location) -> LocationSpec {
        let matcher = self.matcher(&location.matcher, location);
        let name: &[u8] = match &matcher {
            LocationMatch::Exact(name) | LocationMatch::Prefix(name) | LocationMatch::PrefixFinal(name) => name,
            LocationMatch::Regex(_) | LocationMatch::Named(_) => b"",
        };
        let alias = if matches!(matcher, LocationMatch::Regex(_)) { Alias::Whole } else { Alias::Prefix(name.len()) };
        let outer = self.enter_alias(&location.settings.files.root, alias);
        let outer_route = std::mem::replace(&mut self.route, route_of(&location.matcher));
        let content = self.content(location.content.as_ref(), &location.program, &location.settings, name);
        let try_files = location.try_files.as_deref().map(|plan| self.try_files_plan(plan));
        let id = self.add((name, location.span), &location.settings, content, try_files);
        let program = self.program(&location.program, &location.settings, Some(name));
        let routes = self.route_plans(&location.routes);
        if let Some(plan) = self.plan.locations.entry_mut(id.0) {
            (plan.program, plan.routes) = (program, routes);
        }
        if let Some(except) = &location.limit_except {
            let except = self.limit_except(except, name);
            if let Some(plan) = self.plan.locations.entry_mut(id.0) {
                plan.limit_except = Some(Box::new(except));
            }
        }
        let nested = location.locations.iter().map(|inner| self.location_spec(inner)).collect();
        (self.alias, self.route) = (outer, outer_route);
        LocationSpec { id: id.0, matcher, auto_redirect: location.auto_redirect, nested, span: location.span }
    }

    fn limit_except(&mut self, except: &LimitExcept, name: &[u8]) -> LimitExceptPlan {
        let listed = MethodSet::WORDS.iter().filter(|(_, bits)| except.methods.contains(*bits));
        let methods = listed.map(|(name, _)| Method::of_name(name.as_bytes())).collect();
        let content = self.content(except.content.as_ref(), &Program::default(), &except.settings, name);
        LimitExceptPlan { methods, others: self.add((name, except.span), &except.settings, content, None) }
    }

    /// Adds a location, with the place of its block.
    pub(super) fn add(
        &mut self,
        (name, span): (&[u8], Span),
        settings: &Arc<LocationSettings>,
        content: Content,
        try_files: Option<TryFilesPlan>,
    ) -> LocationId {
        let (slice, error_log) = (self.slice_plan(settings), self.error_log(&settings.log));
        let (access_logs, otel) = (self.access_logs(&settings.log), self.trace_plan(&settings.otel));
        let (root, error_pages) = (self.root_plan(&settings.files.root), self.error_pages(&settings.response));
        let (added, access) = (self.added_plan(&settings.response), self.access_plan(settings));
        let early_hints = settings.response.early_hints.iter().map(|value| self.template(value)).collect();
        let (link, referers) = (self.link_plan(&settings.access.link), self.referers(&settings.access.referers));
        let (script, more_headers) =
            (self.script_plan(&settings.fastcgi_words), self.more_headers_plan(&settings.more_headers));
        let (user_id, gzip) = (self.user_id_plan(&settings.user_id), self.gzip_plan(settings));
        let charset = self.charset_plan(&settings.charset);
        let (substitute, ssi) = (self.substitute_plan(&settings.filters), self.ssi_plan(&settings.filters));
        let (open_files, symlinks) = (self.open_files_plan(&settings.files), self.symlink_plan(&settings.files));
        let (real_ip, limits) = (self.real_ip_plan(&settings.realip), self.limit_plan(&settings.limit));
        let rate = self.rate_plan(&settings.client);
        self.push_location(LocationPlan {
            name: name.into(),
            route: self.route.as_slice().into(),
            server: Arc::clone(&self.server_name_now),
            otel,
            span,
            program: None,
            content,
            client: self.client_plan(settings),
            access_logs,
            error_log,
            server_token: server_token(&settings.response.server_tokens).into(),
            root,
            error_pages,
            try_files,
            routes: Box::default(),
            recursive_error_pages: settings.response.recursive_error_pages,
            internal: settings.response.internal,
            msie_padding: settings.response.msie_padding,
            warns_uninitialized: settings.log.uninitialized_variables,
            added,
            early_hints,
            gzip,
            charset,
            more_headers,
            user_id,
            substitute,
            additions: addition_plan(&settings.response),
            ssi,
            subrequest_bytes_max: settings.filters.subrequest_bytes,
            slice,
            open_files,
            symlinks,
            real_ip,
            limits,
            rate,
            access,
            link,
            referers,
            script,
            mirror: mirror_plan(&settings.response),
            logs_subrequests: settings.log.subrequest,
            trace_secret: settings.log.trace_secret.as_deref().map(Into::into),
            limit_except: None,
            redirects: redirect_plan(&settings.response),
        })
    }

    fn push_location(&mut self, plan: LocationPlan) -> LocationId {
        let id = self.plan.locations.push(plan);
        if let Some(sharing) = &mut self.sharing {
            sharing.note_location(id);
        }
        LocationId(id)
    }

    /// `slice`: only if the content lowered just before uses `$slice_range`.
    fn slice_plan(&mut self, settings: &LocationSettings) -> Option<SlicePlan> {
        let is_used = std::mem::take(&mut self.uses_slices) && settings.files.slice > 0;
        is_used.then(|| SlicePlan {
            size: settings.files.slice,
            ranges_max: settings.files.max_ranges.map_or(usize::MAX, |ranges| ranges as usize),
            modified_since: modified_since(&settings.files),
        })
    }

    fn try_files_plan(&mut self, written: &TryFiles) -> TryFilesPlan {
        let mut tries = Vec::with_capacity(written.tries.len());
        for candidate in &written.tries {
            tries.push(TryFilePlan { path: self.template(&candidate.path), directory: candidate.directory });
        }
        let fallback = match &written.fallback {
            TryFallback::Uri(template) => TryFallbackPlan::Uri(self.template(template)),
            TryFallback::Named(name) => TryFallbackPlan::Named([b"@", name.as_bytes()].concat().into()),
            TryFallback::Status(status) => TryFallbackPlan::Status(*status),
        };
        TryFilesPlan { tries, fallback }
    }

    fn matcher(&mut self, matcher: &Matcher, location: &Location) -> LocationMatch {
        match matcher {
            Matcher::Exact(name) => LocationMatch::Exact(name.clone()),
            Matcher::Prefix(name) => LocationMatch::Prefix(name.clone()),
            Matcher::PrefixNoRegex(name) => LocationMatch::PrefixFinal(name.clone()),
            Matcher::Named(name) => LocationMatch::Named([b"@", name.as_bytes()].concat()),
            Matcher::Regex(regex) => {
                match rules::pattern::Pattern::compile(&regex.pattern, regex.caseless, &mut self.users) {
                    Ok(pattern) => LocationMatch::Regex(pattern),
                    Err(message) => {
                        self.found.push(Diagnostic::error(location.span, message));
                        LocationMatch::Named(Vec::new())
                    }
                }
            }
        }
    }

    pub(super) fn content(
        &mut self,
        content: Option<&model::Content>,
        program: &Program,
        settings: &Arc<LocationSettings>,
        name: &[u8],
    ) -> Content {
        self.uses_slices = false;
        if !matches!(content, Some(model::Content::Proxy(_))) || matches!(program.first(), Some(Instruction::Return(_)))
        {
            self.note_idle_proxy(settings);
        }
        if let Some(answer) = self.program_return(program, settings) {
            return Content::Return(answer);
        }
        match content {
            Some(model::Content::Proxy(pass)) => self.proxy(pass, settings, name),
            Some(model::Content::StubStatus) => Content::StubStatus,
            Some(model::Content::StatusPage) => Content::StatusPage,
            Some(model::Content::EmptyGif) => Content::EmptyGif,
            None => Content::Files(Box::new(self.files_plan(settings))),
        }
    }

    /// The answer of a program that begins with `return`.
    pub(super) fn program_return(&mut self, program: &Program, settings: &LocationSettings) -> Option<ReturnPlan> {
        let Some(Instruction::Return(answer)) = program.first() else { return None };
        Some(self.return_plan(answer, settings))
    }

    pub(super) fn return_plan(&mut self, answer: &Return, settings: &LocationSettings) -> ReturnPlan {
        if answer.status < RETURN_STATUS_MIN {
            let message = format!("invalid return code \"{}\"", answer.status);
            let hint = "a final status: 200 to 999, or 444 to close without an answer";
            self.found.push(Diagnostic::error(answer.span, message).with_hint(hint));
        }
        let text = match &answer.body {
            ReturnBody::None => None,
            ReturnBody::Text(text) | ReturnBody::Redirect(text) => Some(self.template(text)),
        };
        ReturnPlan { status: answer.status, text, types: self.mime_types(&settings.files) }
    }
}

fn server_token(tokens: &ServerTokens) -> Vec<u8> {
    match tokens {
        ServerTokens::Off => NAME.into(),
        ServerTokens::On | ServerTokens::Build => format!("{NAME}/{}", env!("CARGO_PKG_VERSION")).into(),
    }
}

impl Lowering<'_> {
    fn client_plan(&self, settings: &LocationSettings) -> ClientPlan {
        let client = &settings.client;
        let lingers = client.lingering_close != LingeringClose::Off;
        ClientPlan {
            keepalive_timeout: client.keepalive_timeout.idle,
            keepalive_header: client.keepalive_timeout.header.map(|time| time.as_secs()),
            keepalive_min: client.keepalive_min_timeout,
            keepalive_disable: client.keepalive_disable,
            keepalive_requests: client.keepalive_requests,
            keepalive_time: client.keepalive_time,
            body_size_max: client.body_size_max,
            body_buffer_bytes: client.body_buffer_size as usize,
            body_files: Arc::new(BodyFiles {
                directory: self.options.prefix.join(OsStr::from_bytes(&client.body_temp_path.path)),
                levels: client.body_temp_path.levels,
                names: match client.body_in_file {
                    BodyInFile::Off => FileNames::Removed,
                    BodyInFile::Clean => FileNames::UntilEnd,
                    BodyInFile::On => FileNames::Kept,
                },
            }),
            body_timeout: client.body_timeout,
            half_close: client.half_close,
            send_timeout: client.send_timeout,
            lingering_time: if lingers { client.lingering_time } else { Duration::ZERO },
            lingering_timeout: client.lingering_timeout,
            chunked_transfer_encoding: client.chunked_transfer_encoding,
            http2_chunk_bytes: client.http2_chunk_size,
            nodelay: client.tcp_nodelay,
            reset_timed_out: client.reset_timedout_connection,
        }
    }
}

/// How redirects are written.
fn redirect_plan(words: &ResponseSettings) -> RedirectPlan {
    RedirectPlan {
        absolute: words.absolute_redirect,
        port: words.port_in_redirect,
        server_name: words.server_name_in_redirect,
    }
}
