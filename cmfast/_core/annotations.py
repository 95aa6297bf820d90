"""Names for what the public functions take; what an option may be is listed here and nowhere else."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

# Any array library, or whatever numpy.asarray takes. The adapters check it; a protocol wide enough for NumPy, torch,
# lists and memory maps would say no more than this.
Array: TypeAlias = Any

OnFailure: TypeAlias = Literal["raise", "warn", "ignore"]
Progress: TypeAlias = bool | Callable[[int, int], object] | None
Method: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]
Solver: TypeAlias = Literal["auto", "newton", "sinkhorn"]
Empty: TypeAlias = Literal["nan", "drop"]
Smoothing: TypeAlias = float | Literal["pseudo-bayes"] | None
Policy: TypeAlias = Literal["present", "nan", "strict", "zero", "one"]
Undefined: TypeAlias = Policy | float
Start: TypeAlias = Any  # a ScalingResult or a pair of arrays

METHODS: tuple[Method, ...] = get_args(Method)
SYNONYMS: dict[str, Method] = {"true": "row", "pred": "col"}
NORMALIZATIONS: tuple[Method, ...] = tuple(method for method in METHODS if method not in SYNONYMS)
