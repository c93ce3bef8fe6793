//! The variables that a configuration defines: first all names, since a variable may be used before the line that
//! defines it, then the tables of `map`, `geo` and `split_clients`.

use crate::lower::Lowering;
use conf::diagnostic::Diagnostic;
use conf::model::{
    self, Condition, GeoRange, Instruction, Location, Matcher, NameForm, Program, ResponseSettings, Server,
};
use conf::source::Span;
use conf::value::Regex;
use rules::geo::{Geo, GeoBlock};
use rules::map::{Map, MapKey};
use rules::pattern::Pattern;
use rules::split::{Part, Split};
use rules::user_variables::{Definition, Definitions};
use rules::variable::{Slot, UserVariables, Variable};

impl Lowering<'_> {
    /// Declares every variable that the configuration sets.
    pub(super) fn declare_variables(&mut self) {
        self.declare_tables();
        for set in &self.http.jwt_variables {
            self.declare(&set.variable, set.span);
        }
        for server in &self.http.servers {
            for name in &server.names {
                if let NameForm::Regex(regex) = &name.form {
                    self.declare_groups(regex);
                }
            }
            for_each_program(server, &mut |program| self.declare_in_program(program));
            self.declare_groups_of(&server.locations);
            for_each_response(server, &mut |settings| self.declare_sets(settings));
        }
    }

    /// The names that `map`, `geo` and `split_clients` define.
    pub(super) fn declare_tables(&mut self) {
        let declared = self.declared;
        for map in &declared.maps {
            self.declare(&map.variable, map.span);
            for (key, _) in &map.entries {
                if let model::MapKey::Regex(regex) = key {
                    self.declare_groups(regex);
                }
            }
        }
        declared.geos.iter().for_each(|geo| self.declare(&geo.variable, geo.span));
        for variable in declared.geoips.iter().flat_map(|geoip| &geoip.variables) {
            self.declare(&variable.name, variable.span);
        }
        declared.splits.iter().for_each(|split| self.declare(&split.variable, split.span));
    }

    pub(super) fn declare(&mut self, name: &str, span: Span) {
        if let Err(message) = self.users.declare(name) {
            self.found.push(Diagnostic::error(span, message));
        }
    }

    fn declare_in_program(&mut self, program: &Program) {
        for step in program {
            match step {
                Instruction::Set { variable, span, .. } => {
                    if let Err(message) = self.users.declare_assignable(variable) {
                        self.found.push(Diagnostic::error(*span, message));
                    }
                }
                Instruction::Rewrite(rewrite) => self.declare_groups(&rewrite.regex),
                Instruction::If(block) => {
                    if let Condition::Match { regex, .. } = &block.condition {
                        self.declare_groups(regex);
                    }
                    self.declare_in_program(&block.program);
                }
                Instruction::Return(_) | Instruction::Break(_) => {}
            }
        }
    }

    fn declare_groups_of(&mut self, locations: &[Location]) {
        for location in locations {
            if let Matcher::Regex(regex) = &location.matcher {
                self.declare_groups(regex);
            }
            self.declare_groups_of(&location.locations);
        }
    }

    /// Declares the named groups of an expression.
    fn declare_groups(&mut self, regex: &Regex) {
        for name in regex.names.iter().flatten() {
            self.declare(name, regex.span);
        }
    }

    /// An expression of the configuration.
    pub(super) fn pattern(&mut self, regex: &Regex) -> Option<Pattern> {
        match Pattern::compile(&regex.pattern, regex.caseless, &mut self.users) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                self.found.push(Diagnostic::error(regex.span, message));
                None
            }
        }
    }

    /// How each variable gets its value; all names must be declared.
    pub(super) fn definitions(&mut self) -> Definitions {
        let mut list = self.tables();
        list.extend(self.jwt_definitions());
        for server in &self.http.servers {
            for_each_program(server, &mut |program| assigned(program, &self.users, &mut list));
            for_each_response(server, &mut |settings| {
                let slots = settings.auth_request_sets.iter().filter_map(|set| self.users.slot(&set.variable));
                // As in nginx, an unset one causes no warning.
                list.extend(slots.map(|slot| (slot, Definition::Group)));
            });
        }
        Definitions::build(&self.users, list)
    }

    /// The tables of `map`, `geo` and `split_clients`.
    pub(super) fn tables(&mut self) -> Vec<(Slot, Definition)> {
        let declared = self.declared;
        let mut made = Vec::new();
        for map in &declared.maps {
            let table = self.map(map);
            made.push((map.span, map.variable.clone(), Definition::Map(Box::new(table))));
        }
        for geo in &declared.geos {
            if let Some(table) = self.geo(geo) {
                made.push((geo.span, geo.variable.clone(), Definition::Geo(Box::new(table))));
            }
        }
        for split in &declared.splits {
            let table = self.split(split);
            made.push((split.span, split.variable.clone(), Definition::Split(Box::new(table))));
        }
        made.extend(self.geoips());
        // If two tables define one variable, the later one counts.
        made.sort_by_key(|(span, ..)| (span.file, span.start));
        let made = made.into_iter().filter_map(|(_, name, definition)| Some((self.users.slot(&name)?, definition)));
        made.collect()
    }

    fn map(&mut self, map: &model::Map) -> Map {
        let source = self.template(&map.source);
        let default = self.template(&map.default);
        let mut entries = Vec::with_capacity(map.entries.len());
        for (key, value) in &map.entries {
            let key = match key {
                model::MapKey::Exact(text) => MapKey::Exact(text.clone()),
                model::MapKey::NameAndSuffix(name) => MapKey::Domain(name.clone()),
                model::MapKey::Suffix(name) => MapKey::Below(name.clone()),
                model::MapKey::Prefix(name) => MapKey::Before(name.clone()),
                model::MapKey::Regex(regex) => match self.pattern(regex) {
                    Some(pattern) => MapKey::Regex(pattern),
                    None => continue,
                },
            };
            entries.push((key, self.template(value)));
        }
        Map::build(source, default, entries).hostnames(map.hostnames).volatile(map.volatile)
    }

    fn geo(&mut self, geo: &model::Geo) -> Option<Geo> {
        let source = match &geo.source {
            None => None,
            Some(name) => {
                let part = conf::value::Part::Variable(name.clone());
                Some(self.template(&conf::value::Template { parts: vec![part], span: geo.span }))
            }
        };
        let lines: Vec<(GeoBlock, Option<&[u8]>)> =
            geo.entries.iter().map(|line| (block(line.range), line.value.as_deref())).collect();
        match Geo::build(source, &geo.default, &lines) {
            Ok(table) => Some(table.behind(&geo.proxies, geo.proxy_recursive).volatile(geo.volatile)),
            Err(index) => {
                let shown = match geo.entries[index].range {
                    GeoRange::Range(first, last) => format!("{first}-{last}"),
                    GeoRange::Network(network) => format!("{}/{}", network.network, network.prefix),
                };
                let message = format!("range \"{shown}\" overlaps an earlier one");
                let hint = "a range may lie inside an earlier one, which it is then cut out of";
                self.found.push(Diagnostic::error(geo.span, message).with_hint(hint));
                None
            }
        }
    }

    fn split(&mut self, split: &model::SplitClients) -> Split {
        let key = self.template(&split.key);
        let parts = split.parts.iter().map(|part| Part { below: part.below, value: part.value.as_slice().into() });
        Split::new(key, parts.collect())
    }
}

