//! Checks the shape of a file: known keys, kinds of values, bounds. It uses the schema of the types, so each rule exists
//! only once. Reports all faults at once, and returns the valid part as JSON.

use crate::fault::{Fault, Path, nearest, suggestion};
use crate::path;
use crate::schema::schema;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The valid part of the file as JSON, and the faults of the rest.
pub(super) fn check(tree: &Spanned<DeTable<'_>>) -> (Value, Vec<Fault>) {
    let mut walk = Walk { root: schema(), faults: Vec::new() };
    let value = walk.table(schema(), tree.get_ref(), &path![]);
    (value, walk.faults)
}

struct Walk {
    root: &'static Value,
    faults: Vec<Fault>,
}

/// A field of a schema.
fn field<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get(name)
}

fn text<'s>(schema: &'s Value, name: &str) -> Option<&'s str> {
    field(schema, name).and_then(Value::as_str)
}

/// The first sentence of the type's doc comment, as a hint.
fn description(schema: &Value) -> Option<String> {
    let whole = text(schema, "description")?;
    Some(whole.split("\n\n").next().unwrap_or(whole).replace('\n', " "))
}

fn keys(map: Option<&Value>) -> impl Iterator<Item = &str> + Clone {
    map.and_then(Value::as_object).into_iter().flat_map(|map| map.keys().map(String::as_str))
}

impl Walk {
    /// Follows references, and drops the null variant, which TOML does not have.
    fn resolve(&self, schema: &'static Value) -> &'static Value {
        let mut schema = schema;
        // The types produce at most a reference to a reference.
        for _ in 0..4 {
            if let Some(name) = text(schema, "$ref").and_then(|to| to.strip_prefix("#/$defs/")) {
                schema = self.root.get("$defs").and_then(|defs| defs.get(name)).unwrap_or(&Value::Null);
            } else if let Some(any) = field(schema, "anyOf").and_then(Value::as_array) {
                let is_value = |one: &&Value| text(one, "type") != Some("null");
                schema = any.iter().find(is_value).unwrap_or(&Value::Null);
            } else {
                break;
            }
        }
        schema
    }

    fn value(&mut self, schema: &'static Value, value: &Spanned<DeValue<'_>>, at: &Path) -> Option<Value> {
        let hint = description(schema);
        let schema = self.resolve(schema);
        if let Some(variants) = field(schema, "oneOf").and_then(Value::as_array) {
            return self.variant(variants, value, at);
        }
        let kind = match field(schema, "type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")?,
            _ => "",
        };
        match (kind, value.get_ref()) {
            ("object", DeValue::Table(table)) => Some(self.table(schema, table, at)),
            ("array", DeValue::Array(array)) => {
                let items = field(schema, "items").unwrap_or(&Value::Null);
                let found = array.iter().enumerate();
                let found: Vec<_> =
                    found.filter_map(|(index, item)| self.value(items, item, &at.then(index))).collect();
                self.count(schema, array.len(), at);
                Some(Value::Array(found))
            }
            ("string", DeValue::String(text)) => self.string(schema, text, at),
            ("boolean", DeValue::Boolean(is)) => Some(Value::Bool(*is)),
            ("integer", DeValue::Integer(integer)) => {
                let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok()?;
                self.number(schema, number as f64, at)?;
                Number::from_i128(number).map(Value::Number)
            }
            ("number", DeValue::Integer(integer)) => {
                let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok()? as f64;
                self.number(schema, number, at)
            }
            ("number", DeValue::Float(float)) => {
                let number = float.as_str().parse::<f64>().unwrap_or(f64::NAN);
                self.number(schema, number, at)
            }
            (kind, value) => {
                let what = format!("{} is {}, not {}", last(at), with_article(value.type_str()), with_article(kind));
                let fault = Fault::new(at.clone(), what);
                self.faults.push(match hint {
                    Some(hint) => fault.with_hint(hint),
                    None => fault,
                });
                None
            }
        }
    }

