"""A client of another make: it knows spec/wire.md and nothing else of Forebay, and its machine is big endian."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
import socket
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = 10
HELLO, WELCOME, ASK, ANSWER, ERROR, CHALLENGE, PROOF, BEAT, PIECE = 1, 2, 3, 4, 5, 7, 8, 14, 15
REQUEST, REPLY = 0x10, 0x11
BODY_APART, BIG_ENDIAN = 1, 2
PIECE_BYTES = 256 * 1024
INLINE_BYTES = 4096
CODES = {"i32": 3, "i64": 4, "f64": 10, "c128": 12}
Array = np.ndarray[Any, np.dtype[Any]]


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def crc32c(data: bytes) -> int:
    """The checksum of a header."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def header(kind: int, number: int = 0, ident: int = 0, flags: int = 0, text: int = 0, body: int = 0) -> bytes:
    """The 64 bytes before a frame."""
    head = struct.pack("<4sHHQIIQQ20x", b"FBAY", VERSION, kind, ident, flags, text, body, number)
    return head + struct.pack("<I", crc32c(head))


class Connection:
    """One that has come through the greeting."""

    def __init__(self, address: str, secret: bytes) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        nonce = secrets.token_bytes(32)
        self.say(HELLO, {"version": VERSION, "nonce": nonce.hex()})
        challenge = self.hear(CHALLENGE)
        seen = struct.pack("<I", VERSION) + nonce + bytes.fromhex(challenge["nonce"]) + bytes(32)
        peer = {"version": VERSION, "role": "client", "pid": 1, "program": "a stranger"}
        proof = self.proof(secret, b"connecting", seen)
        self.say(PROOF, {"nonce": challenge["nonce"], "proof": proof, "peer": peer})
        welcome = self.hear(WELCOME)
        assert welcome["proof"] == self.proof(secret, b"accepting", seen)

    @staticmethod
    def proof(secret: bytes, side: bytes, seen: bytes) -> str:
        words = b"forebay proof of the " + side + b" side\0" + seen
        return hmac.new(secret, words, hashlib.sha256).hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def exactly(self, n: int) -> bytes:
        parts = []
        while n:
            part = self.socket.recv(n)
            assert part, "the other side hung up"
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def frame(self) -> tuple[int, int, int, int, bytes]:
        """Kind, id, flags, number and what stands behind the header of the next frame."""
        head = self.exactly(64)
        magic, version, kind, ident, flags, text, body, number = struct.unpack("<4sHHQIIQQ20x", head[:60])
        assert (magic, version) == (b"FBAY", VERSION)
        assert struct.unpack("<I", head[60:])[0] == crc32c(head[:60])
        return kind, ident, flags, number, self.exactly(text + body)

    def say(self, kind: int, words: object, ident: int = 0) -> None:
        text = json.dumps(words).encode()
        self.socket.sendall(header(kind, ident=ident, text=len(text)) + text)

    def hear(self, expected: int) -> Any:
        kind, _, _, _, text = self.frame()
        assert kind == expected, text
        return json.loads(text)

    def ask(self, request: object) -> Any:
        self.say(ASK, request, 1)
        return self.hear(ANSWER)


class Link(Connection):
    """A call link to a server."""

    def __init__(self, address: str, secret: bytes) -> None:
        super().__init__(address, secret)
        self.ask({"Attach": {"client": secrets.randbits(64)}})
        self.next = 1

    def call(self, service: str, *args: Array) -> list[Array]:
        """Calls with arrays, whose numbers go as this machine has them; the arrays that come back."""
        items, inline, parts = [], b"", []
        for array in args:
            data = array.astype(array.dtype.newbyteorder(">")).tobytes()
            code = CODES[{"i": "i32", "l": "i64", "d": "f64", "D": "c128"}[array.dtype.char]]
            words = struct.pack(f"<BBBB{array.ndim}Q", 2, code, 0, array.ndim, *array.shape)
            if len(data) <= INLINE_BYTES:
                words += struct.pack("<BII", 0, len(inline), len(data))
                inline += data + bytes(-len(data) % 16)
            else:
                words += struct.pack("<BIIQ", 1, 0, len(parts), len(data))
                parts.append(data)
            items.append(words)
        name = service.encode()
        words = struct.pack("<QQII", 0, 0, 0, len(name)) + name + bytes([len(args)]) + b"".join(items)
        # Inline data begin at a multiple of 16 of a frame as a ring holds it, with 16 bytes before it.
        body = words + bytes(-(16 + len(words)) % 16) + inline
        table = struct.pack(f"<{len(parts)}Q", *map(len, parts))
        ident, self.next = self.next, self.next + 1
        whole = table + body
        self.socket.sendall(
            header(REQUEST, number=len(parts), ident=ident, flags=BIG_ENDIAN, body=len(whole)) + whole
        )
        for index, part in enumerate(parts):
            for at in range(0, len(part), PIECE_BYTES):
                piece = part[at : at + PIECE_BYTES]
                self.socket.sendall(header(PIECE, number=index, ident=ident, body=len(piece)) + piece)
        return self.reply(ident)

    def reply(self, wanted: int) -> list[Array]:
        """The arrays of the reply, made right."""
        body, flags, lengths, parts = b"", 0, [], []
        while True:
            kind, ident, with_it, number, data = self.frame()
            if kind == BEAT:
                continue
            assert ident == wanted
            if kind == REPLY:
                lengths = list(struct.unpack_from(f"<{number}Q", data))
                body, flags, parts = data[8 * number :], with_it, [b""] * number
            else:
                assert kind == PIECE
                parts[number] += data
            if lengths == [len(part) for part in parts]:
                break
        assert not flags & BODY_APART
        order = ">" if flags & BIG_ENDIAN else "<"
        code, _, _, _, _, length = struct.unpack_from("<IIIQQI", body)
        at = 32 + length
        assert code == 0, body[32:at].decode()
        count, at = body[at], at + 1
        found: list[tuple[int, tuple[int, ...], int | None, int]] = []
        for _ in range(count):
            tag, dtype, _, rank = struct.unpack_from("<BBBB", body, at)
            assert tag == 2
            shape = struct.unpack_from(f"<{rank}Q", body, at + 4)
            at += 4 + 8 * rank
            if body[at] == 0:
                found.append((dtype, shape, None, struct.unpack_from("<I", body, at + 1)[0]))
                at += 9
            else:
                assert body[at] == 1
                found.append((dtype, shape, struct.unpack_from("<I", body, at + 5)[0], 0))
                at += 17
        data_at = at + -at % 16
        arrays = []
        kinds = {3: "i4", 4: "i8", 10: "f8", 12: "c16"}
        for dtype, shape, index, offset in found:
            source, start = (body, data_at + offset) if index is None else (parts[index], 0)
            flat = np.frombuffer(source, order + kinds[dtype], math.prod(shape), start)
            arrays.append(flat.reshape(shape))
        return arrays
