"""The option ``out=``: arrays of the caller that results are written to."""

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.array_utils import byte_bounds

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array
from cmfast.kernels.shared.addresses import find_address
from cmfast.metrics._plan import IndexedPlan, is_group

Labelled: TypeAlias = list[tuple[str, Any]]  # how messages call an array, and the array; one for each requested name


class ResultArrays(NamedTuple):
    """Validated arrays of the caller, one for each requested name, and their memory if that is on the host."""

    arrays: list[Any]
    hosts: list[np.ndarray | None]

    def list_memory(self, layout: IndexedPlan) -> list[np.ndarray] | None:
        """Return the memory of every result of the plan, that of the first of several names; None on a device."""
        first = dict(zip(reversed(layout.positions), reversed(self.hosts), strict=True))
        memory = [host for place in range(len(first)) if (host := first[place]) is not None]
        return memory if len(memory) == len(first) else None

    def fill(self, found: list[Any]) -> list[Any]:
        """Copy every result to its array, if it is not that array's memory already, and return the arrays."""
        for target, host, x in zip(self.arrays, self.hosts, found, strict=True):
            if host is None:
                adapter(target).evaluate(_assign, target, x)
            elif host is not x:
                host[...] = adapter(x).to_host(x)
        return self.arrays


def _assign(target: Any, x: Any) -> Any:
    """Copy the values of `x` to `target`."""
    target[...] = x
    return target


def label_outputs(out: Any, names: object, wanted: tuple[str, ...]) -> Labelled:
    """Return the arrays of `out` for the metrics `wanted`: an array for one name, else a dict with those names."""
    if isinstance(names, str) and not is_group(names):
        return [("out", out)]
    if not isinstance(out, dict):
        validate.refuse("out", "a dict of arrays, as several names return", type(out).__name__, TypeError)
    if odd := sorted({*wanted} ^ {*out}, key=str):
        what = "no array for" if odd[0] in wanted else "an array for"
        validate.refuse("out", "a dict with an array for each of the names", f"{what} {validate.format_value(odd[0])}")
    return [(f"out[{name!r}]", out[name]) for name in wanted]


def _adopt_output(label: str, x: Any, M: Array, shape: tuple[int, ...], kind: np.dtype) -> np.ndarray | None:
    """Validate an array for results of this shape and dtype; return its memory, None if that is on a device."""
    if isinstance(x, np.generic):
        cure = "the results of one matrix are scalars; np.empty(()) takes one"
        validate.refuse(label, "an ndarray", f"{type(x).__name__}: {cure}", TypeError)
    host = dispatch.adopt_output(label, x, M)
    if dispatch.shape_of(x) != shape:
        validate.refuse(label, f"of shape {shape}, that of the result", f"shape {dispatch.shape_of(x)}")
    if adapter(x).dtype(x) != kind:
        validate.refuse(label, f"{kind}, as the result is", f"dtype {adapter(x).dtype(x)}", TypeError)
    return host


def adopt_outputs(out: Labelled, M: Array, shapes: list[tuple[int, ...]], layout: IndexedPlan) -> ResultArrays:
    """Validate arrays for results of these shapes of a plan on the adopted matrices `M`."""
    kind = np.dtype(np.float32 if adapter(M).dtype(M) == np.float32 else np.float64)
    cells = adapter(M).to_host(M) if adapter(M).is_on_host(M) else None
    lowest, highest = byte_bounds(cells) if cells is not None and cells.size else (0, 0)
    plain = type(M) is np.ndarray
    hosts: list[np.ndarray | None] = []
    places = []
    for (label, x), shape, place in zip(out, shapes, layout.positions, strict=True):
        # fast path: what an earlier call returned, with nothing to refuse
        usable = plain and type(x) is np.ndarray and x.dtype == kind and x.shape == shape and x.flags.carray
        host = x if usable else _adopt_output(label, x, M, shape, kind)
        hosts.append(host)
        if host is not None and host.size:
            first = find_address(host)
            if first < highest and lowest < first + host.nbytes:
                validate.refuse(label, "apart from M in memory", "an array that overlaps it")
            places.append((first, first + host.nbytes, place, label))
    for (start, end, one, label), (first, _, other, next_label) in pairwise(sorted(places)):
        if first < end and (first, other) != (start, one):  # several names of one result may share an array
            validate.refuse(label, f"apart from {next_label} in memory", "arrays that overlap")
    return ResultArrays([x for _, x in out], hosts)
