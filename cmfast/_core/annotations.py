"""Define the types of public arguments and, as the only place, the values that each option may take."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

# An array of any library, or any argument of numpy.asarray. The adapters check it; a protocol that fits NumPy, torch,
# lists and memory maps would be as wide as Any.
Array: TypeAlias = Any
Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Tensor(Protocol):
    """Protocol that separates torch tensors from NumPy arrays for type checkers."""

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded."""
        ...

    def detach(self) -> Any:
        """Return a tensor without gradients."""
        ...


class CudaArray(Protocol):
    """Protocol that separates CuPy arrays from NumPy arrays for type checkers."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address, shape and dtype of the device memory."""
        ...

    def get(self) -> Any:
        """Return a copy on the host."""
        ...


class JaxArray(Protocol):
    """Protocol that separates JAX arrays from NumPy arrays for type checkers."""

    @property
    def addressable_shards(self) -> Any:
        """Parts of the array on the devices of this process."""
        ...

    def block_until_ready(self) -> Any:
        """Return the array when it has been computed."""
        ...


class Sparse(Protocol):
    """Protocol of a scipy.sparse matrix for type checkers."""

    def tocoo(self) -> Any:
        """Return the matrix in coordinate (COO) format."""
        ...


class Labelled(Protocol):
    """Protocol that separates xarray arrays from NumPy arrays for type checkers."""

    @property
    def coords(self) -> Any:
        """Coordinates along the dimensions."""
        ...

    def to_dataset(self) -> Any:
        """Return the array as a variable of a Dataset."""
        ...


# The result is an array of the argument's library: for libraries other than NumPy, of the argument's class.
DeviceT = TypeVar("DeviceT", bound=Tensor | CudaArray | JaxArray | Labelled)
# Results computed from points have other dimensions than the points, so xarray arguments give NumPy arrays.
PointsT = TypeVar("PointsT", bound=Tensor | CudaArray | JaxArray)
# A generic result class without a parameter, as in an annotation of the user's, holds arrays of any library.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault  # every type checker bundles it

    ArrayT = WithDefault("ArrayT", default=Any)
else:
    ArrayT = TypeVar("ArrayT")
MatrixT = TypeVar("MatrixT")
# One (C, C) table; a str is not a table.
Table: TypeAlias = NDArray[Any] | Sequence[Sequence[float]] | Tensor | CudaArray | Labelled

# The label of one class.
Label: TypeAlias = bool | int | float | str | bytes | np.generic | date

FailurePolicy: TypeAlias = Literal["raise", "warn", "ignore"]
OnFailure: TypeAlias = FailurePolicy | None  # None: as cmfast.config says
Ignored: TypeAlias = int | str | Sequence[int] | Sequence[str] | None
Progress: TypeAlias = bool | Callable[[int, int], object] | None
IntervalMethod: TypeAlias = Literal["bca", "percentile", "basic", "normal", "wilson", "posterior"]
AreaMethod: TypeAlias = Literal["logit", "normal", "newcombe"]
AreaName: TypeAlias = Literal[
    "roc_auc", "roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "roc_auc_ovo_weighted", "average_precision"
]  # fmt: skip
MultilabelName: TypeAlias = Literal[
    "subset_accuracy", "hamming_loss", "recall_samples", "precision_samples", "f1_samples", "jaccard_samples",
    "specificity_samples", "npv_samples", "fpr_samples", "fnr_samples", "fdr_samples", "false_omission_rate_samples",
    "fowlkes_mallows_samples",
]  # fmt: skip
Coefficient: TypeAlias = Literal[
    "fleiss_kappa", "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "conger_kappa", "light_kappa"
]
Disagreement: TypeAlias = Literal["nominal", "ordinal", "linear", "interval", "ratio"]
AgreementMethod: TypeAlias = Literal["log", "t"]
MatchMethod: TypeAlias = Literal["greedy", "optimal"]
BoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh"]
# Boxes, labels and scores of one image or of a list of images: dicts, or detections of the library supervision.
Detections: TypeAlias = object
Method: TypeAlias = Literal["all", "row", "true", "col", "pred", "bi"]
Solver: TypeAlias = Literal["auto", "newton", "sinkhorn"]
Empty: TypeAlias = Literal["nan", "drop"]
Smoothing: TypeAlias = float | Literal["pseudo-bayes"] | None
Policy: TypeAlias = Literal["present", "nan", "strict", "zero", "one"]
Undefined: TypeAlias = Policy | float
Start: TypeAlias = Any  # a ScalingResult or a pair of arrays


class BiOptions(TypedDict, total=False):
    """Options of ``normalize(M, "bi")``, plus the options that every normalisation accepts."""

    smoothing: Smoothing
    empty: Empty
    tol: float
    max_iter: int | None
    solver: Solver
    start: Start


METHODS: tuple[Method, ...] = get_args(Method)
SYNONYMS: dict[str, Method] = {"true": "row", "pred": "col"}
NORMALIZATIONS: tuple[Method, ...] = tuple(method for method in METHODS if method not in SYNONYMS)
