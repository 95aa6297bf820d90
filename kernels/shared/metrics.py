"""Codes of metrics, steps and plans, shared by the table of metrics and the kernels of every target.

Every metric is a function of five sums per class (:class:`ClassSums`), computed in few kinds of steps: a value per
class (``Value`` of ``metric_formulas.py``), a reduction over classes (:class:`Over`), a value of the matrix
(:class:`Total`). A :class:`Plan` is a list of such steps, run on a few matrices while their sums are in cache.
"""

from enum import IntEnum
from typing import Any, NamedTuple

from cmfast.kernels.shared.limits import MOST_EXACT_INTEGER

LINES_OF_VALUE = 5  # a value of one class, and its derivatives in d, t, p and n


class ClassSums(IntEnum):
    """The five sums per class of a matrix that all metrics are computed from."""

    DIAGONAL = 0
    """``M[k, k]``."""
    ROW = 1
    """Row sums: how often the class is true."""
    COL = 2
    """Column sums: how often it is predicted."""
    BAND = 3
    """Mass at distance k from the diagonal: sum of ``M[i, j]`` with ``abs(i - j) == k``."""
    TOP = 4
    """Mass with ``max(i, j) == k``."""


class Step(IntEnum):
    """Kind of a step of a plan."""

    VALUE = 0
    """Compute a value for every class, NaN for 0/0."""
    EACH = 1
    """Write the class values, undefined ones replaced by the fill value."""
    REDUCE = 2
    """Reduce the class values over the classes."""
    TOTAL = 3
    """Compute a value of the whole matrix."""
    HARMONIC = 4
    """Harmonic mean of two earlier results; 0 if both are 0."""
    RESCALE = 5
    """Map an earlier result from [-1, 1] to [0, 1]."""


class Over(IntEnum):
    """A reduction of the class values over the classes."""

    MEAN = 0
    WEIGHTED = 1
    """Mean weighted by the row sums, over supported classes."""
    MIN = 2
    GEOMETRIC = 3
    TAU = 4
    """One minus the root mean square distance of the values from one."""
    TAU_NORMALIZED = 5
    """TAU with a weight for each class, scaled such that all wrong gives 0, then raised to a power."""
    ADJUSTED = 6
    """Mean, shifted and scaled so that chance gives 0 and perfection 1."""
    PICK = 7
    """The value of one class."""
    MICRO = 8
    """Micro average: the value of the summed 2x2 tables of the classes."""
    TAU_WEIGHTED = 9
    """TAU with a weight per class, times a factor; without a lower bound."""


class Total(IntEnum):
    """A value of the whole matrix."""

    ACCURACY = 0
    JACCARD_MICRO = 1
    SPECIFICITY_MICRO = 2
    MCC = 3
    KAPPA = 4
    PEIRCE = 5
    KAPPA_LINEAR = 6
    KAPPA_QUADRATIC = 7
    GERRITY = 8
    ERROR = 9
    SCOTT_PI = 10
    GWET_AC1 = 11
    KRIPPENDORFF = 12


# Members of different enums with equal codes are equal, so each set holds members of one enum only.
ORDERED = frozenset({Total.KAPPA_LINEAR, Total.KAPPA_QUADRATIC, Total.GERRITY})
"""Totals that depend on the order of the classes: they need BAND or TOP."""
PRODUCTS = ORDERED | {Total.MCC, Total.KAPPA, Total.PEIRCE, Total.SCOTT_PI, Total.GWET_AC1, Total.KRIPPENDORFF}
"""Totals that need products of margins."""


TRACED = frozenset({Total.ACCURACY, Total.ERROR, Total.JACCARD_MICRO})
"""Totals that depend on the trace and the sum of all cells alone."""
AGAIN = frozenset({Over.MIN, Over.GEOMETRIC, Over.TAU, Over.TAU_NORMALIZED})
"""Reductions of recalls that need a second pass."""


class Mode(IntEnum):
    """Which classes enter an average."""

    ALL = 0
    PRESENT = 1
    """Those that are supported or predicted."""
    DEFINED = 2
    """Those whose value is defined."""


