//! Programs run over an exchange of the test's own: each instruction, each flag, each kind of condition.

use super::*;
use crate::captures::Captures;
use crate::slots::VarSlots;
use crate::template::View;
use crate::user_variables::{Definition, Definitions, Trouble};
use crate::variable::UserVariables;
use conf::source::{FileId, Span};
use conf::value::template::{Part, Template as Written};
use std::cell::RefCell;
use std::net::IpAddr;

/// An exchange as far as programs see it.
#[derive(Default)]
struct Exchange {
    uri: Vec<u8>,
    args: Vec<u8>,
    quoted: bool,
    changed: bool,
    places: Vec<u32>,
    definitions: Definitions,
    slots: VarSlots,
    captures: RefCell<Captures>,
    notes: RefCell<Vec<String>>,
    ran: Vec<String>,
}

impl View for Exchange {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::Uri => out.extend_from_slice(&self.uri),
            Variable::Args => out.extend_from_slice(&self.args),
            Variable::Capture(group) => {
                out.extend_from_slice(self.captures.borrow().group(usize::from(*group)).unwrap_or_default());
            }
            Variable::User(slot) => return self.definitions.write(*slot, self, out),
            _ => return false,
        }
        true
    }
}

impl Surroundings for Exchange {
    fn slots(&self) -> &VarSlots {
        &self.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    fn client(&self) -> Option<IpAddr> {
        None
    }

    fn forwarded_for<'a>(&'a self, _: &mut Vec<&'a [u8]>) {}

    fn trouble(&self, trouble: Trouble<'_>) {
        self.notes.borrow_mut().push(format!("{trouble:?}"));
    }
}

impl Machine for Exchange {
    const TRACED: bool = true;

    fn ran(&mut self, number: u32, did: Did<'_>) {
        self.ran.push(format!("{number} {did:?}"));
    }

    fn uri(&self) -> &[u8] {
        &self.uri
    }

    fn args(&self) -> &[u8] {
        &self.args
    }

    fn was_quoted(&self) -> bool {
        self.quoted
    }

    fn set_args(&mut self, args: &[u8]) {
        self.args = args.to_vec();
    }

    fn set_rate(&mut self, size: &[u8]) {
        self.notes.borrow_mut().push(format!("rate {}", size.escape_ascii()));
    }

    fn rewrite(&mut self, uri: Vec<u8>, args: Option<Vec<u8>>, stays: bool) {
        self.uri = uri;
        self.args = args.unwrap_or(std::mem::take(&mut self.args));
        self.changed = !stays;
    }

    fn stay(&mut self) {
        self.changed = false;
    }

    fn enter(&mut self, place: u32) {
        self.places.push(place);
    }

    fn notice(&self, message: &str) {
        self.notes.borrow_mut().push(message.to_owned());
    }
}

/// Compiles templates and expressions over the variables `$a` and `$b`.
struct Writer(UserVariables);

impl Writer {
    fn new() -> Self {
        let mut users = UserVariables::default();
        users.declare("a").unwrap();
        users.declare("b").unwrap();
        Self(users)
    }

    fn slot(&self, name: &str) -> Slot {
        self.0.slot(name).unwrap()
    }

    fn variable(&self, name: &str) -> Variable {
        Variable::resolve(name, &self.0).unwrap()
    }

    /// Words that begin with `$` are variables or groups; a space joins and is not written.
    fn text(&self, text: &str) -> Template {
        let part = |word: &str| match word.strip_prefix('$') {
            Some(group) if group.parse::<u8>().is_ok() => Part::Capture(group.parse().unwrap()),
            Some(name) => Part::Variable(name.to_owned()),
            None => Part::Text(word.into()),
        };
        let parts = text.split(' ').filter(|word| !word.is_empty()).map(part).collect();
        Template::compile(&Written { parts, span: Span { file: FileId(0), start: 0, end: 0 } }, &self.0).unwrap()
    }

    fn pattern(&mut self, source: &str) -> Pattern {
        Pattern::compile(source.as_bytes(), false, &mut self.0).unwrap()
    }

