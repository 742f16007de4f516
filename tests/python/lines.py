"""Lines between two processes that can be cut, or are slow: user space hands on the bytes."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time


class Proxy:
    """A line that can be cut: it hands bytes on between here and an address."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("fb://").rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"fb://127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_cut = False
        self.most: int | None = None
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.carried = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self.listener.accept()
            except OSError:
                return
            if self.is_cut:
                ours.close()
                continue
            theirs = socket.create_connection(self.target)
            self.pairs.append((ours, theirs))
            for a, b in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := a.recv(1 << 16):
                if self.most is not None and self.carried + len(data) >= self.most:
                    self.cut()
                    return
                b.sendall(data)
                self.carried += len(data)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Ends every connection; new ones end at once."""
        self.is_cut = True
        for pair in self.pairs:
            for s in pair:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def cut_after(self, more: int) -> None:
        """Cuts it when so many more bytes have been handed on, in both directions together."""
        self.most = self.carried + more

    def heal(self) -> None:
        """Lets connections through again."""
        self.is_cut, self.most = False, None

    def close(self) -> None:
        """Ends it."""
        self.cut()
        self.listener.close()


class SlowLine(Proxy):
    """A line of so many bytes a second and so long a way, each way, with a tenth of a second of queue."""

    def __init__(self, address: str, rate: float, way: float) -> None:
        self.rate, self.way = rate, way
        super().__init__(address)

    def _carry(self, a: socket.socket, b: socket.socket) -> None:
        a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        piece = 4096
        waiting: queue.Queue[tuple[float, bytes]] = queue.Queue(int(self.rate * 0.1 / piece) + 4)
        threading.Thread(target=self._deliver, args=(waiting, b), daemon=True).start()
        free = time.monotonic()
        with contextlib.suppress(OSError):
            while data := a.recv(piece):
                free = max(free, time.monotonic()) + len(data) / self.rate
                waiting.put((free + self.way, data))
        waiting.put((free + self.way, b""))

    def _deliver(self, waiting: queue.Queue[tuple[float, bytes]], to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    to.shutdown(socket.SHUT_RDWR)
                    return
                to.sendall(data)
                self.carried += len(data)
