"""Count confusion matrices from labels."""

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast import normalizing
from cmfast._core import bad_values, dask_counting, dispatch, failures, lazy, table_columns, validate
from cmfast._core import labels as _labels
from cmfast._core import sparse as sparse_matrices
from cmfast._core.adapters import _text_codes, adapter
from cmfast._core.annotations import METHODS, Array, DeviceT, Floats, Ignored, Integers, Method, OnFailure
from cmfast.kernels.status import Status

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["confusion_matrix"]

ONE_AXIS = 1


@overload
def confusion_matrix(
    y_true: DeviceT,
    y_pred: DeviceT,
    *,
    n_classes: int | None = ...,
    labels: DeviceT | None = ...,
    other: bool = ...,
    sample_weight: DeviceT | None = ...,
    groups: DeviceT | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: Literal[False] = ...,
    normalize: Method | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    other: bool = ...,
    sample_weight: None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: Literal[False] = ...,
    normalize: None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Integers: ...
@overload
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    other: bool = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: Literal[False] = ...,
    normalize: Method | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Integers | Floats: ...
@overload
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    other: bool = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: Literal[True],
    normalize: Method | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> "csr_array": ...
@overload
def confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    other: bool = ...,
    sample_weight: ArrayLike | None = ...,
    groups: ArrayLike | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: bool,
    normalize: Method | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> "Integers | Floats | csr_array": ...
@overload
def confusion_matrix(
    table: Any,
    /,
    *,
    y_true: str,
    y_pred: str,
    n_classes: int | None = ...,
    labels: ArrayLike | None = ...,
    other: bool = ...,
    sample_weight: str | None = ...,
    groups: str | None = ...,
    n_groups: int | None = ...,
    ignore_index: Ignored = ...,
    sample_axes: int | None = ...,
    whole_floats: bool = ...,
    sparse: bool = ...,
    normalize: Method | None = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Any: ...
@table_columns.accept_table(
    _labels.NAMES, ("sample_weight", "groups"), lazily="ConfusionCounts.from_labels takes it, and gives counts"
)
def confusion_matrix(
    y_true: Array,
    y_pred: Array,
    *,
    n_classes: int | None = None,
    labels: Array | None = None,
    other: bool = False,
    sample_weight: Array | None = None,
    groups: Array | None = None,
    n_groups: int | None = None,
    ignore_index: Ignored = None,
    sample_axes: int | None = 1,
    whole_floats: bool = False,
    sparse: bool = False,
    normalize: Method | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Count how often each true class was predicted as each class.

    Parameters
    ----------
    y_true, y_pred : array, shape (..., n)
        Labels: integers or bool; on the host also strings, dates, and columns of pandas, polars or Arrow. The leading
        axes broadcast, so that one truth serves many predictions.
    n_classes : int, optional
        Labels are the class ids ``0, ..., n_classes - 1``; any other label raises. This is fastest.
    labels : array, shape (C,), optional
        Labels in the order of the rows and columns. Samples with any other label are left out. Default, without
        `n_classes`: the labels that occur in `y_true` or `y_pred`, sorted, or in the order of an ordered categorical
        (pandas), Enum (polars) or ordered dictionary (Arrow).
    other : bool
        Add a last row and column, called "other" where results have names, for all labels that are not in `labels`.
    sample_weight : array, shape (..., n), optional
        Weight that each sample adds to its cell; default 1. Any finite number; integers are summed as integers.
    groups : array of int or str, shape (..., n), optional
        Group of each sample, ``0, ..., n_groups - 1``, for a matrix per group (fold, client, epoch, ...). Or text: the
        groups are the sorted names; :class:`cmfast.ConfusionCounts` also returns the names.
    n_groups : int, optional
        Default: the largest group plus one.
    ignore_index : int or str, or list of these, optional
        Samples with this true label are ignored: 255 or -100 in segmentation maps, or a text label. It need not be a
        class. Several labels take a copy of `y_true`.
    sample_axes : int or None
        Number of trailing sample axes: 2 for a matrix per image of shape (..., H, W), None for all axes in one matrix.
    whole_floats : bool
        Accept float labels, which must be whole numbers: 2.0 is 2.
    sparse : bool
        Return one matrix as a ``scipy.sparse.csr_array``, for so many classes that a dense one exceeds the memory:
        samples of one axis on the host, without `groups` and `normalize`. :func:`cmfast.metrics.compute` accepts it.
    normalize : {"all", "row", "true", "col", "pred", "bi"}, optional
        Return ``cmfast.normalize(matrices, normalize)`` instead of the counts.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices with invalid sums (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array, shape (..., C, C), or (..., G, C, C) with `groups`
        Rows are true classes, columns predictions; with `other` one more of each. int64 and exact without weights and
        with integer weights, else float64; with `normalize`, the result of :func:`cmfast.normalize`. Library and device
        of `y_true`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices; labels that are neither integers nor strings, or of two kinds; missing
        values; tables instead of columns; ordered categories that contradict each other; shapes that do not agree; ids
        outside ``0, ..., n_classes - 1`` or ``0, ..., n_groups - 1`` (the message gives their number and the first);
        `other` without `labels`.

    Warns
    -----
    DiagnosticWarning
        Both label arrays have shape (n, 1), which gives n matrices of one sample each; without `n_classes` and `labels`
        this is an error. Both look one-hot, with exactly one 1 in each of several rows; or like multilabel indicators,
        0 and 1 in more rows than columns, without `n_classes` and `labels`. Text labels of truth and prediction, or
        `labels` and the truth, have no label in common.

    Notes
    -----
    Bad values: a matrix with a NaN or infinite weight, or whose sums overflow float64 (INVALID), is NaN throughout; one
    whose sums overflow int64 is 0 throughout, or NaN if normalised. Both are reported as `on_failure` says; other
    matrices of the batch are unaffected. In a sparse matrix float sums stay as they are. Synchronises the device.
    Reproducible: same input, same bits, for any number of threads.

    xarray arrays give an array with dimensions ``true``, ``predicted`` and ``group``, with classes and group names as
    coordinates. They match by position: raises if coordinates or the order of dimensions differ.

    Dask arrays give a lazy array: the sum of the counts of all chunks. They need `n_classes` or `labels`, and
    `n_groups` with groups; invalid labels raise when they are computed. Sums of float weights are then exact, and
    rounded once: their last bits may differ from those of NumPy arrays, but are the same for any chunking.

    Agrees with ``sklearn.metrics.confusion_matrix``, except: float labels need `whole_floats`, `labels` must be unique,
    and if `y_true` has only other labels the matrix is zero, with a warning, instead of an error.

    Memory: the result, and partial tables that are smaller than the labels and weights. Strings take eight bytes per
    sample plus the length of each distinct one. Strings in lists and in Arrow, pandas or polars columns that differ
    only in trailing NUL characters are distinct, while NumPy's fixed-width arrays drop such characters.

    References
    ----------
    Erbani et al., On the Normalization of Confusion Matrices, section 3.1.

    Examples
    --------
    >>> import cmfast
    >>> cmfast.confusion_matrix([0, 0, 1, 2, 2], [0, 1, 1, 2, 0], n_classes=3)
    array([[1, 1, 0],
           [0, 1, 0],
           [1, 0, 1]])
    >>> cmfast.confusion_matrix(
    ...     ["cat", "dog", "dog"],
    ...     ["cat", "cat", "dog"],
    ...     labels=["dog", "cat"],
    ... )
    array([[1, 1],
           [0, 1]])
    >>> cmfast.confusion_matrix(
    ...     ["cat", "dog", "owl"],
    ...     ["cat", "cat", "emu"],
    ...     labels=["cat"],
    ...     other=True,
    ... )
    array([[1, 0],
           [1, 1]])
    >>> cmfast.confusion_matrix(
    ...     [0, 1, 1, 0], [0, 1, 0, 0], n_classes=2, groups=[0, 0, 1, 1]
    ... ).shape
    (2, 2, 2)
    """
    on_failure = validate.on_failure(on_failure)
    num_threads = validate.num_threads(num_threads)
    if normalize is not None:
        validate.choice("normalize", normalize, METHODS)
    validate.flag("other", other)
    if other and labels is None:
        validate.refuse("labels", "given with other=True", "None")
    if n_classes is not None:
        n_classes = validate.count("n_classes", n_classes)
        if 8 * n_classes**2 > validate.LARGEST_INT64 and sparse is not True:
            validate.refuse_memory(8 * n_classes**2, n_classes=n_classes)
    if (
        labels is normalize is None
        and sample_axes is ONE_AXIS
        and whole_floats is sparse is False
        and type(y_true) is type(y_pred) is np.ndarray
        and _labels.are_plain(y_true, y_pred)
        and (ignore_index is None or type(ignore_index) is int)
        and (n_groups is None if groups is None else _labels.are_plain_integers(groups, y_true))
        and (
            sample_weight is None
            or _labels.are_plain_weights(sample_weight, y_true)
            or _labels.are_plain_integers(sample_weight, y_true)
        )
    ):  # fast path
        matrix, is_good = _count_plain(
            y_true, y_pred, sample_weight, groups, (n_classes, n_groups), ignore_index, num_threads
        )
        if is_good:  # bad weights are reported below
            return matrix
    arrays = {"y_true": y_true, "y_pred": y_pred, "sample_weight": sample_weight, "groups": groups}
    if lazy.are_lazy(*arrays.values()):
        known = {"n_classes": n_classes, "labels": labels, "n_groups": n_groups, "ignore_index": ignore_index}
        known |= {"other": other, "sample_axes": sample_axes, "whole_floats": whole_floats, "sparse": sparse}
        shares = None if normalize is None else partial(_normalize, method=normalize, on_failure=on_failure)
        return dask_counting.count_blocks(
            confusion_matrix, arrays, on_failure, {**known, "num_threads": num_threads}, shares
        )
    if n_groups is not None:
        n_groups = validate.count("n_groups", n_groups)
        if groups is None:
            validate.refuse("n_groups", "None without groups", n_groups)
    _labels.check_ignored(ignore_index)
    validate.flag("whole_floats", whole_floats)
    validate.flag("sparse", sparse)
    if sample_axes is not None:
        sample_axes = validate.count("sample_axes", sample_axes, least=1)
    adopted = _labels.adopt(arrays, labels, n_classes=n_classes, sample_axes=sample_axes, whole_floats=whole_floats)
    _check(adopted, n_classes)
    adopted, ignored = _labels.ignore(adopted, ignore_index)
    dtypes, shapes, names = adopted.dtypes, adopted.shapes, adopted.listed
    called: Any = None if groups is None else True
    if isinstance(adopted.groups, _text_codes.Coded):
        numbers, n_groups, called = _labels.number_groups(adopted.groups, n_groups)
        adopted = adopted._replace(groups=numbers)
    listed: list[Any] = []
    if labels is not None:
        listed = _labels.check_listed(names, n_classes, dtypes["y_true"].kind)
    sized = not (n_classes is None and labels is None)
    doubt = validate.samples_last(sized=sized, y_true=shapes["y_true"], y_pred=shapes["y_pred"])
    if doubt is not None:
        failures.warn_diagnostic(doubt)
    if sample_axes == 1 and len(shapes["y_true"]) == 2:
        warn = _labels.warn_of_one_hot if sized else _labels.warn_of_indicators
        warn(adopted.y_true, adopted.y_pred)
    if sparse and (groups is not None or normalize is not None):
        validate.refuse("sparse", "False with groups or normalize", "True")

    doubtful = labels is not None and sample_weight is ignore_index is None and 0 not in shapes["y_true"]
    list_true_labels = partial(_labels.list_true_labels, adopted)
    options: dict[str, Any] = {"n_groups": n_groups, "num_threads": num_threads}
    found = order = None
    if other:
        _labels.refuse_other(listed)
        adopted, ignored, order = _labels.number_with_rest(adopted, listed, ignored, num_threads)
        n_classes, names = len(order), None
    elif isinstance(adopted.y_true, _text_codes.Coded):
        if not sparse:
            found = _labels.count_codes(adopted, ignored, **options)
        if found is None:
            adopted, order = _labels.match_labels(adopted, ignored)
            ignored = None if ignored is None else _labels.NO_POSITION
            n_classes, names = (len(order), None) if labels is None else (None, np.arange(len(order)))
    elif names is not None:
        names = adapter(names).to_host(names)
    if sparse:
        matrix = _sparse(adopted._replace(listed=names), n_classes, ignored, on_failure)
        if doubtful:
            _labels.warn_if_none_occurs(matrix, listed, list_true_labels, other=other)
        return matrix
    if found is not None:
        matrix, order = found
        status = np.int8(Status.CONVERGED)
    else:
        options |= {"n_classes": n_classes, "labels": names, "ignored": ignored}
        try:
            matrix, status, outside = dispatch.call("confusion_matrix", *adopted[:4], **options)
        except MemoryError:
            if adopted.groups is None or n_groups is not None:
                raise
            _refuse_many_groups(adopted.groups)
        if outside is not None:
            _labels.refuse_outside(*outside)
    if doubtful:
        _labels.warn_if_none_occurs(matrix, listed, list_true_labels, other=other)
    others = [y for y in (y_true, y_pred) if type(y) not in _labels.PLAIN]
    named = next((adapter(y) for y in others if adapter(y).names_axes), None)
    if named is not None:
        classes = names if order is None else order
        if classes is None:
            classes = range(n_classes) if n_classes is not None else _labels.list_occurring(adopted, ignored)
        matrix = named.name_classes(
            matrix, (y_true, y_pred), axes=sample_axes, classes=classes if other else list(classes), groups=called
        )
    why = None
    if adopted.weight is not None:
        why = partial(
            bad_values.explain_weights, adopted.weight, adopted.sample_shapes["sample_weight"], adopted.groups
        )
    if normalize is None:
        failures.report(status, on_failure, why=why)
        return matrix
    has_integers = adopted.weight is not None and dtypes["sample_weight"].kind != "f"
    overflows = has_integers and adapter(status).any(status)
    if overflows:  # such a matrix is 0 throughout; float matrices are NaN, which normalize reports
        failures.report(status, on_failure, why=why)
        matrix = _replace_failed(matrix, status, 1)
    shares = _normalize(matrix, method=normalize, on_failure=on_failure, num_threads=num_threads)
    return _replace_failed(shares, status, np.nan) if overflows else shares


def _count_plain(
    y_true: np.ndarray,
    y_pred: np.ndarray,
    weight: Any,
    groups: Any,
    sizes: tuple[int | None, Any],
    ignored: int | None,
    num_threads: int | None,
) -> tuple[Any, bool]:
    """Return the matrices of arrays that need no further checks, and whether all weights are good.

    `sizes` are the numbers of classes and of groups.
    """
    n_classes, n_groups = sizes
    if n_groups is not None:
        n_groups = validate.count("n_groups", n_groups)
    if ignored is not None:
        ignored = _labels.resolve_ignored(ignored, y_true.dtype)
    options = {"n_classes": n_classes, "labels": None, "n_groups": n_groups, "num_threads": num_threads}
    try:
        matrix, status, outside = dispatch.call(
            "confusion_matrix", y_true, y_pred, weight, groups, ignored=ignored, **options
        )
    except MemoryError:
        if groups is None or n_groups is not None:
            raise
        _refuse_many_groups(groups)
    if outside is not None:
        _labels.refuse_outside(*outside)
    return matrix, weight is None or not status.any()


def _normalize(matrices: Any, *, method: Method, on_failure: OnFailure, num_threads: int | None) -> Any:
    """Normalise counted matrices."""
    return normalizing.normalize(matrices, method, on_failure=on_failure, num_threads=num_threads)


def _replace_failed(matrices: Any, status: Any, value: float) -> Any:
    """Return the matrices with every failed matrix filled with `value`."""

    def replace(cells: Any, codes: Any) -> Any:
        """Return a copy of `cells` with `value` where the status code is nonzero."""
        cells = cells + 0  # a copy, in every library
        cells[codes != 0] = value
        return cells

    bare = adapter(matrices).unwrap(matrices)
    return adapter(matrices).rewrap(adapter(bare).evaluate(replace, bare, status), matrices)


def _sparse(samples: _labels.Labels, n_classes: int | None, ignored: int | None, on_failure: OnFailure) -> Any:
    """Count one sparse matrix; text labels arrive as integers, and the listed labels as a host array."""
    given: dict[str, Any] = dict(zip(("y_true", "y_pred", "sample_weight"), samples, strict=False))
    for name, shape in samples.shapes.items():
        if len(shape) != 1:
            validate.refuse(name, "of shape (n,) for a sparse matrix", f"shape {shape}")
        array = given[name]
        if not isinstance(array, np.ndarray) and not adapter(array).is_on_host(array):
            validate.refuse(name, "on the host for a sparse matrix", f"on {adapter(array).device(array)}", TypeError)
    truth, guess = (adapter(x).to_host(x) for x in (samples.y_true, samples.y_pred))
    weights = None if samples.weight is None else adapter(samples.weight).to_host(samples.weight)
    if n_classes is not None:
        seen = True if ignored is None else truth != ignored
        for name, y in (("y_true", truth), ("y_pred", guess)):
            outside = np.flatnonzero(((y < 0) | (y >= n_classes)) & seen)
            if outside.size:
                first: list[tuple[tuple[int, ...], int]] = [((int(k),), int(y[k])) for k in outside[:3]]
                _labels.refuse_outside(name, n_classes, outside.size, first)
    matrix, status = sparse_matrices.count_sparse(truth, guess, weights, n_classes, samples.listed, ignored)
    why = None if weights is None else partial(bad_values.explain_weights, weights, weights.shape, None)
    failures.report(status, on_failure, why=why)
    return matrix


def _refuse_many_groups(groups: Array) -> NoReturn:
    """Raise MemoryError for group numbers that need more matrices than memory holds."""
    largest = adapter(groups).extent(groups)[1]
    given = f"{largest}, and with it {largest + 1} matrices, which memory does not hold"
    validate.refuse("groups", "0, 1, ..., one number per matrix", given, MemoryError)


def _check(samples: _labels.Labels, n_classes: int | None) -> None:
    """Validate kinds and shapes of adopted samples."""
    for name, array in zip(_labels.NAMES, samples, strict=False):
        dtype = samples.dtypes[name]
        if dtype.kind not in _labels.KINDS:
            validate.refuse_labels(name, array, "integers, bool or strings")
        if n_classes is not None and dtype.kind not in "bui":
            validate.refuse(name, "integers where n_classes is given", f"dtype {dtype}", TypeError)
    shapes = samples.shapes
    first = shapes["y_true"]
    for name, shape in shapes.items():
        if not shape:
            validate.refuse(name, "of shape (..., n)", f"shape {shape}")
        if shape[-1] != first[-1]:
            wanted = f"{first[-1]} samples as y_true" + (f" of shape {first}" if len(first) > 1 else "")
            columns = [other for other in (first, shape) if len(other) == 2 and other[1] == 1]
            cure = f"; ravel what has shape {columns[0]}, samples come last" if columns else ""
            validate.refuse(name, wanted, f"shape {shape}{cure}")
    wanted, given = (_labels.KINDS[samples.dtypes[name].kind] for name in _labels.NAMES)
    if given != wanted:
        cure = _labels.advise_on_numbers("y_pred", wanted, given)
        validate.refuse("y_pred", f"{wanted} as y_true", f"{given}{cure}", TypeError)
    if len(set(shapes.values())) > 1:
        validate.batch(**{name: shape[:-1] for name, shape in shapes.items()})
