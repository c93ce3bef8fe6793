//! A second caller of the connector, beside exchanges and sessions: a script decides how its waits end. And the tests of the connector
//! with it.

use crate::base::logs::error::{ErrorLog, Level};
use crate::connector::Caller;
use crate::connector::h2::hub::Hub;
use crate::lower::tests::plan;
use crate::registry::generation::Generation;
use crate::registry::process::Registry;
use crate::thread::WorkerThread;
use reactor::{Interest, Reactor, TaskId, Woken};
use rules::template::Template;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use transport::Transport;

/// What happens during one wait.
pub(super) enum During {
    /// The wait ends like this.
    Ends(Woken),
    /// This is done, and the wait ends.
    Does(Box<dyn FnOnce()>),
}

/// A caller that waits as its script says.
pub(super) struct ScriptedCaller {
    thread: Rc<WorkerThread>,
    task: TaskId,
    hub: Rc<Hub>,
    script: RefCell<VecDeque<During>>,
    logged: RefCell<Vec<String>>,
}

impl ScriptedCaller {
    pub(super) fn new(script: impl IntoIterator<Item = During>) -> Self {
        let registry = Registry::leak(1, ErrorLog::new(Level::Emerg, 0)).expect("a registry");
        let thread = Rc::new(WorkerThread::new(0, registry, Reactor::new().expect("a reactor")));
        let task = thread.reactor.create_task();
        let script = RefCell::new(script.into_iter().collect());
        Self { thread, task, hub: Rc::default(), script, logged: RefCell::default() }
    }

    /// The script for the next waits.
    pub(super) fn expect(&self, script: impl IntoIterator<Item = During>) {
        self.script.borrow_mut().extend(script);
    }

    /// The lines that it has logged.
    pub(super) fn logged(&self) -> Vec<String> {
        self.logged.borrow().clone()
    }

    /// Waits of the script that have not happened.
    fn unused(&self) -> usize {
        self.script.borrow().len()
    }
}

impl Caller for ScriptedCaller {
    fn thread(&self) -> &Rc<WorkerThread> {
        &self.thread
    }

    fn task(&self) -> TaskId {
        self.task
    }

    fn hub(&self) -> &Rc<Hub> {
        &self.hub
    }

    async fn wait_for(&self, _stream: Option<(&Transport, Interest)>, _at_most: Duration) -> Woken {
        let during = self.script.borrow_mut().pop_front().expect("the script has no other wait");
        match during {
            During::Ends(woken) => woken,
            During::Does(act) => {
                act();
                Woken::Ready
            }
        }
    }

    async fn offload<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        Ok(job())
    }

    async fn let_others_run(&self) {}

    fn log_line(&self, _level: Level, message: &str) {
        self.logged.borrow_mut().push(message.to_owned());
    }

    fn value(&self, template: &Template) -> Vec<u8> {
        template.as_constant().unwrap_or_default().to_vec()
    }
}

/// The generation of the text in `http`, bound in the caller's registry.
#[track_caller]
pub(super) fn generation(caller: &ScriptedCaller, http: &str) -> Arc<Generation> {
    match caller.thread.registry.bind(plan(http)) {
        Ok(bound) => bound.generation,
        Err(found) => panic!("{found:?}"),
    }
}

/// Runs a future that only waits as its script says.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits for something that is not in the script"),
    }
}

mod tests {
    use super::*;
    use crate::connector::WaitTimes;
    use crate::connector::choose::{Choice, ChoiceInputs, Chosen, ClientNetwork, NoPeer, choose};
    use crate::connector::lease::{Wanted, lease};
    use crate::connector::leased::Leased;
    use crate::connector::names::{NoAddress, named_peers};
    use crate::connector::opening::{Spare, open_spare};
    use crate::connector::pending::ConnectionKey;
    use crate::plan::group::WarmingPlan;
    use conf::value::Host;
    use reactor::{ConnectOptions, PeerAddress};
    use std::net::TcpListener;
    use upstream::DiscardReason;
    use upstream::retry::Failure;

    fn inputs(_wants_chance: bool) -> ChoiceInputs {
        let client = PeerAddress::Ip(([127, 0, 0, 1], 1).into());
        ChoiceInputs { client: ClientNetwork::of(&client), hash_key: Vec::new(), random: 0 }
    }

    fn pick(caller: &ScriptedCaller, generation: &Generation, choice: &mut Choice) -> Result<Chosen, NoPeer> {
        run(choose(caller, &generation.proxies.get(0).group, choice, inputs))
    }

    #[test]
    fn a_peer_is_chosen_without_a_wait() {
        let caller = ScriptedCaller::new([]);
        let generation = generation(&caller, "server { location / { proxy_pass http://192.0.2.1; } }");
        let mut choice = Choice::default();
        assert_eq!(pick(&caller, &generation, &mut choice).map(|chosen| chosen.index).ok(), Some(0));
        assert_eq!(choice.queue_ms, None);
    }

