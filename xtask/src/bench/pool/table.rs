//! What was measured, for people: two tables for each load, ratios within the round, and the goals. Pure.

use super::super::results::{median, spread};
use super::bottleneck::bottleneck;
use super::census::{all, of};
use super::plan::{Arm, Load, Part, Server};
use super::programs::Placement;
use super::sample::{Sample, Side};
use serde::Serialize;
use sockdiag::State;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One load with all its samples.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) title: String,
    pub(super) placement: Placement,
    pub(super) load: Load,
    /// Arms by round, as they came.
    pub(super) orders: Vec<Vec<String>>,
    pub(super) samples: Vec<Sample>,
}

/// Extra TIME_WAIT sockets of a pooled arm for each request: below this.
const GOAL_TIME_WAIT: f64 = 0.001;
/// Requests of all on a connection that was there.
const GOAL_REUSE: f64 = 0.999;

impl Measured {
    /// Both tables and what follows from them.
    pub(super) fn markdown(&self, rounds: u64) -> String {
        let seconds = self.load.seconds;
        let title = format!("\n### {}; {rounds} rounds of {seconds} s, median [min–max]\n\n", self.title);
        let settings = self.samples.first().map_or("", |sample| &sample.settings);
        let place = format!("{}; in each namespace {settings}\n\n", self.placement);
        title + &place + &self.costs() + &self.sockets() + "\n" + &self.conclusions()
    }

    fn costs(&self) -> String {
        let mut text = String::from(
            "| arm | requests/s | of direct, % | p99 ms | failed | CPU µs/request: proxy | origin | client | \
             busiest thread c p o, % | bottleneck |\n|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for arm in &self.load.arms {
            let rows = || self.of_arm(*arm);
            let failed = self.failed(*arm);
            let cpu = |side: fn(&Sample) -> Option<Side>| {
                spread(&rows().filter_map(|sample| Some(side(sample)?.cpu_us_per_request)).collect::<Vec<_>>(), 1)
            };
            let _ = writeln!(
                text,
                "| {arm} | {} | {} | {} | {failed} | {} | {} | {} | {} | {} |",
                self.spread(*arm, |sample| sample.figures.requests_per_second, 0),
                spread(&self.of_direct(*arm), 1),
                self.spread(*arm, |sample| sample.figures.latency_ms_p99, 1),
                cpu(|sample| sample.proxy),
                cpu(|sample| Some(sample.origin)),
                cpu(|sample| Some(sample.client)),
                self.busiest(*arm),
                self.bottlenecks(*arm),
            );
        }
        text
    }

    /// All rounds together, with the client's words for why.
    fn failed(&self, arm: Arm) -> String {
        let mut causes = BTreeMap::<&str, u64>::new();
        for (cause, count) in self.of_arm(arm).flat_map(|sample| &sample.figures.causes) {
            *causes.entry(cause).or_default() += count;
        }
        let all: u64 = self.of_arm(arm).map(|sample| sample.figures.failed).sum();
        let causes: Vec<String> = causes.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
        if causes.is_empty() { all.to_string() } else { format!("{all} ({})", causes.join(", ")) }
    }

    fn sockets(&self) -> String {
        let mut text = String::from(
            "\n| arm | gateway's port: ESTABLISHED | TIME_WAIT | other | origin's port: ESTABLISHED | TIME_WAIT | other | \
             opened upstream | for requests | reused, % | TIME_WAIT at the end / requests, % | of it the origin's, % |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for arm in &self.load.arms {
            let count = |value: fn(&Sample) -> f64| self.spread(*arm, value, 0);
            let _ = writeln!(
                text,
                "| {arm} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                count(|sample| of(&sample.sockets.gateway, State::Established)),
                count(|sample| of(&sample.sockets.gateway, State::TimeWait)),
                count(|sample| others(&sample.sockets.gateway)),
                count(|sample| of(&sample.sockets.origin, State::Established)),
                count(|sample| of(&sample.sockets.origin, State::TimeWait)),
                count(|sample| others(&sample.sockets.origin)),
                count(|sample| sample.opened_all as f64),
                count(|sample| sample.requests_at_origin_all as f64),
                self.spread(*arm, |sample| reused(sample) * 100.0, 2),
                self.spread(*arm, |sample| time_wait(sample) * 100.0, 3),
                spread(&self.of_arm(*arm).filter_map(origin_first).map(|part| part * 100.0).collect::<Vec<_>>(), 0),
            );
        }
        text
    }

