"""What a program says at its end: how long its loop took, a digest of its state, where its run is and why."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


@contextlib.contextmanager
def reported(state: Callable[[], list[np.ndarray]], run: Any = None) -> Iterator[None]:
    """A block that is the loop of a program."""
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in state())).hexdigest()
    at, why = (None, None) if run is None else (run.position, run.ended_by)
    print(json.dumps({"seconds": seconds, "digest": digest, "position": at, "ended_by": why}))
