//! `$fastcgi_script_name` and `$fastcgi_path_info`: how a location splits a URI.

use crate::exchange::Exchange;
use rules::captures::Captures;
use rules::variable::Variable;
use std::borrow::Cow;

impl Exchange {
    /// Appends the value of one of the two variables.
    pub(crate) fn write_script(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let wants_name = *variable == Variable::FastcgiScriptName;
        self.script(|name, info| out.extend_from_slice(if wants_name { name } else { info }));
        true
    }

    /// Calls `take` with the script's name and the path info after it.
    fn script<R>(&self, take: impl FnOnce(&[u8], &[u8]) -> R) -> R {
        let uri = self.uri();
        let Some(plan) = &self.location().script else { return take(uri, b"") };
        let mut captures = Captures::default();
        let matched = match plan.split.as_ref().map(|split| split.captures(uri, &mut captures)) {
            Some(Ok(matched)) => matched,
            Some(Err(error)) => {
                self.error_log(&error.message);
                self.routing.undecided.note();
                false
            }
            None => false,
        };
        let group = |number| captures.group(number).unwrap_or_default();
        let (name, info) = if matched { (group(1), group(2)) } else { (uri, &b""[..]) };
        let name = match &plan.index {
            Some(index) if name.ends_with(b"/") => Cow::Owned([name, index].concat()),
            _ => Cow::Borrowed(name),
        };
        take(&name, info)
    }
}
