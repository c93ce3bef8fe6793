//! The example for gRPC, between a client and servers of others (Python's grpcio).

use crate::examples::run::Example;
use crate::h2::grpc::{ERRORS, KINDS, Server, python, run};
use testkit::{Http2Talk, Refusing};

#[test]
fn all_kinds_of_calls_survive_a_stopping_server() {
    let Some(python) = python() else { return };
    let servers = [Server::start(&python, &[]), Server::start(&python, &[])];
    let peers = [("127.0.0.1:9431", servers[0].address), ("127.0.0.1:9432", servers[1].address)];
    let site = Example::start("grpc.conf", &peers, &[]);
    let address = site.gateway.address();
    assert_eq!(run(&python, address, "kinds"), KINDS);
    assert_eq!(run(&python, address, "errors"), ERRORS);
    assert_eq!(run(&python, address, "left"), "without none\nwith True\n");
    assert_eq!(run(&python, address, "many"), "many 1000 {'OK'}\n");
    let [first, _second] = servers;
    drop(first);
    assert_eq!(run(&python, address, "kinds"), KINDS);
}

#[test]
fn gateway_errors_become_grpc_statuses() {
    let refusing = [Refusing::new(), Refusing::new()];
    let peers = [("127.0.0.1:9431", refusing[0].address()), ("127.0.0.1:9432", refusing[1].address())];
    let site = Example::start("grpc.conf", &peers, &[]);
    let mut client = Http2Talk::connect(site.gateway.address());
    let mut status = |path: &str| {
        let fields = [("content-type", "application/grpc"), ("te", "trailers")];
        let stream = client.open("POST", path, &fields, true);
        client.answer(stream).value("grpc-status").map(str::to_owned)
    };
    assert_eq!(status("/shop.Orders/List").as_deref(), Some("14"), "UNAVAILABLE");
    assert_eq!(status("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").as_deref(), Some("7"));
}
