"""Base class of counts that add: batches of int64 arrays with overflow checks, merging and saving."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np

from cmfast._core import dispatch, lazy, overflow_checks, validate
from cmfast._core.adapters import adapter
from cmfast._core.overflow_checks import MOST_SAMPLES
from cmfast._files.archive import demand
from cmfast._files.states import State, class_only


class BatchedCounts(State):
    """Arrays of counts with leading batch axes; two are merged by adding them."""

    __slots__ = ()
    _CORES: ClassVar[dict[str, int]]
    """Number of axes of every array after the batch axes."""
    _SAME: ClassVar[tuple[str, ...]] = ()
    """Attributes that must be equal for addition."""
    _TOTALS: ClassVar[tuple[str, ...]] = ()
    """Arrays whose sums along the last axis are checked as totals of samples."""

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self._CORES}
        if lazy.are_lazy(*given.values()):
            return
        for name, x in given.items():
            (array,) = dispatch.adopt(**{name: x})
            validate.integer(**{name: array})
            exact = adapter(array).dtype(array) == np.int64
            if type(array) is not type(x) or not exact:
                bare = adapter(array).unwrap(array)
                object.__setattr__(self, name, array if exact else adapter(bare).cast(bare, np.int64))
        self._check_counts()

    def _check_counts(self) -> None:
        """Refuse negative counts, and totals beyond 2**61; synchronises the device."""
        for name in self._CORES:
            array = getattr(self, name)
            overflow_checks.check_counts(name, adapter(array).unwrap(array), MOST_SAMPLES)
        self._check_totals()

    def _check_totals(self) -> None:
        """Refuse rows whose sums exceed the largest number of samples."""
        for name in self._TOTALS:
            array = getattr(self, name)
            array = adapter(array).unwrap(array)
            overflow_checks.sum_counts_along(
                f"the sum of {name}", array, len(dispatch.shape_of(array)) - 1, MOST_SAMPLES
            )

    @classmethod
    def _wrap_arrays(cls, *fields: Any) -> Self:
        """Return counts from arrays of a kernel, without validation."""
        out = object.__new__(cls)
        for name, value in zip((*cls._CORES, *cls._SAME), fields, strict=True):
            object.__setattr__(out, name, value)
        return out

    def _replace_arrays(self, **arrays: Any) -> Self:
        """Return a copy with other arrays."""
        fields = {name: getattr(self, name) for name in (*self._CORES, *self._SAME)} | arrays
        return self._wrap_arrays(*fields.values())

    def __add__(self, other: object) -> Self:
        if isinstance(other, int) and other == 0:  # start value of sum()
            return self
        if not isinstance(other, type(self)):
            return NotImplemented
        for name in self._SAME:
            if getattr(self, name) != getattr(other, name):
                validate.refuse(name, f"the same in both, {getattr(self, name)}", getattr(other, name))
        found = {}
        for name in self._CORES:
            mine, others = dispatch.adopt(**{name: getattr(self, name), f"{name} of the other": getattr(other, name)})
            shapes = dispatch.shape_of(mine), dispatch.shape_of(others)
            if shapes[0] != shapes[1]:
                validate.refuse(name, f"of one shape in both, {shapes[0]}", f"shape {shapes[1]}")
            found[name] = overflow_checks.add_counts(name, mine, others, MOST_SAMPLES)
        out = self._replace_arrays(**found)
        out._check_totals()
        return out

    def __radd__(self, other: object) -> Self:
        return self.__add__(other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        if any(getattr(self, name) != getattr(other, name) for name in self._SAME):
            return False
        pairs = ((getattr(self, name), getattr(other, name)) for name in self._CORES)
        return all(np.array_equal(adapter(a).to_host(a), adapter(b).to_host(b)) for a, b in pairs)

    def __hash__(self) -> int:
        msg = f"{type(self).__name__} are unhashable, as arrays are"
        raise TypeError(msg)

    @class_only
    @classmethod
    def merge(cls, parts: Iterable[Self], /) -> Self:
        """Merge the counts of any number of parts, as ``sum(parts)``.

        Parameters
        ----------
        parts : iterable
            Counts of this class, with the same batch and classes.

        Raises
        ------
        TypeError, ValueError
            Parts of another class, library, device, batch or number of classes; no parts.
        OverflowError
            2**61 samples or more.
        """
        if not isinstance(parts, Iterable):
            validate.refuse("parts", f"an iterable of {cls.__name__}", type(parts).__name__, TypeError)
        total: Any = 0
        for k, part in enumerate(parts):
            if not isinstance(part, cls):
                validate.refuse(f"parts[{k}]", cls.__name__, type(part).__name__, TypeError)
            total = part if isinstance(total, int) else total + part
        if isinstance(total, int):
            validate.refuse("parts", "at least one", "none")
        found: Self = total
        return found

    def sum(self, axis: int = 0) -> Self:
        """Merge the counts along a batch axis: over clients, folds or rounds.

        Parameters
        ----------
        axis : int
            Index of the axis among the batch axes.

        Raises
        ------
        TypeError, ValueError
            An axis that the batch does not have.
        OverflowError
            2**61 samples or more.
        """
        batch = self._batch()
        at = self._axis(axis, batch)
        sums = {
            name: overflow_checks.sum_counts_along(name, getattr(self, name), at, MOST_SAMPLES) for name in self._CORES
        }
        out = self._replace_arrays(**sums)
        out._check_totals()
        return out

    def _batch(self) -> tuple[int, ...]:
        """Return the shape of the batch."""
        name, core = next(iter(self._CORES.items()))
        shape = dispatch.shape_of(getattr(self, name))
        return shape[: len(shape) - core]

    @staticmethod
    def _axis(axis: Any, batch: tuple[int, ...]) -> int:
        """Validate an axis of the batch; return it as a nonnegative index."""
        if not batch:
            validate.refuse("axis", "an axis of the batch, which has no axes", validate.format_value(axis))
        at = validate.count("axis", axis, least=-len(batch), most=len(batch) - 1)
        return at % len(batch)

    def _get_parts(self) -> dict[str, Any]:
        """Return the parts of a saved state, with the batch flattened."""
        batch = self._batch()
        found: dict[str, Any] = {"batch": np.array(batch, np.int64)}
        for name, core in self._CORES.items():
            array = getattr(self, name)
            host = adapter(array).to_host(array)
            found[name] = host.reshape(math.prod(batch), *host.shape[host.ndim - core :])
        return found | {name: getattr(self, name) for name in self._SAME}

    @classmethod
    def _unpack_arrays(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Return the saved arrays in the shape of their batch; refuse negative counts and overflowing totals."""
        batch = tuple(map(int, parts["batch"]))
        demand(all(k >= 0 for k in batch), "its batch cannot be")
        found = {}
        for name in cls._CORES:
            array = parts[name]
            demand(len(array) == math.prod(batch), f"its {name} has not the size of its batch")
            known = not array.size or (int(array.min()) >= 0 and int(array.max()) <= MOST_SAMPLES)
            demand(known, f"its {name} cannot be counts")
            if name in cls._TOTALS:
                few = not array.size or int(array.max()) * array.shape[-1] <= MOST_SAMPLES
                most = 0 if few else max(sum(row) for row in array.reshape(-1, array.shape[-1]).tolist())
                demand(most <= MOST_SAMPLES, f"its {name} add up to 2**61 or more")
            found[name] = array.reshape((*batch, *array.shape[1:]))[()]
        return found
