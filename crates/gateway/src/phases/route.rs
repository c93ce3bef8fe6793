//! Routing: from a head to a server, and from a URI to a location.

use crate::base::close::CloseReason;
use crate::downstream::request::Request;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::{Exchange, Refusal};
use crate::plan::location::LocationId;
use http1::RequestError;
use rules::location::Found;
use std::borrow::Cow;
use std::rc::Rc;

impl Exchange {
    /// From the head to a location.
    pub(crate) fn route(&mut self) -> Step {
        if let Err(reply) = self.choose_server().and_then(|()| self.check_tls()) {
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
        self.route_uri()
    }

    /// From the present URI to a location.
    pub(crate) fn route_uri(&mut self) -> Step {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.routing.target.server);
        if let Some(plan) = &server.answer {
            return self.return_step(plan);
        }
        if server.program.is_some() {
            return Step::Rules;
        }
        self.route_location()
    }

    /// From the present URI to a location, after the server's program.
    pub(crate) fn route_location(&mut self) -> Step {
        if let Err(reply) = self.find_location() {
            return Step::Reply(reply);
        }
        if self.location().internal && !self.routing.target.internal {
            return Step::Reply(Reply::error(404));
        }
        self.check_body_size().map_or(Step::Content, Step::Reply)
    }

    pub(crate) fn choose_default_server(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.listener()).ok_or_else(|| Reply::error(500))?;
        self.routing.target.server = self.server_of_handshake(listener);
        Ok(())
    }

    pub(crate) fn choose_server(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.listener()).ok_or_else(|| Reply::error(500))?;
        let head = &self.request.head;
        if head.host.is_none() && self.down.tls(|_| ()).is_some() {
            self.routing.target.server = self.server_of_handshake(listener);
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
        match listener.names.lookup(&name, self.routing.captures.get_mut()) {
            Ok(found) => {
                self.routing.target.server = found.server;
                if let Some(pattern) = found.pattern {
                    self.routing.slots.store_groups(pattern, self.routing.captures.get_mut());
                }
                Ok(())
            }
            Err(error) => {
                self.routing.target.server = listener.names.default_server();
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
        head.narrow(bytes, &self.generation.server(self.routing.target.server).limits)
    }

    /// Enters a location: its own settings, or those of its `limit_except` for this method.
    pub(crate) fn enter_location(&mut self, id: LocationId) {
        let except = &self.generation.location(id).limit_except;
        let limited = except.as_ref().filter(|except| !except.methods.contains(&self.routing.method));
        self.routing.target.location = Some(limited.map_or(id, |except| except.others));
    }

    fn find_location(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.routing.target.server);
        let found = server.locations.find(self.uri(), &mut self.routing.captures.borrow_mut());
        match found {
            Ok(Found::Location { id, pattern }) => {
                self.enter_location(LocationId(id));
                if let Some(pattern) = pattern {
                    self.routing.slots.store_groups(pattern, self.routing.captures.get_mut());
                }
            }
            Ok(Found::Redirect { id }) => {
                self.routing.target.location = Some(LocationId(id));
                return Err(self.slash_redirect());
            }
            Ok(Found::Server) => self.routing.target.location = Some(server.own),
            Err(error) => {
                self.error_log(&error.message);
                return Err(Reply::error(500));
            }
        }
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
