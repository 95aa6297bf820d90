"""Adapter of NumPy arrays and of lists, pandas, Arrow and memory maps (``numpy.asarray``); runs ``cpu`` kernels."""

from array import array
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.ma  # both imported here, because NumPy's lazy import could run while another thread forks
import numpy.random

from cmfast._core.adapters import Adapter, _class_order, _columns, _text_codes, read_only
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.loading import find_loaded_module

_HOST = 1  # kDLCPU
# Arguments with a value for each row or each column of a matrix: the axis of the matrix that has the same labels.
_AXES = {"row_sums": 0, "class_shares": 0, "col_sums": 1}
COLUMNS = ("y_true", "y_pred", "y_score", "y_a", "y_b", "sample_weight", "groups", "clusters")  # may be of a table
MOST_NAME_LETTERS = 80  # of a name of a column in a message
_BUFFERS = (memoryview, bytearray, array)  # sequences that NumPy reads as one buffer


class NumPy(Adapter):
    """Adapter of NumPy arrays, and of lists, columns and buffers, which become NumPy arrays."""

    takes_columns = True

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return `x` as an ndarray in native byte order: a read-only view, or a converted copy.

        Read-only, because memory maps, Arrow and pandas return read-only arrays anyway, and Numba would compile every
        kernel again for writable ones. Text becomes :class:`Coded`.
        """
        if isinstance(x, _text_codes.Coded):
            return x
        if type(x) is list or type(x) is tuple:
            coded = _text_codes.encode_many(x)
            if coded is not None:
                return coded
            x = _convert_to_array(name, x)
        elif type(x) is not np.ndarray:
            x = _columns.collect_table(x)
            refuse_unsafe(name, x)
            known = _columns.dictionary_codes(name, x)
            if known is not None:
                distinct, codes = known
                values = self.adopt(name, distinct, op)
                return values.take(codes) if isinstance(values, _text_codes.Coded) else read_only(values[codes])
            x = _convert_to_array(name, _columns.frame_to_array(name, x))
        kind = x.dtype.kind
        if kind == "O":
            found = _text_codes.encode_objects(name, x)
            return read_only(found) if isinstance(found, np.ndarray) else found
        if kind in "UST":
            coded = _text_codes.encode(x)
            if not all(isinstance(text, str | bytes) for text in coded.names):  # StringDType(na_object=...)
                return _text_codes.encode_objects(name, x.astype(object))
            return coded
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        return read_only(x)

    def check_agreement(self, arrays: dict[str, Any]) -> str | None:
        """Raise ValueError if pandas objects, or labelled counts, have one index in two orders.

        Arrays are matched by position. Of two DataFrames rows and columns are compared, of a Series and a DataFrame the
        axis that has the same labels. Series of samples must not name different samples, either; see
        :func:`_compare_samples`. Returns the text of a warning, or None.
        """
        if all(type(x) is np.ndarray for x in arrays.values()):
            return None
        pd = find_loaded_module("pandas")
        if pd is None:
            return None
        named = [(name, axes) for name, x in arrays.items() if (axes := _list_indexes(pd, x))]
        for (first, x), (second, y) in combinations(named, 2):
            pairs = _pair_axes(first, x, second, y)
            for (axis, a), (other, b) in pairs:
                if _are_permuted(a, b):
                    cure = f"{second}.reindex({f'{other}=' if len(y) > 1 else ''}{first}.{axis})"
                    if other == "labels":
                        cure = f"{first}.reindex({f'{axis}=' if len(x) > 1 else ''}{second}.labels)"
                    advice = f"give {cure}, or arrays if their order is meant"
                    if "y_true" in arrays and (_is_default(pd, a) or _is_default(pd, b)):
                        # The default index may be that of predictions in a new Series, which are in order.
                        advice = (
                            f"give {first}.to_numpy() and {second}.to_numpy() if rows belong together, as predictions "
                            f"in a new Series do; else {cure}, which matches the labels of the indexes"
                        )
                    msg = (
                        f"{first} and {second} must have the same index, as they are matched by position, got one "
                        f"index in two orders; {advice}"
                    )
                    raise ValueError(msg)
                if {first, second} & _AXES.keys() and _have_other_labels(pd, a, b):
                    shown = " and ".join(_class_order.format_labels(list(index)) for index in (a, b))
                    msg = (
                        f"{first} and {second} must have the same labels, as they are matched by position, got "
                        f"{shown}; give arrays if their order is meant"
                    )
                    raise ValueError(msg)
        series = [(name, x.index) for name, x in arrays.items() if isinstance(x, pd.Series)]
        doubts = (_compare_samples(pd, *pair) for pair in combinations(series, 2) if "y_true" in arrays)
        return next((doubt for doubt in doubts if doubt is not None), None) or _doubt_order(pd, arrays)

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the ``cpu`` kernel; 0-d results become NumPy scalars, as a ufunc's do."""
        out = get_kernel(op, "cpu")(*arrays, **options)
        if not isinstance(out, tuple):
            return out[()] if type(out) is np.ndarray and not out.ndim else out
        return tuple([x[()] if type(x) is np.ndarray and not x.ndim else x for x in out])

    def share_memory(self, name: str, x: Any) -> np.ndarray:
        """Return a view of an ndarray; raise TypeError for anything that would have to be converted."""
        if not isinstance(x, np.ndarray):
            msg = f"{name} must be an ndarray, got {type(x).__name__}"
            raise TypeError(msg)
        refuse_unsafe(name, x)
        return x.view(np.ndarray)

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to ndarrays as they are."""
        return function(*arrays)

    def to_host(self, x: Any) -> np.ndarray:
        """Return `x` itself; a scalar as a 0-d array."""
        return np.asarray(x)

    def from_host(self, x: np.ndarray, like: Any) -> np.ndarray:
        """Return `x` itself."""
        del like
        return x

    def send(self, x: Any, like: Any) -> Any:
        """Return `x` itself: there is only one host."""
        del like
        return x


def _convert_to_array(name: str, x: Any) -> np.ndarray:
    """Convert `x` by numpy.asarray, except where that would round integers or pad text."""
    kinds: set[type] = set()
    depth = 0
    if isinstance(x, Sequence) and not isinstance(x, _BUFFERS):
        kinds, depth = _text_codes.leaf_types(x)
    if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        msg = f"{name} must be an array, got masked values in a {type(x).__name__}; fill or drop them first"
        raise TypeError(msg)
    as_objects = _text_codes.is_text(kinds) or _text_codes.is_missing(kinds)
    try:
        out = np.array(x, object) if as_objects else np.asarray(x)
        if out.dtype.kind in "US" and not hasattr(x, "dtype"):  # rows of text next to other rows
            out = np.array(x, object)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; lists of tensors that require gradients
        if "inhomogeneous" in str(error):
            _text_codes.refuse_ragged(name, x)
        msg = f"{name} must be an array of numbers, got a {type(x).__name__} that cannot be converted: {error}"
        raise TypeError(msg) from error
    if as_objects and out.ndim <= depth:
        _text_codes.refuse_ragged(name, x)
    return _text_codes.convert_to_uint64(name, x) if out.dtype.kind in "Of" and _text_codes.are_integers(kinds) else out


def refuse_unsafe(name: str, x: Any) -> None:
    """Raise TypeError for arrays that numpy.asarray would misread: masked, lazy, sparse or in device memory."""
    what = f"{type(x).__module__}.{type(x).__qualname__}"
    if isinstance(x, np.ma.MaskedArray):
        msg = f"{name} is a masked array, whose mask would be lost; fill or drop the masked values first"
        raise TypeError(msg)
    if isinstance(x, np.matrix):
        msg = f"{name} is a numpy.matrix; give numpy.asarray({name})"
        raise TypeError(msg)
    if hasattr(x, "__dask_graph__") and x.__dask_graph__() is not None:
        msg = f"{name} is a lazy {what}; numpy.asarray would compute it silently, so call .compute() first"
        raise TypeError(msg)
    if hasattr(x, "todense") or hasattr(x, "toarray"):
        msg = f"{name} is a sparse {what}; give {name}.toarray()"
        raise TypeError(msg)
    if _is_on_device(x):
        where = getattr(x, "device", "a device")
        msg = f"{name} is a {what} on {where}; cmfast has no adapter for it, so copy it to the host first"
        raise TypeError(msg)
    if isinstance(x, str | bytes | dict | set | frozenset) or x is None:
        is_name = isinstance(x, str) and len(x) <= MOST_NAME_LETTERS and name in COLUMNS
        cure = f"; give the column itself, table[{x!r}]" if is_name else ""
        msg = f"{name} must be an array, got {type(x).__name__}{cure}"
        raise TypeError(msg)


def _list_indexes(pd: Any, x: Any) -> list[Any]:
    """Return name and pandas index of each axis of a Series, a DataFrame or labelled counts; of others none."""
    if isinstance(x, pd.DataFrame):
        return [("index", x.index), ("columns", x.columns)]
    if isinstance(x, pd.Series):
        return [("index", x.index)]
    return [("labels", pd.Index(x.labels))] * 2 if hasattr(type(x), "_matrix_for_ops") else []


def _is_default(pd: Any, index: Any) -> bool:
    """Whether an index is 0, ..., n-1, which pandas gives to rows without names."""
    return bool(index.equals(pd.RangeIndex(len(index))))


def _have_other_labels(pd: Any, a: Any, b: Any) -> bool:
    """Whether two indexes of one length, of labels and not of positions, share most labels but not all."""
    if len(a) != len(b) or a.equals(b) or _is_default(pd, a) or _is_default(pd, b):
        return False
    return len(a) < 2 * int(a.isin(b).sum()) < 2 * len(a)


def _pair_axes(first: str, x: list[Any], second: str, y: list[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of axes of two arguments that must agree; none if a vector fits an axis of a matrix."""
    if len(x) == len(y):
        return list(zip(x, y, strict=True))
    axis = _AXES.get(first if len(x) == 1 else second)
    if axis is not None:
        return [(x[0] if len(x) == 1 else x[axis], y[0] if len(y) == 1 else y[axis])]
    pairs = list(product(x, y))
    return [] if any(a.equals(b) for (_, a), (_, b) in pairs) else pairs