    #[test]
    fn a_group_of_peers_that_are_down_has_none() {
        let caller = ScriptedCaller::new([]);
        let text = "upstream u { server 192.0.2.1 down; server 192.0.2.2 down; }
                    server { location / { proxy_pass http://u; } }";
        let generation = generation(&caller, text);
        assert_eq!(pick(&caller, &generation, &mut Choice::default()).err(), Some(NoPeer::NoLive));
    }

    const ONE_AT_A_TIME: &str = "upstream u { server 192.0.2.1 max_conns=1; queue 1 timeout=10s; }
                                 server { location / { proxy_pass http://u; } }";

    #[test]
    fn a_caller_in_line_gets_the_seat_that_comes_free() {
        let caller = ScriptedCaller::new([]);
        let generation = generation(&caller, ONE_AT_A_TIME);
        let first = pick(&caller, &generation, &mut Choice::default()).unwrap_or_else(|no_peer| panic!("{no_peer:?}"));
        caller.expect([During::Does(Box::new(move || drop(first)))]);
        let mut choice = Choice::default();
        assert!(pick(&caller, &generation, &mut choice).is_ok());
        assert_eq!((choice.queue_ms.is_some(), caller.unused()), (true, 0));
    }

    #[test]
    fn a_caller_in_line_leaves_with_its_client() {
        let caller = ScriptedCaller::new([]);
        let generation = generation(&caller, ONE_AT_A_TIME);
        let first = pick(&caller, &generation, &mut Choice::default()).unwrap_or_else(|no_peer| panic!("{no_peer:?}"));
        caller.expect([During::Ends(Woken::Ready), During::Ends(Woken::PeerGone)]);
        assert_eq!(pick(&caller, &generation, &mut Choice::default()).err(), Some(NoPeer::ClientGone));
        drop(first);
        assert!(pick(&caller, &generation, &mut Choice::default()).is_ok(), "nothing of it is left in the line");
    }

    /// Leases a connection to the only peer of the only proxy.
    fn lease_only(caller: &ScriptedCaller, generation: &Generation) -> Result<Box<Leased>, Failure> {
        let proxy = &generation.proxies.get(0);
        let choice = Choice::default();
        let set = proxy.group.members.of(&choice.held).expect("peers");
        let asked = ConnectionKey::of(&set.peers[0], None, |_| Vec::new()).expect("a key");
        let wanted = Wanted {
            peer: &set.peers[0],
            asked: &asked,
            tls: None,
            sides: None,
            group: &set.balance,
            index: 0,
            connect: &proxy.connect,
            source: &proxy.source,
            connect_timeout: proxy.connect_timeout,
            queue_timeout: proxy.group.queue_timeout,
            reused_will_do: true,
            must_prove: false,
            ahead: &[],
        };
        run(lease(caller, wanted, &mut WaitTimes::default()))
    }

    /// A peer, and the configuration of a proxy for it.
    fn peer() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let text = format!(
            "upstream u {{ server {address}; keepalive 2; }} server {{ location / {{ proxy_pass http://u; }} }}"
        );
        (listener, text)
    }

    #[test]
    fn a_connection_that_takes_too_long_is_given_up() {
        let (_listener, text) = peer();
        let caller = ScriptedCaller::new([During::Ends(Woken::Deadline)]);
        let generation = generation(&caller, &text);
        assert_eq!(lease_only(&caller, &generation).err(), Some(Failure::ConnectTimeout));
        assert_eq!(caller.logged(), ["upstream timed out (110: Connection timed out) while connecting to upstream"]);
    }

    #[test]
    fn a_connection_is_given_up_with_its_client() {
        let (_listener, text) = peer();
        let caller = ScriptedCaller::new([During::Ends(Woken::PeerGone)]);
        let generation = generation(&caller, &text);
        assert_eq!(lease_only(&caller, &generation).err(), Some(Failure::ClientGone));
        assert_eq!(caller.logged(), [""; 0]);
        caller.expect([During::Ends(Woken::Deadline)]);
        let reason = lease_only(&caller, &generation).map(|leased| leased.discard(DiscardReason::Cancelled));
        assert_eq!(reason, Err(Failure::ConnectTimeout), "the permit came back");
    }

    fn warming() -> WarmingPlan {
        let connect = ConnectOptions::default();
        WarmingPlan { connect, connect_timeout: Duration::from_secs(1), tls: None, http2: false, floor: 1 }
    }

    #[test]
    fn a_spare_connection_is_opened_for_the_pool() {
        let (listener, text) = peer();
        let caller = ScriptedCaller::new([]);
        let generation = generation(&caller, &text);
        let key = generation.proxies.get(0).group.members.of(&None).expect("peers").peers[0].key;
        let address = PeerAddress::Ip(listener.local_addr().expect("an address"));
        assert_eq!(open_spare(caller.thread(), key, &address, &warming()), Spare::Opening);
        assert_eq!(caller.thread().registry.pool.peer_connections(key), 1);
        assert!(listener.accept().is_ok());
    }

    #[test]
    fn a_spare_connection_that_cannot_begin_pauses_the_peer() {
        let (_listener, text) = peer();
        let caller = ScriptedCaller::new([]);
        let generation = generation(&caller, &text);
        let key = generation.proxies.get(0).group.members.of(&None).expect("peers").peers[0].key;
        let nowhere = PeerAddress::Unix("/nowhere/at/all.sock".into());
        assert_eq!(open_spare(caller.thread(), key, &nowhere, &warming()), Spare::Refused);
        assert!(caller.thread().pauses.holds(key, caller.thread().reactor.now()));
        assert_eq!(caller.thread().registry.pool.peer_connections(key), 0, "the permit came back");
    }

    #[test]
    fn a_name_needs_a_resolver() {
        let caller = ScriptedCaller::new([]);
        let text = "server { location / { set $host_of x; proxy_pass http://$host_of; } }";
        let generation = generation(&caller, text);
        let guests = &generation.guests[0];
        let host = Host::Name("x.test".into());
        assert_eq!(run(named_peers(&caller, guests, &host, 80, None)).err(), Some(NoAddress::Failed));
        assert_eq!(caller.logged(), ["no resolver defined to resolve x.test"]);
        let host = Host::Ip([192, 0, 2, 1].into());
        assert_eq!(run(named_peers(&caller, guests, &host, 80, None)).map(|set| set.peers.len()).ok(), Some(1));
    }
}
