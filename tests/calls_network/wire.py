"""A cable between two network interfaces, as bad as a test wants it.

    wire.py plain IFACE       every frame leaves IFACE whole and with its checksum, as on a real cable
    wire.py run IFACE IFACE   passes frames on; standard input says how, a line each:
                              delay SECONDS | loss FRACTION | rate BYTES_PER_S | cut | heal | seen HEX | waiting BYTES
                              each is answered by a line: ok, or for seen and waiting: yes, no

Beside `tc netem`, which not every kernel has, this needs root in the namespace and nothing else.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import random
import select
import socket
import struct
import sys
import time
from collections import deque

SIOCETHTOOL = 0x8946
# Receive and transmit checksums, segmentation by the interface, joining of what is received.
OFFLOADS = (0x15, 0x17, 0x1F, 0x24, 0x2C)
# What a queue before a slow cable holds.
QUEUE_BYTES = 256 * 1024


def plain(name: str) -> None:
    """Takes from an interface what real ones leave to hardware."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in OFFLOADS:
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            # An interface without it needs none of it.
            with contextlib.suppress(OSError):
                fcntl.ioctl(s, SIOCETHTOOL, request)


class Way:
    """One direction of the cable."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.bytes = 0
        self.free = 0.0


class Cable:
    """Both directions and how bad they are."""

    def __init__(self, one: str, other: str) -> None:
        a, b = self.open(one), self.open(other)
        self.ways = [Way(a, b), Way(b, a)]
        self.delay, self.loss, self.rate, self.cut = 0.0, 0.0, 0.0, False
        self.seen = bytearray()
        self.dice = random.Random(7)

    @staticmethod
    def open(name: str) -> socket.socket:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.bind((name, 0))
        s.setblocking(False)
        return s

    def obey(self, line: str) -> str:
        word, _, value = line.strip().partition(" ")
        if word == "seen":
            return "yes" if bytes.fromhex(value) in self.seen else "no"
        if word == "waiting":
            return "yes" if any(way.bytes >= int(value) for way in self.ways) else "no"
        if word in ("cut", "heal"):
            self.cut = word == "cut"
        else:
            setattr(self, word, float(value))
        return "ok"

    def take(self, way: Way) -> None:
        """Takes in what has come at one end."""
        while True:
            try:
                frame, address = way.source.recvfrom(65536)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING:
                continue
            self.seen += frame
            if len(self.seen) > 4 << 20:
                del self.seen[: 3 << 20]
            lost = self.cut or self.dice.random() < self.loss
            if lost or (self.rate and way.bytes > QUEUE_BYTES):
                continue
            now = time.monotonic()
            way.free = max(now, way.free) + (len(frame) / self.rate if self.rate else 0.0)
            way.waiting.append((way.free + self.delay, frame))
            way.bytes += len(frame)

    def give(self, way: Way) -> None:
        """Hands over what is due at the other end."""
        now = time.monotonic()
        while way.waiting and way.waiting[0][0] <= now:
            _, frame = way.waiting.popleft()
            way.bytes -= len(frame)
            if not self.cut:
                # Full or down: a frame is lost, as on a real cable.
                with contextlib.suppress(OSError):
                    way.sink.send(frame)

    def run(self) -> None:
        """Passes frames on until standard input ends."""
        sources = [way.source for way in self.ways]
        while True:
            due = [way.waiting[0][0] for way in self.ways if way.waiting]
            left = max(0.0, min(due) - time.monotonic()) if due else None
            ready, _, _ = select.select([sys.stdin, *sources], [], [], left)
            if sys.stdin in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                print(self.obey(line), flush=True)
            for way in self.ways:
                self.take(way)
                self.give(way)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["plain", name]:
            plain(name)
        case ["run", one, other]:
            plain(one)
            plain(other)
            cable = Cable(one, other)
            print("ready", flush=True)
            cable.run()
        case _:
            sys.exit(__doc__)
