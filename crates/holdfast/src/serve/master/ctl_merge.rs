//! Puts the answers of several processes to one request of `holdfast ctl` together: values in, a value out. Rows of the same
//! peer or pool are summed; lists of connections are joined, sorted and cut like those of one process.

use crate::ctl::request::{Answer, ConnectionChange, Listing, Request, SortWord};
use serde_json::{Map, Value};
use std::cmp::Reverse;

/// The answer for the operator. `answers` are in the order of the seats; `workers` is the number of each process.
pub(super) fn merge(request: &Request, mut answers: Vec<Answer>, workers: u64) -> Answer {
    if answers.len() < 2 {
        return answers.pop().unwrap_or_else(|| Answer::of(Err("no worker process has answered".to_owned())));
    }
    if closes_one(request) {
        // One process has the connection, and the others do not know it.
        let at = answers.iter().position(|answer| answer.error.is_none()).unwrap_or_default();
        return answers.swap_remove(at);
    }
    if let Some(at) = answers.iter().position(|answer| answer.error.is_some()) {
        return answers.swap_remove(at);
    }
    let values: Vec<Value> = answers.into_iter().map(|answer| answer.result).collect();
    Answer::of(Ok(match request {
        Request::Peers { .. } => rows_of(values, "peers", &["group", "peer"]),
        Request::Pools { change: None } => rows_of(values, "pools", &["group"]),
        Request::Cache { act: None } => caches(values),
        Request::Connections { list, change: None } | Request::Tunnels { list, change: None } => {
            listed(values, list, workers)
        }
        Request::Pools { .. } | Request::Connections { .. } | Request::Tunnels { .. } => summed(values),
        Request::Errors { limit, .. } => errors(values, *limit),
        _ => values.into_iter().next().unwrap_or_default(),
    }))
}

fn closes_one(request: &Request) -> bool {
    let (Request::Connections { change, .. } | Request::Tunnels { change, .. }) = request else { return false };
    matches!(change, Some(ConnectionChange::Close { .. }))
}

/// One list of rows: those with the same key are added up.
fn rows_of(values: Vec<Value>, list: &str, key: &[&str]) -> Value {
    let mut all: Vec<Value> = Vec::new();
    for row in values.into_iter().flat_map(|mut value| array(&mut value, list)) {
        match all.iter_mut().find(|known| key.iter().all(|name| known[*name] == row[*name])) {
            Some(known) => add(known, &row, key),
            None => all.push(row),
        }
    }
    Value::Object(Map::from_iter([(list.to_owned(), all.into())]))
}

/// Adds the numbers of a row to those of another one. A weight is no sum, and the worst state of a check counts.
fn add(known: &mut Value, row: &Value, key: &[&str]) {
    let Some(fields) = row.as_object() else { return };
    for (name, value) in fields.iter().filter(|(name, _)| !key.contains(&name.as_str())) {
        let before = &known[name];
        let merged = match (name.as_str(), before.as_u64(), value.as_u64()) {
            ("weight", ..) => continue,
            ("check", ..) if before == "unhealthy" || value.is_null() => continue,
            ("check", ..) => value.clone(),
            (_, Some(before), Some(value)) => before.saturating_add(value).into(),
            _ => continue,
        };
        known[name] = merged;
    }
}

/// Caches: requests are summed. The files are the same ones, so of them the process that knows most counts.
fn caches(mut values: Vec<Value>) -> Value {
    const OF_FILES: [&str; 3] = ["keys", "keys_max", "bytes"];
    let mut most: Map<String, Value> = Map::new();
    for row in values.iter_mut().filter_map(|value| value["caches"].as_array_mut()).flatten() {
        for name in OF_FILES {
            let place = most.entry(format!("{} {name}", row["zone"])).or_insert(Value::Null);
            let number = row[name].take();
            if number.as_u64() > place.as_u64() {
                *place = number;
            }
        }
    }
    let mut merged = rows_of(values, "caches", &["zone"]);
    for row in merged["caches"].as_array_mut().into_iter().flatten() {
        for name in OF_FILES {
            row[name] = most.remove(&format!("{} {name}", row["zone"])).unwrap_or_default();
        }
    }
    merged
}

/// Objects of numbers, and of `complete`, which is true if it is in all.
fn summed(values: Vec<Value>) -> Value {
    let mut values = values.into_iter();
    let mut sum = values.next().unwrap_or_default();
    for value in values {
        add(&mut sum, &value, &[]);
        if value["complete"] == Value::Bool(false) {
            sum["complete"] = Value::Bool(false);
        }
    }
    sum
}

