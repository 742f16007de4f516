"""Forebay: the runtime around a parallel simulation.

It calls named numerical services wherever they run, keeps arrays and tables in a self-describing
data base, takes snapshots at the speed of a memory copy, and lets people watch and steer.

    import forebay as fb

    with fb.open("two_stream") as run:
        for step in run.steps(600):
            ...
            if step % 20 == 0:
                with run.snapshot(step, time=step * dt) as s:
                    s.put("E", E, unit="V/m")
"""

from ._forebay import (
    BadArgument,
    Cancelled,
    Closed,
    Conflict,
    Corrupt,
    Error,
    Full,
    Internal,
    Io,
    NoServer,
    NotFound,
    ReadOnly,
    Refused,
    RemoteError,
    ServerLost,
    Timeout,
    VersionMismatch,
)
from ._run import DataSetHandle, RestartSnapshot, Run, open
from ._snapshots import DataSet, Snapshot, StoredSnapshot, StoredSnapshots
from ._tables import Rows, Table
from ._watch import Diagram, Parameter

__all__ = [
    "BadArgument",
    "Cancelled",
    "Closed",
    "Conflict",
    "Corrupt",
    "DataSet",
    "DataSetHandle",
    "Diagram",
    "Error",
    "Full",
    "Internal",
    "Io",
    "NoServer",
    "NotFound",
    "Parameter",
    "ReadOnly",
    "Refused",
    "RemoteError",
    "RestartSnapshot",
    "Rows",
    "Run",
    "ServerLost",
    "Snapshot",
    "StoredSnapshot",
    "StoredSnapshots",
    "Table",
    "Timeout",
    "VersionMismatch",
    "open",
]
