//! Lists of networks become `allow` and `deny`.

use crate::tree::Origin;
use conf::tree::Directive;

/// The lines for networks that are denied, and those that alone are allowed.
pub(crate) fn guarded(origin: Origin, deny: &[String], allow: &[String]) -> Vec<Directive> {
    let mut out: Vec<Directive> = deny.iter().map(|network| origin.line("deny", [network])).collect();
    out.extend(allow.iter().map(|network| origin.line("allow", [network])));
    if !allow.is_empty() {
        out.push(origin.line("deny", ["all"]));
    }
    out
}