    /// Ratios, taken within the round, and goals.
    fn conclusions(&self) -> String {
        let pooled = |server| self.load.arms.iter().rfind(|arm| arm.server == server && arm.keepalive > 0).copied();
        let (Some(ours), Some(theirs)) = (pooled(Server::Holdfast), pooled(Server::Nginx)) else {
            return String::new();
        };
        if self.load.part == Part::Reuse {
            return self.reuse_conclusions();
        }
        let mut text = String::new();
        let rate = self.ratio(ours, theirs, |sample| sample.figures.requests_per_second);
        let cpu = self.ratio(ours, theirs, |sample| sample.proxy.map_or(f64::NAN, |side| side.cpu_us_per_request));
        // At a constant rate all arms have the same, as long as they keep up.
        let goal = |holds: bool| if holds { "met" } else { "MISSED" };
        let wanted = if self.load.part == Part::Rate {
            String::new()
        } else {
            format!(" (goal > 1: {})", goal(median(&rate) > 1.0))
        };
        let _ = writeln!(
            text,
            "* {ours} / {theirs}, within the round: requests/s {}{wanted}, CPU/request {} (goal < 1: {})",
            spread(&rate, 3),
            spread(&cpu, 3),
            goal(median(&cpu) < 1.0),
        );
        let most = self.of_arm(ours).map(time_wait).fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "* {ours}: extra TIME_WAIT at most {:.4} % of the requests (goal < {} %: {})",
            most * 100.0,
            GOAL_TIME_WAIT * 100.0,
            goal(most < GOAL_TIME_WAIT)
        );
        for server in [Server::Nginx, Server::Holdfast] {
            text += &self.shape(server);
        }
        text
    }

    /// How many times as many sockets the arm with the smallest pool, or none, has as the one with the largest.
    fn shape(&self, server: Server) -> String {
        let of_server = || self.load.arms.iter().filter(|arm| arm.server == server);
        let (Some(least), Some(most)) =
            (of_server().min_by_key(|arm| arm.keepalive), of_server().max_by_key(|arm| arm.keepalive))
        else {
            return String::new();
        };
        let sockets = self.ratio(*least, *most, |sample| all(&sample.sockets.origin));
        let end = |sample: &Sample| of(&sample.sockets_end.origin, State::TimeWait);
        format!(
            "* {least} / {most}: sockets on the origin's port {}, TIME_WAIT there at the end {} against {}\n",
            spread(&sockets, 1),
            self.spread(*least, end, 0),
            self.spread(*most, end, 0)
        )
    }

    fn reuse_conclusions(&self) -> String {
        let mut text = String::new();
        for arm in &self.load.arms {
            let least = self.of_arm(*arm).map(reused_under_load).fold(f64::INFINITY, f64::min);
            let opened = self.of_arm(*arm).map(|sample| sample.opened_all).max().unwrap_or(0);
            let holds = if least >= GOAL_REUSE { "met" } else { "MISSED" };
            let goal = format!(" (goal ≥ {} %: {holds})", GOAL_REUSE * 100.0);
            let goal = if arm.server == Server::Holdfast { goal } else { String::new() };
            let clients = self.load.clients;
            let _ = writeln!(
                text,
                "* {arm}: at least {:.3} % reused under load{goal}; at most {opened} connections opened for {clients} clients, \
                 warm-up included",
                least * 100.0
            );
        }
        text
    }

    fn of_arm(&self, arm: Arm) -> impl Iterator<Item = &Sample> {
        let name = arm.to_string();
        self.samples.iter().filter(move |sample| sample.arm == name)
    }

    fn spread(&self, arm: Arm, value: fn(&Sample) -> f64, decimals: usize) -> String {
        spread(&self.of_arm(arm).map(value).collect::<Vec<_>>(), decimals)
    }

    /// One quotient per round: what disturbed a round disturbed both.
    fn ratio(&self, arm: Arm, below: Arm, value: fn(&Sample) -> f64) -> Vec<f64> {
        let quotient = |sample: &Sample| {
            let beside = self.of_arm(below).find(|beside| beside.round == sample.round)?;
            Some(value(sample) / value(beside)).filter(|quotient| quotient.is_finite())
        };
        self.of_arm(arm).filter_map(quotient).collect()
    }

    fn of_direct(&self, arm: Arm) -> Vec<f64> {
        let Some(direct) = self.load.arms.iter().find(|arm| arm.server == Server::Direct) else { return Vec::new() };
        self.ratio(arm, *direct, |sample| sample.figures.requests_per_second).into_iter().map(|q| q * 100.0).collect()
    }

    /// `95+3 73+22 22+9`: running and waiting for a core, of client, proxy and origin, medians.
    fn busiest(&self, arm: Arm) -> String {
        let side = |side: fn(&Sample) -> Option<Side>| {
            let sides: Vec<_> = self.of_arm(arm).filter_map(side).collect();
            if sides.is_empty() {
                return "–".to_owned();
            }
            let percent = |part: fn(&Side) -> f64| median(&sides.iter().map(part).collect::<Vec<_>>()) * 100.0;
            format!("{:.0}+{:.0}", percent(|side| side.busiest.running), percent(|side| side.busiest.queued))
        };
        [side(|sample| Some(sample.client)), side(|sample| sample.proxy), side(|sample| Some(sample.origin))].join(" ")
    }

    /// Of each round; one word if they agree.
    fn bottlenecks(&self, arm: Arm) -> String {
        let mut found: Vec<String> = self.of_arm(arm).map(bottleneck).collect();
        found.sort();
        found.dedup();
        let void = self.of_arm(arm).filter(|sample| !sample.figures.void.is_empty()).count();
        // What the client says of itself: it came too late to too many of its requests.
        let void = if void > 0 { format!(", client late in {void} rounds") } else { String::new() };
        found.join(" / ") + &void
    }
}

