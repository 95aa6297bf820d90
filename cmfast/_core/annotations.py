"""Names for what the public functions take; what an option may be is listed here and nowhere else."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

# Any array library, or whatever numpy.asarray takes. The adapters check it; a protocol wide enough for NumPy, torch,
# lists and memory maps would say no more than this.
Array: TypeAlias = Any
Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Tensor(Protocol):
    """What tells a tensor of torch from an array of NumPy, for type checkers."""

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded."""
        ...

    def detach(self) -> Any:
        """Return a tensor without gradients."""
        ...


class CudaArray(Protocol):
    """What tells an array of CuPy from one of NumPy, for type checkers."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where it lies."""
        ...

    def get(self) -> Any:
        """Return a copy on the host."""
        ...


class Sparse(Protocol):
    """What tells a matrix of scipy.sparse, for type checkers."""

    def tocoo(self) -> Any:
        """Return it as coordinates and values."""
        ...


class Labelled(Protocol):
    """What tells an array of xarray from one of NumPy, for type checkers."""

    @property
    def coords(self) -> Any:
        """Names along the dimensions."""
        ...

    def to_dataset(self) -> Any:
        """Return it among others."""
        ...


# A result is an array of the library that was given: where that is not NumPy's, of the same class.
DeviceT = TypeVar("DeviceT", bound=Tensor | CudaArray | Labelled)
# What is computed of points has other dimensions than they have: of xarray's arrays it is an array of NumPy.
PointsT = TypeVar("PointsT", bound=Tensor | CudaArray)
# A result is one of any arrays where a user writes its class alone.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault  # which every type checker knows

    ArrayT = WithDefault("ArrayT", default=Any)
else:
    ArrayT = TypeVar("ArrayT")
MatrixT = TypeVar("MatrixT")
# One table, of classes by classes; text is none.
Table: TypeAlias = NDArray[Any] | Sequence[Sequence[float]] | Tensor | CudaArray | Labelled

# One class, by what a user calls it.
Label: TypeAlias = bool | int | float | str | bytes | np.generic | date

OnFailure: TypeAlias = Literal["raise", "warn", "ignore"]
Progress: TypeAlias = bool | Callable[[int, int], object] | None
Method: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]
Solver: TypeAlias = Literal["auto", "newton", "sinkhorn"]
Empty: TypeAlias = Literal["nan", "drop"]
Smoothing: TypeAlias = float | Literal["pseudo-bayes"] | None
Policy: TypeAlias = Literal["present", "nan", "strict", "zero", "one"]
Undefined: TypeAlias = Policy | float
Start: TypeAlias = Any  # a ScalingResult or a pair of arrays


class BiOptions(TypedDict, total=False):
    """What the normalisation "bi" takes beside its matrix, and what every one takes."""

    smoothing: Smoothing
    empty: Empty
    tol: float
    max_iter: int | None
    solver: Solver
    start: Start


METHODS: tuple[Method, ...] = get_args(Method)
SYNONYMS: dict[str, Method] = {"true": "row", "pred": "col"}
NORMALIZATIONS: tuple[Method, ...] = tuple(method for method in METHODS if method not in SYNONYMS)
