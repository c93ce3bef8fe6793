//! HAR files (version 1.2), as browsers and proxies record them. The requests to the site of the first one become steps, with
//! the pauses that the person made.

use super::{
    Draft, DraftBody, DraftFlow, DraftPart, DraftStep, THINK_MS_MAX, THINK_MS_MIN, body_of, is_kept, origin_of,
    sound_url,
};
use crate::scenario::log::days_since_1970;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn read(file: &Value) -> Result<Draft, String> {
    let entries = file.pointer("/log/entries").and_then(Value::as_array).ok_or("log.entries is no list")?;
    let mut draft = Draft::default();
    let mut flow = DraftFlow { name: "recorded".to_owned(), steps: Vec::new() };
    let (mut site, mut others, mut ended_ms) = (None, BTreeMap::<String, u32>::new(), None);
    for entry in entries {
        let url = entry.pointer("/request/url").and_then(Value::as_str).unwrap_or_default();
        // Recorded beside requests: data:, blob:, WebSockets.
        if !url.starts_with("http://") && !url.starts_with("https://") {
            continue;
        }
        let origin = origin_of(url).unwrap_or_default().to_owned();
        if *site.get_or_insert_with(|| origin.clone()) != origin {
            *others.entry(origin).or_default() += 1;
            continue;
        }
        let begun_ms = entry.get("startedDateTime").and_then(Value::as_str).and_then(unix_ms);
        if let (Some(begun), Some(ended), Some(last)) = (begun_ms, ended_ms, flow.steps.last_mut()) {
            let pause = u64::try_from(begun - ended).unwrap_or(0);
            last.think_ms = if pause < THINK_MS_MIN { 0 } else { pause.min(THINK_MS_MAX) };
        }
        let took_ms = entry.get("time").and_then(Value::as_f64).unwrap_or(0.0).max(0.0) as i64;
        // Requests of a page overlap: the pause begins when the last of them has ended.
        ended_ms = begun_ms.map(|begun| begun + took_ms).max(ended_ms);
        match step(entry, url) {
            Ok(step) => flow.steps.push(step),
            Err(why) => draft.notes.push(format!("A request is left out: {why}.")),
        }
    }
    for (origin, count) in others {
        draft.notes.push(format!("{count} requests to {origin} are left out: it is another site."));
    }
    draft.flows.push(flow);
    Ok(draft)
}

fn step(entry: &Value, url: &str) -> Result<DraftStep, String> {
    let request = entry.get("request").ok_or("it has no request")?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut fields = Vec::new();
    for field in request.get("headers").and_then(Value::as_array).into_iter().flatten() {
        let (name, value) = (text(field, "name"), text(field, "value"));
        if is_kept(&name) {
            fields.push((name, value));
        }
    }
    let body = request.get("postData").map(body).transpose()?.unwrap_or_default();
    if matches!(body, DraftBody::Multipart(_)) {
        // Its boundary was that of the recorded body.
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    }
    let status = entry.pointer("/response/status").and_then(Value::as_u64);
    // 304 is an answer to the browser's cache, which users of a load do not have.
    let status = status.filter(|status| (100..600).contains(status) && *status != 304).map(|status| status.to_string());
    let method = Some(text(request, "method")).filter(|method| !method.is_empty()).unwrap_or_else(|| "GET".to_owned());
    Ok(DraftStep { method, url: sound_url(url)?, fields, body, status, ..DraftStep::default() })
}

fn body(data: &Value) -> Result<DraftBody, String> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = text(data, "mimeType").unwrap_or_default();
    let params = data.get("params").and_then(Value::as_array).filter(|params| !params.is_empty());
    if let Some(params) = params.filter(|_| kind.starts_with("multipart/")) {
        let part = |param: &Value| DraftPart {
            name: text(param, "name").unwrap_or_default(),
            text: text(param, "value").or_else(|| Some(String::new())),
            file: None,
            filename: text(param, "fileName"),
            content_type: text(param, "contentType"),
        };
        return Ok(DraftBody::Multipart(params.iter().map(part).collect()));
    }
    if data.get("encoding").and_then(Value::as_str) == Some("base64") {
        return Err("its body is binary, write it with `file`".to_owned());
    }
    Ok(body_of(&kind, text(data, "text").unwrap_or_default()))
}

