"""The op ``balance`` on a device: pixels packed there, passes over them, and conjugate gradients.

Newton's method runs on the host, and so does the preparation: filtering of bins, sorting of pixels, zeros.
"""

from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, THREADS, Kernel, library
from cmfast.kernels.shared import balancing_cells, balancing_maps
from cmfast.kernels.shared.symmetric_conditioning import TRIANGLE_PIXELS
from cmfast.kernels.shared.symmetric_packing import choose_types

BINS_PER_BLOCK = 1024  # bins of a vector's chunk that a thread block sums
WARP, BLOCK = "32", str(THREADS)
DEFINES = {"BINS_PER_BLOCK": BINS_PER_BLOCK, "TRIANGLE_PIXELS": TRIANGLE_PIXELS}
_PACKED = tuple(product(("unsigned short", "int"), ("unsigned short", "double")))  # distances and counts
_PRODUCT = Kernel("balancing/launch", "cmfast_balance_product", _PACKED)
_LEAST = Kernel("balancing/launch", "cmfast_balance_least", _PACKED)
_TRIANGLES = Kernel("balancing/launch", "cmfast_balance_triangles", _PACKED)
_DOT = Kernel("balancing/launch", "cmfast_balance_dot")
_ADVANCE = Kernel("balancing/launch", "cmfast_balance_advance")
_TURN = Kernel("balancing/launch", "cmfast_balance_turn")
KERNELS = (_PRODUCT, _LEAST, _TRIANGLES, _DOT, _ADVANCE, _TURN)


def balance(
    rows: Any, columns: Any, values: Any, sums: Any, keep: Any, *, num_threads: int | None = None, **options: Any
) -> tuple[Any, ...]:
    """Balance a contact map; return weights, reasons and proofs of all bins, and diagnostics of every block.

    The diagnostics are residual, worst row, passes and status.
    """
    del num_threads
    xp = library(values)

    read = partial(balancing_cells.read_contact_map, to_passes=partial(SymmetricProducts, xp))
    given = (None if array is None else array.get() for array in (rows, columns, values, sums, keep))
    return tuple(xp.asarray(part) for part in balancing_maps.balance(*given, read=read, **options))


