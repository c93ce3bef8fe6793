//! `auth_basic`: checks name and password against a file of names and hashes. Another thread reads the file and hashes
//! the password.

use crate::base::logs::error::{Level, errno, quoted};
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::phases::access::AccessVerdict;
use crate::plan::access::BasicPlan;
use crate::registry::user_files::{BadLines, PasswordCheck};
use http1::FieldId;
use rules::basic_auth::Credentials;
use std::io::{self, ErrorKind};

impl Exchange {
    /// Whether the client's name and password are correct.
    pub(super) async fn basic_auth(&mut self, plan: &BasicPlan) -> AccessVerdict {
        let (mut realm, mut path) = (Vec::new(), Vec::new());
        plan.realm.write(&ExchangeView::of(self), &mut realm);
        if realm == b"off" {
            return AccessVerdict::Pass;
        }
        let value = self.request.head.value(FieldId::Authorization, &self.request.bytes);
        let Some(credentials) = value.and_then(Credentials::parse) else {
            self.client_log("no user/password was provided for basic authentication");
            return self.ask_for_password(&realm);
        };
        plan.users.write(&ExchangeView::of(self), &mut path);
        if path.contains(&0) {
            self.error_log(&format!("\"{}\" is no path of a file", quoted(&path)));
            return AccessVerdict::Failed(500);
        }
        let (registry, user, shown) = (self.thread.registry, quoted(credentials.user()), quoted(&path));
        let checked = self.offload_to(&registry.hashing, move || registry.user_files.check(&path, &credentials)).await;
        let check = match checked {
            Ok((check, news)) => {
                if let Some(news) = news {
                    self.log_bad_lines(&shown, &news);
                }
                check
            }
            Err(error) => {
                self.error_log(&format!("a password cannot be checked now ({error})"));
                let is_busy = error.kind() == ErrorKind::ResourceBusy;
                return AccessVerdict::Failed(if is_busy { 503 } else { 500 });
            }
        };
        match check {
            PasswordCheck::Right => AccessVerdict::Allow,
            PasswordCheck::Wrong => {
                self.error_log(&format!("user \"{user}\": password mismatch"));
                self.ask_for_password(&realm)
            }
            PasswordCheck::Unknown => {
                self.error_log(&format!("user \"{user}\" was not found in \"{shown}\""));
                self.ask_for_password(&realm)
            }
            PasswordCheck::Unreadable(error) => self.unreadable(&shown, &error),
        }
    }

    /// 401 with the challenge for the client.
    fn ask_for_password(&mut self, realm: &[u8]) -> AccessVerdict {
        let challenge = [b"Basic realm=\"", realm, b"\""].concat();
        let challenge = self.one_line(challenge, || "\"auth_basic\"".to_owned());
        self.response.carry(FieldId::WwwAuthenticate.name().as_bytes(), &challenge);
        AccessVerdict::Deny(401)
    }

    fn unreadable(&self, path: &str, error: &io::Error) -> AccessVerdict {
        let is_missing = error.kind() == ErrorKind::NotFound;
        let level = if is_missing { Level::Error } else { Level::Crit };
        self.log_at(level, &format!("open() \"{path}\" failed ({})", errno(error)));
        if is_missing { AccessVerdict::Deny(403) } else { AccessVerdict::Failed(500) }
    }

    fn log_bad_lines(&self, path: &str, news: &BadLines) {
        let numbers: Vec<String> = news.first.iter().map(u64::to_string).collect();
        let more = if news.count > news.first.len() as u64 { " and more" } else { "" };
        let numbers = numbers.join(", ");
        self.log_at(Level::Warn, &format!("\"{path}\" has {} lines that are no users: {numbers}{more}", news.count));
    }
}
