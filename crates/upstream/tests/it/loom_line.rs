//! The line for peers (`queue`) under the model checker: a seat that becomes free while somebody takes, or leaves, a place
//! is never lost. Run with `RUSTFLAGS="--cfg loom" cargo test -p upstream --release loom_line::`.

use std::sync::{Arc, Mutex};

use loom::thread;
use upstream::Millis;
use upstream::balance::{
    Checked, Group, HealthRegistry, Inputs, Member, Method, PeerSpec, Pick, Seat, SeatLine, SeatWaiter, Selection,
};
use upstream::shared::PeerAddress;

const NOW: Millis = Millis(1);

/// A peer with one seat, and a line for two.
struct Scene {
    line: Arc<SeatLine>,
    group: Arc<Group>,
    woken: Arc<Mutex<Vec<u64>>>,
}

fn explore(conversation: impl Fn(&Scene, Seat) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let woken = Arc::<Mutex<Vec<u64>>>::default();
        let noted = Arc::clone(&woken);
        let line = Arc::new(SeatLine::new(Box::new(move |token| noted.lock().unwrap().push(token))));
        line.set_waiting_max(2);
        let health =
            HealthRegistry::default().health("app", &PeerAddress::Ip(([127, 0, 0, 1], 80).into()), 0, Checked::Healthy);
        let spec = PeerSpec { max_conns: Some(1), ..PeerSpec::default() };
        let member = Member { spec, server: "a".into(), sid: Arc::default(), health };
        let group = Arc::new(Group::new(Method::RoundRobin, vec![member]).with_line(&line));
        let Pick::Peer { seat, .. } = group.pick(&mut Selection::default(), &Inputs::default(), NOW) else { panic!() };
        conversation(&Scene { line, group, woken }, seat);
    });
}

impl Scene {
    fn stand(&self, token: u64) -> SeatWaiter {
        self.line.enqueue(&self.group, Selection::default(), &Inputs::default(), token).unwrap()
    }

    /// Who waits has a seat, or was woken to look and finds one.
    fn comes_to_a_seat(&self, waiter: &mut SeatWaiter, granted: bool, token: u64) {
        assert!(granted || self.woken.lock().unwrap().contains(&token));
        assert!(granted || waiter.poll(NOW).is_some());
        assert_eq!(self.line.waiting(), 0);
    }
}

#[test]
fn seat_freed_during_a_join_is_not_lost() {
    explore(|scene, seat| {
        let releasing = thread::spawn(move || drop(seat));
        let mut waiter = scene.stand(7);
        let granted = waiter.poll(NOW);
        releasing.join().unwrap();
        scene.comes_to_a_seat(&mut waiter, granted.is_some(), 7);
    });
}

#[test]
fn seat_freed_during_a_leave_goes_to_the_next() {
    explore(|scene, seat| {
        let (leaver, mut next) = (scene.stand(1), scene.stand(2));
        let releasing = thread::spawn(move || drop(seat));
        drop(leaver);
        releasing.join().unwrap();
        scene.comes_to_a_seat(&mut next, false, 2);
    });
}

#[test]
fn leaving_the_line_meanwhile_loses_no_seat() {
    explore(|scene, seat| {
        let (leaver, mut next) = (scene.stand(1), scene.stand(2));
        drop(seat);
        let leaving = thread::spawn(move || drop(leaver));
        let granted = next.poll(NOW);
        leaving.join().unwrap();
        scene.comes_to_a_seat(&mut next, granted.is_some(), 2);
    });
}
