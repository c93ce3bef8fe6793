//! Tests of a run: messages and times come in, and what the run wants and reports is compared.

use super::*;
use crate::coordinator::roster::beat;
use crate::sequence::Outbox;

const SECOND: u64 = 1_000_000_000;

/// A run with agents, and what they would send.
struct Scene {
    run: Run,
    now_ns: u64,
    outboxes: Vec<Outbox>,
}

fn name(agent: usize) -> Name {
    format!("a{agent}").parse().unwrap()
}

impl Scene {
    fn new(agents: usize, take_over: bool) -> Self {
        let beats = (0..agents).map(|agent| beat(&format!("a{agent}"), agent as u64)).collect();
        let mut run = Run::new(7, beats, take_over, SECOND);
        run.order(vec![b"order".to_vec(); agents], SECOND);
        Self { run, now_ns: SECOND, outboxes: (0..agents).map(|_| Outbox::default()).collect() }
    }

    /// An agent says a line of a part.
    fn report_line(&mut self, agent: usize, part: usize, line: &str) {
        self.outboxes[part].push(line.as_bytes()).unwrap();
        while let Some(piece) = self.outboxes[part].send_next(self.now_ns).cloned() {
            let head = FromAgent::Report { agent: name(agent), part, number: piece.number, more: piece.more };
            self.run.receive(&head, &piece.bytes, self.now_ns);
        }
    }

    /// Time passes; these agents live, and their clocks are this far off.
    fn pass(&mut self, milliseconds: u64, living: &[usize]) {
        for _ in 0..milliseconds / 10 {
            self.now_ns += 10_000_000;
            for agent in living {
                self.run.beat(&beat(&format!("a{agent}"), *agent as u64), self.now_ns);
            }
            self.run.look(self.now_ns);
        }
    }

    /// Answers all questions for clocks.
    fn answer_clocks(&mut self) {
        for out in std::mem::take(&mut self.run.out) {
            if let ToAgent::Clock { ask, .. } = out.head {
                let head = FromAgent::Clock { agent: out.agent, ask, now_ns: self.now_ns + 5 * SECOND };
                self.run.receive(&head, b"", self.now_ns);
            }
        }
    }

    fn begin(&mut self) -> u64 {
        let all: Vec<usize> = (0..self.outboxes.len()).collect();
        for agent in &all {
            self.report_line(*agent, *agent, "\"ready\"");
        }
        for _ in 0..100 {
            self.pass(10, &all);
            self.answer_clocks();
        }
        let begins_ns = self.run.begin(self.now_ns).unwrap().unwrap();
        self.pass(1_000, &all);
        for agent in all {
            self.run.began(agent, 1_000);
        }
        self.run.events.clear();
        begins_ns
    }

    fn lost(&self) -> Vec<String> {
        let lost = self.run.events.iter().filter_map(|event| match event {
            Event::Lost { text, .. } => Some(text.clone()),
            _ => None,
        });
        lost.collect()
    }

    fn marks(&self) -> String {
        let marks = self.run.events.iter().filter_map(|event| match event {
            Event::Mark(text) => Some(text.as_str()),
            _ => None,
        });
        marks.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn all_begin_at_one_moment_of_their_own_clocks() {
    let mut scene = Scene::new(2, false);
    let begins_ns = scene.begin();
    let begins = scene.run.out.iter().filter_map(|out| match out.head {
        ToAgent::Begin { monotonic_ns, from_ns, .. } => Some((monotonic_ns, from_ns)),
        _ => None,
    });
    let begins: Vec<_> = begins.collect();
    assert!(begins.len() >= 2 && begins.iter().all(|begin| *begin == (begins_ns + 5 * SECOND, 0)), "{begins:?}");
}

#[test]
fn waits_for_clocks_and_names_agents_without_one() {
    let mut scene = Scene::new(2, false);
    (0..2).for_each(|agent| scene.report_line(agent, agent, "\"ready\""));
    assert_eq!(scene.run.begin(scene.now_ns), None);
    scene.pass(5_100, &[0, 1]);
    assert_eq!(scene.run.begin(scene.now_ns), Some(Err("agent `a0` sends no clock value".to_owned())));
}

#[test]
fn silent_agent_is_lost_within_two_seconds() {
    let mut scene = Scene::new(3, false);
    scene.begin();
    scene.pass(1_800, &[0, 2]);
    assert!(scene.lost().is_empty());
    scene.pass(200, &[0, 2]);
    let lost = scene.lost();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].starts_with("agent `a1` sent nothing for 1.9 s at 2.6 s of the run"), "{lost:?}");
    // When it is back, it is told that it is no longer wanted, and nothing of it is taken.
    scene.run.out.clear();
    scene.run.events.clear();
    scene.report_line(1, 1, "late");
    assert!(scene.run.events.is_empty());
    assert_eq!(scene.run.out.first().map(|out| &out.head), Some(&ToAgent::Forget { run: 7 }));
}