fn others(states: &super::census::States) -> f64 {
    let told = [State::Established.name(), State::TimeWait.name()];
    let rest = states.iter().filter(|(state, _)| !told.contains(&state.as_str()));
    rest.fold(0.0, |sum, (_, count)| sum + count)
}

/// The part of the requests at the origin that came on a connection that was there, what filled the pool included.
fn reused(sample: &Sample) -> f64 {
    kept(sample.opened_all, sample.requests_at_origin_all)
}

/// The same without what came before the load.
fn reused_under_load(sample: &Sample) -> f64 {
    kept(sample.opened, sample.requests_at_origin)
}

/// A connection that was opened and never asked anything, as when a load ends, makes no request less than new.
fn kept(opened: u64, requests: u64) -> f64 {
    (1.0 - opened as f64 / requests as f64).max(0.0)
}

/// TIME_WAIT sockets on the origin's port when the load had ended, for each request since the proxy was started. Two
/// sides that close at the same time have one each, so an arm without a pool may have more than one for each request.
fn time_wait(sample: &Sample) -> f64 {
    of(&sample.sockets_end.origin, State::TimeWait) / sample.requests_at_origin_all as f64
}

/// The part of those that the origin has, since it closed first; `None` of nothing.
fn origin_first(sample: &Sample) -> Option<f64> {
    let all = of(&sample.sockets_end.origin, State::TimeWait);
    (all > 0.0).then(|| sample.sockets_end.origin_closed_first / all)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Scale, loads};
    use super::super::sample::tests::sample;
    use super::*;

    fn measured(part: Part, change: impl Fn(&mut Sample)) -> Measured {
        let load =
            loads(&[part], &Scale { rates: vec![1200], rate_clients: 200, rate_seconds: 1, seconds: 1 }).remove(0);
        let mut samples = Vec::new();
        for round in 0..2 {
            for arm in &load.arms {
                let mut sample = sample(&arm.to_string(), round);
                // What disturbs a round disturbs all of it.
                sample.figures.requests_per_second *= (round + 1) as f64;
                change(&mut sample);
                samples.push(sample);
            }
        }
        let placement = Placement { client: Some(0), proxy: Some(1), origin: Some(0) };
        Measured { title: load.to_string(), placement, load, orders: Vec::new(), samples }
    }

    #[test]
    fn parts_of_direct_and_ratios_are_taken_within_the_round() {
        let measured = measured(Part::PerRequest, |sample| {
            if sample.arm == "holdfast 100" {
                sample.figures.requests_per_second /= 2.0;
                sample.sockets_end.origin.insert("TIME_WAIT".to_owned(), 22.0);
            }
        });
        let text = measured.markdown(2);
        assert!(text.contains("| holdfast 100 | 7500 [5000–10000] | 50.0 [50.0–50.0] |"), "{text}");
        assert!(text.contains("requests/s 0.500 [0.500–0.500] (goal > 1: MISSED)"), "{text}");
        assert!(text.contains("extra TIME_WAIT at most 0.2000 % of the requests (goal < 0.1 %: MISSED)"), "{text}");
    }

    #[test]
    fn an_arm_without_a_pool_is_told_in_multiples_of_the_one_with_the_right_one() {
        let measured = measured(Part::Rate, |sample| {
            let sockets = if sample.arm.ends_with("unpooled") { 8200.0 } else { 10.0 };
            sample.sockets.origin.insert("TIME_WAIT".to_owned(), sockets);
        });
        let text = measured.markdown(2);
        assert!(text.contains("* nginx unpooled / nginx 200: sockets on the origin's port 820.0"), "{text}");
        assert!(!text.contains("goal > 1"), "a constant rate has no winner: {text}");
    }

    #[test]
    fn reuse_is_judged_by_its_worst_round() {
        let measured = measured(Part::Reuse, |sample| {
            if sample.round == 1 && sample.arm == "holdfast 2 × 32 workers" {
                sample.opened = 11;
            }
        });
        let text = measured.markdown(2);
        assert!(
            text.contains("holdfast 2 × 32 workers: at least 99.890 % reused under load (goal ≥ 99.9 %: MISSED)"),
            "{text}"
        );
        assert!(
            text.contains("holdfast 8 × 8 workers: at least 100.000 % reused under load (goal ≥ 99.9 %: met)"),
            "{text}"
        );
    }
}
