//! `auth_jwt` and its kin. Files of keys are read here: a broken one is an error of the configuration.

use crate::lower::Lowering;
use crate::plan::auth_jwt::{JwtPlan, JwtRequirePlan, KeyFilePlan};
use conf::diagnostic::Diagnostic;
use conf::model::{JwtSettings, JwtVariable, TokenKind};
use conf::value::Part;
use jwt::{Content, KeySet};
use rules::user_variables::Definition;
use rules::variable::{self, Slot, Variable};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

impl Lowering<'_> {
    pub(super) fn jwt_plan(&mut self, words: &JwtSettings) -> Option<Box<JwtPlan>> {
        let check = words.check.as_ref()?;
        if words.key_files.is_empty() && words.key_requests.is_empty() {
            let message = "\"auth_jwt\" has no keys";
            let hint = "add `auth_jwt_key_file` or `auth_jwt_key_request`";
            self.found.push(Diagnostic::error(check.span, message).with_hint(hint));
            return None;
        }
        let key_files = words.key_files.iter().map(|file| self.key_file(file)).collect();
        let requires = words.requires.iter().map(|require| JwtRequirePlan {
            values: require.values.iter().map(|value| self.template(value)).collect(),
            status: require.status,
        });
        let requires = requires.collect();
        Some(Box::new(JwtPlan {
            realm: self.template(&check.realm),
            token: check.token.as_ref().map(|token| self.template(token)),
            encrypted: match words.kind {
                TokenKind::Signed => None,
                TokenKind::Encrypted => Some(Content::Claims),
                TokenKind::Nested => Some(Content::SignedToken),
            },
            key_files,
            key_requests: words.key_requests.iter().map(|uri| self.template(uri)).collect(),
            key_cache: words.key_cache,
            leeway_s: words.leeway.as_secs(),
            requires,
        }))
    }

    /// A file of keys. Locations that inherit one line read the file once.
    fn key_file(&mut self, written: &conf::value::Template) -> KeyFilePlan {
        let base = self.options.conf_directory.clone();
        let path = self.path_plan(written, &base);
        let [Part::Text(text)] = written.parts.as_slice() else { return KeyFilePlan { path, at_start: None } };
        let file = base.join(Path::new(OsStr::from_bytes(text)));
        if let Some((_, known)) = self.key_sets.iter().find(|(known, _)| *known == file) {
            return KeyFilePlan { path, at_start: known.clone() };
        }
        let keys = match (self.options.read)(&file) {
            Err(error) => Err(error.to_string()),
            Ok(bytes) => KeySet::parse(&bytes).map_err(|fault| fault.to_string()),
        };
        let keys = keys.map(Arc::new).map_err(|reason| {
            let message = format!("the keys in \"{}\" cannot be used: {reason}", file.display());
            self.found.push(Diagnostic::error(written.span, message));
        });
        let keys = keys.ok();
        self.key_sets.push((file, keys.clone()));
        KeyFilePlan { path, at_start: keys }
    }

    /// How the variables of `auth_jwt_claim_set` and `auth_jwt_header_set` get their values.
    pub(super) fn jwt_definitions(&self) -> Vec<(Slot, Definition)> {
        let definition = |set: &JwtVariable| {
            let path = set.path.iter().map(|name| name.as_str().into()).collect();
            let value = if set.is_of_header {
                variable::JwtVariable::HeaderAt(path)
            } else {
                variable::JwtVariable::ClaimAt(path)
            };
            Some((self.users.slot(&set.variable)?, Definition::BuiltIn(Variable::Jwt(value))))
        };
        self.http.jwt_variables.iter().filter_map(definition).collect()
    }
}
