"""The dtypes that are kept, by the names they have here and in NumPy, as the native half knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ._forebay import DTYPES, BadArgument

_DTYPES = {short: np.dtype(text) for short, text in DTYPES}
# Where NumPy has one for several, the first is what its elements stand for: uint8 is u8, and not bytes.
_NAMES = {np.dtype(text).name: short for short, text in reversed(DTYPES)}
_LISTED = list(dict.fromkeys(dtype.name for dtype in _DTYPES.values()))


def dtype_of_name(name: str) -> np.dtype[Any]:
    """The dtype of NumPy's of a short name."""
    return _DTYPES[name]


def is_of_numpy(name: str) -> bool:
    """Whether NumPy has what is called so, and not only its bits or letters."""
    return _NAMES[_DTYPES[name].name] == name


def dtype_name(dtype: DTypeLike) -> str:
    """Short name (``f64``) of a dtype of NumPy's, or of a short name itself."""
    if isinstance(dtype, str) and dtype in _DTYPES:
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise BadArgument(f"{dtype!r} is not a dtype; use one of {', '.join(_LISTED)}") from None
    if not is_kept(found) or not found.isnative:
        raise BadArgument(f"the dtype {found} is not kept; use one of {', '.join(_LISTED)}")
    return _NAMES[found.name]


def is_kept(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype of NumPy's are kept as what they are; the order of their bytes may be the other one."""
    return dtype.name in _NAMES


def listed() -> str:
    """All of them, as an error lists them: integers from the shortest to the longest, each of the others."""
    of_kind = {kind: [n for n in _LISTED if np.dtype(n).kind == kind] for kind in "iu"}
    others = [n for n in _LISTED if np.dtype(n).kind not in of_kind]
    return ", ".join([*(f"{names[0]}..{names[-1]}" for names in of_kind.values()), *others])
