"""Names for what the public functions take."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

# Any array library, or whatever numpy.asarray takes. The adapters check it; a protocol wide enough for NumPy, torch,
# lists and memory maps would say no more than this.
Array: TypeAlias = Any

OnFailure: TypeAlias = Literal["raise", "warn", "ignore"]
Progress: TypeAlias = bool | Callable[[int, int], object] | None
Method: TypeAlias = Literal["all", "row", "col", "true", "pred", "bi"]
Solver: TypeAlias = Literal["auto", "newton", "sinkhorn"]
Empty: TypeAlias = Literal["nan", "drop"]
Smoothing: TypeAlias = float | Literal["pseudo-bayes"] | None
Start: TypeAlias = Any  # a ScalingResult or a pair of arrays