#[test]
fn nothing_is_lost_while_the_server_is_gone() {
    let mut scene = Scene::new(2, false);
    scene.begin();
    scene.run.connection(false, scene.now_ns);
    scene.pass(20_000, &[]);
    assert!(scene.lost().is_empty());
    scene.run.connection(true, scene.now_ns);
    scene.pass(1_000, &[]);
    scene.pass(5_000, &[0, 1]);
    assert!(scene.lost().is_empty());
    scene.run.connection(false, scene.now_ns);
    scene.pass(31_000, &[]);
    assert_eq!(scene.lost().len(), 2, "the server does not come back");
}

#[test]
fn another_agent_takes_over_at_the_current_time() {
    let mut scene = Scene::new(2, true);
    let begins_ns = scene.begin();
    scene.run.out.clear();
    scene.pass(2_000, &[0]);
    assert!(scene.lost().is_empty());
    assert!(scene.marks().contains("agent `a1` sent nothing") && scene.marks().contains("`a0` takes its share over"));
    let ordered = |out: &Outgoing| matches!(out.head, ToAgent::Order { part: 1, .. }) && out.agent == name(0);
    assert!(scene.run.out.iter().any(ordered), "{:?}", scene.run.out);
    scene.run.out.clear();
    scene.outboxes[1] = Outbox::default();
    scene.report_line(0, 1, "\"ready\"");
    let from = scene.run.out.iter().find_map(|out| match out.head {
        ToAgent::Begin { part: 1, monotonic_ns, from_ns, .. } => Some((monotonic_ns, from_ns)),
        _ => None,
    });
    assert_eq!(from, Some((begins_ns + 5 * SECOND, scene.now_ns - begins_ns + SECOND / 5)));
    // The last agent is lost as well.
    scene.pass(2_000, &[]);
    assert_eq!(scene.lost().len(), 2);
}

#[test]
fn leaving_or_restarted_agent_is_lost_at_once() {
    let mut scene = Scene::new(3, false);
    scene.begin();
    scene.run.beat(&Beat { state: AgentState::Leaving, ..beat("a0", 0) }, scene.now_ns);
    scene.run.beat(&beat("a1", 99), scene.now_ns);
    let lost = scene.lost();
    assert!(lost[0].contains("`a0` was told to end") && lost[1].contains("`a1` has ended"), "{lost:?}");
}

#[test]
fn an_agent_behind_the_others_is_named_once() {
    let mut scene = Scene::new(3, false);
    scene.begin();
    let progress = |interval| PartProgress { interval, responses: 10, lag_ns: 0 };
    for interval in 0..5 {
        scene.run.progress(0, progress(interval));
        scene.run.progress(1, progress(interval));
        scene.pass(1_000, &[0, 1, 2]);
    }
    assert_eq!(scene.marks().matches("`a2` is a straggler: its reports come").count(), 1, "{}", scene.marks());
}

#[test]
fn agent_with_unreadable_reports_is_lost() {
    let mut scene = Scene::new(1, false);
    let head = FromAgent::Report { agent: name(0), part: 0, number: 0, more: false };
    scene.run.receive(&head, b"\xff\xff", scene.now_ns);
    assert!(scene.lost()[0].contains("`a0` sends a report that cannot be read"), "{:?}", scene.lost());
}
