"""Count confusion matrices from labels: in shared memory if the tables fit, with integer atomics."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import workspace
from cmfast.kernels.cuda._core.batches import LABELS, as_labels, team_scratch
from cmfast.kernels.cuda._core.module import NAMES, SHARED, THREADS, Kernel, library, most_shared, processors
from cmfast.kernels.shared import halves
from cmfast.kernels.shared.counting import MOST_LABEL_SPAN, find_outside
from cmfast.kernels.status import INVALID, RANGE

BLOCK_SAMPLES = 1 << 13  # least samples per block
MOST_SAMPLE_BLOCKS = 1 << 12  # most blocks; larger inputs get more samples per block
MOST_HELD = SHARED // 4  # most counters of a block in shared memory if several blocks are to run together
SAMPLES_PER_CELL = 4  # least samples of a block for each cell of a table with more counters
TABLE_COPIES = 8  # copies of a table in shared memory, because lanes that count the same cell conflict
MOST_BYTE_CELL_CLASSES = 16  # classes up to which a cell fits into a byte
SUM_DIGIT_BITS = 28
ROUND = 16 * THREADS  # one-byte labels per round of a block, 16 per thread
DEFINES = {"SUM_DIGIT_BITS": SUM_DIGIT_BITS, "ROUND": ROUND}
HEADROOM_DIGITS = 5  # three digits that a weight touches, two for carries

_WEIGHTED = tuple(product(LABELS, ("float", "double")))
_COUNT = Kernel("counting", "cmfast_confusion_matrix_count", tuple(product(LABELS, ("0", "1"))), 96)
_EXPONENTS = Kernel("counting", "cmfast_confusion_matrix_exponents", _WEIGHTED, 80)
_ADD = Kernel("counting", "cmfast_confusion_matrix_add", tuple((*w, h) for w, h in product(_WEIGHTED, ("0", "1"))), 72)
_ROUND = Kernel("counting", "cmfast_confusion_matrix_round")
_BYTES = Kernel("counting", "cmfast_confusion_matrix_count_bytes", tuple((y,) for y in LABELS))
KERNELS = (_COUNT, _BYTES, _EXPONENTS, _ADD, _ROUND)


def count_parts(rows: int, n: int) -> int:
    """Return the number of parts, one per block, of a row of `n` samples; depends on the shapes alone."""
    least = max(BLOCK_SAMPLES, -(-rows * n // MOST_SAMPLE_BLOCKS))
    return -(-n // least)


class _LabelSamples:
    """Label arrays, weights and groups as rows of samples, and their division among blocks."""

    def __init__(self, y_true: Any, y_pred: Any, weight: Any, groups: Any, ignored: int | None = None) -> None:
        self.xp = library(y_true)
        arrays = [a for a in (y_true, y_pred, weight, groups) if a is not None]
        self.batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        self.n, self.rows = y_true.shape[-1], math.prod(self.batch)
        labels, self.label_type = as_labels(y_true, y_pred)
        self.labels = [self._rows(y) for y in labels]
        self.groups = (None, 0) if groups is None else self._rows(groups.astype(np.int64, copy=False))
        self.ignored = ignored
        self.weight = None
        if weight is not None:
            exact = weight.dtype in (np.float32, np.float64)
            self.weight = self._rows(weight if exact else weight.astype(np.float64))

    def _rows(self, array: Any) -> tuple[Any, int]:
        """Return a contiguous array and its row stride, 0 if all rows share it."""
        shared = math.prod(array.shape[:-1]) == 1
        if not shared and array.shape[:-1] != self.batch:
            array = self.xp.broadcast_to(array, (*self.batch, self.n))
        return self.xp.ascontiguousarray(array), 0 if shared else self.n

    def tables(self, n_classes: int, n_groups: int) -> tuple[Any, Any, int]:
        """Return the tables ``(rows, G, C, C)``, their status, and the number of pairs out of range."""
        shape = (self.rows, n_groups, n_classes, n_classes)
        make = self._counts if self.weight is None else self._weights
        return make(shape) if self.rows * self.n else self._nothing(shape)

    def _nothing(self, shape: tuple[int, ...]) -> tuple[Any, Any, int]:
        """Return the result for no samples."""
        dtype = np.int64 if self.weight is None else np.float64
        return self.xp.zeros(shape, dtype), self.xp.zeros(shape[:2], np.int8), 0

    def _division(self, together: int, least: int = 0) -> tuple[int, int, int]:
        """Return rows per block, parts per row of at least so many samples, and the number of blocks."""
        if together > 1:
            return together, 1, -(-self.rows // together)
        parts = min(count_parts(self.rows, self.n), max(1, self.n // max(1, least)))
        return 1, parts, self.rows * parts

    def _find_room(self, cells: int) -> tuple[int, int]:
        """Return the counters of a block in shared memory for tables of `cells` each, and the block's least samples.

        Beyond MOST_HELD the device is asked for more if a block clears and adds up its table for many samples: else
        global atomics cost less.
        """
        if cells <= MOST_HELD:
            return MOST_HELD, 0
        device = self.labels[0][0].device
        running = processors(device) * (most_shared(device) // (4 * cells))  # blocks with tables that run together
        samples = self.rows * self.n
        if running and min(self.n, samples // running) >= SAMPLES_PER_CELL * cells:
            return cells, samples // running
        return MOST_HELD, 0

    def _common(self, shape: tuple[int, ...], together: int, parts: int) -> dict[str, Any]:
        """Return the arguments that all sample kernels share."""
        _, n_groups, n_classes, _ = shape
        (t, t_step), (p, p_step), (g, g_step) = *self.labels, self.groups
        weight = {} if self.weight is None else dict(zip(("weight", "w_step"), self.weight, strict=True))
        return weight | {
            "y_true": t, "t_step": t_step, "y_pred": p, "p_step": p_step, "groups": g, "g_step": g_step,
            "n": self.n, "rows": self.rows, "together": together, "parts": parts,
            "n_classes": n_classes, "n_groups": n_groups,
            "ignores": self.ignored is not None, "ignored": (self.ignored or 0) % 2**64,
        }  # fmt: skip

    def _counts(self, shape: tuple[int, ...]) -> tuple[Any, Any, int]:
        """Count without weights; return tables, status and the number of pairs out of range."""
        out, outside = self.count(shape)
        return out, self.xp.zeros(shape[:2], np.int8), int(outside.get()[0])  # synchronises

    def count(self, shape: tuple[int, ...], given: tuple[Any, ...] | None = None) -> tuple[Any, Any]:
        """Return the tables of counts, and the number of pairs out of range as an array."""
        cells, n_classes = math.prod(shape[1:]), shape[-1]
        out, outside = workspace.prepare_results(self.xp, given, (shape, np.uint64), ((1,), np.uint64))
        out[...] = 0
        outside[...] = 0
        if not self.rows * self.n:
            return out.view(np.int64), outside
        counters, least = self._find_room(cells)
        room = counters // max(1, cells)
        together, parts, blocks = self._division(max(1, min(room, BLOCK_SAMPLES // self.n, self.rows)), least)
        common = self._common(shape, together, parts) | {"out": out, "out_outside": outside}
        words = (4 + THREADS) * (cells // 4 + 1)  # of block and threads; the last cell is out of range
        fits = n_classes <= MOST_BYTE_CELL_CLASSES and 4 * words <= SHARED
        if together == 1 and self.groups[0] is None and self.ignored is None and fits:
            others = {"groups", "g_step", "together", "n_groups", "ignores", "ignored"}
            own = {name: common[name] for name in common.keys() - others}
            _BYTES.launch((self.label_type,), blocks, shared=4 * words, **own)
        else:
            copies = max(1, min(TABLE_COPIES, room // together))
            held = room > 0
            bytes_held = max(4 * cells * together * copies if held else 0, team_scratch(str(THREADS)))
            _COUNT.launch((self.label_type, str(int(held))), blocks, shared=bytes_held, copies=copies, **common)
        return out.view(np.int64), outside

    def _weights(self, shape: tuple[int, ...]) -> tuple[Any, Any, int]:
        """Add weights exactly as digit sums; return tables, status and the number of pairs out of range."""
        assert self.weight is not None
        instance = (self.label_type, NAMES[self.weight[0].dtype])
        most = max(1, min(BLOCK_SAMPLES // self.n, self.rows))
        together, parts, blocks = self._division(most)
        found, flags = self.xp.asarray(np.array([4096, -4096, 0])), self.xp.zeros(shape[:2], np.int32)
        _EXPONENTS.launch(
            instance, blocks, shared=team_scratch(str(THREADS)),
            **self._common(shape, together, parts), out_found=found, out_flags=flags,
        )  # fmt: skip
        lowest, highest, outside = found.get().tolist()  # synchronises
        base, digits = (lowest, (highest - lowest) // SUM_DIGIT_BITS + HEADROOM_DIGITS) if highest >= lowest else (0, 1)
        digit = self.xp.zeros((*shape, digits), np.uint64)
        words = math.prod(shape[1:]) * digits
        room = MOST_HELD // max(1, words)
        together, parts, blocks = self._division(max(1, min(room, most)))
        stride = words * together | 1  # odd, so that neighbouring lanes use different banks
        copies = max(1, min(TABLE_COPIES, MOST_HELD // stride))
        held = int(room > 0 and 4 * stride * copies <= SHARED)
        _ADD.launch(
            (*instance, str(held)), blocks, shared=4 * stride * copies if held else 0,
            **self._common(shape, together, parts), base=base, digits=digits, copies=copies,
            stride=stride if held else 0, out_digits=digit,
        )  # fmt: skip
        out, status = self.xp.empty(shape), self.xp.empty(shape[:2], np.int8)
        tables, cells = math.prod(shape[:2]), math.prod(shape[2:])
        if tables:
            _ROUND.launch(
                (), -(-tables * 32 // THREADS),
                digit=digit.view(np.int64), digits=digits, base=base, flags=flags, cells=cells, n=tables,
                out=out, out_status=status,
            )  # fmt: skip
        return out, status, outside


def count_pairs(y_true: Any, y_pred: Any, n_classes: int, *, out: tuple[Any, ...] | None = None) -> tuple[Any, Any]:
    """Return the tables of counts ``(..., C, C)``, and the number of pairs out of range as an array."""
    samples = _LabelSamples(y_true, y_pred, None, None)
    shape, given = (samples.rows, 1, n_classes, n_classes), None
    if out is not None:
        workspace.prepare_results(samples.xp, out, ((*samples.batch, *shape[2:]), np.int64), ((1,), np.uint64))
        given = (out[0].view(np.uint64).reshape(shape), out[1])
    table, outside = samples.count(shape, given)
    return table.reshape(*samples.batch, n_classes, n_classes), outside


def confusion_matrix(
    y_true: Any,
    y_pred: Any,
    weight: Any,
    groups: Any,
    *,
    n_classes: int | None,
    labels: np.ndarray | None,
    n_groups: int | None,
    ignored: int | None = None,
    num_threads: int | None = None,
) -> tuple[Any, Any, Any]:
    """Count pairs of labels into confusion matrices; return matrices, status, and labels out of range.

    Arguments are those of the public function. The last result is None, or a tuple: the name of the argument, the
    limit, the number of values, and the first of them as (index, value).
    """
    del num_threads
    if weight is not None and weight.dtype.kind != "f":
        options: dict[str, Any] = {"n_classes": n_classes, "labels": labels, "n_groups": n_groups, "ignored": ignored}
        return _add_integer_weights(y_true, y_pred, weight, groups, **options)
    n_tables = 1
    if groups is not None:
        lowest, highest = (int(groups.min()), int(groups.max())) if groups.size else (0, -1)  # synchronises
        n_tables = highest + 1 if n_groups is None else n_groups
        if lowest < 0 or highest >= n_tables:
            return None, None, find_outside(library(groups), n_groups, groups=groups)
    if n_classes is None:
        codes_true, codes_pred, size = _map_labels(y_true, y_pred, labels, ignored)
        samples = _LabelSamples(codes_true, codes_pred, weight, groups)
        table, status, _ = samples.tables(size, n_tables)  # pairs with an absent label are left out
    else:
        samples = _LabelSamples(y_true, y_pred, weight, groups, ignored)
        table, status, outside = samples.tables(n_classes, n_tables)
        if outside:
            return None, None, find_outside(samples.xp, n_classes, ignored, y_true=y_true, y_pred=y_pred)
    shape = (*samples.batch, *(table.shape[1:2] if groups is not None else ()))
    return table.reshape(*shape, *table.shape[2:]), status.reshape(shape), None


def _add_integer_weights(y_true: Any, y_pred: Any, weight: Any, groups: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Add integer weights as 32-bit halves, each split into pieces whose float64 sums are exact."""
    parts = []
    for half in halves.split_halves(weight):
        table = None
        for shift, piece in split_into_pieces(half, y_true.shape[-1]):
            found, _, outside = confusion_matrix(y_true, y_pred, piece, groups, **options)
            if outside is not None:
                return None, None, outside
            found = found.astype(np.int64) << shift
            table = found if table is None else table + found
        parts.append(table)
    table, good = halves.join_halves(*parts)
    good = good.all(axis=(-2, -1))
    return table * good[..., None, None], ((1 - good) * INVALID).astype(np.int8), None


