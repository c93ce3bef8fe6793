//! `proxy_cache`, its kin, and their zones.

use crate::lower::Lowering;
use crate::lower::proxy::{Pass, conditions};
use crate::plan::cache::{CacheChoice, CacheLock, CachePlan, CacheZoneId, CacheZonePlan, CacheZoneSettings};
use conf::diagnostic::Diagnostic;
use conf::model::{self, CacheSettings, Scheme};
use conf::value::words::{IgnoredHeaders, MethodSet, NextUpstream};
use rules::template::Template;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// Bytes of a zone that nginx needs for a key: its documentation states 8,000 keys per megabyte.
const KEY_BYTES: u64 = 128;

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The response fields that storing ignores.
fn ignored(headers: IgnoredHeaders) -> cache::Ignored {
    cache::Ignored {
        accel_expires: headers.contains(IgnoredHeaders::X_ACCEL_EXPIRES),
        cache_control: headers.contains(IgnoredHeaders::CACHE_CONTROL),
        expires: headers.contains(IgnoredHeaders::EXPIRES),
        set_cookie: headers.contains(IgnoredHeaders::SET_COOKIE),
        vary: headers.contains(IgnoredHeaders::VARY),
    }
}

impl Lowering<'_> {
    /// All zones of the configuration, also unused ones: their directories are created, and their files managed.
    pub(super) fn cache_zones(&mut self) {
        for zone in &self.http.cache_zones {
            self.plan.cache_zones.push(CacheZonePlan {
                name: zone.name.clone(),
                directory: self.options.prefix.join(OsStr::from_bytes(&zone.path)),
                levels: cache::Levels(zone.levels),
                settings: CacheZoneSettings {
                    keys_max: usize::try_from(zone.keys_bytes / KEY_BYTES).unwrap_or(usize::MAX),
                    inactive_s: i64::try_from(zone.inactive.as_secs()).unwrap_or(i64::MAX),
                    size_max: zone.size_max,
                    free_min: zone.free_min,
                    manager: zone.manager,
                    loader: zone.loader,
                },
            });
        }
    }

    /// How a location stores its upstream's responses; `None` if it does not.
    pub(super) fn cache_plan(&mut self, pass: Pass<'_>) -> Option<Box<CachePlan>> {
        let words: &CacheSettings = pass.settings.cache_of(pass.scheme);
        let zone = match words.zone.as_ref()? {
            model::CacheChoice::Zone(id) => CacheChoice::Zone(CacheZoneId(id.0)),
            model::CacheChoice::Named(name) => CacheChoice::Named(self.template(name)),
        };
        let family = match pass.scheme {
            Scheme::Http | Scheme::Https => "proxy",
            Scheme::Fastcgi => "fastcgi",
            Scheme::Scgi => "scgi",
            Scheme::Uwsgi | Scheme::Suwsgi => "uwsgi",
            Scheme::Memcached | Scheme::Grpc | Scheme::Grpcs => return None,
        };
        if let (None, false) = (&words.key, family == "proxy") {
            let message = format!("no \"{family}_cache_key\" for \"{family}_cache\"");
            if !self.found.iter().any(|known| known.message == message) {
                let hint = "without a key all requests of the zone have one response";
                let span = self.http.cache_zones.first().map_or(self.http.span, |zone| zone.span);
                self.found.push(Diagnostic::warning(span, message).with_hint(hint));
            }
        }
        let key_names_user = words
            .key
            .as_ref()
            .is_some_and(|key| key.variables().any(|name| matches!(name, "http_authorization" | "remote_user")));
        let (files, proxy) = (self.files_plan(pass.settings), pass.proxy());
        let sets_authorization =
            proxy.set_headers.iter().any(|field| field.name.eq_ignore_ascii_case(b"Authorization"));
        let ignored = ignored(proxy.ignore_headers);
        let valid = words.valid.iter().flat_map(|valid| {
            let seconds = i64::try_from(valid.time.as_secs()).unwrap_or(i64::MAX);
            valid.statuses.iter().map(move |status| (*status, seconds))
        });
        let (valid, words) = (valid.collect(), words.clone());
        let mut templates =
            |list: &[conf::value::Template]| -> Vec<Template> { list.iter().map(|item| self.template(item)).collect() };
        Some(Box::new(CachePlan {
            zone,
            valid,
            min_uses: words.min_uses,
            keeps_post: words.methods.contains(MethodSet::POST),
            bypass: templates(&words.bypass),
            no_cache: templates(&words.no_cache),
            purge: templates(&words.purge),
            key: words.key.as_ref().map(|key| self.template(key)),
            use_stale: conditions(words.use_stale),
            use_stale_updating: words.use_stale.contains(NextUpstream::UPDATING),
            background_update: words.background_update,
            revalidate: words.revalidate,
            lock: words.lock.then(|| CacheLock {
                age_ms: milliseconds(words.lock_age),
                timeout_ms: milliseconds(words.lock_timeout),
            }),
            convert_head: words.convert_head,
            range_offset_max: words.max_range_offset,
            keeps_authorized: words.authorization || key_names_user || sets_authorization,
            digests_key: words.key_digest,
            ignored,
            ranges_max: files.ranges_max,
            modified_since: files.modified_since,
            sendfile: files.sendfile,
            sendfile_chunk: files.sendfile_chunk,
            read_chunk: files.read_chunk,
            family,
        }))
    }
}
