"""An agent that takes runs of other hosts."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from places import Place, ended


class Agent:
    """An agent in a place of its own that listens on loopback; runs lie under `runs`."""

    def __init__(self, runs: Path, listen: str = "tcp://127.0.0.1:0", host: tuple[str, ...] = ()) -> None:
        self.host = host
        self.place = Place()
        self.runs = runs
        self.pid = 0
        self.address = ""
        self.up(listen)

    def up(self, listen: str | None = None) -> None:
        """Starts it, again at the same address when none is given."""
        listen = listen or self.address.replace("fb://", "tcp://")
        words = ("up", "--listen", listen, "--runs", self.runs, "--json")
        said = json.loads(ended(self.place.forebay(*words, under=self.host))[0])
        self.pid, self.address = said["pid"], said["address"]

    def url(self, path: Path) -> str:
        """How a run under `runs` is named from another host."""
        return f"{self.address}/{path.relative_to(self.runs)}"

    def kill(self) -> None:
        """Ends it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Has it drain and go."""
        self.place.close()


class Proxy:
    """A line that can be cut: it hands bytes on between here and an address."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("fb://").rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"fb://127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_cut = False
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

    def heal(self) -> None:
        """Lets connections through again."""
        self.is_cut = False

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


class Hosts:
    """Two hosts with a cable between them: network namespaces of this machine, gone at the end."""

    def __init__(self) -> None:
        self.names = [f"fb{os.getpid()}{side}" for side in "ab"]
        subnet = f"10.{os.getpid() // 250 % 250}.{os.getpid() % 250}"
        self.addresses = [f"{subnet}.{n}" for n in (1, 2)]
        try:
            for name in self.names:
                self._ip("netns", "add", name)
                self._ip("-n", name, "link", "set", "lo", "up")
            a, b = self.names
            self._ip("-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b)
            for name, address in zip(self.names, self.addresses, strict=True):
                self._ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            self.join(True)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _ip(*words: str, check: bool = True) -> None:
        subprocess.run(["ip", *words], check=check, capture_output=True, timeout=20)

    @staticmethod
    def possible() -> bool:
        """Whether this user may make hosts."""
        if shutil.which("ip") is None:
            return False
        name = f"fbtry{os.getpid()}"
        made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, timeout=20)
        Hosts._ip("netns", "delete", name, check=False)
        return made.returncode == 0

    def on(self, n: int) -> tuple[str, ...]:
        """What stands before a command that runs on the n-th host."""
        return ("ip", "netns", "exec", self.names[n])

    def join(self, joined: bool) -> None:
        """Puts the cable in, or pulls it out."""
        for name in self.names:
            self._ip("-n", name, "link", "set", "cable", "up" if joined else "down")

    def close(self) -> None:
        """Removes the hosts."""
        for name in self.names:
            self._ip("netns", "delete", name, check=False)
