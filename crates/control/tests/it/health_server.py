"""A gRPC server with the standard health service, without generated code. Prints its port. Each line of the input is the health of the
service `shop.Orders` from then on: SERVING or NOT_SERVING; `leave` ends the server. It knows no other service."""
import asyncio
import sys
import grpc

STATES = {"SERVING": b"\x08\x01", "NOT_SERVING": b"\x08\x02"}


class Health(grpc.GenericRpcHandler):
    def __init__(self):
        self.state = STATES["SERVING"]

    def service(self, call):
        if call.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(self.check)

    async def check(self, request, context):
        # HealthCheckRequest: field 1, a string.
        if request != b"\x0a\x0bshop.Orders":
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return self.state


async def main():
    server = grpc.aio.server()
    health = Health()
    server.add_generic_rpc_handlers((health,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    while (line := (await asyncio.to_thread(sys.stdin.readline)).strip()) in STATES:
        health.state = STATES[line]
    await server.stop(None)


asyncio.run(main())
