"""Classes put together: the confusion matrix of a coarser level of a hierarchy."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import dispatch, failures, result_repr, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT, OnFailure
from cmfast._core.lazy import accept_dask_arrays


@result_repr.add_repr
class Collapsed(NamedTuple, Generic[ArrayT]):
    """Confusion matrices of groups of classes.

    Attributes
    ----------
    matrix : array, shape (..., G, G)
        Rows are the group of the truth, columns that of the prediction.
    groups : tuple
        What the groups are called, in the order of rows and columns.
    """

    matrix: ArrayT
    groups: tuple[Any, ...]

    def _parts(self) -> dict[str, str]:
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        return {"of": result_repr.format_shape(self.matrix), "groups": name(validate.format_value(list(self.groups)))}

    def explain(self) -> str:
        """Say in words how much of everything stays within its group; of a batch only how many matrices there are."""
        found: Any = self.matrix
        M = found.toarray() if sparse.is_sparse(found) else adapter(found).to_host(found)
        if M.ndim > 2:
            return f"{M[..., 0, 0].size:,} matrices of {len(self.groups)} groups"
        total = M.sum()
        if not total > 0:
            return "nothing was counted"
        return f"{np.trace(M) / total:.4g} of everything stays within its group"


@overload
def collapse(
    M: DeviceT,
    groups: Sequence[Hashable] | NDArray[Any],
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Collapsed[DeviceT]: ...
@overload
def collapse(
    M: ArrayLike,
    groups: Sequence[Hashable] | NDArray[Any],
    /,
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Collapsed[NDArray[Any]]: ...
@accept_dask_arrays(M="CC")
def collapse(
    M: Array,
    groups: Sequence[Hashable] | NDArray[Any],
    /,
    *,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Collapsed[Any]:
    """Put classes together: rows and columns of one group are added up.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts, or shares of the total; also one matrix of scipy.sparse. Of shares of rows or columns the sums are no
        shares of anything: collapse the counts, then normalise.
    groups : sequence of C names
        The group of every class, by names of any kind that are equal where the group is one. For a hierarchy of
        several levels call this for each.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices that have no answer (see Notes).
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    Collapsed
        ``matrix`` of shape (..., G, G), in the library and on the device of `M`: int64 and exact for integers, else
        float64; of a sparse matrix a ``csr_array``. ``groups``: their names, in the order in which they first occur.

    Raises
    ------
    TypeError, ValueError
        `M` is not real and square; another number of names than classes, or one that is missing.

    See Also
    --------
    one_vs_rest : One class, and all others as the other group.

    Notes
    -----
    Bad values: a matrix with NaN or an infinite cell is NaN throughout, one whose sums int64 cannot hold is 0
    throughout, and both are reported as `on_failure` says; their neighbours are as always. Of a sparse matrix floats
    stay as they are. Synchronises the device. Reproducible: same input, same bits, for any number of threads.

    Every cell is counted once, as a sample with a weight, by what :func:`cmfast.confusion_matrix` runs:
    ``out[a, b]`` is the sum of ``M[i, j]`` over the classes i of group a and j of group b.

    Examples
    --------
    >>> from cmfast import metrics
    >>> found = metrics.collapse([[5, 2, 1], [1, 6, 0], [0, 1, 4]], ["cat", "cat", "dog"])
    >>> found.matrix.tolist(), found.groups
    ([[14, 1], [1, 4]], ('cat', 'dog'))
    """
    validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    is_sparse = sparse.is_sparse(M)
    if not is_sparse:
        (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    names, codes = _numbered(groups, C)
    if is_sparse:
        cells = cast("Any", M).tocoo()
        matrix, status = sparse.count_sparse(codes[cells.row], codes[cells.col], cells.data, len(names), None, None)
        failures.report(status, on_failure, failed="matrices not collapsed")
        return Collapsed(matrix, names)
    bare = adapter(M).unwrap(M)
    shape = dispatch.shape_of(bare)
    rows, columns = (adapter(bare).send(part.reshape(-1), bare) for part in np.meshgrid(codes, codes, indexing="ij"))
    options = {"n_classes": len(names), "labels": None, "n_groups": None, "ignored": None, "num_threads": num_threads}
    weight = adapter(bare).flatten(bare, len(shape) - 2)
    matrix, status, _ = dispatch.call("confusion_matrix", rows, columns, weight, None, **options)
    failures.report(status, on_failure, failed="matrices not collapsed")
    return Collapsed(adapter(M).name_dimensions("(C,C)->(K,K)", (M,), matrix), names)


def _numbered(groups: Any, C: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the names of the groups in the order in which they first occur, and the number of that of each class."""
    given = validate.names("groups", groups, C)
    number: dict[Any, int] = {}
    for name in given:
        if not _is_name(name):
            validate.refuse("groups", "names that can be told apart", validate.format_value(name), TypeError)
        number.setdefault(name, len(number))
    return tuple(number), np.array([number[name] for name in given], np.int64)


def _is_name(name: Any) -> bool:
    """Whether what is equal to `name` is found by it."""
    try:
        hash(name)
    except TypeError:
        return False
    return name is not None and bool(name == name)  # noqa: PLR0124 (NaN is not)