    fn rewrite(&mut self, source: &str, uri: &str, args: Option<&str>, then: Then) -> Step {
        let (pattern, args) = (self.pattern(source), args.map(|args| self.text(args)));
        Step::Rewrite(Box::new(Rewrite { pattern, uri: self.text(uri), args, append_args: true, then }))
    }
}

fn exchange(uri: &str, args: &str) -> Exchange {
    Exchange { uri: uri.into(), args: args.into(), ..Exchange::default() }
}

fn run(steps: Vec<Step>, exchange: &mut Exchange) -> Stop {
    Program::build(steps, true).run(Place::default(), exchange)
}

fn shown(exchange: &Exchange) -> String {
    format!("{}?{}", exchange.uri.escape_ascii(), exchange.args.escape_ascii())
}

#[test]
fn a_rewrite_makes_a_uri_and_arguments_of_its_groups() {
    let mut write = Writer::new();
    let step = write.rewrite("^/x/(.)/(.)", "/y/ $2", Some("first= $1"), Then::Next);
    let mut one = exchange("/x/a/b", "q=1");
    assert_eq!(run(vec![step.clone()], &mut one), Stop::End);
    assert_eq!((shown(&one), one.changed), ("/y/b?first=a&q=1".into(), true));
    let notes = one.notes.borrow();
    assert_eq!(notes[0], "\"^/x/(.)/(.)\" matches \"/x/a/b\"");
    assert_eq!(notes[1], "rewritten data: \"/y/b\", args: \"first=a&q=1\"");
    let mut other = exchange("/z", "q=1");
    assert_eq!(run(vec![step], &mut other), Stop::End);
    assert_eq!((shown(&other), other.changed), ("/z?q=1".into(), false));
}

#[test]
fn flags_select_the_next_step() {
    for (then, expected, changed) in
        [(Then::Next, "/second", true), (Then::Last, "/first", true), (Then::Break, "/first", false)]
    {
        let mut write = Writer::new();
        let steps = vec![write.rewrite("^/$", "/first", None, then), write.rewrite("^/first", "/second", None, then)];
        let mut one = exchange("/", "");
        assert_eq!(run(steps, &mut one), Stop::End);
        assert_eq!((String::from_utf8_lossy(&one.uri).as_ref(), one.changed), (expected, changed), "{then:?}");
    }
    let mut write = Writer::new();
    let steps = vec![write.rewrite("^/$", "/first", None, Then::Next), Step::Break, Step::Return(7)];
    let mut one = exchange("/", "");
    assert_eq!((run(steps, &mut one), one.changed), (Stop::End, false));
}

#[test]
fn groups_get_their_escapes_back_in_arguments_and_redirects() {
    let mut write = Writer::new();
    let step = write.rewrite("^/(.*)$", "/to/ $1", Some("v= $1"), Then::Next);
    let mut one = Exchange { quoted: true, ..exchange("/a b&c", "") };
    run(vec![step.clone()], &mut one);
    assert_eq!(shown(&one), "/to/a b&c?v=a%20b%26c");
    let mut plain = exchange("/a&c", "");
    run(vec![step], &mut plain);
    assert_eq!(shown(&plain), "/to/a&c?v=a&c", "the client had escaped nothing");

    let step = write.rewrite("^/(.*)$", "http://h/ $1", Some("v= $1"), Then::Redirect(301));
    let mut one = Exchange { quoted: true, ..exchange("/a b&c", "q=%41") };
    let Stop::Redirect(301, url) = run(vec![step], &mut one) else { panic!("no redirect") };
    assert_eq!(String::from_utf8(url).unwrap(), "http://h/a%20b&c?v=a%20b%26c&q=%41");
}

#[test]
fn set_and_conditions_escape_groups_until_a_rewrite_matches() {
    let set = |write: &Writer| Step::Set(write.slot("a"), write.text("< $1 >"));
    let value = |write: &Writer, steps: Vec<Step>, quoted: bool| {
        let mut one = Exchange { quoted, ..exchange("/a b&c", "") };
        run(steps, &mut one);
        let mut out = Vec::new();
        one.slots.read(write.slot("a"), &mut out);
        String::from_utf8(out).unwrap()
    };
    let mut write = Writer::new();
    let groups = |write: &mut Writer| {
        let condition = Condition::Match(Variable::Uri, write.pattern("^/(.*)"));
        Step::If { condition, place: None, steps: vec![] }
    };
    let (condition, missed) = (groups(&mut write), write.rewrite("^/nothing", "/other", None, Then::Next));
    let steps = vec![missed, condition, set(&write)];
    assert_eq!(value(&write, steps.clone(), true), "<a%20b%26c>");
    assert_eq!(value(&write, steps, false), "<a b&c>");
    let steps = vec![write.rewrite("^/(.*)", "/x", None, Then::Next), set(&write)];
    assert_eq!(value(&write, steps, true), "<a b&c>", "a rewrite has matched");

    let condition = Condition::Equal(Variable::Uri, write.text("/ $1"));
    let steps = vec![groups(&mut write), Step::If { condition, place: None, steps: vec![Step::Return(1)] }];
    let mut one = Exchange { quoted: true, ..exchange("/a b&c", "") };
    assert_eq!(run(steps.clone(), &mut one), Stop::End);
    assert_eq!(run(steps, &mut exchange("/a b&c", "")), Stop::Return(1));
}

#[test]
fn conditions_look_at_variables() {
    let mut write = Writer::new();
    let (a, b) = (write.variable("a"), write.variable("b"));
    let (empty, x) = (write.text(""), write.text("x"));
    let table = [
        (Condition::True(a.clone()), [false, false, true, true]),
        (Condition::Equal(a.clone(), x.clone()), [false, false, false, true]),
        (Condition::NotEqual(a.clone(), empty), [false, true, true, true]),
        (Condition::Match(a.clone(), write.pattern("^[0x]")), [false, true, true, true]),
        (Condition::NoMatch(a, write.pattern("^0")), [true, false, false, true]),
        (Condition::Equal(b, x), [false, false, false, false]),
    ];
    for (condition, expected) in table {
        let holds = ["", "0", "00", "x"].map(|value| {
            let mut one = exchange("/", "");
            let set = Step::Set(write.slot("a"), Template::constant(value.as_bytes()));
            let block = Step::If { condition: condition.clone(), place: Some(3), steps: vec![Step::Return(1)] };
            let stop = run(vec![set, block, Step::Return(2)], &mut one);
            assert_eq!(one.places.len(), usize::from(stop == Stop::Return(1)));
            stop == Stop::Return(1)
        });
        assert_eq!(holds, expected, "{condition:?}");
    }
}

#[test]
fn a_match_leaves_groups_and_a_miss_takes_them() {
    let mut write = Writer::new();
    let block = |condition| Step::If { condition, place: None, steps: vec![] };
    let hit = block(Condition::Match(Variable::Uri, write.pattern("^/(.)")));
    let miss = block(Condition::Match(Variable::Uri, write.pattern("^x(.)")));
    let set = Step::Set(write.slot("a"), write.text("< $1 >"));
    let value = |steps: Vec<Step>| {
        let mut one = exchange("/q", "");
        run(steps, &mut one);
        let mut out = Vec::new();
        one.slots.read(write.slot("a"), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(value(vec![hit.clone(), set.clone()]), "<q>");
    assert_eq!(value(vec![hit, miss, set]), "<>");
}

#[test]
fn a_machine_hears_of_each_instruction() {
    let mut write = Writer::new();
    let mut one = exchange("/d", "");
    let condition = |holds: bool| Condition::Equal(write.variable("a"), write.text(if holds { "x" } else { "y" }));
    let (is, is_not) = (condition(true), condition(false));
    let set = |text: &str, write: &Writer| Step::Set(write.slot("a"), write.text(text));
    let steps = vec![
        set("x", &write),
        Step::If { condition: is_not, place: Some(1), steps: vec![set("skipped", &write), Step::Break] },
        Step::If { condition: is, place: Some(2), steps: vec![write.rewrite("^/none", "/", None, Then::Next)] },
        write.rewrite("^/d", "/e", None, Then::Next),
        Step::Return(1),
    ];
    assert_eq!(run(steps, &mut one), Stop::Return(1));
    assert_eq!(one.ran, ["0 Set([120])", "1 Tested(false)", "4 Tested(true)", "5 Missed", "6 Rewrote", "7 Returned"]);
}

#[test]
fn a_file_is_looked_for_by_the_caller() {
    let write = Writer::new();
    for (negated, yes, no) in [(false, 1, 2), (true, 2, 1)] {
        let path = write.text("/srv $uri");
        let condition = if negated {
            Condition::NoFile(FileTest::Directory, path)
        } else {
            Condition::File(FileTest::Directory, path)
        };
        let steps = vec![Step::If { condition, place: Some(9), steps: vec![Step::Return(1)] }, Step::Return(2)];
        let program = Program::build(steps, false);
        let mut one = exchange("/d", "");
        let Stop::Look { test, path, yes: if_yes, no: if_no, .. } = program.run(Place::default(), &mut one) else {
            panic!("no look")
        };
        assert_eq!((test, &path[..]), (FileTest::Directory, &b"/srv/d"[..]));
        assert_eq!(program.run(if_yes, &mut one), Stop::Return(yes));
        assert_eq!(program.run(if_no, &mut one), Stop::Return(no));
    }
}

#[test]
fn arguments_can_be_set_and_a_uri_cannot_be_empty() {
    let mut write = Writer::new();
    let mut one = exchange("/", "old");
    run(vec![Step::SetArgs(write.text("new& $args"))], &mut one);
    assert_eq!(shown(&one), "/?new&old");
    let step = write.rewrite("^/(.*)$", "$1", None, Then::Next);
    assert_eq!(run(vec![step], &mut one), Stop::Failed("the rewritten URI has a zero length".into()));
}

#[test]
fn a_variable_that_set_has_not_reached_is_empty() {
    let write = Writer::new();
    let mut one = exchange("/", "");
    one.definitions = Definitions::build(&write.0, vec![(write.slot("a"), Definition::Set)]);
    let condition = Condition::True(write.variable("a"));
    assert_eq!(run(vec![Step::If { condition, place: None, steps: vec![Step::Return(1)] }], &mut one), Stop::End);
    assert_eq!(*one.notes.borrow(), ["Uninitialized(\"a\")"]);
}