    fn table(&mut self, schema: &'static Value, table: &DeTable<'_>, at: &Path) -> Value {
        let properties = field(schema, "properties");
        let (mut found, mut meant) = (Map::new(), Vec::new());
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let here = at.then(name);
            let known = properties.and_then(|properties| properties.get(name));
            let others = field(schema, "additionalProperties").filter(|others| others.is_object());
            if let Some(schema) = known.or(others) {
                if let Some(value) = self.value(schema, value, &here) {
                    found.insert(name.to_owned(), value);
                }
                continue;
            }
            meant.extend(nearest(name, keys(properties)));
            let what = format!("unknown key \"{name}\" in {}", container(at));
            self.faults.push(Fault::of_key(here, what).with_hint(suggestion(name, keys(properties))));
        }
        let required = field(schema, "required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            // If the key was misspelt, that has been reported already.
            let is_there = meant.contains(&name) || table.keys().any(|key| key.get_ref() == name);
            if !is_there {
                let fault = Fault::of_key(at.clone(), format!("{} has no \"{name}\"", container(at)));
                let hint = properties.and_then(|properties| properties.get(name)).and_then(description);
                self.faults.push(fault.with_hint(format!("add `{name}`: {}", hint.unwrap_or_default())));
            }
        }
        Value::Object(found)
    }

    /// Selects one of several shapes by the word itself, by a tag, or by the key that distinguishes it.
    fn variant(&mut self, variants: &'static [Value], value: &Spanned<DeValue<'_>>, at: &Path) -> Option<Value> {
        let table = match value.get_ref() {
            DeValue::Table(table) => table,
            DeValue::String(word) => {
                let words = variants.iter().filter_map(|one| text(one, "const"));
                if words.clone().any(|known| known == word) {
                    return Some(Value::String(word.to_string()));
                }
                let what = format!("{} cannot be \"{word}\"", last(at));
                self.faults.push(Fault::new(at.clone(), what).with_hint(suggestion(word, words)));
                return None;
            }
            other => {
                let what = format!("{} cannot be {}", last(at), with_article(other.type_str()));
                self.faults.push(Fault::new(at.clone(), what));
                return None;
            }
        };
        let tagged = variants.iter().find_map(|one| {
            let properties = field(one, "properties")?.as_object()?;
            properties.iter().find(|(_, schema)| schema.get("const").is_some()).map(|(tag, _)| tag.as_str())
        });
        let Some(tag) = tagged else { return self.by_key(variants, table, at) };
        let said = table.iter().find(|(key, _)| key.get_ref() == tag).map(|(_, value)| value.get_ref());
        let tag_of = |one: &'static Value| text(field(one, "properties")?.get(tag)?, "const");
        let words = variants.iter().filter_map(tag_of);
        let Some(said) = said else {
            let fault = Fault::of_key(at.clone(), format!("{} has no \"{tag}\"", container(at)));
            self.faults.push(fault.with_hint(suggestion("", words)));
            return None;
        };
        let chosen = said.as_str().and_then(|said| variants.iter().find(|one| tag_of(one) == Some(said)));
        if let Some(chosen) = chosen {
            return Some(self.table(chosen, table, at));
        }
        let said = said.as_str().unwrap_or_default();
        let what = format!("\"{tag}\" cannot be \"{said}\"");
        self.faults.push(Fault::new(at.then(tag), what).with_hint(suggestion(said, words)));
        None
    }

    fn by_key(&mut self, variants: &'static [Value], table: &DeTable<'_>, at: &Path) -> Option<Value> {
        let key_of = |one: &'static Value| keys(field(one, "properties")).next();
        let has = |key: &str| table.keys().any(|known| known.get_ref() == key);
        let chosen: Vec<_> = variants.iter().filter(|one| key_of(one).is_some_and(has)).collect();
        let words = || variants.iter().filter_map(key_of);
        match chosen.as_slice() {
            [one] => Some(self.table(one, table, at)),
            [] => {
                let hint = suggestion(table.keys().next().map_or("", |key| key.get_ref().as_ref()), words());
                let fault = Fault::of_key(at.clone(), format!("{} has no known key", container(at)));
                self.faults.push(fault.with_hint(hint));
                None
            }
            several => {
                let names: Vec<_> = several.iter().filter_map(|one| key_of(one)).collect();
                let what = format!("{} has {} at once", container(at), names.join(" and "));
                self.faults.push(Fault::of_key(at.clone(), what).with_hint("keep one of them"));
                None
            }
        }
    }

    fn string(&mut self, schema: &'static Value, word: &str, at: &Path) -> Option<Value> {
        if let Some(words) = field(schema, "enum").and_then(Value::as_array) {
            let words = words.iter().filter_map(Value::as_str);
            if !words.clone().any(|known| known == word) {
                let what = format!("{} cannot be \"{word}\"", last(at));
                self.faults.push(Fault::new(at.clone(), what).with_hint(suggestion(word, words)));
                return None;
            }
        }
        let chars = word.chars().count() as u64;
        let bound = |name: &str| field(schema, name).and_then(Value::as_u64);
        if bound("minLength").is_some_and(|least| chars < least) {
            self.faults.push(Fault::new(at.clone(), format!("{} is empty", last(at))));
        }
        if let Some(most) = bound("maxLength").filter(|most| chars > *most) {
            let what = format!("{} has {chars} characters", last(at));
            self.faults.push(Fault::new(at.clone(), what).with_hint(format!("at most {most}")));
        }
        Some(Value::String(word.to_owned()))
    }

    fn number(&mut self, schema: &'static Value, number: f64, at: &Path) -> Option<Value> {
        let bound = |name: &str| field(schema, name).and_then(Value::as_f64);
        let (least, most) = (bound("minimum"), bound("maximum"));
        let fits =
            number.is_finite() && least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
        if fits {
            return Number::from_f64(number).map(Value::Number);
        }
        let hint = match (least, most) {
            (Some(least), Some(most)) => format!("from {least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => "a number that is finite".to_owned(),
        };
        self.faults.push(Fault::new(at.clone(), format!("{} is {number}", last(at))).with_hint(hint));
        None
    }

    fn count(&mut self, schema: &'static Value, count: usize, at: &Path) {
        let bound = |name: &str| field(schema, name).and_then(Value::as_u64);
        if bound("minItems").is_some_and(|least| (count as u64) < least) {
            self.faults.push(Fault::of_key(at.clone(), format!("{} is empty", last(at))));
        }
        if let Some(most) = bound("maxItems").filter(|most| count as u64 > *most) {
            let what = format!("{count} times {}", last(at));
            self.faults.push(Fault::new(at.then(most as usize), what).with_hint(format!("at most {most}")));
        }
    }
}

/// The last key of a path, as the file has it.
fn last(at: &Path) -> String {
    use crate::fault::Step;
    match at.0.as_slice() {
        [.., Step::Key(key)] => format!("\"{key}\""),
        [.., Step::Key(key), Step::Index(_)] => format!("an item of \"{key}\""),
        _ => "this".to_owned(),
    }
}

/// The container of a path, formatted like the header of a table.
fn container(at: &Path) -> String {
    use crate::fault::Step;
    match at.0.as_slice() {
        [] => "the experiment".to_owned(),
        [Step::Key(key), Step::Index(_)] => format!("[[{key}]]"),
        [Step::Key(key)] => format!("[{key}]"),
        _ => format!("[{at}]"),
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "object" => "a table".to_owned(),
        "integer" => "a whole number".to_owned(),
        "" => "something known".to_owned(),
        kind if kind.starts_with('a') => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}
