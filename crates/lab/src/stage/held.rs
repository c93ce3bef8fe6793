//! The memory per open connection of the processes that hold connections. Values in, values out; called by `figures`.

use super::looks::{Look, Numbers};

/// Adds the growth of each process's memory per open connection, between the last look before the load and the last one
/// during it. Adds nothing if no connection was open, or if their number is unknown.
pub(super) fn add_held(figures: &mut Numbers, processes: &[String], open: f64, looks: Option<(&Look, &Look)>) {
    let Some((before, last)) = looks.filter(|_| open > 0.0) else { return };
    for process in processes {
        let of = |look: &Look| look.numbers.get(&format!("rss_mb.{process}")).copied();
        if let (Some(before), Some(last)) = (of(before), of(last)) {
            figures.insert(format!("bytes_per_connection.{process}"), (last - before) * 1024.0 * 1024.0 / open);
        }
    }
}
