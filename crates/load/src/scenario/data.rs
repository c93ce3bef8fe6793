//! Rows of values for users: reads CSV and JSON lines, and says which iteration gets which row. Rows are numbered over all
//! threads and processes as the iterations are, so no row is used twice where that is asked for. Pure: it takes bytes.

use super::{Data, DataOrder, DataPer};

/// Most rows of a file: a million users. Each worker process holds them once.
const ROWS_MAX: usize = 1_000_000;
/// Most columns of a file; a table that people keep has a tenth of that.
const COLUMNS_MAX: usize = 256;

/// Names of columns, and rows with a value for each.
pub(super) type Table = (Vec<String>, Vec<Vec<String>>);

/// Reads CSV. The first line has the names of the columns.
pub(super) fn read_csv(bytes: &[u8]) -> Result<Table, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::None).from_reader(bytes);
    let names: Vec<String> = reader.headers().map_err(|error| error.to_string())?.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        rows.push(record.iter().map(str::to_owned).collect());
        check_count(&names, &rows)?;
    }
    Ok((names, rows))
}

/// Reads an object from each line that is not empty. The first one has the names; another one may lack some of them.
pub(super) fn read_json_lines(bytes: &[u8]) -> Result<Table, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let (mut names, mut rows) = (Vec::<String>::new(), Vec::new());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        if names.is_empty() {
            names = object.keys().cloned().collect();
        }
        if let Some(other) = object.keys().find(|key| !names.contains(key)) {
            return Err(format!("line {}: the first line has no `{other}`", number + 1));
        }
        let value = |name: &String| object.get(name).map_or_else(String::new, text_of);
        rows.push(names.iter().map(value).collect());
        check_count(&names, &rows)?;
    }
    Ok((names, rows))
}

fn check_count(names: &[String], rows: &[Vec<String>]) -> Result<(), String> {
    match (names.len() > COLUMNS_MAX, rows.len() > ROWS_MAX) {
        (true, _) => Err(format!("more than {COLUMNS_MAX} columns")),
        (_, true) => Err(format!("more than {ROWS_MAX} rows")),
        _ => Ok(()),
    }
}

/// The text of a JSON value: that of a string, otherwise its JSON.
pub(super) fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One worker's use of a data file.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    order: DataOrder,
    per: DataPer,
    rows: u64,
    /// The number of the next row in sequence; advances by the number of workers.
    next: u64,
    workers: u64,
}

impl Feed {
    pub(crate) fn new(data: &Data, worker: usize, workers: usize) -> Self {
        let (next, workers) = (worker as u64, workers as u64);
        Self { order: data.order, per: data.per, rows: data.rows.len() as u64, next, workers }
    }

    /// The row of the next iteration; `None` if all rows of this worker are used. `kept` is the row that the user has, if
    /// it took one before.
    pub(crate) fn take(&mut self, kept: Option<usize>, random: &mut fastrand::Rng) -> Option<usize> {
        if self.per == DataPer::User && kept.is_some() {
            return kept;
        }
        let number = self.next;
        let row = match self.order {
            DataOrder::Random => random.u64(..self.rows.max(1)),
            DataOrder::Sequential => number.checked_rem(self.rows)?,
            DataOrder::Unique if number >= self.rows => return None,
            DataOrder::Unique => number,
        };
        self.next = self.next.saturating_add(self.workers);
        Some(row as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(order: DataOrder, per: DataPer, rows: usize) -> Data {
        let rows = (0..rows).map(|row| vec![row.to_string()]).collect();
        Data { name: "d".to_owned(), order, per, columns: vec![0], rows }
    }

    #[test]
    fn csv_and_json_lines_give_the_same_rows() {
        let text = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        let expected = (text(["n", "name"]), vec![text(["1", "a, \"b\""]), text(["", "é"])]);
        assert_eq!(read_csv("n,name\n1,\"a, \"\"b\"\"\"\r\n,é\n".as_bytes()).unwrap(), expected);
        let lines = "{\"name\":\"a, \\\"b\\\"\",\"n\":1}\n\n{\"name\":\"é\"}\n";
        assert_eq!(read_json_lines(lines.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn broken_files_are_refused_with_the_line() {
        assert!(read_csv(b"a,b\n1\n").unwrap_err().contains("line: 2"), "{}", read_csv(b"a,b\n1\n").unwrap_err());
        assert!(read_json_lines(b"{\"a\":1}\n[1]\n").unwrap_err().starts_with("line 2: "));
        assert_eq!(read_json_lines(b"{\"a\":1}\n{\"b\":1}\n").unwrap_err(), "line 2: the first line has no `b`");
        assert!(read_csv(b"a\n\xff\n").is_err());
    }

    #[test]
    fn workers_share_rows_and_unique_rows_end() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut rows = |order, count| {
            let data = data(order, DataPer::Iteration, count);
            let mut feeds: Vec<Feed> = (0..3).map(|worker| Feed::new(&data, worker, 3)).collect();
            let mut taken = Vec::new();
            for _ in 0..4 {
                taken.extend(feeds.iter_mut().filter_map(|feed| feed.take(None, &mut random)));
            }
            taken
        };
        assert_eq!(rows(DataOrder::Unique, 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(rows(DataOrder::Sequential, 5), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
        assert!(rows(DataOrder::Random, 2).iter().all(|row| *row < 2));
        assert!(rows(DataOrder::Sequential, 0).is_empty());
    }

    #[test]
    fn a_user_keeps_its_row() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut feed = Feed::new(&data(DataOrder::Unique, DataPer::User, 2), 0, 1);
        let first = feed.take(None, &mut random);
        assert_eq!((first, feed.take(first, &mut random)), (Some(0), Some(0)));
        assert_eq!((feed.take(None, &mut random), feed.take(None, &mut random)), (Some(1), None));
    }
}