/// A time of ISO 8601 in milliseconds since the epoch; only differences matter.
fn unix_ms(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = text.get(19..)?;
    let digits: String = rest.strip_prefix('.').unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
    let fraction_ms = format!("{digits:0<3}").get(..3)?.parse::<i64>().ok()?;
    let zone = rest.get(if digits.is_empty() { 0 } else { digits.len() + 1 }..)?;
    let offset_minutes = match zone.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => {
            let minutes = zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(4..6)?.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => 0,
    };
    let days = days_since_1970(year, month, day);
    Some((((days * 24 + hour) * 60 + minute - offset_minutes) * 60 + second) * 1000 + fraction_ms)
}

#[cfg(test)]
mod tests {
    use super::super::convert;
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_read_with_their_zone() {
        assert_eq!(unix_ms("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(unix_ms("2026-11-25T22:20:20.5Z"), Some(1_795_645_220_500));
        assert_eq!(unix_ms("2026-11-26T00:20:20+02:00"), Some(1_795_645_220_000));
        assert_eq!(unix_ms("2000-02-29T12:00:00.123456-01:30"), Some(951_831_000_123));
        assert_eq!((unix_ms(""), unix_ms("yesterday"), unix_ms("2026-11-25")), (None, None, None));
    }

    #[test]
    fn a_recording_becomes_steps_with_pauses_and_checks() {
        let entry = |time: &str, took: f64, method: &str, url: &str, status: u16| {
            json!({
                "startedDateTime": time, "time": took, "response": {"status": status},
                "request": {"method": method, "url": url, "headers": [
                    {"name": ":authority", "value": "shop.test"}, {"name": "Cookie", "value": "a=b"},
                    {"name": "Accept", "value": "*/*"}, {"name": "Content-Length", "value": "3"},
                ]},
            })
        };
        let mut post = entry("2026-11-25T22:00:03.000Z", 20.0, "POST", "https://shop.test/login", 302);
        post["request"]["postData"] =
            json!({"mimeType": "application/x-www-form-urlencoded", "text": "user=me&p=x%26y"});
        let file = json!({"log": {"version": "1.2", "entries": [
            entry("2026-11-25T22:00:00.000Z", 500.0, "GET", "https://shop.test/", 200),
            entry("2026-11-25T22:00:00.100Z", 900.0, "GET", "https://shop.test/app.css", 304),
            entry("2026-11-25T22:00:00.200Z", 10.0, "GET", "https://cdn.test/x.js", 200),
            entry("2026-11-25T22:00:00.200Z", 10.0, "GET", "data:text/plain,x", 200),
            post,
        ]}});
        let converted = convert("shop", &file.to_string()).unwrap();
        assert_eq!(converted.notes, ["1 requests to https://cdn.test are left out: it is another site."]);
        let expected = r#"name = "shop"
base = "https://shop.test"

[headers]
Accept = "*/*"

[[scenario]]
name = "recorded"

[[scenario.step]]
name = "GET /"
url = "/"
check = [{ status = 200 }]

[[scenario.step]]
name = "GET /app.css"
url = "/app.css"
think = "2000ms"

[[scenario.step]]
name = "POST /login"
url = "/login"
form = { user = "me", p = "x&y" }
check = [{ status = 302 }]
"#;
        assert_eq!(converted.toml, expected);
    }

    #[test]
    fn bodies_keep_their_kind() {
        let json = json!({"mimeType": "application/json; charset=utf-8", "text": "{\"a\":1}"});
        assert_eq!(body(&json), Ok(DraftBody::Json(json!({"a": 1}))));
        let broken = json!({"mimeType": "application/json", "text": "{"});
        assert_eq!(body(&broken), Ok(DraftBody::Text("{".to_owned())));
        let parts = json!({"mimeType": "multipart/form-data; boundary=x", "params": [{"name": "f", "fileName": "a.txt", "contentType": "text/plain", "value": "hi"}]});
        let Ok(DraftBody::Multipart(parts)) = body(&parts) else { panic!("parts") };
        assert_eq!(
            (parts[0].name.as_str(), parts[0].filename.as_deref(), parts[0].text.as_deref()),
            ("f", Some("a.txt"), Some("hi"))
        );
        assert!(body(&json!({"mimeType": "x", "encoding": "base64", "text": "AA=="})).is_err());
    }
}
