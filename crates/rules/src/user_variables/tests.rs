//! How values are made: which are kept, which are made anew, and which fail, over an exchange of the test's own.

use super::*;
use crate::map::MapKey;
use crate::pattern::Pattern;
use crate::split::Part;
use crate::template::Template;
use conf::source::{FileId, Span};
use conf::value::template::{Part as Piece, Template as Written};

/// An exchange whose `$uri` is given, and the configuration's variables.
struct Exchange<'a> {
    uri: &'a [u8],
    definitions: &'a Definitions,
    slots: VarSlots,
    captures: RefCell<Captures>,
    troubles: RefCell<Vec<String>>,
}

impl View for Exchange<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        match variable {
            Variable::Uri => out.extend_from_slice(self.uri),
            Variable::Capture(group) => match self.captures.borrow().group(usize::from(*group)) {
                Some(bytes) => out.extend_from_slice(bytes),
                None => return false,
            },
            Variable::User(slot) => return self.definitions.write(*slot, self, out),
            _ => return false,
        }
        true
    }
}

impl Surroundings for Exchange<'_> {
    fn slots(&self) -> &VarSlots {
        &self.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    fn client(&self) -> Option<IpAddr> {
        "10.0.0.7".parse().ok()
    }

    fn forwarded_for<'a>(&'a self, fields: &mut Vec<&'a [u8]>) {
        fields.push(b"192.0.2.9");
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.troubles.borrow_mut().push(format!("{trouble:?}"));
    }
}

impl<'a> Exchange<'a> {
    fn new(uri: &'a str, definitions: &'a Definitions) -> Self {
        let (slots, captures, troubles) = (VarSlots::default(), RefCell::default(), RefCell::default());
        Self { uri: uri.as_bytes(), definitions, slots, captures, troubles }
    }

    fn value(&self, slot: Slot) -> String {
        let mut out = Vec::new();
        self.write(&Variable::User(slot), &mut out);
        String::from_utf8(out).unwrap()
    }
}

fn template(parts: Vec<Piece>, users: &UserVariables) -> Template {
    let written = Written { parts, span: Span { file: FileId(0), start: 0, end: 0 } };
    Template::compile(&written, users).unwrap()
}

fn map(source: Variable, entries: Vec<(MapKey, Template)>) -> Map {
    Map::build(Template::variable(source), Template::constant(b"default"), entries)
}

#[test]
fn a_value_is_made_once_and_its_groups_stay() {
    let mut users = UserVariables::default();
    let slot = users.declare("section").unwrap();
    let key = Pattern::compile(b"^/(?<name>[a-z]+)/(.)", false, &mut users).unwrap();
    let name = users.slot("name").unwrap();
    let value = template(vec![Piece::Variable("name".into()), Piece::Text(b"-".to_vec()), Piece::Capture(2)], &users);
    let table = map(Variable::Uri, vec![(MapKey::Regex(key), value)]);
    let definitions = Definitions::build(&users, vec![(slot, Definition::Map(Box::new(table)))]);

    let mut exchange = Exchange::new("/abc/d", &definitions);
    assert_eq!(exchange.value(name), "", "the group has no value before the map was asked");
    assert_eq!(exchange.value(slot), "abc-d");
    assert_eq!((exchange.value(name), exchange.captures.borrow().group(2)), ("abc".into(), Some(&b"d"[..])));
    exchange.uri = b"/xyz/d";
    assert_eq!(exchange.value(slot), "abc-d", "kept for the exchange");
}

#[test]
fn a_volatile_value_is_made_anew() {
    let mut users = UserVariables::default();
    let slot = users.declare("x").unwrap();
    let table = map(Variable::Uri, vec![(MapKey::Exact(b"/a".to_vec()), Template::constant(b"a"))]).volatile(true);
    let definitions = Definitions::build(&users, vec![(slot, Definition::Map(Box::new(table)))]);
    let mut exchange = Exchange::new("/a", &definitions);
    assert_eq!(exchange.value(slot), "a");
    exchange.uri = b"/b";
    assert_eq!(exchange.value(slot), "default");
}