def split_into_pieces(half: Any, n: int) -> list[tuple[int, Any]]:
    """Return 32-bit integers as float64 pieces of few bits, `n` times addable exactly, with their shifts."""
    bits = min(32, 53 - int(n).bit_length())
    shifts = range(0, 32, bits)
    mask = (1 << bits) - 1
    return [(s, (half >> s if s + bits >= 32 else (half >> s) & mask).astype(np.float64)) for s in shifts]


def _map_labels(y_true: Any, y_pred: Any, labels: np.ndarray | None, ignored: int | None) -> tuple[Any, Any, int]:
    """Map labels to indices in `labels`, or in the sorted distinct labels; -1 if absent.

    So does a truth of `ignored`; what is predicted there alone does not occur.
    """
    found = [_find_distinct(y) for y in (y_true, y_pred)]
    if labels is not None:
        names = labels.tolist()
    elif ignored is None:
        names = sorted(set().union(*(values for values, _ in found)))
    else:
        shape = np.broadcast_shapes(y_true.shape, y_pred.shape)
        pair = [library(y_true).broadcast_to(y, shape) for y in (y_true, y_pred)]
        seen = pair[0] != ignored
        names = sorted(set().union(*(_find_distinct(y[seen])[0] for y in pair)))
    index = {name: k for k, name in enumerate(names)}
    xp, codes = library(y_true), []
    for values, positions in found:
        numbers = xp.asarray(np.array([index.get(value, -1) for value in values] or [-1], np.int64))
        codes.append(numbers[positions])
    if ignored is not None:
        codes[0] = xp.where(y_true == ignored, np.int64(-1), codes[0])
    return codes[0], codes[1], len(names)


