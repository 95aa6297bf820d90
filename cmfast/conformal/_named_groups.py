"""Groups by name: text, categories or dates instead of indices, and a dict of thresholds by group."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import dispatch, lazy, validate
from cmfast._core.adapters import adapter
from cmfast.confusion_counts import _label_codes

KINDS = "iuM"  # of NumPy, besides text
WANTED = "integers, text, categories or dates"


class NamedGroups(NamedTuple):
    """The names of groups, and the index of the name of each row, -1 for a row of another group."""

    names: tuple[Any, ...]
    codes: np.ndarray


def encode_groups(groups: Any) -> NamedGroups | None:
    """Return the names of groups, sorted or in the order of their categories; None for integers, or without groups."""
    if groups is None or lazy.are_lazy(groups) or (isinstance(groups, np.ndarray) and groups.dtype.kind in "biuf"):
        return None
    plain = dispatch.adopt_one("groups", validate.type_empty_labels(groups))
    if adapter(plain).dtype(plain).kind not in "USOM":
        return None
    found = _label_codes.encode_column("groups", groups, _label_codes.OWN_CODE_SPAN, KINDS, WANTED).compact()
    order = range(len(found.values)) if found.declared else np.argsort(np.array(found.values)).tolist()
    places = np.empty(len(found.values), np.int64)
    places[list(order)] = np.arange(len(found.values))
    return NamedGroups(tuple(found.values[k] for k in order), places[np.asarray(found.codes)])


def stack_thresholds(q: Mapping[Any, Any], rows: tuple[int, ...], like: Any) -> Any:
    """Return thresholds by group as one array, shape (..., A, G) or (..., A, G, C), in the library of `like`."""
    if not q:
        validate.refuse("q", "an array", "dict without groups", TypeError)
    given = [dispatch.adopt_one(f"q[{validate.format_value(name)}]", one) for name, one in q.items()]
    host = [np.asarray(adapter(one).to_host(one)) for one in given]
    host = [one.reshape(1) if one.ndim == 0 else one for one in host]
    for name, one in zip(q, host, strict=True):
        if one.shape != host[0].shape:
            first = f"of shape {host[0].shape}, as q[{validate.format_value(next(iter(q)))}]"
            validate.refuse(f"q[{validate.format_value(name)}]", first, f"shape {one.shape}")
    if host[0].ndim < len(rows):
        validate.refuse("q", f"with the batch axes {rows[:-1]} of P", f"thresholds of shape {host[0].shape}")
    return adapter(like).send(np.stack(host, axis=len(rows)), like)


def find_groups(groups: Any, names: Sequence[Any]) -> np.ndarray:
    """Return the position in `names` of the group of each row, -1 for another group."""
    if groups is None:
        wanted = "the group of each row, as q has thresholds by group"
        validate.refuse("groups", wanted, "None", TypeError)
    found = _label_codes.encode_column("groups", groups, _label_codes.OWN_CODE_SPAN, KINDS, WANTED).compact()
    places = {name: k for k, name in enumerate(names)}
    table = np.array([places.get(value, -1) for value in found.values], np.int64)
    codes: np.ndarray = table[np.asarray(adapter(found.codes).to_host(found.codes))]
    return codes


def refuse_unnamed_thresholds(groups: Any) -> None:
    """Refuse groups of text where thresholds are an array, which does not say whose they are."""
    if encode_groups(groups) is not None:
        wanted = "integers, as q is an array of thresholds"
        cure = (
            "with the same groups threshold(s, alpha, groups=...) returns a dict of thresholds by group, to pass as q"
        )
        kind = validate.describe_dtype(dispatch.adopt_one("groups", groups))
        validate.refuse("groups", wanted, f"{kind}; {cure}", TypeError)
