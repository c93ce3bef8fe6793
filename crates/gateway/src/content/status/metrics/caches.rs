//! Families about caches.

use crate::content::status::metrics::{Family, Kind, Samples};
use crate::content::status::snapshot::Snapshot;
use crate::content::status::snapshot::caches::CacheZoneStatus;

fn zones(out: &mut Samples<'_>, all: &Snapshot, value: impl Fn(&CacheZoneStatus) -> u64) {
    for zone in &all.caches {
        out.put(&[("zone", &zone.name)], value(zone));
    }
}

/// In the order of the page.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "holdfast_cache_requests_total",
        kind: Kind::Counter,
        labels: "zone status",
        help: "Requests that asked a cache, by $upstream_cache_status.",
        write: |out, all| {
            for zone in &all.caches {
                out.each(&[("zone", &zone.name)], "status", &zone.requests);
            }
        },
    },
    Family {
        name: "holdfast_cache_bytes",
        kind: Kind::Gauge,
        labels: "zone",
        help: "Bytes of the files of a cache that this process knows.",
        write: |out, all| zones(out, all, |zone| zone.bytes),
    },
    Family {
        name: "holdfast_cache_keys",
        kind: Kind::Gauge,
        labels: "zone",
        help: "Keys that a cache knows.",
        write: |out, all| zones(out, all, |zone| zone.keys),
    },
    Family {
        name: "holdfast_cache_keys_limit",
        kind: Kind::Gauge,
        labels: "zone",
        help: "Keys at most, by the size of keys_zone.",
        write: |out, all| zones(out, all, |zone| zone.keys_limit),
    },
    Family {
        name: "holdfast_cache_write_failures_total",
        kind: Kind::Counter,
        labels: "zone",
        help: "Responses that could not be written to the disk.",
        write: |out, all| zones(out, all, |zone| zone.write_failures),
    },
    Family {
        name: "holdfast_cache_bad_files_total",
        kind: Kind::Counter,
        labels: "zone",
        help: "Files of a cache that were not used: damaged, unreadable, or with the response of another key.",
        write: |out, all| zones(out, all, |zone| zone.bad_files),
    },
    Family {
        name: "holdfast_cache_foreign_files",
        kind: Kind::Gauge,
        labels: "zone",
        help: "Files of other programs in the folder of a cache, when it was last read.",
        write: |out, all| zones(out, all, |zone| zone.foreign_files),
    },
];
