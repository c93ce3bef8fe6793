//! What each connection that is open adds to the memory of the processes that hold it. Values in, values out; called by `figures`.

use super::looks::{Look, Numbers};

/// What each process's memory grew by between two looks, the last before the load and the last one under it, for each of this many
/// connections. Nothing where none was open, or their number is unknown.
pub(super) fn add_held(figures: &mut Numbers, processes: &[String], open: f64, looks: Option<(&Look, &Look)>) {
    let Some((before, last)) = looks.filter(|_| open > 0.0) else { return };
    for process in processes {
        let of = |look: &Look| look.numbers.get(&format!("rss_mb.{process}")).copied();
        if let (Some(before), Some(last)) = (of(before), of(last)) {
            figures.insert(format!("bytes_per_connection.{process}"), (last - before) * 1024.0 * 1024.0 / open);
        }
    }
}