def _doubt_order(pd: Any, arrays: dict[str, Any]) -> str | None:
    """Return the text of a warning if values per class have the order of value_counts but the matrix has no labels.

    That order is by frequency, whereas the classes of a counted matrix are sorted.
    """
    axes = [axis for name, x in arrays.items() if name not in _AXES for _, axis in _list_indexes(pd, x)]
    if not all(_is_default(pd, axis) for axis in axes):
        return None
    for name in _AXES:
        x: Any = arrays.get(name)
        if not isinstance(x, pd.Series) or len(x) < 2 or x.index.is_monotonic_increasing:
            continue
        if x.is_monotonic_decreasing and x.iloc[0] != x.iloc[-1]:
            shown = _class_order.format_labels(list(x.index))
            matrix = next(other for other in arrays if other not in _AXES)
            return (
                f"{name} is matched by position, as {matrix} has no labels, but is sorted by size, as value_counts() "
                f"does, with the labels {shown}; give {name}.sort_index(), as classes are sorted, or an array if its "
                "order is meant"
            )
    return None


def _are_permuted(a: Any, b: Any) -> bool:
    """Whether two indexes have the same labels in two orders, each once."""
    if a is b or len(a) != len(b) or a.equals(b) or not (a.is_unique and b.is_unique):
        return False
    return bool(a.isin(b).all())


