//! TCP and UDP services: `ConfigMap`s with `PORT: namespace/service:port[:PROXY][:PROXY]`.

use super::backends;
use crate::assembly::{Assembly, BackendWish, Target};
use crate::config_map::Global;
use crate::objects::networking::ServicePortReference;
use crate::{Kind, Level, Name, ObjectName};

/// Most ports of one `ConfigMap`: each is a listener.
const PORTS_MAX: usize = 1024;

/// Writes both.
pub(super) fn write(assembly: &mut Assembly<'_>, global: &Global) {
    let settings = assembly.settings;
    for (name, udp) in [(&settings.tcp_services, false), (&settings.udp_services, true)] {
        let Some(name) = name else { continue };
        let owner = ObjectName { kind: Kind::ConfigMap, name: name.clone() };
        if assembly.is_refused(&owner) {
            continue;
        }
        let Some(map) = assembly.cluster.config_maps.get(name) else { continue };
        for (port, text) in map.data.iter().take(PORTS_MAX) {
            if let Err(message) = one(assembly, global, &owner, port, text, udp) {
                let message = format!("\"{}\": {message}", port.escape_debug());
                assembly.find(&owner, Level::Refused, "WrongService", message);
            }
        }
    }
}

fn one(
    assembly: &mut Assembly<'_>,
    global: &Global,
    owner: &ObjectName,
    port: &str,
    text: &str,
    udp: bool,
) -> Result<(), String> {
    let port: u16 = port.trim().parse().ok().filter(|port| *port > 0).ok_or("not a port")?;
    let mut parts = text.trim().split(':');
    let (namespace, service) =
        parts.next().and_then(|name| name.split_once('/')).ok_or("not namespace/service:port")?;
    let wanted = parts.next().ok_or("the port of the Service is missing")?;
    let decode = parts.next().is_some_and(|word| word.eq_ignore_ascii_case("proxy"));
    let encode = parts.next().is_some_and(|word| word.eq_ignore_ascii_case("proxy"));
    let reference = match wanted.parse() {
        Ok(number) => ServicePortReference { number, name: String::new() },
        Err(_) => ServicePortReference { number: 0, name: wanted.to_owned() },
    };
    let backend = backends::of_service(assembly, &Name::new(namespace, service), Some(&reference), false, udp)?;
    let wish = BackendWish {
        targets: vec![Target { place: backend.place, weight: 1 }],
        stream: true,
        ..BackendWish::default()
    };
    let upstream = assembly.upstream(owner, &wish);
    let origin = assembly.origin(owner);
    let mut lines = vec![origin.line("proxy_timeout", [&global.stream_timeout])];
    if udp {
        lines.push(origin.line("proxy_responses", [global.stream_responses.to_string()]));
    }
    if encode && !udp {
        lines.push(origin.line("proxy_protocol", ["on"]));
    }
    let options: &[&str] = if decode && !udp { &["proxy_protocol"] } else { &[] };
    assembly
        .forward(owner, (port, udp), &upstream, lines, options)
        .map_err(|conflict| format!("{} already has {}", conflict.winner, conflict.what))
}
