"""Collapse a confusion matrix to groups of classes: the coarser level of a class hierarchy."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmfast._core import axis_names, dispatch, failures, result_frames, result_repr, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, ArrayT, DeviceT, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast.kernels.loading import load


@result_repr.add_repr
class Collapsed(NamedTuple, Generic[ArrayT]):
    """Confusion matrices of groups of classes.

    Attributes
    ----------
    matrix : array, shape (..., G, G)
        Rows are the group of the truth, columns that of the prediction.
    groups : tuple
        Names of the groups, in the order of rows and columns.
    """

    matrix: ArrayT
    groups: tuple[Any, ...]

    def _parts(self) -> dict[str, str]:
        """Return the parts that the repr shows, by name."""
        return self._named_parts(str)

    def _named_parts(self, name: Callable[[object], str]) -> dict[str, str]:
        """Return the parts of the repr; `name` formats the group names."""
        return {"of": result_repr.format_shape(self.matrix), "groups": name(validate.format_value(list(self.groups)))}

    def explain(self) -> str:
        """Return a text with the share of the total inside the groups; for a batch, the number of matrices."""
        found: Any = self.matrix
        M = found.toarray() if sparse.is_sparse(found) else adapter(found).to_host(found)
        if M.ndim > 2:
            return f"{M[..., 0, 0].size:,} matrices of {len(self.groups)} groups"
        total = M.sum()
        if not total > 0:
            return "the matrix is empty"
        return f"{np.trace(M) / total:.4g} of everything stays within its group"

    def to_pandas(self) -> Any:
        """Return the matrices as a pandas DataFrame: a row per true group."""
        return result_frames.make_matrix_frame(self.matrix, self.groups)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the matrix with the names of the groups.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.

        Returns
        -------
        cmfast.display.ConfusionDisplay
            The display, drawn. The figure is not shown.
        """
        display = load("cmfast.display").ConfusionDisplay
        return display.from_matrix(self.matrix, display_labels=self.groups).plot(ax=ax)


@overload
def collapse(
    M: DeviceT,
    /,
    groups: Sequence[Hashable] | Mapping[Any, Hashable] | NDArray[Any],
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Collapsed[DeviceT]: ...
@overload
def collapse(
    M: ArrayLike,
    /,
    groups: Sequence[Hashable] | Mapping[Any, Hashable] | NDArray[Any],
    *,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Collapsed[NDArray[Any]]: ...
@accept_dask_arrays(M="CC")
def collapse(
    M: Array,
    /,
    groups: Sequence[Hashable] | Mapping[Any, Hashable] | NDArray[Any],
    *,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Collapsed[Any]:
    """Merge classes into groups: add up the rows and the columns of each group.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts, or shares of the total; also one matrix of scipy.sparse. Do not collapse shares of rows or
        columns, whose sums mean nothing: collapse the counts, then normalise.
    groups : sequence of C names, or dict
        Group name of every class: any hashable values, equal for classes of the same group; or a dict from every class
        to its group, where a class is a label of labelled counts, else its index. For a hierarchy of several levels
        call this function once per level.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices that cannot be collapsed (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    Collapsed
        ``matrix`` of shape (..., G, G), in the library and on the device of `M`: int64 and exact for integers, else
        float64; a ``csr_array`` for a sparse matrix. ``groups``: the group names in order of first occurrence.

    Raises
    ------
    TypeError, ValueError
        `M` is not real and square; another number of names than classes, or one that is missing.

    See Also
    --------
    one_vs_rest : Split into one 2x2 table per class: the class and all others.

    Notes
    -----
    Bad values: a matrix with NaN or an infinite cell is NaN throughout, one whose sums int64 cannot hold is 0
    throughout, and both are reported as `on_failure` says; other matrices of the batch are not affected. Float values
    of a sparse matrix are not checked. Synchronises the device. Reproducible: same input, same bits, for any number
    of threads.

    Every cell is counted as one weighted sample by the kernel of :func:`cmfast.confusion_matrix`:
    ``out[a, b]`` is the sum of ``M[i, j]`` over the classes i of group a and j of group b.

    Examples
    --------
    >>> from cmfast import metrics
    >>> found = metrics.collapse(
    ...     [[5, 2, 1], [1, 6, 0], [0, 1, 4]], ["cat", "cat", "dog"]
    ... )
    >>> found.matrix.tolist(), found.groups
    ([[14, 1], [1, 4]], ('cat', 'dog'))
    """
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    labels = axis_names.get_axes_of_counts(M).get("class")
    is_sparse = sparse.is_sparse(M)
    if not is_sparse:
        (M,) = dispatch.adopt(M=M)
    C, _ = validate.matrices(square=True, M=M)
    if isinstance(groups, Mapping):
        groups = _list_groups(groups, range(C) if labels is None else labels)
    names, codes = _number_groups(groups, C)
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


def _list_groups(groups: Mapping[Any, Hashable], classes: Sequence[Any]) -> list[Hashable]:
    """Return the group of each class, in the order of `classes`, from a mapping that has these keys alone."""
    for name in classes:
        if name not in groups:
            validate.refuse("groups", f"a dict with a group for every class, as for {name!r}", f"{groups!r:.200}")
    unknown = [name for name in groups if name not in classes]
    if unknown:
        classes_wanted = f"a dict from the classes {validate.format_value(list(classes))}"
        validate.refuse("groups", classes_wanted, f"the key {validate.format_value(unknown[0])}")
    return [groups[name] for name in classes]


def _number_groups(groups: Any, C: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the distinct group names in order of first occurrence, and the group index of each class."""
    given = validate.names("groups", groups, C)
    number: dict[Any, int] = {}
    for name in given:
        if not _is_hashable_name(name):
            validate.refuse("groups", "hashable names, not None or NaN", validate.format_value(name), TypeError)
        number.setdefault(name, len(number))
    return tuple(number), np.array([number[name] for name in given], np.int64)


def _is_hashable_name(name: Any) -> bool:
    """Return whether `name` is hashable, not None and equal to itself, so that it can name a group."""
    try:
        hash(name)
    except TypeError:
        return False
    return name is not None and bool(name == name)  # noqa: PLR0124 (NaN is not)