fn block(range: GeoRange) -> GeoBlock {
    match range {
        GeoRange::Network(network) => GeoBlock::Network(network),
        GeoRange::Range(first, last) => GeoBlock::Range(first, last),
    }
}

/// Adds the variables of `set`.
fn assigned(program: &Program, users: &UserVariables, list: &mut Vec<(Slot, Definition)>) {
    for step in program {
        match step {
            Instruction::Set { variable, .. } => {
                let Some(slot) = users.slot(variable) else { continue };
                let own = Variable::resolve(variable, &UserVariables::default());
                list.push((slot, own.map_or(Definition::Set, Definition::BuiltIn)));
            }
            Instruction::If(block) => assigned(&block.program, users, list),
            Instruction::Return(_) | Instruction::Rewrite(_) | Instruction::Break(_) => {}
        }
    }
}

/// Every program of a server: its own, and those of its locations.
fn for_each_program(server: &Server, visit: &mut impl FnMut(&Program)) {
    fn inside(locations: &[Location], visit: &mut impl FnMut(&Program)) {
        for location in locations {
            visit(&location.program);
            inside(&location.locations, visit);
        }
    }
    visit(&server.program);
    inside(&server.locations, visit);
}

/// The response settings of a server: its own, those of its locations, and of the `if`s in both.
fn for_each_response(server: &Server, visit: &mut impl FnMut(&ResponseSettings)) {
    fn in_program(program: &Program, visit: &mut impl FnMut(&ResponseSettings)) {
        for step in program {
            if let Instruction::If(block) = step {
                visit(&block.settings.response);
                in_program(&block.program, visit);
            }
        }
    }
    fn in_locations(locations: &[Location], visit: &mut impl FnMut(&ResponseSettings)) {
        for location in locations {
            visit(&location.settings.response);
            in_program(&location.program, visit);
            in_locations(&location.locations, visit);
        }
    }
    visit(&server.location.response);
    in_program(&server.program, visit);
    in_locations(&server.locations, visit);
}
