//! The flags of a WebSocket load, and the options they give together with those shared with HTTP.

use super::super::typed::{parse_duration_range, parse_rate};
use super::{LoadArgs, THREADS_DEFAULT};
use crate::typed::{bytes, count, duration};
use load::Url;
use load::websocket::{EventOptions, EventTime, Storm, WebSocketOptions, parse_url};
use std::time::Duration;

/// Pause before a connection cut by a storm is opened again, unless `--reconnect` gives another.
const RECONNECT_DEFAULT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

#[derive(Debug, Clone, Default, clap::Args)]
#[command(
    next_help_heading = "For ws:// URLs; --ramp, --hold, --stall, --reconnect and --storm for tcp:// and --sse, too"
)]
pub(super) struct Flags {
    /// Connections opened per second; 1000/s if not given
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    ramp: Option<(f64, f64)>,
    /// Time to hold the connections after all were opened; for ws:// the same as -d. With tcp:// nothing is sent
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "duration")]
    hold: Option<Duration>,
    /// Interval of pings on each connection; a connection without a pong until the next ping counts as lost
    #[arg(long, value_name = "TIME", value_parser = duration)]
    heartbeat: Option<Duration>,
    /// Divide the connections between this many rooms ({{room}} in the URL): each message is expected by every member
    #[arg(long, value_name = "N", value_parser = count)]
    rooms: Option<u64>,
    /// A message that each connection sends first, to join its room, such as 'join {{room}}'
    #[arg(long, value_name = "TEXT")]
    join: Option<String>,
    /// Bytes of each message that --rate sends
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    message_size: Option<u64>,
    /// Share of the connections that never read, such as 10%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    stall: Option<f64>,
    /// Reopen lost connections after a random pause of at most the first value, which doubles up to the second
    #[arg(long, value_name = "TIME..TIME", value_parser = parse_duration_range)]
    reconnect: Option<(Duration, Duration)>,
    /// Cut this share of the connections at once, this long after all were opened, such as 10s:50%; --reconnect reopens them
    #[arg(long, value_name = "TIME:SHARE", value_parser = parse_storm)]
    storm: Option<Storm>,
    /// Server-sent events of the http:// URL: hold the responses, and count and time their events
    #[arg(long, conflicts_with_all = ["heartbeat", "rooms", "join", "message_size", "rate"])]
    sse: bool,
    /// Where an event has the time it was sent at: data, id, or a JSON pointer such as /sent (s, ms, us or ns since 1970)
    #[arg(long, value_name = "PLACE", requires = "sse")]
    event_time: Option<EventTime>,
    /// The ids of events are numbers in sequence: count gaps as lost events, and repetitions
    #[arg(long, requires = "sse")]
    event_sequence: bool,
}

impl Flags {
    /// The first flag that was given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.ramp.is_some(), "--ramp"),
            (self.hold.is_some(), "--hold"),
            (self.heartbeat.is_some(), "--heartbeat"),
            (self.rooms.is_some(), "--rooms"),
            (self.join.is_some(), "--join"),
            (self.message_size.is_some(), "--message-size"),
            (self.stall.is_some(), "--stall"),
            (self.reconnect.is_some(), "--reconnect"),
            (self.storm.is_some(), "--storm"),
            (self.sse, "--sse"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }
}

impl Flags {
    /// The first flag that was given and that a TCP connection has no use for.
    fn given_for_frames(&self) -> Option<&'static str> {
        let frames = Self { ramp: None, hold: None, stall: None, reconnect: None, storm: None, ..self.clone() };
        frames.given()
    }
}

/// `10%` or `0.1`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 0.01));
    let share = report::typed::number(number).map(|number| number * factor);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "a share from 0% to 100%".to_owned())
}

fn parse_storm(text: &str) -> Result<Storm, String> {
    let (after, share) = text.split_once(':').ok_or("a storm is TIME:SHARE, such as 10s:50%")?;
    Ok(Storm { after: duration(after)?, share: parse_share(share)? })
}

impl LoadArgs {
    /// Whether connections are held: those of WebSockets, or of TCP with `--hold`; an error if flags of one kind of load are used for the other.
    pub(in crate::load) fn is_held(&self) -> Result<bool, String> {
        if self.is_tcp() {
            let (holds, of_frames) = (self.websocket.hold.is_some(), self.websocket.given_for_frames());
            return match (of_frames, holds, self.websocket.given(), self.tcp.given()) {
                (Some(flag), ..) => Err(format!("{flag} is for ws:// URLs")),
                (None, true, _, Some(flag)) => Err(format!("{flag}: with --hold nothing is sent")),
                (None, false, Some(flag), _) => Err(format!("{flag} of tcp:// URLs needs --hold")),
                _ => Ok(holds),
            };
        }
        if let Some(flag) = self.tcp.given() {
            return Err(format!("{flag} is for tcp:// URLs"));
        }
        let is_websocket = |url: &String| {
            let lower = url.get(..6).unwrap_or(url).to_ascii_lowercase();
            lower.starts_with("ws://") || lower.starts_with("wss://")
        };
        if self.websocket.sse {
            return match self.urls.iter().find(|url| is_websocket(url)) {
                Some(url) => Err(format!("--sse is for http:// URLs, and {url} is none")),
                None => Ok(true),
            };
        }
        if !self.urls.iter().any(is_websocket) {
            return match self.websocket.given() {
                Some(flag) => Err(format!("{flag} is for ws:// URLs")),
                None => Ok(false),
            };
        }
        Ok(true)
    }

