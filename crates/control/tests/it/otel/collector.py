"""A collector of OTLP with the official definitions: `collector.py grpc|http [code,...] [key pair]`. Refuses the first calls
with these codes. Prints its port, then a line of JSON for each call that it accepts."""
import http.server
import json
import sys
from concurrent import futures

import grpc
from google.protobuf import unknown_fields
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as stubs

kind, refusals, pair = sys.argv[1], [code for code in sys.argv[2].split(",") if code], sys.argv[3:]


def plain(value):
    which = value.WhichOneof("value")
    if which == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, which)


def attributes(of):
    return {one.key: plain(one.value) for one in of}


def span(one):
    assert not unknown_fields.UnknownFieldSet(one), one
    return {
        "trace": one.trace_id.hex(),
        "span": one.span_id.hex(),
        "parent": one.parent_span_id.hex(),
        "state": one.trace_state,
        "name": one.name,
        "kind": one.kind,
        "began": one.start_time_unix_nano,
        "ended": one.end_time_unix_nano,
        "status": one.status.code,
        "message": one.status.message,
        "attributes": attributes(one.attributes),
    }


def show(request, fields):
    [group] = request.resource_spans
    [scope] = group.scope_spans
    call = {
        "fields": fields,
        "resource": attributes(group.resource.attributes),
        "scope": scope.scope.name,
        "spans": [span(one) for one in scope.spans],
    }
    print(json.dumps(call), flush=True)


class Traces(stubs.TraceServiceServicer):
    def Export(self, request, context):
        code = refusals.pop(0) if refusals else "OK"
        if code == "PARTIAL":
            partial = service.ExportTracePartialSuccess(rejected_spans=1, error_message="too old")
            return service.ExportTraceServiceResponse(partial_success=partial)
        if code != "OK":
            context.abort(grpc.StatusCode[code], "not now, ü")
        show(request, {key: value for key, value in context.invocation_metadata() if isinstance(value, str)})
        return service.ExportTraceServiceResponse()


class Posts(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = int(refusals.pop(0)) if refusals else 200
        if code == 200:
            fields = {name.lower(): value for name, value in self.headers.items()}
            show(service.ExportTraceServiceRequest.FromString(body), fields | {"path": self.path})
        answer = service.ExportTraceServiceResponse().SerializeToString()
        self.send_response(code)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


if kind == "http":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Posts)
    print(server.server_port, flush=True)
    server.serve_forever()
server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
stubs.add_TraceServiceServicer_to_server(Traces(), server)
if pair:
    key, chain = [open(name, "rb").read() for name in pair]
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, chain)]))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
