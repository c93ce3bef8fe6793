//! Subrequests: a request that one exchange makes of another one in the same worker. In a subrequest no directive but
//! `ssi` starts another one: the configuration bounds how many a request has, or `exchange::including` does. The serving exchange
//! has an [`Internal`] as its client's side; the starting exchange holds a [`Subrequest`]. They use no socket.

use crate::base::memory::HeldFor;
use crate::downstream::client::{ClientCopy, SupposedClient};
use crate::downstream::reply_head::{Fields, HeadView, Mark, ReplyHead};
use crate::plan::access::SlotValue;
use crate::registry::cache::CacheStatus;
use crate::thread::WorkerThread;
use http1::{FieldId, Method};
use reactor::TaskId;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of an upstream's body that are read although only the status is wanted: a round trip or two.
const UNWANTED_BYTES_MAX: u64 = 64 * 1024;

/// What the starting exchange needs of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedParts {
    /// Nothing: it does not wait.
    Nothing,
    /// The status.
    Status,
    /// The body as well, as it arrives.
    Body,
    /// The head as well.
    Response,
}

/// The head of a slice's response, for the exchange that assembles the whole.
pub(crate) struct SentHead {
    /// Its fields have bytes of their own.
    pub(crate) head: ReplyHead,
    /// The upstream's reason phrase.
    pub(crate) reason: Vec<u8>,
    /// `$upstream_cache_status`
    pub(crate) cache_status: Option<CacheStatus>,
    /// The response is stored, or comes from a cache.
    pub(crate) is_kept: bool,
}

impl WantedParts {
    fn is_body(self) -> bool {
        matches!(self, Self::Body | Self::Response)
    }
}

/// How a subrequest ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// 0: no response was sent.
    pub(crate) status: u16,
    /// The challenges of an upstream's 401.
    pub(crate) challenges: Fields,
    /// Its content had at least one byte, before any filter.
    pub(crate) had_content: bool,
    /// Its user-defined variables: as in nginx, they belong to the whole request.
    pub(crate) slots: VarSlots,
}

/// State shared by both sides.
struct Link {
    thread: Rc<WorkerThread>,
    server: TaskId,
    /// Woken when something has arrived; `None`: the starter does not wait.
    starter: Option<TaskId>,
    head: RefCell<Option<SentHead>>,
    body: RefCell<Vec<u8>>,
    ended: RefCell<Option<Ended>>,
    is_over: Cell<bool>,
    /// `subrequest_output_buffer_size` of the serving location.
    kept_bytes_max: Cell<u64>,
    /// The starter is gone, or does not want the response any more.
    is_abandoned: Cell<bool>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Link").field("server", &self.server).field("starter", &self.starter).finish_non_exhaustive()
    }
}

impl Link {
    fn wake_starter(&self) {
        if let Some(starter) = self.starter.filter(|_| !self.is_abandoned.get()) {
            self.thread.reactor.wake(starter);
        }
    }
}

/// The client's side of an exchange that another one has started.
#[derive(Debug)]
pub(crate) struct Internal {
    link: Rc<Link>,
    client: Rc<ClientCopy>,
    wanted: WantedParts,
    /// It represents a client's own request, and is no subrequest.
    pub(super) is_supposed: bool,
    /// The method of the client's request: `$request_method`.
    method: Method,
    sets: Option<Arc<[SlotValue]>>,
    status: u16,
    /// The length of the whole body, if the head states it.
    length: Option<u64>,
    body_bytes: u64,
    is_complete: bool,
    cache_status: Option<CacheStatus>,
    is_kept: bool,
}

/// A subrequest, held by the exchange that started it. Dropping it ends the subrequest, unless its response was not
/// wanted at all.
#[derive(Debug)]
pub(crate) struct Subrequest {
    link: Rc<Link>,
    wanted: WantedParts,
}

/// The start values of a subrequest.
pub(crate) struct Start {
    pub(crate) client: Rc<ClientCopy>,
    pub(crate) starter: TaskId,
    pub(crate) wanted: WantedParts,
    /// The method of the client's request.
    pub(crate) method: Method,
    /// Variables that are set when it has ended.
    pub(crate) sets: Option<Arc<[SlotValue]>>,
}

/// Both ends of a subrequest. The serving exchange has a task of its own, which ends with its side.
pub(crate) fn connect(thread: &Rc<WorkerThread>, start: Start) -> (Box<Internal>, Subrequest) {
    let Start { client, starter, wanted, method, sets } = start;
    let server = thread.reactor.create_task();
    thread.memory.name(server, client.facts.serial);
    thread.subrequests.set(thread.subrequests.get() + 1);
    let link = Rc::new(Link {
        thread: Rc::clone(thread),
        server,
        starter: (wanted != WantedParts::Nothing).then_some(starter),
        head: RefCell::default(),
        body: RefCell::default(),
        ended: RefCell::default(),
        is_over: Cell::new(false),
        kept_bytes_max: Cell::new(u64::MAX),
        is_abandoned: Cell::new(false),
    });
    let internal = Internal {
        link: Rc::clone(&link),
        client,
        wanted,
        is_supposed: false,
        method,
        sets,
        status: 0,
        length: None,
        body_bytes: 0,
        is_complete: false,
        cache_status: None,
        is_kept: false,
    };
    (Box::new(internal), Subrequest { link, wanted })
}

/// Both ends of a request of a client that has no connection. The response stays in memory.
pub(crate) fn suppose(
    thread: &Rc<WorkerThread>,
    client: SupposedClient,
    method: Method,
) -> (Box<Internal>, Subrequest) {
    let client = ClientCopy::supposed(client, thread.reactor.now());
    let starter = thread.reactor.create_task();
    let (mut internal, subrequest) =
        connect(thread, Start { client, starter, wanted: WantedParts::Response, method, sets: None });
    internal.is_supposed = true;
    (internal, subrequest)
}

