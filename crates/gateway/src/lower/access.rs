//! Lowers a location's access checks and `mirror`.

use crate::lower::Lowering;
use crate::plan::access::{AccessPlan, AuthRequestPlan, BasicPlan, MirrorPlan, SlotValue};
use conf::diagnostic::Diagnostic;
use conf::model::{LocationSettings, ResponseSettings, SetFromSubrequest};
use rules::variable::Assignable;

impl Lowering<'_> {
    /// The checks of a location, if there are any.
    pub(super) fn access_plan(&mut self, settings: &LocationSettings) -> Option<Box<AccessPlan>> {
        let basic = self.basic_plan(settings);
        let jwt = self.jwt_plan(&settings.jwt);
        let delay = settings.access.delay;
        let settings = &settings.response;
        let request = settings.auth_request.as_ref().map(|uri| AuthRequestPlan {
            uri: uri.as_slice().into(),
            sets: settings.auth_request_sets.iter().filter_map(|set| self.slot_value(set)).collect(),
        });
        let rules = settings.access.clone();
        (!rules.is_empty() || basic.is_some() || jwt.is_some() || request.is_some())
            .then(|| Box::new(AccessPlan { satisfy: settings.satisfy, rules, basic, jwt, request, delay }))
    }

    /// As in nginx, no password is required if one of the two directives is missing.
    fn basic_plan(&mut self, settings: &LocationSettings) -> Option<BasicPlan> {
        let access = &settings.access;
        // Their variables are checked nevertheless.
        let realm = access.realm.as_ref().map(|realm| self.template(realm));
        let users = access.user_file.as_ref().map(|file| self.path_plan(file, self.options.conf_directory.as_path()));
        Some(BasicPlan { realm: realm?, users: users? })
    }

    fn slot_value(&mut self, set: &SetFromSubrequest) -> Option<SlotValue> {
        // Declaring the variables has already reported those that cannot be set.
        let Ok(Assignable::Slot(slot)) = self.users.declare_assignable(&set.variable) else { return None };
        Some(SlotValue { slot, value: self.template(&set.value) })
    }

    /// Declares the variables of `auth_request_set`.
    pub(super) fn declare_sets(&mut self, settings: &ResponseSettings) {
        for set in &settings.auth_request_sets {
            let message = match self.users.declare_assignable(&set.variable) {
                Ok(Assignable::Slot(_)) => continue,
                Ok(Assignable::Args | Assignable::LimitRate) => {
                    format!("\"${}\" cannot be set by \"auth_request_set\"", set.variable)
                }
                Err(message) => message,
            };
            self.found.push(Diagnostic::error(set.span, message));
        }
    }
}

/// The targets of `mirror`.
pub(super) fn mirror_plan(settings: &ResponseSettings) -> Option<Box<MirrorPlan>> {
    let uris = settings.mirrors.iter().map(|uri| uri.as_slice().into()).collect::<Vec<_>>();
    (!uris.is_empty()).then(|| Box::new(MirrorPlan { uris, with_body: settings.mirror_request_body }))
}
