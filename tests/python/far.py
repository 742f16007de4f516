"""An agent that takes runs of other hosts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from pathlib import Path

from places import Place


class Agent:
    """An agent in a place of its own that listens on loopback; runs lie under `runs`."""

    def __init__(self, runs: Path, listen: str = "tcp://127.0.0.1:0") -> None:
        self.place = Place()
        self.runs = runs
        self.pid = 0
        self.address = ""
        self.up(listen)

    def up(self, listen: str | None = None) -> None:
        """Starts it, again at the same address when none is given."""
        listen = listen or self.address.replace("fb://", "tcp://")
        said = json.loads(self.place.command("up", "--listen", listen, "--runs", self.runs, "--json"))
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
