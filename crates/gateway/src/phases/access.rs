//! The access phase: whether a client may use a location. As in nginx, it runs before a location's content, also after
//! an internal redirect; `return` answers before it, and subrequests skip it. The checks run in nginx's order, each in
//! a function of its own: `allow` and `deny`, `auth_basic`, `auth_jwt`, `auth_request`.

use crate::downstream::internal::WantedParts;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::subrequest::Errand;
use crate::exchange::trace::{Event, Tracer};
use crate::exchange::waiting::{ClientLeft, Wants};
use crate::plan::access::{AccessPlan, AuthRequestPlan, permits};
use crate::upstream::replay_body::ReplayBody;
use conf::model::{AccessRule, Satisfy};
use http1::{FieldId, Method};
use reactor::{PeerAddress, Woken};
use std::sync::Arc;
use std::time::Duration;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessVerdict {
    Allow,
    /// 403, or 401: the client may try again with credentials.
    Deny(u16),
    /// The check does not concern this request.
    Pass,
    /// The check itself failed: the request gets this status, regardless of the other checks.
    Failed(u16),
}

impl AccessVerdict {
    /// The status of the refusal.
    fn refusal(self) -> Option<u16> {
        match self {
            Self::Allow | Self::Pass => None,
            Self::Deny(status) | Self::Failed(status) => Some(status),
        }
    }
}

/// The state after some of a location's checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checked {
    satisfy: Satisfy,
    /// The status of a refusal that another check may still override.
    refused: Option<u16>,
}

/// What follows from a check's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follows {
    NextCheck,
    Admitted,
    Refused(u16),
}

impl Checked {
    fn new(satisfy: Satisfy) -> Self {
        Self { satisfy, refused: None }
    }

    fn note(&mut self, verdict: AccessVerdict) -> Follows {
        match (verdict, self.satisfy) {
            (AccessVerdict::Failed(status), _) | (AccessVerdict::Deny(status), Satisfy::All) => {
                Follows::Refused(status)
            }
            (AccessVerdict::Allow, Satisfy::Any) => Follows::Admitted,
            (AccessVerdict::Deny(status), Satisfy::Any) => {
                // 401 takes precedence: the client can react to it.
                if self.refused != Some(401) {
                    self.refused = Some(status);
                }
                Follows::NextCheck
            }
            (AccessVerdict::Allow | AccessVerdict::Pass, _) => Follows::NextCheck,
        }
    }
}

impl Exchange {
    /// The answer to a client that is refused.
    pub(crate) async fn access<T: Tracer>(&mut self, plan: &AccessPlan, trace: T) -> Option<Reply> {
        trace.note(self, Event::Access(plan));
        let refusal = self.refusal(plan, trace).await?;
        if refusal.status == 401 && !plan.delay.is_zero() && !T::OFFLINE {
            self.client_log("delaying unauthorized request");
            if self.pass_time(plan.delay).await.is_err() {
                return Some(Reply::to_nobody(499));
            }
        }
        Some(refusal)
    }

    async fn refusal<T: Tracer>(&mut self, plan: &AccessPlan, trace: T) -> Option<Reply> {
        let mut checked = Checked::new(plan.satisfy);
        match checked.note(by_address(&plan.rules, self.client())) {
            Follows::Admitted => return None,
            Follows::Refused(status) => return Some(self.forbid(status)),
            Follows::NextCheck => {}
        }
        if let Some(basic) = &plan.basic {
            let verdict = self.basic_auth(basic).await;
            trace.note(self, Event::Password(basic, verdict.refusal()));
            match checked.note(verdict) {
                Follows::Admitted => return self.admit(),
                Follows::Refused(status) => return Some(Reply::error(status)),
                Follows::NextCheck => {}
            }
        }
        if let Some(jwt) = &plan.jwt {
            let verdict = match self.auth_jwt(jwt, !T::OFFLINE).await {
                Ok(verdict) => verdict,
                Err(left) => return Some(left),
            };
            trace.note(self, Event::Token(jwt, verdict.refusal()));
            match checked.note(verdict) {
                Follows::Admitted => return self.admit(),
                Follows::Refused(status) => return Some(Reply::error(status)),
                Follows::NextCheck => {}
            }
        }
        if let Some(request) = &plan.request {
            trace.note(self, Event::AuthRequest(request));
            // Without a network, the check is taken to pass.
            let asked = if T::OFFLINE { Ok(AccessVerdict::Allow) } else { self.auth_request(request).await };
            match asked.map(|verdict| checked.note(verdict)) {
                Ok(Follows::Admitted) => return self.admit(),
                Ok(Follows::Refused(status)) => return Some(Reply::error(status)),
                Ok(Follows::NextCheck) => {}
                Err(left) => return Some(left),
            }
        }
        checked.refused.map(|status| self.forbid(status))
    }

    /// A check passed: challenges of other checks are dropped.
    fn admit(&mut self) -> Option<Reply> {
        self.response.drop_carried(FieldId::WwwAuthenticate);
        None
    }

    /// Waits; an error means that the client has left.
    async fn pass_time(&mut self, time: Duration) -> Result<(), ClientLeft> {
        let until = self.thread.reactor.now().after(time);
        loop {
            let now = self.thread.reactor.now();
            if now >= until {
                return Ok(());
            }
            if self.wait(Wants::NOTHING, Duration::from_millis(until.since(now))).await == Woken::PeerGone {
                return Err(ClientLeft);
            }
        }
    }