impl Internal {
    pub(super) fn task(&self) -> TaskId {
        self.link.server
    }

    pub(super) fn client(&self) -> &Rc<ClientCopy> {
        &self.client
    }

    /// The method of the client's request.
    pub(crate) fn method(&self) -> Method {
        self.method
    }

    /// Whether its body becomes a part of the starter's.
    pub(crate) fn is_part(&self) -> bool {
        self.wanted == WantedParts::Body
    }

    /// Variables that are set when it has ended.
    pub(crate) fn sets(&self) -> Option<&[SlotValue]> {
        self.sets.as_deref()
    }

    /// The starter does not wait for the response any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.link.is_abandoned.get()
    }

    pub(super) fn take_head(&mut self, HeadView { head, answer }: HeadView<'_>) {
        self.status = head.status;
        self.length = if head.has_body { head.stated_length() } else { Some(0) };
        if self.wanted == WantedParts::Response {
            let mut kept = ReplyHead::of(head.status);
            kept.fields = head.fields.copy(answer);
            (kept.has_body, kept.length) = (head.has_body, head.length);
            let reason = head.reason.map_or(&b""[..], |reason| reason.of(answer)).to_vec();
            let (cache_status, is_kept) = (self.cache_status, self.is_kept);
            *self.link.head.borrow_mut() = Some(SentHead { head: kept, reason, cache_status, is_kept });
            self.link.wake_starter();
        }
    }

    /// Sets the cache status of the response that follows.
    pub(crate) fn set_cache_status(&mut self, status: Option<CacheStatus>, is_kept: bool) {
        (self.cache_status, self.is_kept) = (status, is_kept);
    }

    /// The most bytes of the body that a variable may get.
    pub(crate) fn set_kept_bytes_max(&mut self, bytes: u64) {
        self.link.kept_bytes_max.set(bytes);
    }

    pub(super) fn take_body(&mut self, body: &[u8], last: bool) -> io::Result<()> {
        if self.is_abandoned() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.is_complete |= last;
        self.body_bytes += body.len() as u64;
        match self.wanted {
            WantedParts::Body | WantedParts::Response if !body.is_empty() => {
                self.link.body.borrow_mut().extend_from_slice(body);
                self.link.wake_starter();
                Ok(())
            }
            // Reading an unneeded body keeps the upstream's connection; that pays off only while it is cheaper than a
            // new one.
            WantedParts::Nothing | WantedParts::Status if self.body_bytes > UNWANTED_BYTES_MAX => {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            WantedParts::Nothing | WantedParts::Status | WantedParts::Body | WantedParts::Response => Ok(()),
        }
    }

    /// Whether the starter has taken everything so far.
    pub(super) fn is_taken(&self) -> io::Result<bool> {
        if self.is_abandoned() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(self.waiting_bytes() == 0) }
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.link.body.borrow().len()
    }

    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete || self.length == Some(self.body_bytes) || !self.wanted.is_body()
    }

    #[allow(clippy::unused_self)] // as the other protocols
    pub(super) fn fields_at(&self, mark: Mark, head: &ReplyHead, mut say: impl FnMut(FieldId, &[u8])) {
        if let (Mark::Length, Some(length)) = (mark, head.length) {
            say(FieldId::ContentLength, itoa::Buffer::new().format(length).as_bytes());
        }
    }

    /// Ends the subrequest when its exchange is settled, and reports the result to its starter. If no head was sent,
    /// the exchange's status counts. A truncated response has no status.
    pub(crate) fn finish(&self, is_whole: bool, ended: Ended) {
        let status = match self.status {
            _ if self.wanted.is_body() && !is_whole => 0,
            0 => ended.status,
            sent => sent,
        };
        *self.link.ended.borrow_mut() = Some(Ended { status, ..ended });
    }
}

impl Drop for Internal {
    fn drop(&mut self) {
        let Link { thread, server, .. } = &*self.link;
        thread.memory.hold(*server, HeldFor::Exchange, 0);
        thread.reactor.end_task(*server);
        thread.subrequests.set(thread.subrequests.get().saturating_sub(1));
        self.link.is_over.set(true);
        self.link.wake_starter();
    }
}

impl Subrequest {
    /// The result; `None` while it runs. After a panic there is no status.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.link.is_over.get().then(|| self.link.ended.take().unwrap_or_default())
    }

    /// Whether it has ended. The rest of its body can still be taken.
    pub(crate) fn is_over(&self) -> bool {
        self.link.is_over.get()
    }

    /// Whether the head has come and was not taken.
    pub(crate) fn has_head(&self) -> bool {
        self.link.head.borrow().is_some()
    }

    /// Takes the head, once.
    pub(crate) fn take_head(&self) -> Option<SentHead> {
        self.link.head.take()
    }

    /// The most bytes of the body that a variable may get; the head has come.
    pub(crate) fn kept_bytes_max(&self) -> u64 {
        self.link.kept_bytes_max.get()
    }

    /// Takes the received bytes of the body.
    pub(crate) fn take_body(&self) -> Vec<u8> {
        let body = self.link.body.take();
        if !body.is_empty() {
            self.link.thread.reactor.wake(self.link.server);
        }
        body
    }
}

impl Drop for Subrequest {
    fn drop(&mut self) {
        if self.wanted != WantedParts::Nothing && !self.link.is_over.get() {
            self.link.is_abandoned.set(true);
            self.link.thread.reactor.wake(self.link.server);
        }
    }
}