def _find_distinct(y: Any) -> tuple[list[int], Any]:
    """Return the sorted distinct values of `y` as Python integers, and the index of each entry among them."""
    xp = library(y)
    if not y.size:
        return [], y.astype(np.int64)
    low, high = int(y.min()), int(y.max())  # synchronises
    if high - low >= MOST_LABEL_SPAN:
        values = xp.unique(y)  # synchronises
        return values.tolist(), xp.searchsorted(values, y)
    offset = (y - np.uint64(low)).astype(np.int64) if y.dtype == np.uint64 else y.astype(np.int64) - low
    seen = xp.zeros(high - low + 1, np.bool_)
    seen[offset] = True
    occur = seen.get()  # synchronises
    return (np.flatnonzero(occur).astype(object) + low).tolist(), xp.asarray(np.cumsum(occur) - 1)[offset]


def sum_groups(weights: Any, groups: Any, n_groups: int) -> tuple[Any, Any]:
    """Return the exact sums of floats per group, rounded once, and their status.

    Those of float32 are rounded to it.
    """
    nothing = library(groups).zeros(len(groups), np.uint8)
    options: dict[str, Any] = {"n_classes": 1, "labels": None, "n_groups": n_groups}
    values, status, _ = confusion_matrix(nothing, nothing, weights, groups, **options)
    values = values.reshape(n_groups)
    if weights.dtype != np.float32:
        return values, status
    xp, values = library(groups), values.astype(np.float32)
    wild = (status == 0) & (xp.isfinite(values) == 0)
    return xp.where(wild, np.float32(np.nan), values), xp.where(wild, np.int8(RANGE), status)