    /// An error if a flag was given that a load of held connections has no use for.
    fn check_flags_of_held(&self, is_tcp: bool) -> Result<(), String> {
        let for_http = [
            (self.requests.is_some(), "-n"),
            (!self.stage.is_empty(), "--stage"),
            (self.poisson, "--poisson"),
            (self.method.is_some(), "--method"),
            (self.body.is_some() || self.body_file.is_some(), "--body"),
            (!self.form.is_empty(), "--form"),
            (self.no_keepalive, "--no-keepalive"),
            (self.pipeline != 1, "--pipeline"),
            (self.http2 && !self.websocket.sse, "--http2"),
            (self.streams.is_some(), "--streams"),
            (self.grpc, "--grpc"),
            (self.think.is_some(), "--think"),
            (self.script.is_some(), "--script"),
            (self.scenario.is_given(), "a file of requests"),
            (self.course.is_given(), "--stages, --arrivals or --warm-up"),
            (self.style != load::results::http::Style::Own, "--style"),
            (self.no_templates, "--no-templates"),
            (self.tls.handshakes_only(), "--handshakes"),
        ];
        let refused = for_http.iter().find(|(given, _)| *given).map(|(_, flag)| *flag);
        let Some(flag) = refused.or(self.bodies.given()) else { return Ok(()) };
        let urls = match (is_tcp, self.websocket.sse) {
            (true, _) => "tcp:// URLs with --hold",
            (_, true) => "a load of --sse",
            _ => "ws:// URLs",
        };
        Err(format!("{flag} is not for {urls}"))
    }

    /// The options of the load that holds connections.
    pub(in crate::load) fn websocket_options(&self) -> Result<WebSocketOptions, String> {
        let is_tcp = self.is_tcp();
        let [url] = self.urls.as_slice() else {
            let what = match (is_tcp, self.websocket.sse) {
                (true, _) => "held connections",
                (_, true) => "event streams",
                _ => "WebSockets",
            };
            return Err(format!("a load of {what} has one URL"));
        };
        self.check_flags_of_held(is_tcp)?;
        let flags = &self.websocket;
        let constant = |rate: Option<(f64, f64)>, flag: &str| match rate {
            Some((from, to)) if from.to_bits() != to.to_bits() => Err(format!("{flag}: one rate, for ws:// URLs")),
            rate => Ok(rate.map(|(rate, _)| rate)),
        };
        let wrong = |error| format!("{url}: {error}");
        let url = match (is_tcp, flags.sse) {
            (true, _) => Url::parse_tcp(url).map_err(wrong)?,
            (_, true) => url.parse().map_err(wrong)?,
            _ => parse_url(url)?,
        };
        let tls = self.tls.options(url.tls)?;
        let sound = WebSocketOptions::new(url);
        let storm_default = flags.storm.map(|_| RECONNECT_DEFAULT);
        let rooms = flags.rooms.map(|rooms| u32::try_from(rooms).map_err(|_| "--rooms: too many".to_owned()));
        let options = WebSocketOptions {
            connections: self.connections.map_or(sound.connections, |count| count as usize),
            threads: self.threads.unwrap_or(THREADS_DEFAULT),
            processes: self.processes.count(),
            ramp: constant(flags.ramp, "--ramp")?.unwrap_or(sound.ramp),
            hold: flags.hold.or(self.duration).unwrap_or(sound.hold),
            heartbeat: flags.heartbeat,
            rate: constant(self.rate, "--rate")?.unwrap_or(sound.rate),
            message_bytes: flags.message_size.map_or(sound.message_bytes, |bytes| bytes as usize),
            rooms: rooms.transpose()?,
            join: flags.join.clone(),
            stall: flags.stall.unwrap_or(sound.stall),
            reconnect: flags.reconnect.or(storm_default),
            storm: flags.storm,
            events: flags.sse.then(|| EventOptions {
                time: flags.event_time.clone(),
                in_sequence: flags.event_sequence,
                http2: self.http2,
            }),
            fields: self.fields()?,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            drain: self.drain,
            sources: self.source.concat(),
            interval: self.interval,
            seed: self.seed,
            places: self.places.places(),
            plan: !self.no_plan,
            tls,
            ..sound
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_storms_are_read() {
        assert_eq!((parse_share("10%"), parse_share("0.5")), (Ok(0.1), Ok(0.5)));
        assert!(parse_share("110%").is_err() && parse_share("x").is_err());
        assert_eq!(parse_storm("10s:100%"), Ok(Storm { after: Duration::from_secs(10), share: 1.0 }));
        assert!(parse_storm("10s").is_err());
    }
}
