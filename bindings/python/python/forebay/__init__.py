"""Forebay: the runtime around a parallel simulation.

It calls named numerical services wherever they run, keeps arrays and tables in a self-describing
data base, takes snapshots at the speed of a memory copy, and lets people watch and steer.

    import forebay as fb

    with fb.open("two_stream") as run:
        for step in run.steps(600):
            ...
            if step % 20 == 0:
                with run.snapshot(step, time=step * dt) as s:
                    s.put("E", E, units="V/m")
"""

import os as _os
import sys as _sys

from . import _forebay
from ._calls import (
    Client,
    FailedCall,
    Group,
    Service,
    Services,
    call,
    call_async,
    cancel_all,
    connect,
    map,
    probe_any,
    services,
    wait_all,
    wait_any,
)
from ._forebay import (
    BadArgument,
    Cancelled,
    Closed,
    Conflict,
    Corrupt,
    Error,
    Full,
    Future,
    Internal,
    Io,
    NoServer,
    NotFound,
    Poisoned,
    ReadOnly,
    Refused,
    RemoteError,
    ServerLost,
    Timeout,
    VersionMismatch,
)
from ._forebay import __version__ as __version__
from ._foreign import Ended, ends
from ._kept import Checkpoint, Packed, Unpacked
from ._maps import Map, Progress
from ._page import Page
from ._placements import ServerView, TaskView
from ._references import Reference
from ._run import DataSetHandle, Run, open
from ._services import Server, serve, service
from ._snapshots import DataSet, RestartSnapshot, Snapshot, Stats, StoredSnapshot, StoredSnapshots
from ._tables import Rows, Table
from ._watch import Diagram, Parameter

# The command lies beside the Python of its environment, also where that is not activated.
if _sys.executable:
    _forebay.look_for_command_in([_os.path.dirname(_sys.executable)])

__all__ = [
    "BadArgument",
    "Cancelled",
    "Checkpoint",
    "Client",
    "Closed",
    "Conflict",
    "Corrupt",
    "DataSet",
    "DataSetHandle",
    "Diagram",
    "Ended",
    "Error",
    "FailedCall",
    "Full",
    "Future",
    "Group",
    "Internal",
    "Io",
    "Map",
    "NoServer",
    "NotFound",
    "Packed",
    "Page",
    "Parameter",
    "Poisoned",
    "Progress",
    "ReadOnly",
    "Reference",
    "Refused",
    "RemoteError",
    "RestartSnapshot",
    "Rows",
    "Run",
    "Server",
    "ServerLost",
    "ServerView",
    "Service",
    "Services",
    "Snapshot",
    "Stats",
    "StoredSnapshot",
    "StoredSnapshots",
    "Table",
    "TaskView",
    "Timeout",
    "Unpacked",
    "VersionMismatch",
    "call",
    "call_async",
    "cancel_all",
    "connect",
    "ends",
    "map",
    "open",
    "probe_any",
    "serve",
    "service",
    "services",
    "wait_all",
    "wait_any",
]
