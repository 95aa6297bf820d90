"""Partition cell counts into shards of disjoint cells by a hash of the cell's index row, the same for any points."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from cmfast._core import dispatch, validate
from cmfast._core.adapters import adapter
from cmfast.kernels.shared.geometry_keys import bits_of

MOST_PARTS = 1 << 16
DECODED_TRIPLES = 1 << 16  # triples decoded at a time


def validate_n_parts(n_parts: Any) -> int:
    """Validate that the option `n_parts` is an integer from 1 to MOST_PARTS; return it as an int."""
    return validate.count("n_parts", n_parts, least=1, most=MOST_PARTS)


def partition_cells(cells: Any, n_parts: Any) -> list[Any]:
    """Partition the cells into `n_parts` counts of disjoint cells; see :meth:`CellCounts.deal`."""
    n = validate_n_parts(n_parts)
    keys, counts = adapter(cells._keys).to_host(cells._keys), adapter(cells.counts).to_host(cells.counts)
    table = None if cells._table is None else adapter(cells._table).to_host(cells._table)
    number = assign_parts(keys, table, cells, n)
    order = number.argsort(kind="stable")
    cuts = np.searchsorted(number[order], np.arange(n + 1)).tolist()
    out = []
    for k, (start, stop) in enumerate(pairwise(cuts)):
        some = order[start:stop]
        arrays = _drop_unused_cells(keys[some], table, 2 * bits_of(cells.n_classes))
        mine, index = (None if x is None else adapter(cells.counts).send(x, cells.counts) for x in arrays)
        given = adapter(cells.counts).send(counts[some], cells.counts)
        dropped = 0 if k else cells.n_dropped
        out.append(replace(cells, counts=given, n_dropped=dropped, _keys=mine, _table=index))
    return out


def _drop_unused_cells(keys: np.ndarray, table: Any, bits: int) -> tuple[np.ndarray, Any]:
    """Return keys and table without the cells that no key uses, renumbering the ranks in the keys."""
    if table is None:
        return keys, None
    cells = keys >> bits
    head = np.diff(cells, prepend=-1) > 0
    rank = np.cumsum(head) - 1
    return (rank << bits) | (keys & ((1 << bits) - 1)), table[cells[head]]


def assign_parts(keys: np.ndarray, table: Any, cells: Any, n: int) -> np.ndarray:
    """Return the part number (below `n`) of each key, a hash of the index row of its cell."""
    out = np.empty(len(keys), np.uint16)
    options = {"ranges": cells._ranges, "bits": 2 * bits_of(cells.n_classes)}
    for start in range(0, len(keys), DECODED_TRIPLES):
        some = slice(start, start + DECODED_TRIPLES)
        index, _ = dispatch.call("decode_cells", keys[some], table, **options)
        out[some] = (_hash_rows(index) >> np.uint64(32)) * np.uint64(n) >> np.uint64(32)
    return out


def _hash_rows(index: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each row of integers, by xor and multiplication."""
    out = np.zeros(len(index), np.uint64)
    for column in index.T:
        out = (out ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(32)
    return out * np.uint64(0xD6E8FEB86659FD93)
