"""Columns of any labels as numbers: the codes that their library holds where it does, and nothing is sorted twice."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core import labels as _labels
from cmfast._core.adapters import _columns, _text_codes, adapter, read_only
from cmfast._core.annotations import Array
from cmfast.confusion_counts._label_axis import CATEGORIES, FOUND, ORDERED, Axis

LABELS = "integers, bool or strings"
OWN_CODE_SPAN = 1 << 10  # integers that are their own codes lie so close together


class Codes(NamedTuple):
    """A column: which of `values` every entry is."""

    codes: Array
    values: list[Any]
    declared: Axis | None = None

    def axis(self, occurs: np.ndarray) -> Axis:
        """Return the labels: all categories that the column declares, else what `occurs`, sorted."""
        return self.declared or Axis(tuple(sorted(self.values[k] for k in np.flatnonzero(occurs))), FOUND)

    def compact(self) -> "Codes":
        """Return the column without the codes that do not occur."""
        places, codes = adapter(self.codes).unique(self.codes)
        return Codes(codes, [self.values[k] for k in places.tolist()], self.declared)


def encode_labels(name: str, y: Array, *, dates: bool = False, floats: bool = False) -> Codes:
    """Return a column of labels, of whatever shape; with `floats` the error says how floats become labels."""
    return encode_column(
        name, y, OWN_CODE_SPAN, "biuM" if dates else "biu", LABELS, validate.refuse_labels if floats else _refuse
    )


def _refuse(name: str, x: Array, wanted: str) -> NoReturn:
    validate.refuse(name, wanted, validate.describe_dtype(x), TypeError)


def convert_whole_floats(name: str, y: Array) -> Array:
    """Return labels that are floats as integers, checked to be whole numbers; any others as they are."""
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
    """Return a column as codes; `kinds` are those of NumPy's that it may be of beside text, `wanted` says it."""
    try:
        declared = _columns.categories(name, x)
    except ValueError as error:  # of missing values, in the words for all columns
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
    if missing.any():  # they are sorted behind all others
        n_missing = int((adapter(codes).to_host(codes) >= np.argmax(missing)).sum())
        validate.refuse(name, "without missing values", f"{n_missing} missing")
    return Codes(codes, list(found) if dtype.kind == "M" else found.tolist())


def _encode_integers(x: Array, dtype: np.dtype[Any], span: int) -> Codes:
    """Return integers as their own codes, or as distances from the least, where they lie close together."""
    if 0 in dispatch.shape_of(x):
        return Codes(x, [])
    least, most = adapter(x).extent(x)
    if least >= 0 and most < span:
        return Codes(x, list(range(most + 1)))
    if most - least < span and dtype.kind == "i" and dtype.itemsize > 1:  # so the type holds every distance
        return Codes(adapter(x).evaluate(lambda x: x - least, x), list(range(least, most + 1)))
    values, codes = adapter(x).unique(x)
    return Codes(codes, values.tolist())


def _convert_categories(values: list[Any]) -> list[Any]:
    """Return categories as Python's own values; what has no kind of ours, as an interval, by its text."""
    plain = [x.item() if isinstance(x, np.generic) and x.dtype.kind in "biuf" else x for x in values]
    known = (bool, int, float, str, bytes, np.datetime64)
    return plain if all(isinstance(value, known) for value in plain) else list(map(str, plain))
