//! Turns directives into fields. One line of `settings!` declares the field, its documented default, the directive's
//! name and the parser of its arguments. A level begins as a copy of the level around it (shared until something
//! changes) and applies its own directives. The first directive of a list in a level empties the inherited list;
//! further ones append.

use super::env::Env;
use crate::diagnostic::Diagnostic;
use crate::table::rows;
use crate::tree::{Directive, Word};
use crate::value::Parsed;
use crate::value::plain::parse_choice;
use std::borrow::Cow;

/// One directive and its surroundings, for the parser of a field.
pub(crate) struct At<'a> {
    /// What was written.
    pub(crate) directive: &'a Directive,
    /// The directive's name, for messages.
    pub(crate) name: &'a str,
    /// Whether this level has not set the field yet.
    pub(crate) fresh: bool,
    /// Names that other directives defined.
    pub(crate) env: &'a Env,
    /// Receives findings that do not make the directive fail.
    pub(crate) out: &'a mut Vec<Diagnostic>,
}

impl<'a> At<'a> {
    /// The argument at `index`, or nginx's message if there are too few.
    pub(crate) fn word(&self, index: usize) -> Parsed<&'a Word> {
        self.directive.args.get(index).ok_or_else(|| {
            let message = format!("invalid number of arguments in \"{}\" directive", self.name);
            Diagnostic::error(self.directive.name.span, message)
        })
    }

    /// All arguments.
    pub(crate) fn words(&self) -> &'a [Word] {
        &self.directive.args
    }

    pub(crate) fn report<T>(&mut self, parsed: Parsed<T>) -> Option<T> {
        parsed.map_err(|error| self.out.push(error)).ok()
    }

    /// One value.
    pub(crate) fn value<T>(&mut self, field: &mut T, parse: impl FnOnce(&str, &Word) -> Parsed<T>) {
        let parsed = self.word(0).and_then(|word| parse(self.name, word));
        if let Some(value) = self.report(parsed) {
            *field = value;
        }
    }

    /// One value with no default.
    pub(crate) fn option<T>(&mut self, field: &mut Option<T>, parse: impl FnOnce(&str, &Word) -> Parsed<T>) {
        self.value(field, |name, word| parse(name, word).map(Some));
    }

    /// One value, or the word `off`.
    pub(crate) fn unless_off<T>(&mut self, field: &mut Option<T>, parse: impl FnOnce(&str, &Word) -> Parsed<T>) {
        self.value(field, |name, word| if word.value == b"off" { Ok(None) } else { parse(name, word).map(Some) });
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(&mut self, field: &mut T, choices: &[(&str, T)]) {
        self.value(field, |_, word| parse_choice(word, choices));
    }

    /// A list; each argument is an item.
    pub(crate) fn each<T>(&mut self, field: &mut Vec<T>, parse: impl Fn(&str, &Word) -> Parsed<T>) {
        if self.fresh {
            field.clear();
        }
        for word in self.words() {
            let parsed = parse(self.name, word);
            field.extend(self.report(parsed));
        }
    }

    /// A list; each directive is an item.
    pub(crate) fn item<T>(&mut self, field: &mut Vec<T>, parse: impl FnOnce(&mut Self) -> Parsed<T>) {
        if self.fresh {
            field.clear();
        }
        let parsed = parse(self);
        field.extend(self.report(parsed));
    }

    /// All arguments form one value.
    pub(crate) fn whole<T>(&mut self, field: &mut T, parse: impl FnOnce(&mut Self) -> Parsed<T>) {
        let parsed = parse(self);
        if let Some(value) = self.report(parsed) {
            *field = value;
        }
    }

    /// All arguments form a set of bits.
    pub(crate) fn set<T>(&mut self, field: &mut T, parse: impl FnOnce(&[Word], &mut Vec<Diagnostic>) -> Parsed<T>) {
        let parsed = parse(self.words(), self.out);
        if let Some(value) = self.report(parsed) {
            *field = value;
        }
    }

    /// Any other shape.
    pub(crate) fn edit<T>(&mut self, field: &mut T, edit: impl FnOnce(&mut T, &mut Self) -> Parsed<()>) {
        let parsed = edit(field, self);
        self.report(parsed);
    }
}

/// One line of a group: the names of the directives, the field, and the function that applies them.
pub(crate) struct Row<Group> {
    pub(crate) names: &'static [&'static str],
    pub(crate) field: &'static str,
    pub(crate) apply: fn(&mut Group, &mut At<'_>),
}

