//! The result of staging the small experiment for each of its arms, with options, and as a control.

use lab::experiment::{Client, Form, NetworkKind, Order, Probe, Ready};
use lab::plan::{Amount, Content, Program, Site, Staged, addresses, staged};
use lab::{Adaptation, Experiment, Loaded};
use std::net::Ipv4Addr;
use std::path::Path;

fn loaded() -> Loaded {
    let mut beside = |_: &str| Ok("{{proxy}}".to_owned());
    Experiment::parse(include_str!("small.toml"), "small.toml", &mut beside).expect("whole")
}

fn stage(experiment: &Experiment, arm: &str, network: NetworkKind) -> Staged {
    let places = loaded().places;
    let site = Site { folder: Path::new("/run/7"), network, places: &places };
    staged(experiment, arm, site).expect("it was checked")
}

#[test]
fn an_arm_is_the_topology_with_everything_filled_in() {
    let pooled = stage(&loaded().experiment, "pooled", NetworkKind::Hosts);
    let hosts: Vec<(&str, Vec<String>)> = pooled
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.addresses.iter().map(Ipv4Addr::to_string).collect()))
        .collect();
    let expected =
        [("client", vec!["10.77.0.1"]), ("origin", vec!["10.77.1.1"]), ("proxy", vec!["10.77.2.1", "10.77.2.2"])];
    assert_eq!(hosts, expected.map(|(name, addresses)| (name, addresses.into_iter().map(str::to_owned).collect())));
    assert_eq!(pooled.hosts[2].sysctls["net.core.somaxconn"], "512");

    let [origin, proxy] = pooled.processes.as_slice() else { panic!("{:?}", pooled.processes) };
    assert_eq!((&origin.program, origin.arguments[2].as_str()), (&Program::Holdfast, "10.77.1.1:8081"));
    assert_eq!((origin.conf.as_ref(), origin.files.len(), origin.place.as_str()), (None, 0, "small.toml:33:1"));
    assert_eq!((&proxy.program, proxy.host.as_str(), proxy.descriptors), (&Program::Nginx, "proxy", Some(1024)));
    assert_eq!(proxy.conf.as_deref(), Some(Path::new("/run/7/proxy/nginx.conf")));
    assert_eq!(proxy.ready, Some(Ready::Tcp("10.77.2.2:8080".to_owned())));
    let files: Vec<(&str, &Content)> =
        proxy.files.iter().map(|file| (file.path.to_str().expect("text"), &file.content)).collect();
    let conf = "pid /run/7/proxy/nginx.pid;\nhttp {\n    upstream origin { server 10.77.1.1:8081; keepalive 30; }\n    \
                server { listen 10.77.2.2:8080; root /run/7/proxy; include /run/7/proxy/more.conf; }\n}\n";
    let text = |text: &str| Content::Text(text.to_owned());
    let expected = [
        ("/run/7/proxy/more.conf", text("index /run/7/proxy/page.html;")),
        ("/run/7/proxy/nginx.conf", text(conf)),
        // A file that the included file refers to is also there, and is a template itself.
        ("/run/7/proxy/page.html", text("10.77.2.1")),
    ];
    assert_eq!(files, expected.each_ref().map(|(path, content)| (*path, content)));

    let load = &pooled.loads[0];
    assert_eq!((load.name.as_str(), load.host.as_str(), load.amount), ("client", "client", Amount::Requests(1000)));
    assert_eq!(
        (load.url.as_str(), load.arguments.as_slice()),
        ("http://10.77.2.2:8080/", ["-c", "30"].map(str::to_owned).as_slice())
    );
    assert!(matches!(&pooled.probes[0], Probe::Port { port: 8081, .. }));
    assert_eq!((pooled.place.as_str(), pooled.network), ("small.toml:65:1", NetworkKind::Hosts));
}

#[test]
fn arms_differ_in_their_own_settings() {
    let experiment = loaded().experiment;
    let direct = stage(&experiment, "direct", NetworkKind::Hosts);
    assert_eq!((direct.processes.len(), direct.loads[0].url.as_str()), (1, "http://10.77.1.1:8081/"));
    let unpooled = stage(&experiment, "unpooled", NetworkKind::Hosts);
    assert_eq!((&unpooled.processes[1].program, unpooled.processes[1].descriptors), (&Program::Holdfast, Some(2048)));
    assert_eq!(unpooled.loads[0].arguments, ["-c", "30", "-k"]);
    assert_eq!(Program::parse("/usr/bin/env"), Program::Command("/usr/bin/env".to_owned()));
    let places = loaded().places;
    let site = Site { folder: Path::new("/"), network: NetworkKind::Hosts, places: &places };
    let faults = staged(&experiment, "poold", site).expect_err("no such arm");
    assert_eq!(faults[0].to_string(), "arm: there is no arm \"poold\" (did you mean `pooled`?)");
}