/// Connections of all processes. Workers are counted through.
fn listed(values: Vec<Value>, list: &Listing, workers: u64) -> Value {
    let mut all = Vec::new();
    let mut without_rows = Vec::new();
    for (seat, mut value) in (0..).zip(values) {
        for mut row in array(&mut value, "rows") {
            row["worker"] = row["worker"].as_u64().map(|worker| worker + seat * workers).into();
            all.push(row);
        }
        without_rows.push(value);
    }
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_default();
    all.sort_by_key(|row| {
        Reverse(match list.sort {
            SortWord::Age => number(row, "age_ms"),
            SortWord::Idle => number(row, "idle_ms"),
            SortWord::Memory => number(row, "memory_bytes"),
            SortWord::Bytes => number(row, "received_bytes") + number(row, "sent_bytes"),
        })
    });
    all.truncate(list.limit);
    let mut merged = summed(without_rows);
    merged["rows"] = all.into();
    merged
}

/// The last lines of all processes: their numbers are moments.
fn errors(values: Vec<Value>, limit: usize) -> Value {
    let mut lines: Vec<Value> = values.into_iter().flat_map(|mut value| array(&mut value, "errors")).collect();
    lines.sort_by_key(|line| line["number"].as_u64());
    let surplus = lines.len().saturating_sub(limit);
    lines.drain(..surplus);
    Value::Object(Map::from_iter([("errors".to_owned(), lines.into())]))
}

fn array(value: &mut Value, name: &str) -> Vec<Value> {
    value.get_mut(name).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(request: &Request, values: impl IntoIterator<Item = Result<Value, String>>) -> Answer {
        merge(request, values.into_iter().map(Answer::of).collect(), 2)
    }

    #[test]
    fn rows_of_a_peer_are_summed_and_its_worst_state_counts() {
        let row = |peer: &str, active: u32, check: Value| json!({"group": "a", "peer": peer, "mode": "up", "weight": 5, "check": check, "active": active});
        let answer = merged(
            &Request::Peers { change: None },
            [
                Ok(json!({"peers": [row("x", 1, Value::Null), row("y", 2, "pending".into())]})),
                Ok(json!({"peers": [row("y", 3, Value::Null), row("x", 4, "unhealthy".into())]})),
            ],
        );
        assert_eq!(answer.result, json!({"peers": [row("x", 5, "unhealthy".into()), row("y", 5, "pending".into())]}));
    }

    #[test]
    fn files_of_a_cache_are_counted_once_and_requests_summed() {
        let row = |zone: &str, keys: u64, bytes: u64, hits: u64| json!({"zone": zone, "keys": keys, "keys_max": 100, "bytes": bytes, "hits": hits});
        let answer = merged(
            &Request::Cache { act: None },
            [
                Ok(json!({"caches": [row("a", 5, 10, 1), row("b", 0, 0, 2)]})),
                Ok(json!({"caches": [row("a", 4, 12, 3), row("b", 7, 9, 4)]})),
            ],
        );
        assert_eq!(answer.result, json!({"caches": [row("a", 5, 12, 4), row("b", 7, 9, 6)]}));
    }

    #[test]
    fn lists_are_joined_sorted_and_cut() {
        let list = |rows: Value, complete: bool| Ok(json!({"rows": rows, "matching": 2, "complete": complete}));
        let request = Request::Tunnels { list: Listing { limit: 3, ..Listing::default() }, change: None };
        let answer = merged(
            &request,
            [
                list(json!([{"worker": 0, "age_ms": 9}, {"worker": 1, "age_ms": 2}]), true),
                list(json!([{"worker": 1, "age_ms": 5}, {"worker": 0, "age_ms": 1}]), false),
            ],
        );
        let rows = json!([{"worker": 0, "age_ms": 9}, {"worker": 3, "age_ms": 5}, {"worker": 1, "age_ms": 2}]);
        assert_eq!(answer.result, json!({"rows": rows, "matching": 4, "complete": false}));
    }

    #[test]
    fn a_connection_is_closed_by_the_process_that_has_it() {
        let request =
            Request::Connections { list: Listing::default(), change: Some(ConnectionChange::Close { connection: 7 }) };
        let answer = merged(&request, [Err("no connection *7".to_owned()), Ok(json!({"closed": 7}))]);
        assert_eq!((answer.result, answer.error), (json!({"closed": 7}), None));
        let answer = merged(&request, [(); 2].map(|()| Err("no connection *7".to_owned())));
        assert_eq!(answer.error.as_deref(), Some("no connection *7"));
    }

    #[test]
    fn other_requests_fail_if_one_process_fails() {
        let request = Request::Pools { change: None };
        let answer = merged(&request, [Ok(json!({"pools": []})), Err("no".to_owned())]);
        assert_eq!(answer.error.as_deref(), Some("no"));
    }
}
