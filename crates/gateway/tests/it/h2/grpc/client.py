"""A gRPC client without generated code. ADDRESS SCENARIO: prints what came of the scenario, one line for each step."""
import asyncio
import sys
import grpc

BIG = 16 * 1024 * 1024
STREAMS = 1000


def said(name, error):
    print(name, error.code().name, error.details(), flush=True)


async def kinds(channel):
    unary = channel.unary_unary("/t.T/Unary")
    call = unary(b"hello", metadata=(("x-sent", "there"),))
    answer = await call
    initial = {name: value for name, value in await call.initial_metadata()}
    trailing = {name: value for name, value in await call.trailing_metadata()}
    print("unary", answer.decode(), initial.get("x-initial"), trailing.get("x-trailing"), trailing.get("x-bytes-bin"))
    call = channel.unary_stream("/t.T/Server")(b"100")
    print("server", [item async for item in call] == [str(number).encode() for number in range(100)])

    async def items():
        for number in range(200):
            yield b"x" * number

    print("client", (await channel.stream_unary("/t.T/Client")(items())).decode())
    call = channel.stream_stream("/t.T/Bidi")()
    for number in range(50):
        await call.write(str(number).encode())
        got = await call.read()
        assert got == str(number).encode() + b"!", got
    await call.done_writing()
    print("bidi", await call.read() is grpc.aio.EOF, (await call.code()).name)
    call = channel.stream_stream("/t.T/First")()
    print("first", (await call.read()).decode())
    await call.write(b"answer")
    print("then", (await call.read()).decode())
    await call.done_writing()
    print("end", (await call.code()).name)


async def errors(channel):
    for path, request in (("/t.T/Unary", b"fail"), ("/t.T/Nothing", b"")):
        try:
            await channel.unary_unary(path)(request)
        except grpc.aio.AioRpcError as error:
            said(path, error)


async def large(channel):
    body = bytes(BIG)
    answer = await channel.unary_unary("/t.T/Unary")(body)
    print("large", len(answer), answer == body)


async def many(channel):
    async def one(number):
        call = channel.stream_stream("/t.T/Bidi")()
        for step in range(3):
            await call.write(f"{number} {step}".encode())
            assert await call.read() == f"{number} {step}!".encode()
        return call

    calls = await asyncio.gather(*(one(number) for number in range(STREAMS)))
    for call in calls:
        await call.done_writing()
    codes = [(await call.code()).name for call in calls]
    print("many", len(codes), set(codes))


async def cancel(channel):
    call = channel.unary_unary("/t.T/Wait")(b"me")
    await asyncio.sleep(0.5)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        print("cancelled", (await call.code()).name)


async def left(channel):
    unary = channel.unary_unary("/t.T/Unary")
    print("without", (await unary(b"left")).decode())
    known = int(await unary(b"left", timeout=30))
    # gRPC's own library rounds the field up.
    print("with", 20_000 < known <= 31_000)


async def unavailable(channel):
    try:
        await channel.unary_unary("/t.T/Unary")(b"")
    except grpc.aio.AioRpcError as error:
        said("unary", error)


async def main():
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(sys.argv[1], options=options) as channel:
        await asyncio.wait_for(globals()[sys.argv[2]](channel), 60)


asyncio.run(main())