class SymmetricProducts:
    """Pixels on the device, stored in the rows of both of their bins, and the passes over them.

    Vectors are copied from and to the host.
    """

    shift = 0

    def __init__(self, xp: ModuleType, i: Any, j: Any, a: Any, n: int) -> None:
        self.xp, self.n, self.count = xp, n, 0
        on = i == j
        self.diagonal = np.zeros(n)
        self.diagonal[i[on]] = a[on]
        i, j, a = (array[~on] for array in (i, j, a))
        near, kinds = choose_types(j - i, a)
        self._instance = tuple(NAMES[np.dtype(kind)] for kind in kinds)
        first, gap, value = self._both_halves(i[near], j[near], a[near], *kinds)
        rest_first, rest_gap, rest_value = self._both_halves(i[~near], j[~near], a[~near], np.int64, np.float64)
        self._packed = {"first": first, "gap": gap, "value": value}
        self._pixels = self._packed | {
            "rest_first": rest_first, "rest_gap": rest_gap, "rest_value": rest_value,
            "diagonal": xp.asarray(self.diagonal),
        }  # fmt: skip

    def _both_halves(self, i: Any, j: Any, a: Any, *kinds: Any) -> tuple[Any, Any, Any]:
        """Return row starts, distances and values: first of the pixels above the diagonal, then mirrored below it."""
        xp, numbers = self.xp, [np.bincount(bins, minlength=self.n) for bins in (i, j)]
        first = np.concatenate([[0], np.cumsum(np.concatenate(numbers))])
        below = xp.asarray(j).argsort() if len(j) else slice(None)  # stable: rows in order
        gap, value = (xp.asarray(array.astype(kind)) for array, kind in zip((j - i, a), kinds, strict=True))
        return xp.asarray(first), *(xp.concatenate([array, array[below]]) for array in (gap, value))

    def checkpoint(self) -> None:
        """Do nothing: a device computation is not interrupted here."""

    def sums(self, x: Any) -> Any:
        """Return the row sums of the scaled matrix."""
        there, out = self.xp.asarray(x), self.xp.empty(self.n)
        self.product(there, there, None, None, out)
        return out.get()

    def product(self, w: Any, x: Any, r: Any, d: Any, out: Any) -> None:
        """Write ``r * d + x * (A @ w)``."""
        self.count += 1
        blocks = batches.blocks(self.n, WARP)
        _PRODUCT.launch(self._instance, blocks, **self._pixels, w=w, x=x, r=r, d=d, n=self.n, out=out)

    def iterate(self, x: Any, r: Any, g: Any, z: Any) -> "DeviceIterate":
        """Return the iterate of conjugate gradients for the residual `g`, preconditioned to `z`."""
        return DeviceIterate(self, *map(self.xp.asarray, (x, r, g, z)))

    def least(self, x: Any) -> float:
        """Return the smallest scaled cell."""
        self.count += 1
        out = self.xp.empty(self.n)
        blocks = batches.blocks(self.n, WARP)
        _LEAST.launch(self._instance, blocks, **self._pixels, x=self.xp.asarray(x), n=self.n, out=out)
        return float(out.min())

    def triangles(self, x: Any) -> tuple[Any, ...]:
        """Return for each bin the triangle found with the largest smallest pixel, scaled by `x`.

        A tuple of host arrays: that pixel (0 without a triangle) and the two other bins.
        """
        self.count += 1
        found = tuple(self.xp.empty(self.n, kind) for kind in (np.float64, np.int64, np.int64))
        out = dict(zip(("out", "second", "third"), found, strict=True))
        blocks = batches.item_blocks(self.n)
        _TRIANGLES.launch(self._instance, blocks, **self._packed, x=self.xp.asarray(x), n=self.n, **out)
        return tuple(array.get() for array in found)

    def find_components(self) -> tuple[Any, Any]:
        """Return the component of each bin, and its colour as a sign, 0 where it is not bipartite.

        Computed on the host. In the bipartite double cover (every bin twice, pixels joining different copies) a
        bipartite component splits in two.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n, on = self.n, np.flatnonzero(self.diagonal)
        ends = [on, on]
        for name in ("", "rest_"):
            first, gap = (self._pixels[name + part].get() for part in ("first", "gap"))
            i = np.repeat(np.arange(n), np.diff(first[: n + 1]))
            ends = [np.concatenate(pair) for pair in zip(ends, (i, i + gap[: len(i)]), strict=True)]
        i, j = ends
        graph = coo_array((np.ones(2 * len(i), np.int8), (np.append(i, j), np.append(j, i) + n)), shape=(2 * n, 2 * n))
        _, part = connected_components(graph, directed=False)
        one, other = part[:n], part[n:]
        _, component = np.unique(np.minimum(one, other), return_inverse=True)
        return component, np.sign(other - one).astype(np.float64)


class DeviceIterate:
    """The vectors of conjugate gradients on the Hessian, starting from zero, on the device."""

    def __init__(self, passes: SymmetricProducts, x: Any, r: Any, g: Any, z: Any) -> None:
        xp, n = passes.xp, passes.n
        self._passes, self._x, self._r, self._left, self._z = passes, x, r, g, z
        self._step, self._d, self._w, self._moved = xp.zeros(n), xp.zeros(n), xp.empty(n), xp.empty(n)
        chunks = -(-n // BINS_PER_BLOCK)
        self._parts, self._found = xp.empty(chunks), xp.empty(1 + chunks)  # sums by chunk
        self.turn(0.0)

    def step(self, energy: float) -> tuple[float, float]:
        """Multiply, then move to the minimum along the search direction; return the curvature and the new energy.

        Waits for the device once: it divides `energy`, the last one, by the curvature itself.
        """
        passes, chunks = self._passes, len(self._parts)
        passes.product(self._w, self._x, self._r, self._d, self._moved)
        given = {"d": self._d, "moved": self._moved, "n": passes.n}
        scratch = batches.team_scratch(BLOCK)
        _DOT.launch((), chunks, shared=scratch, dots=self._parts, **given)
        _ADVANCE.launch(
            (), chunks, shared=scratch, parts=self._parts, chunks=chunks, energy=energy, r=self._r,
            step=self._step, left=self._left, z=self._z, out=self._found, **given,
        )  # fmt: skip
        curvature, *energies = self._found.get().tolist()
        return curvature, float(np.sum(energies))

    def turn(self, ratio: float) -> None:
        """Set the search direction to the preconditioned residual plus `ratio` times the last direction."""
        n = self._passes.n
        _TURN.launch((), batches.item_blocks(n), beta=ratio, z=self._z, x=self._x, n=n, d=self._d, w=self._w)

    @property
    def solution(self) -> Any:
        """The solution, on the host."""
        return self._step.get()