#[test]
fn a_variable_made_of_itself_is_empty_and_reported() {
    let mut users = UserVariables::default();
    let (one, other) = (users.declare("one").unwrap(), users.declare("other").unwrap());
    let keyed = |source: Slot| {
        let back = Template::variable(Variable::User(source));
        Definition::Map(Box::new(Map::build(Template::constant(b"x"), back, vec![])))
    };
    let definitions = Definitions::build(&users, vec![(one, keyed(other)), (other, keyed(one))]);
    let exchange = Exchange::new("/", &definitions);
    assert_eq!(exchange.value(one), "");
    assert_eq!(*exchange.troubles.borrow(), ["Cycle(\"one\")"]);
}

#[test]
fn values_made_of_too_many_values_end() {
    let mut users = UserVariables::default();
    let slots: Vec<Slot> = (0..300).map(|index| users.declare(&format!("v{index}")).unwrap()).collect();
    let chain = slots.windows(2).map(|pair| {
        let next = Template::variable(Variable::User(pair[1]));
        (pair[0], Definition::Map(Box::new(Map::build(Template::constant(b"x"), next, vec![]))))
    });
    let definitions = Definitions::build(&users, chain.collect());
    let exchange = Exchange::new("/", &definitions);
    assert_eq!(exchange.value(slots[0]), "");
    assert_eq!(*exchange.troubles.borrow(), ["Cycle(\"v100\")"]);
}

#[test]
fn a_variable_without_a_value_is_warned_of_once() {
    let mut users = UserVariables::default();
    let (set, hides) = (users.declare("x").unwrap(), users.declare("http_y").unwrap());
    let list = vec![(set, Definition::Set), (hides, Definition::BuiltIn(Variable::Uri))];
    let definitions = Definitions::build(&users, list);
    let exchange = Exchange::new("/own", &definitions);
    assert_eq!((exchange.value(set), exchange.value(set)), (String::new(), String::new()));
    assert_eq!(*exchange.troubles.borrow(), ["Uninitialized(\"x\")"]);
    assert_eq!(exchange.value(hides), "/own", "its own meaning, until it is assigned");
    exchange.slots.set(hides, b"mine");
    assert_eq!(exchange.value(hides), "mine");
}

#[test]
fn geo_and_split_read_only_needed_variables() {
    let mut users = UserVariables::default();
    let names = ["net", "behind", "of_text", "part"].map(|name| users.declare(name).unwrap());
    let network = |text: &str| conf::value::Cidr::parse(text.as_bytes()).unwrap().0;
    let line = |text: &str| crate::geo::GeoBlock::Network(network(text));
    let lines = [("10.0.0.0/8", &b"ten"[..]), ("192.0.2.0/24", b"test"), ("255.255.255.255", b"none")]
        .map(|(network, value)| (line(network), Some(value)));
    let geo = |source| Geo::build(source, b"", &lines).unwrap();
    let parts = vec![
        Part { below: Some(1), value: b"never".as_slice().into() },
        Part { below: None, value: b"rest".as_slice().into() },
    ];
    let list = vec![
        (names[0], Definition::Geo(Box::new(geo(None)))),
        (names[1], Definition::Geo(Box::new(geo(None).behind(&[network("10.0.0.7")], false)))),
        (names[2], Definition::Geo(Box::new(geo(Some(Template::variable(Variable::Uri)))))),
        (names[3], Definition::Split(Box::new(Split::new(Template::variable(Variable::Uri), parts)))),
    ];
    let definitions = Definitions::build(&users, list);
    let exchange = Exchange::new("no address", &definitions);
    assert_eq!(names.map(|name| exchange.value(name)), ["ten", "test", "none", "rest"]);
}

#[test]
fn table_overrides_set_and_the_last_table_wins() {
    let mut users = UserVariables::default();
    let slot = users.declare("x").unwrap();
    let table =
        |text: &[u8]| Definition::Map(Box::new(Map::build(Template::constant(b""), Template::constant(text), vec![])));
    let list = vec![(slot, table(b"first")), (slot, table(b"last")), (slot, Definition::Set)];
    let definitions = Definitions::build(&users, list);
    assert_eq!(Exchange::new("/", &definitions).value(slot), "last");
}