    fn forbid(&self, status: u16) -> Reply {
        if status == 403 {
            self.error_log("access forbidden by rule");
        }
        Reply::error(status)
    }

    /// `auth_request`: the status of a subrequest decides.
    async fn auth_request(&mut self, plan: &AuthRequestPlan) -> Result<AccessVerdict, Reply> {
        let errand = Errand {
            uri: plan.uri.to_vec(),
            method: Method::Get,
            wanted: WantedParts::Status,
            body: ReplayBody::None,
            sets: Some(Arc::clone(&plan.sets)),
            charset: None,
            resumes: None,
            args: None,
            inclusion: None,
        };
        let subrequest = self.start(errand);
        let Ok(ended) = self.end_of(subrequest).await else { return Err(Reply::to_nobody(499)) };
        let verdict = by_status(ended.status);
        match verdict {
            AccessVerdict::Deny(401) => {
                for (name, value) in ended.challenges.iter(b"") {
                    self.response.carry(name, value);
                }
            }
            AccessVerdict::Failed(_) => self.error_log(&format!("auth request unexpected status: {}", ended.status)),
            _ => {}
        }
        Ok(verdict)
    }
}

/// What the status of an `auth_request` means.
fn by_status(status: u16) -> AccessVerdict {
    match status {
        200..=299 => AccessVerdict::Allow,
        401 | 403 => AccessVerdict::Deny(status),
        _ => AccessVerdict::Failed(500),
    }
}

/// `allow` and `deny`: the first rule that matches decides.
fn by_address(rules: &[AccessRule], client: &PeerAddress) -> AccessVerdict {
    match permits(rules, client) {
        Some(true) => AccessVerdict::Allow,
        Some(false) => AccessVerdict::Deny(403),
        None => AccessVerdict::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::value::{Cidr, CidrPattern};

    /// `+` allows, `-` denies.
    fn rules(text: &str) -> Vec<AccessRule> {
        let rule = |word: &str| AccessRule {
            allow: word.starts_with('+'),
            who: match &word[1..] {
                "all" => CidrPattern::All,
                "unix" => CidrPattern::Unix,
                network => CidrPattern::Network(Cidr::parse(network.as_bytes()).unwrap().0),
            },
        };
        text.split(' ').map(rule).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let from = |text: &str, client: &str| {
            let client = match client.parse::<std::net::IpAddr>() {
                Ok(ip) => PeerAddress::Ip((ip, 1).into()),
                Err(_) => PeerAddress::Unix(client.into()),
            };
            by_address(&rules(text), &client)
        };
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "10.0.0.1"), AccessVerdict::Deny(403));
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "10.0.0.2"), AccessVerdict::Allow);
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "192.0.2.1"), AccessVerdict::Deny(403));
        assert_eq!(from("+10.0.0.0/8 -all", "::ffff:10.1.1.1"), AccessVerdict::Allow, "IPv4 behind IPv6");
        assert_eq!(from("+2001:db8::/32 -all", "2001:db8::7"), AccessVerdict::Allow);
        assert_eq!(from("-10.0.0.0/8", "::1"), AccessVerdict::Pass);
        assert_eq!(
            (from("+unix -all", "/socket"), from("-0.0.0.0/0", "/socket")),
            (AccessVerdict::Allow, AccessVerdict::Pass)
        );
    }

    /// The status of the refusal after these checks, 0 for none.
    fn after(satisfy: Satisfy, verdicts: &[AccessVerdict]) -> u16 {
        let mut checked = Checked::new(satisfy);
        for verdict in verdicts {
            match checked.note(*verdict) {
                Follows::NextCheck => {}
                Follows::Admitted => return 0,
                Follows::Refused(status) => return status,
            }
        }
        checked.refused.unwrap_or_default()
    }

    #[test]
    fn satisfy_combines_checks() {
        use AccessVerdict::{Allow, Deny, Failed, Pass};
        for (verdicts, all, any) in [
            ([Allow, Deny(403)], 403, 0),
            ([Deny(403), Allow], 403, 0),
            ([Allow, Pass], 0, 0),
            ([Deny(403), Pass], 403, 403),
            ([Pass, Pass], 0, 0),
            ([Deny(403), Deny(401)], 403, 401),
            ([Deny(401), Deny(403)], 401, 401),
            ([Deny(403), Failed(500)], 403, 500),
            ([Allow, Failed(500)], 500, 0),
        ] {
            assert_eq!((after(Satisfy::All, &verdicts), after(Satisfy::Any, &verdicts)), (all, any), "{verdicts:?}");
        }
    }

    #[test]
    fn the_status_of_a_subrequest_decides() {
        for (status, verdict) in [
            (200, AccessVerdict::Allow),
            (204, AccessVerdict::Allow),
            (401, AccessVerdict::Deny(401)),
            (403, AccessVerdict::Deny(403)),
            (302, AccessVerdict::Failed(500)),
            (404, AccessVerdict::Failed(500)),
            (0, AccessVerdict::Failed(500)),
        ] {
            assert_eq!(by_status(status), verdict, "{status}");
        }
    }
}
