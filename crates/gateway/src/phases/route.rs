//! Routing: from a head to a server, and from a URI to a location.

use crate::base::close::CloseReason;
use crate::downstream::request::Request;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::{Exchange, Refusal};
use crate::plan::location::LocationId;
use http1::RequestError;
use rules::location::Found;
use rules::server_name::MatchedBy;
use std::borrow::Cow;
use std::rc::Rc;

impl Exchange {
    /// From the head to a location.
    pub(crate) fn route<T: Tracer>(&mut self, trace: T) -> Step {
        let checked = self.choose_server(trace).and_then(|()| self.check_protocol()).and_then(|()| self.check_tls());
        if let Err(reply) = checked {
            return Step::Reply(reply);
        }
        if let Err(error) = self.narrow_head() {
            return self.refuse(Refusal::Malformed(error));
        }
        if self.location().real_ip.is_some() {
            self.find_client_of_server();
        }
        if let Err(reply) = self.parse_uri() {
            return Step::Reply(reply);
        }
        if let Some(reply) = self.acme_challenge() {
            return Step::Reply(reply);
        }
        self.route_uri(trace)
    }

    /// From the present URI to a location.
    pub(crate) fn route_uri<T: Tracer>(&mut self, trace: T) -> Step {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.routing.target.server());
        if let Some(plan) = &server.answer {
            trace.note(self, Event::Returns);
            return self.return_step(plan);
        }
        if server.program.is_some() {
            return Step::Rules;
        }
        self.route_location(trace)
    }

    /// From the present URI to a location, after the server's program.
    pub(crate) fn route_location<T: Tracer>(&mut self, trace: T) -> Step {
        if let Err(reply) = self.find_location(trace) {
            return Step::Reply(reply);
        }
        self.take_trace_secret();
        if self.location().internal && !self.routing.target.is_internal() {
            trace.note(self, Event::Internal);
            return Step::Reply(Reply::error(404));
        }
        if let Some(refusal) = self.check_body_size() {
            return Step::Reply(refusal);
        }
        self.begin_trace();
        Step::Content
    }

    pub(crate) fn choose_server<T: Tracer>(&mut self, trace: T) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.listener()).ok_or_else(|| Reply::error(500))?;
        let head = &self.request.head;
        if head.host.is_none() && self.down.tls(|_| ()).is_some() {
            let server = self.server_of_handshake(listener);
            self.routing.target.choose_server(server);
            trace.note(self, Event::Server(MatchedBy::Default));
            return Ok(());
        }
        let name = head.host.map_or(&b""[..], |host| host.name.of(&self.request.bytes));
        // As in nginx, names compare without case and without the root's dot; few clients send either.
        let name = name.strip_suffix(b".").unwrap_or(name);
        let name = if name.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
        match listener.names.lookup(&name, self.routing.captures_mut()) {
            Ok(found) => {
                self.routing.target.choose_server(found.server);
                if let Some(pattern) = found.pattern {
                    self.routing.store_groups(pattern);
                }
                trace.note(self, Event::Server(found.by));
                Ok(())
            }
            Err(error) => {
                self.routing.target.choose_server(listener.names.default_server());
                self.error_log(&error.message);
                Err(Reply::error(500))
            }
        }
    }

    /// Checks the head against the limits of the request's own server, if the servers of the address have different
    /// ones.
    fn narrow_head(&mut self) -> Result<(), RequestError> {
        let listener = self.generation.listener(self.down.listener());
        if !listener.is_some_and(|listener| listener.limits_differ) {
            return Ok(());
        }
        let Request { head, bytes, .. } = &mut *self.request;
        head.narrow(bytes, &self.generation.server(self.routing.target.server()).limits)
    }

    /// Enters a location: its own settings, or those of its `limit_except` for this method.
    pub(crate) fn enter_location(&mut self, id: LocationId) {
        let except = &self.generation.location(id).limit_except;
        let limited = except.as_ref().filter(|except| !except.methods.contains(&self.routing.method()));
        let entered = limited.map_or(id, |except| except.others);
        self.routing.target.enter(entered);
    }

    fn find_location<T: Tracer>(&mut self, trace: T) -> Result<(), Reply> {
        trace.note(self, Event::Search);
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.routing.target.server());
        let found = {
            let this = &*self;
            let captures = &mut this.routing.captures().borrow_mut();
            if T::OFFLINE {
                server.locations.find_and_tell(this.uri(), captures, |tried| trace.tried(this, tried))
            } else {
                server.locations.find(this.uri(), captures)
            }
        };
        match found {
            Ok(Found::Location { id, pattern }) => {
                self.enter_location(LocationId(id));
                if let Some(pattern) = pattern {
                    self.routing.store_groups(pattern);
                }
            }
            Ok(Found::Redirect { id }) => {
                self.routing.target.enter(LocationId(id));
                trace.note(self, Event::Found);
                return Err(self.slash_redirect());
            }
            Ok(Found::Server) => self.routing.target.enter(server.own),
            Err(error) => {
                self.error_log(&error.message);
                return Err(Reply::error(500));
            }
        }
        trace.note(self, Event::Found);
        Ok(())
    }

    /// L8: refuses a body whose announced length is too large before it is sent.
    fn check_body_size(&mut self) -> Option<Reply> {
        let length = self.intake.announces_more_than(self.client_plan().body_size_max)?;
        self.intake.refused = true;
        self.down.ending.close(CloseReason::BodyUnread);
        self.error_log(&format!("client intended to send too large body: {length} bytes"));
        Some(Reply::error(413))
    }
}
