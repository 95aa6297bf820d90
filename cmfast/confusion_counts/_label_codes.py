"""Encode label columns as integer codes, reusing the codes that their library stores."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import _columns, _text_codes, adapter, read_only
from cmfast._core.annotations import Array
from cmfast.confusion_counts._label_axis import CATEGORIES, FOUND, ORDERED, Axis

LABELS = "integers, bool or strings"
OWN_CODE_SPAN = 1 << 10  # range up to which integer labels serve as their own codes


class Codes(NamedTuple):
    """An encoded column: the position in `values` of each entry, and the declared categories if any."""

    codes: Array
    values: list[Any]
    declared: Axis | None = None

    def axis(self, occurs: np.ndarray) -> Axis:
        """Return the labels: all declared categories, else the `values` selected by the mask `occurs`, sorted."""
        return self.declared or Axis(tuple(sorted(self.values[k] for k in np.flatnonzero(occurs))), FOUND)

    def compact(self) -> "Codes":
        """Return the column without codes that do not occur."""
        places, codes = adapter(self.codes).unique(self.codes)
        return Codes(codes, [self.values[k] for k in places.tolist()], self.declared)


def encode_labels(name: str, y: Array, *, dates: bool = False, floats: bool = False) -> Codes:
    """Encode a column of labels of any shape; with `floats` the error explains how floats become labels."""
    return encode_column(
        name, y, OWN_CODE_SPAN, "biuM" if dates else "biu", LABELS, validate.refuse_labels if floats else _refuse
    )


def _refuse(name: str, x: Array, wanted: str) -> NoReturn:
    """Raise TypeError for a column of another dtype."""
    validate.refuse(name, wanted, validate.describe_dtype(x), TypeError)


def convert_whole_floats(name: str, y: Array) -> Array:
    """Convert float labels to integers and raise if one is not a whole number; other labels stay unchanged."""
    found = dispatch.adopt_one(name, validate.type_empty_labels(y))
    found = adapter(found).unwrap(found)
    floats = not isinstance(found, _text_codes.Coded) and adapter(found).dtype(found).kind == "f"
    return _labels.convert_whole_floats(name, found) if floats else y


def encode_column(
    name: str,
    x: Array,
    span: int,
    kinds: str,
    wanted: str,
    refuse: Callable[[str, Array, str], NoReturn] = _refuse,
) -> Codes:
    """Encode a column; `kinds` are the accepted NumPy dtype kinds besides text, and `wanted` describes them."""
    try:
        declared = _columns.categories(name, x)
    except ValueError as error:  # missing values, worded as for all columns
        validate.fail(str(error))
    if declared is not None:
        values = _convert_categories(declared.values)
        source = ORDERED if declared.ordered else CATEGORIES
        return Codes(read_only(declared.codes), values, Axis(tuple(values), source))
    x = dispatch.adopt_one(name, validate.type_empty_labels(x))
    x = adapter(x).unwrap(x)
    if isinstance(x, _text_codes.Coded):
        return Codes(x.codes, x.names)
    dtype = adapter(x).dtype(x)
    if dtype.kind not in kinds:
        refuse(name, x, wanted)
    if dtype.kind == "b":
        return Codes(x, [False, True])
    if dtype.kind in "iu":
        return _encode_integers(x, dtype, span)
    found, codes = adapter(x).unique(x)
    missing = np.isnat(found) if dtype.kind == "M" else np.isnan(found)
    if missing.any():  # missing values are sorted last
        n_missing = int((adapter(codes).to_host(codes) >= np.argmax(missing)).sum())
        validate.refuse(name, "without missing values", f"{n_missing} missing")
    return Codes(codes, list(found) if dtype.kind == "M" else found.tolist())


def _encode_integers(x: Array, dtype: np.dtype[Any], span: int) -> Codes:
    """Encode integers as themselves or as differences from the minimum if their range is small, else by position."""
    if 0 in dispatch.shape_of(x):
        return Codes(x, [])
    least, most = adapter(x).extent(x)
    if least >= 0 and most < span:
        return Codes(x, list(range(most + 1)))
    if most - least < span and dtype.kind == "i" and dtype.itemsize > 1:  # the dtype can hold every difference
        return Codes(adapter(x).evaluate(lambda x: x - least, x), list(range(least, most + 1)))
    values, codes = adapter(x).unique(x)
    return Codes(codes, values.tolist())


def _convert_categories(values: list[Any]) -> list[Any]:
    """Convert categories to Python values; categories of other types, such as intervals, to text."""
    plain = [x.item() if isinstance(x, np.generic) and x.dtype.kind in "biuf" else x for x in values]
    known = (bool, int, float, str, bytes, np.datetime64)
    return plain if all(isinstance(value, known) for value in plain) else list(map(str, plain))
