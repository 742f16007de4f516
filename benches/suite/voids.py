"""A call without arguments on one host, from each language, beside what others do between two processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rivals
from programs import TARGET
from report import Figure
from rivals import CALLS, Contender

PART = "void calls"
# What a run of a program prints, and what it is called here.
MEASURED = {
    "client part": "client's part of a call: sent, and its answer taken later",
    "synchronous": "synchronous call",
    "asynchronous + get": "asynchronous call and its result",
    "under way": "each of many calls under way",
}
# Each beside the one of its kind that everybody has.
COMPILED, INTERPRETED = "Open MPI, ping-pong", "concurrent.futures"
LIMIT = "spin ping-pong"


def contenders(built: Path, folder: Path, broker: str, seconds: float) -> list[Contender]:
    """All of them; ours call a service in C that is served already."""
    length = str(seconds)
    found = [
        Contender("Forebay, C", [str(built / "void_forebay"), broker, length], "polls, then sleeps"),
        Contender("Forebay, Rust", [str(TARGET / "void"), broker, length], "polls, then sleeps"),
        Contender(
            "Forebay, Python",
            [sys.executable, str(CALLS / "void_python.py"), "forebay", broker, length],
            "service in C; polls, then sleeps",
        ),
    ]
    mpi = rivals.mpi()
    launched = mpi.start(2, rivals.build(mpi.compiler, built, "void_mpi.c"), length) if mpi else None
    version = mpi.name if mpi else ""
    found.append(rivals.if_here(COMPILED, launched, f"{version}; no call, messages; busy poll"))
    ice = rivals.iceoryx()
    for how, text in (("poll", "busy poll on both sides"), ("wait", "sleeps, woken by events")):
        command = [ice, how, f"{folder.name}-{how}", length] if ice else None
        setting = "request and response; 16 under way, for more are slower"
        found.append(rivals.if_here(f"iceoryx2, {text}", command, setting))
    zeromq = grpc = None
    if rivals.has("libzmq"):
        program = rivals.build("cc", built, "void_zmq.c", *rivals.flags("libzmq"))
        zeromq = [program, f"ipc://{folder}/z", length]
    if rivals.has("grpc++") and rivals.has("protobuf"):
        grpc = [grpc_program(built), f"unix:{folder}/g", length]
    found.append(rivals.if_here("ZeroMQ", zeromq, "REQ/REP, DEALER/ROUTER for many; ipc; sleeps"))
    setting = "unary; call-backs, completion queue; Unix socket; sleeps"
    found.append(rivals.if_here("gRPC, C++", grpc, setting))
    script = [str(CALLS / "void_python.py")]
    found.append(Contender(INTERPRETED, [sys.executable, *script, "futures", "-", length], "one process"))
    for who, package, setting in (
        ("joblib", "joblib", "loky, one process"),
        ("Ray", "ray", "method of an actor"),
        ("Dask", "distributed", "one worker"),
    ):
        version = rivals.python_package(package)
        command = [str(rivals.PYTHON), *script, who.lower(), "-", length] if version else None
        found.append(rivals.if_here(who, command, f"{setting}; {version}", rounds=2))
    return found


def grpc_program(built: Path) -> str:
    """From its description, by its own compiler."""
    plugin = subprocess.run(["which", "grpc_cpp_plugin"], capture_output=True, text=True, check=True)
    made = [f"--cpp_out={built}", f"--grpc_out={built}", f"--plugin=protoc-gen-grpc={plugin.stdout.strip()}"]
    subprocess.run(["protoc", f"-I{CALLS}", *made, str(CALLS / "void.proto")], check=True)
    sources = [str(built / "void.pb.cc"), str(built / "void.grpc.pb.cc")]
    return rivals.build(
        "c++", built, "void_grpc.cpp", f"-I{built}", *sources, *rivals.flags("grpc++", "protobuf")
    )


def voids(built: Path, folder: Path, environment: dict[str, str], quick: bool) -> list[Figure]:
    """All figures."""
    broker = rivals.broker(environment)
    program = rivals.ours(built, "void_forebay.c")
    all_ = contenders(built, folder, broker, 0.3 if quick else 0.8)
    with rivals.served([program, broker, "serve"], environment=environment):
        found = rivals.turns(all_, 2 if quick else 7)
    limit = rivals.middle(found["Forebay, Rust"], "ping-pong")
    figures = []
    for key, what in MEASURED.items():
        for c in all_:
            if c.who not in found:
                continue
            value = rivals.middle(found[c.who], key)
            beside = INTERPRETED if is_python(c.who) else COMPILED
            ratio = value / rivals.middle(found[beside], key) if beside in found else None
            note = c.setting + (f"; {1 / value:.2f} M/s" if key == "under way" else "")
            samples = [r[key] for r in found[c.who]]
            figures.append(
                Figure(
                    PART,
                    what,
                    c.who,
                    value,
                    "us",
                    beside if ratio else "",
                    ratio,
                    value / limit,
                    note,
                    samples,
                )
            )
    for c in all_:
        if c.who in found:
            tenth = 10 * rivals.middle(found[c.who], "synchronous")
            figures.append(
                Figure(
                    PART,
                    "shortest service for which a call costs 10 %",
                    c.who,
                    tenth,
                    "us",
                    note="10 x synchronous",
                )
            )
    figures.append(Figure(PART, LIMIT, "the machine", limit, "us"))
    return figures + rivals.absent(PART, all_)


def is_python(who: str) -> bool:
    """Whether it is called from Python."""
    return who in ("Forebay, Python", INTERPRETED, "joblib", "Ray", "Dask")