#[test]
fn waiting_arm_needs_no_url() {
    let mut experiment = loaded().experiment;
    experiment.loads[0].url = "http://{{proxy.2}}:{{port}}/".to_owned();
    experiment.arms.truncate(1);
    experiment.arms[0].url = None;
    experiment.arms[0].clients.insert("client".to_owned(), Client::Floor);
    let waits = stage(&experiment, "direct", NetworkKind::Hosts);
    assert_eq!((waits.loads[0].program, waits.loads[0].url.as_str()), (Client::Floor, ""));
}

#[test]
fn without_namespaces_hosts_are_addresses_of_a_loopback() {
    let pooled = stage(&loaded().experiment, "pooled", NetworkKind::Loopback);
    assert_eq!(pooled.hosts[2].addresses, [Ipv4Addr::new(127, 77, 2, 1), Ipv4Addr::new(127, 77, 2, 2)]);
    assert_eq!(addresses(NetworkKind::Namespace, 0, 1), [Ipv4Addr::LOCALHOST]);
    assert_eq!(addresses(NetworkKind::Hosts, 3, 1000).len(), 250);
}

#[test]
fn quick_and_options_change_only_their_keys() {
    let mut experiment = loaded().experiment;
    experiment.quick.rounds = Some(3);
    experiment.quick.requests = Some(10);
    experiment.quick.seconds = Some(9.0);
    experiment.quick.arms = vec!["pooled".to_owned(), "direct".to_owned()];
    experiment.quick.values.insert("pool".to_owned(), "keepalive 4;".to_owned());
    let how = Adaptation { quick: true, order: Some(Order::Mirrored), ..Adaptation::default() };
    let quick = experiment.adapted(&how).expect("all is there");
    let arms: Vec<&str> = quick.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!((arms, quick.method.rounds, quick.method.order), (vec!["direct", "pooled"], 3, Order::Mirrored));
    assert_eq!((quick.loads[0].requests, quick.loads[0].seconds), (Some(10), None));
    assert!(quick.arms.iter().all(|arm| arm.values["pool"] == "keepalive 4;"));
    assert_eq!(quick.claims, experiment.claims, "what is not run is listed as such, and not left out");

    experiment.claims[0].only = Some(Form::Full);
    experiment.claims[1].only = Some(Form::Quick);
    let claimed = |how: &Adaptation| {
        let claims = experiment.adapted(how).expect("all is there").claims;
        claims.into_iter().map(|claim| claim.only).collect::<Vec<_>>()
    };
    assert_eq!(claimed(&how), [Some(Form::Quick)]);
    assert_eq!(claimed(&Adaptation::default()), [Some(Form::Full)]);

    let how = Adaptation { rounds: Some(9), arms: vec!["unpooled".to_owned()], ..how };
    let chosen = experiment.adapted(&how).expect("all is there");
    assert_eq!((chosen.method.rounds, chosen.arms[0].name.as_str(), chosen.arms.len()), (9, "unpooled", 1));
    let refused = |how: Adaptation| experiment.adapted(&how).expect_err("it is not there");
    let error = refused(Adaptation { arms: vec!["poold".to_owned()], ..Adaptation::default() });
    assert_eq!(error, "small has no arm \"poold\": did you mean `pooled`?");
    let error = refused(Adaptation { rounds: Some(0), ..Adaptation::default() });
    assert_eq!(error, "0 rounds: from 1 to 100");
}

#[test]
fn control_runs_each_arm_against_itself() {
    let control =
        loaded().experiment.adapted(&Adaptation { control: true, ..Adaptation::default() }).expect("a control");
    let arms: Vec<&str> = control.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(arms, ["direct", "direct (again)", "pooled", "pooled (again)", "unpooled", "unpooled (again)"]);
    let asked: Vec<(&str, &str, Option<&str>)> = control
        .claims
        .iter()
        .map(|claim| (claim.figure.as_str(), claim.of.as_str(), claim.against.as_deref()))
        .collect();
    let expected = [
        ("requests_per_second", "pooled (again)", Some("pooled")),
        ("requests_per_second", "unpooled (again)", Some("unpooled")),
        ("sockets.upstream.TIME_WAIT.net", "unpooled (again)", Some("unpooled")),
    ];
    assert_eq!(asked, expected);
    let (one, again) =
        (stage(&control, "pooled", NetworkKind::Hosts), stage(&control, "pooled (again)", NetworkKind::Hosts));
    assert_eq!((one.processes, one.loads, one.hosts), (again.processes, again.loads, again.hosts));
}
