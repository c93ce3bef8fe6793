//! The line protocol of `InfluxDB`: a line for each sample, with its metric as measurement and its labels as tags. Counters and gauges
//! have the field `value`; summaries have `p50`, `p99` and so on, `sum` and `count`.

use super::{Metric, Value};
use std::fmt::Write as _;

/// All samples of one time, in nanoseconds since 1970. `tags` belong to every line.
pub fn influx_lines(metrics: &[Metric], tags: &[(String, String)], time_ns: u64) -> String {
    let mut text = String::new();
    for metric in metrics {
        for point in &metric.points {
            escape(&mut text, &metric.name, &[',', ' ']);
            // Sorted tags cost the server less.
            let mut all: Vec<&(String, String)> = tags.iter().chain(&point.labels).collect();
            all.sort();
            // A tag without a value is an error there.
            for (name, value) in all.into_iter().filter(|(_, value)| !value.is_empty()) {
                text.push(',');
                escape(&mut text, name, &[',', '=', ' ']);
                text.push('=');
                escape(&mut text, value, &[',', '=', ' ']);
            }
            // Writing to a string cannot fail.
            let _ = match &point.value {
                Value::Number(value) => write!(text, " value={value}"),
                Value::Summary { quantiles, sum, count } => {
                    text.push(' ');
                    for (quantile, value) in quantiles {
                        let _ = write!(text, "p{}={value},", (quantile * 1e6).round() / 1e4);
                    }
                    write!(text, "sum={sum},count={count}i")
                }
            };
            let _ = writeln!(text, " {time_ns}");
        }
    }
    text
}

/// Escapes these characters with a backslash. A line has no line feeds, and a value must not end with a backslash.
fn escape(out: &mut String, text: &str, special: &[char]) {
    for symbol in text.chars() {
        match symbol {
            '\n' | '\r' => out.push_str("\\ "),
            '\\' => out.push('/'),
            symbol => {
                if special.contains(&symbol) {
                    out.push('\\');
                }
                out.push(symbol);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::metrics;
    use super::*;

    #[test]
    fn lines_have_tags_fields_and_a_time() {
        let tags = [("run".to_owned(), "a,b".to_owned()), ("none".to_owned(), String::new())];
        assert_eq!(
            influx_lines(&metrics(), &tags, 7),
            "a_total,by=x\\ y,run=a\\,b value=1 7\na_total,by=z,run=a\\,b value=2 7\nb,run=a\\,b value=0.5 7\n\
             c_seconds,run=a\\,b p50=0.25,p99=1.5,sum=12.5,count=20i 7\n"
        );
    }
}