class Plan(NamedTuple):
    """Steps that compute any number of metrics of a matrix from its class sums.

    Attributes
    ----------
    steps : array of int64, shape (steps, 5)
        ``Step``, code, target (a register; for EACH the table), two arguments.
    params : array of float64, shape (steps, 2)
        The fill value for 0/0; a parameter (beta of F-beta, v of a weighted tau).
    rows : array of int64, shape (steps, 7)
        The steps for kernels that compute all values first, then the rest, grouped by kind: the five codes of a step
        (of a VALUE, the first argument says whether a weighted mean is needed), the value it computes or uses, its row
        in `params`.
    values : int
        Number of VALUE steps.
    weights : array of float64, shape (k C,)
        Class weights of each weighted tau; the first argument of such a step is the index of its first weight.
    members : array of float64, shape (C,) or (0,)
        1 for the classes that enter averages, 0 for the others; empty: all enter.
    mode : int
        Code of the :class:`Mode`: which classes enter an average.
    scalars, tables : int
        Number of result registers, which come first, and of per-class results.
    registers : int
        All registers.
    rates, products, ordered, again, pooled : bool
        Whether a step needs recall or specificity of every class; products of margins; BAND or TOP; a second pass over
        the recalls; the sum of the 2x2 tables.
    traced : bool
        Whether all steps need nothing but the trace and the sum of all cells.
    """

    steps: Any
    params: Any
    rows: Any
    values: int
    weights: Any
    members: Any
    mode: int
    scalars: int
    tables: int
    registers: int
    rates: bool
    products: bool
    ordered: bool
    again: bool
    pooled: bool
    traced: bool


def as_counts_or_floats(M: Any) -> Any:
    """Return matrices in a type that kernels are compiled for: int64, int32, float64 or float32.

    uint64 values above 2**63 become negative, which is refused later.
    """
    kind, size = M.dtype.kind, M.dtype.itemsize
    if kind == "f":
        return M if size in (4, 8) else M.astype("f8")
    if kind == "u" and size == 8:
        return M.view("i8")
    wanted = "i8" if size == 8 or (kind == "u" and size == 4) else "i4"
    return M if M.dtype == wanted else M.astype(wanted)


def as_sums(a: Any, *, fractions: bool) -> Any:
    """Return sums as float64 if any are fractions, else as int64; uint64 values above 2**63 become negative."""
    if a.dtype == "u8" and not fractions:
        return a.view("i8")
    return a.astype("f8" if fractions else "i8", copy=False)


def rank_wide_integers(xp: Any, scores: Any) -> Any:
    """Return the dense ranks of integer scores that float64 does not tell apart; other scores as they are.

    `xp` is the library of the array.
    """
    if scores.dtype.kind not in "iu" or scores.dtype.itemsize < 8 or not scores.size:
        return scores
    if int(scores.min()) >= -MOST_EXACT_INTEGER and int(scores.max()) <= MOST_EXACT_INTEGER:
        return scores
    flat = scores.ravel()
    return xp.searchsorted(xp.unique(flat), flat).reshape(scores.shape)


def compute_areas(xp: Any, matrices: Any) -> tuple[Any, Any]:
    """Return the area under the ROC curve and the average precision from threshold matrices (..., n + 1, 2, 2).

    `xp` is the library of the arrays.
    """
    tp, fp = matrices[..., 1, 1].astype("f8"), matrices[..., 0, 1].astype("f8")
    called = (tp + fp)[..., 1:]
    precision = xp.where(called > 0.0, tp[..., 1:] / called, 0.0)
    if matrices.dtype == "f8":  # weights may overflow in products; scaling by powers of two is exact
        tp, fp = (xp.ldexp(x, -xp.frexp(abs(x).max(-1, keepdims=True))[1]) for x in (tp, fp))
    area = ((fp[..., 1:] - fp[..., :-1]) * (tp[..., 1:] + tp[..., :-1])).sum(-1) / (2.0 * tp[..., -1] * fp[..., -1])
    return area, ((tp[..., 1:] - tp[..., :-1]) * precision).sum(-1) / tp[..., -1]


def count_slope_lines(C: int, *, ordered: bool) -> int:
    """Return the number of derivatives of a scalar: diagonal, row, column (band, top) of each class, and the total."""
    return (len(ClassSums) if ordered else len(ClassSums) - 2) * C + 1


def shape_results(scalars: Any, tables: Any, batch: tuple[int, ...]) -> tuple[Any, ...]:
    """Return scalars (S, n), then per-class results (T, n, C), each reshaped to the batch."""
    return (*(row.reshape(batch) for row in scalars), *(table.reshape(*batch, table.shape[-1]) for table in tables))
