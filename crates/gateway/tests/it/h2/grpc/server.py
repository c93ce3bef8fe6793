"""A gRPC server without generated code: messages are bytes. Prints its port, then a line for each call that was cancelled."""
import asyncio
import sys
import grpc


class Calls(grpc.GenericRpcHandler):
    def service(self, call):
        kinds = {
            "/t.T/Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "/t.T/Server": grpc.unary_stream_rpc_method_handler(self.server),
            "/t.T/Client": grpc.stream_unary_rpc_method_handler(self.client),
            "/t.T/Bidi": grpc.stream_stream_rpc_method_handler(self.bidi),
            "/t.T/Wait": grpc.unary_unary_rpc_method_handler(self.wait),
            "/t.T/First": grpc.stream_stream_rpc_method_handler(self.first),
        }
        return kinds.get(call.method)

    async def unary(self, request, context):
        known = dict(context.invocation_metadata())
        await context.send_initial_metadata((("x-initial", known.get("x-sent", "none")),))
        context.set_trailing_metadata((("x-trailing", "behind"), ("x-bytes-bin", b"\x00\xff")))
        if request == b"fail":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing, at all: ü")
        if request == b"left":
            left = context.time_remaining()
            return b"none" if left is None else str(int(left * 1000)).encode()
        return request

    async def server(self, request, context):
        for number in range(int(request)):
            yield str(number).encode()

    async def client(self, requests, context):
        count = size = 0
        async for request in requests:
            count, size = count + 1, size + len(request)
        return f"{count} {size}".encode()

    async def bidi(self, requests, context):
        async for request in requests:
            yield request + b"!"

    async def first(self, requests, context):
        yield b"hello before the first request"
        async for request in requests:
            yield request

    async def wait(self, request, context):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("cancelled", request.decode(), flush=True)
            raise
        return b"late"


async def main():
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((Calls(),))
    if len(sys.argv) > 2:
        with open(sys.argv[1], "rb") as key, open(sys.argv[2], "rb") as certificate:
            pair = grpc.ssl_server_credentials([(key.read(), certificate.read())])
        port = server.add_secure_port("127.0.0.1:0", pair)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


asyncio.run(main())
