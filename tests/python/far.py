"""An agent that takes runs of other hosts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
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


def listening(pid: int) -> list[tuple[str, int]]:
    """The addresses at which a process listens on the network."""
    own = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(entry))
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        host, port = words[1].split(":")
        if words[3] == "0A" and f"socket:[{words[9]}]" in own:
            found.append((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    return found


@contextlib.contextmanager
def hidden_sockets(place: Place, pid: int) -> Iterator[None]:
    """The sockets of a server are not to be seen: who wants it comes over the network, as from a container."""
    folder = Path(place.variables["FOREBAY_RUNTIME_DIR"])
    own = [name for name in place.sockets() if f"-{pid}-" in name]
    assert own, "the server has no socket"
    for name in own:
        (folder / name).rename(folder / f"{name}.hidden")
    yield
    for name in own:
        (folder / f"{name}.hidden").rename(folder / name)


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
