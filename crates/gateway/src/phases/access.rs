//! The access phase: who may have what a location gives. Called before a location's content, also after an internal
//! redirect; `return` has answered before it, as in nginx. Each check is a function of its own: `allow` and `deny` so far.

use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use conf::model::{AccessRule, Satisfy};
use conf::value::CidrPattern;
use reactor::PeerAddress;

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessVerdict {
    Allow,
    Deny,
    /// It has nothing to say about this request.
    Pass,
}

impl Exchange {
    /// The answer to somebody who may not come in.
    pub(crate) fn access(&self) -> Option<Reply> {
        let plan = self.location().access.as_ref()?;
        let answers = [by_address(&plan.rules, self.client())];
        if !is_refused(plan.satisfy, &answers) {
            return None;
        }
        self.error_log("access forbidden by rule");
        Some(Reply::error(403))
    }
}

/// How the checks of a location come together.
fn is_refused(satisfy: Satisfy, answers: &[AccessVerdict]) -> bool {
    let any = |wanted: AccessVerdict| answers.contains(&wanted);
    match satisfy {
        Satisfy::All => any(AccessVerdict::Deny),
        Satisfy::Any => any(AccessVerdict::Deny) && !any(AccessVerdict::Allow),
    }
}

/// `allow` and `deny`: the first rule that matches decides.
fn by_address(rules: &[AccessRule], client: &PeerAddress) -> AccessVerdict {
    let matches = |rule: &&AccessRule| match (&rule.who, client) {
        (CidrPattern::All, _) | (CidrPattern::Unix, PeerAddress::Unix(_)) => true,
        (CidrPattern::Network(network), PeerAddress::Ip(address)) => network.contains(address.ip()),
        (CidrPattern::Unix | CidrPattern::Network(_) | CidrPattern::Name(..), _) => false,
    };
    match rules.iter().find(matches) {
        Some(rule) if rule.allow => AccessVerdict::Allow,
        Some(_) => AccessVerdict::Deny,
        None => AccessVerdict::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::value::Cidr;

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
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "10.0.0.1"), AccessVerdict::Deny);
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "10.0.0.2"), AccessVerdict::Allow);
        assert_eq!(from("-10.0.0.1 +10.0.0.0/8 -all", "192.0.2.1"), AccessVerdict::Deny);
        assert_eq!(from("+10.0.0.0/8 -all", "::ffff:10.1.1.1"), AccessVerdict::Allow, "IPv4 behind IPv6");
        assert_eq!(from("+2001:db8::/32 -all", "2001:db8::7"), AccessVerdict::Allow);
        assert_eq!(from("-10.0.0.0/8", "::1"), AccessVerdict::Pass);
        assert_eq!(
            (from("+unix -all", "/socket"), from("-0.0.0.0/0", "/socket")),
            (AccessVerdict::Allow, AccessVerdict::Pass)
        );
    }

    #[test]
    fn satisfy_says_how_checks_come_together() {
        use AccessVerdict::{Allow, Deny, Pass};
        for (answers, all, any) in [
            ([Allow, Deny], true, false),
            ([Allow, Pass], false, false),
            ([Deny, Pass], true, true),
            ([Pass, Pass], false, false),
        ] {
            assert_eq!((is_refused(Satisfy::All, &answers), is_refused(Satisfy::Any, &answers)), (all, any));
        }
    }
}
