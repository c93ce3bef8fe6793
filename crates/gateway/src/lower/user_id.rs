//! `userid` and its kin.

use crate::lower::Lowering;
use crate::plan::user_id::UserIdPlan;
use conf::model::{UserIdMode, UserIdSettings};
use conf::value::words::UserIdFlags;
use rules::template::Template;
use rules::variable::Variable;

impl Lowering<'_> {
    /// `None` if it is off.
    pub(super) fn user_id_plan(&self, settings: &UserIdSettings) -> Option<Box<UserIdPlan>> {
        if settings.mode == UserIdMode::Off {
            return None;
        }
        let mut attributes = Vec::new();
        if let Some(domain) = &settings.domain {
            attributes.extend_from_slice(b"; domain=");
            attributes.extend_from_slice(domain);
        }
        attributes.extend_from_slice(b"; path=");
        attributes.extend_from_slice(&settings.path);
        for (flag, text) in [
            (UserIdFlags::SECURE, "; secure"),
            (UserIdFlags::HTTPONLY, "; httponly"),
            (UserIdFlags::SAMESITE_STRICT, "; samesite=strict"),
            (UserIdFlags::SAMESITE_LAX, "; samesite=lax"),
            (UserIdFlags::SAMESITE_NONE, "; samesite=none"),
        ] {
            if settings.flags.contains(flag) {
                attributes.extend_from_slice(text.as_bytes());
            }
        }
        // Without a `set` it is empty.
        let reset = Variable::resolve("uid_reset", &self.users);
        Some(Box::new(UserIdPlan {
            mode: settings.mode,
            service: settings.service,
            name: String::from_utf8_lossy(&settings.name).into(),
            expires: settings.expires,
            attributes: attributes.into(),
            p3p: settings.p3p.as_deref().map(Into::into),
            mark: settings.mark,
            reset: reset.map_or_else(|| Template::constant(b""), Template::variable),
        }))
    }
}
