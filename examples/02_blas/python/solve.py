"""A linear system, solved by LAPACK in another process.

forebay serve --idl blas.fbi &
forebay serve --idl lapack.fbi &
python python/solve.py
"""

from __future__ import annotations

import forebay as fb
import numpy as np

N = 5

x_known = np.arange(1.0, N + 1)
a = np.diag(np.full(N, 4.0)) + np.diag(np.full(N - 1, -1.5), -1) + np.diag(np.full(N - 1, -1.0), 1)
x = np.asfortranarray((a @ x_known).reshape(N, 1))
lu, pivots = np.asfortranarray(a), np.zeros(N, np.int32)
client = fb.connect(wait=30)  # servers that are just being started are waited for
info = client.call("dgesv", N, 1, lu, pivots, x)
print("info =", info)
print("x =", *(f"{value:.3f}" for value in x[:, 0]))
print("pivots =", *pivots)
print(f"norm of x = {client.call('dnrm2', N, x[:, 0]):.3f}")

singular, b = np.array([[1.0, 2.0], [2.0, 4.0]], order="F"), np.ones((2, 1), order="F")
# A status that is not 0 raises, unless it is wanted as it is.
info = client.call("dgesv", 2, 1, singular, np.zeros(2, np.int32), b, info="return")
print("a singular matrix: info =", info)
