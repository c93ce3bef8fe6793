//! What variables bring into heads, and expressions that reach their limit.

use super::Case;

/// Its match takes more than the 10 million steps that nginx allows.
const UNDECIDED: &str = "/decided?x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in ["field", "added", "moved"] {
        for value in ["plain", "a%0D%0AX-Evil:1"] {
            cases.push(Case::simple("GET", "controls.test", &format!("/{place}/{value}")));
        }
    }
    for target in ["/hash/a", "/hash/a%23b", "/decided?x=aaa", "/decided?x=b", UNDECIDED] {
        cases.push(Case::simple("GET", "controls.test", target));
    }
    for field in ["X-A:1", "X-A:1%0D%0Aword"] {
        cases.push(Case::simple("GET", "controls.test", &format!("/line?f={field}")));
    }
    cases
}