def _compare_samples(pd: Any, one: tuple[str, Any], other: tuple[str, Any]) -> str | None:
    """Raise ValueError if the indexes of two Series name different samples; return the text of a warning, or None.

    The default index 0..n-1 names no samples: predictions in a new Series go with any index, as they do in
    scikit-learn. Two other indexes with most labels in common are of one population, and then of different samples of
    it: an error.
    """
    (first, a), (second, b) = one, other
    n = len(a)
    if a is b or len(b) != n or a.equals(b):  # another length raises where shapes are compared
        return None
    if _is_default(pd, a) or _is_default(pd, b):
        return None
    meant = "; give arrays, by .to_numpy(), if their order is meant"
    align = f"{first}, {second} = {first}.align({second}, join='inner') keeps those in both"
    by_position = f"{first} and {second} are matched by position"
    shared = int(a.isin(b).sum())
    common = f"{shared:,} of {n:,} labels" if shared else "no label"
    if not (a.is_unique and b.is_unique):
        return f"{by_position}, but their indexes differ, and repeat labels{meant}"
    if 2 * shared > n:
        what = f"{first} and {second} must be of the same samples, as they are matched by position"
        msg = f"{what}, got two indexes with {common} in common; {align}{meant}"
        raise ValueError(msg)
    return f"{by_position}, but their indexes have {common} in common{meant}"


def _is_on_device(x: Any) -> bool:
    """Whether DLPack reports device memory for `x`."""
    device = getattr(x, "__dlpack_device__", None)
    try:
        return device is not None and int(device()[0]) != _HOST
    except (TypeError, ValueError, BufferError):  # Arrow types unknown to DLPack, which are on the host
        return False


ADAPTER = NumPy()