/// The fields that one level has set so far, as group and field. A level sets few, rarely thirty: a search through a
/// list costs less than a table for each of ten thousand levels.
#[derive(Default)]
pub(crate) struct Touched(Vec<(&'static str, &'static str)>);

impl Touched {
    /// Notes a field; true if this level sets it for the first time.
    pub(crate) fn first(&mut self, group: &'static str, field: &'static str) -> bool {
        let first = !self.has(group, field);
        if first {
            self.0.push((group, field));
        }
        first
    }

    /// Whether the level has set the field.
    pub(crate) fn has(&self, group: &'static str, field: &'static str) -> bool {
        self.0.contains(&(group, field))
    }

    /// Whether the level has set nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A group of settings: `field: Type = default, "directive" => shape(parser);` per line.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $group:ident {
            $(
                $(#[$doc:meta])*
                $field:ident: $type:ty = $default:expr $(, $($name:literal)|+ => $shape:ident($($parse:tt)+))?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $group {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $group {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $group {
            /// Its directives.
            pub(crate) const ROWS: &'static [$crate::model::settings::Row<Self>] = &[
                $($($crate::model::settings::Row {
                    names: &[$($name),+],
                    field: stringify!($field),
                    apply: |group, at| at.$shape(&mut group.$field, $($parse)+),
                },)?)*
            ];
        }
    };
}

/// The name of a directive in a group that serves several protocols: with that protocol's prefix, if nginx has such a
/// directive.
pub(crate) fn named(name: &'static str, prefix: Option<&str>) -> Option<Cow<'static, [u8]>> {
    let Some(prefix) = prefix else { return Some(Cow::Borrowed(name.as_bytes())) };
    let name = format!("{prefix}{}", name.split_once('_')?.1);
    (!rows(&name).is_empty()).then(|| Cow::Owned(name.into_bytes()))
}

/// A level: several groups, each shared with the level around it until a directive of the group appears.
macro_rules! level {
    (
        $(#[$meta:meta])*
        $vis:vis struct $level:ident {
            $($(#[$doc:meta])* $field:ident: $group:ident $(in $prefix:literal)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default)]
        $vis struct $level {
            $($(#[$doc])* pub $field: std::sync::Arc<$group>,)*
        }

        const _: () = {
            #[allow(non_camel_case_types, reason = "a variant is named after its field")]
            enum Slot {
                $($field(&'static $crate::model::settings::Row<$group>),)*
            }

            type Slots = rustc_hash::FxHashMap<std::borrow::Cow<'static, [u8]>, Slot>;

            fn slots() -> &'static Slots {
                static SLOTS: std::sync::OnceLock<Slots> = std::sync::OnceLock::new();
                SLOTS.get_or_init(|| {
                    let mut slots = Slots::default();
                    $(for row in $group::ROWS {
                        let prefix: Option<&str> = None$(.or(Some($prefix)))?;
                        for name in row.names.iter().filter_map(|name| $crate::model::settings::named(name, prefix)) {
                            slots.insert(name, Slot::$field(row));
                        }
                    })*
                    slots
                })
            }

            impl $level {
                /// Whether a directive of this name is a setting of this level.
                #[cfg(test)]
                pub(crate) fn knows(name: &[u8]) -> bool {
                    slots().contains_key(name)
                }

                /// Applies one directive. The first change makes the copy.
                pub(crate) fn apply(
                    this: &mut std::sync::Arc<Self>,
                    touched: &mut $crate::model::settings::Touched,
                    directive: &$crate::tree::Directive,
                    env: &$crate::model::env::Env,
                    out: &mut Vec<$crate::diagnostic::Diagnostic>,
                ) -> bool {
                    let Some(slot) = slots().get(directive.name.value.as_slice()) else { return false };
                    let name = std::str::from_utf8(&directive.name.value).expect("a name in the table is ASCII");
                    let level = std::sync::Arc::make_mut(this);
                    match slot {
                        $(Slot::$field(row) => {
                            let fresh = touched.first(stringify!($field), row.field);
                            let mut at = $crate::model::settings::At { directive, name, fresh, env, out };
                            (row.apply)(std::sync::Arc::make_mut(&mut level.$field), &mut at);
                        })*
                    }
                    true
                }
            }
        };
    };
}

pub(crate) use level;
pub(crate) use settings;
