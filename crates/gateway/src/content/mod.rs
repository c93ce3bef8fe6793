//! Content handlers: proxy, files, status page, and replies of our own. [`Exchange::begin_content`] has a line for each;
//! a handler is in a module of this folder.

pub(crate) mod cache;
pub(crate) mod carried;
pub(crate) mod empty_gif;
pub(crate) mod files;
pub(crate) mod filtered;
pub(crate) mod proxy;
pub(crate) mod rate;
pub(crate) mod reply;
pub(crate) mod slices;
pub(crate) mod status;
pub(crate) mod status_page;

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::step::Step;
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::waiting::ClientLeft;
use crate::plan::location::Content;
use crate::registry::generation::{BoundProxy, Pinned};

impl Exchange {
    /// Runs the handler of a location's content.
    pub(crate) async fn begin_content<T: Tracer>(&mut self, generation: &Pinned, content: &Content, trace: T) -> Step {
        match content {
            Content::Proxy(proxy) => self.proxy_fixed(generation.proxy(*proxy), trace).await,
            Content::VariablePass(plan) => self.proxy_looked_up(plan, trace).await,
            Content::Return(plan) => {
                trace.note(self, Event::Returns);
                self.return_step(plan)
            }
            Content::Files(plan) => self.files(plan).await,
            Content::StubStatus => Step::Reply(self.stub_status()),
            Content::EmptyGif => Step::Reply(self.empty_gif()),
            Content::StatusPage => Step::Reply(self.status_page().await),
            Content::Nothing => Step::Reply(Reply::error(404)),
        }
    }

    /// A `proxy_pass` without variables.
    async fn proxy_fixed<T: Tracer>(&mut self, plan: &BoundProxy, trace: T) -> Step {
        self.upstream.use_only_proxy();
        if T::OFFLINE {
            return self.proxy(plan, plan.group.members.hold(), trace).await;
        }
        match self.hold_members(plan).await {
            Ok(held) => self.proxy(plan, held, trace).await,
            Err(ClientLeft) => self.client_left(),
        }
    }
}
