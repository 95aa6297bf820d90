"""Find the distinct integers of arrays, and positions of integers among classes.

A range that is not much larger than the arrays gets a lookup table. Integers farther apart are hashed; a few integers,
and those that hash badly or are nearly all distinct, are sorted. All ways give the same result.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared.counting import NO_POSITION

BLOCK_INTEGERS = 1 << 16  # integers converted and looked up at a time: they stay in the level-2 cache
FIRST_INTEGERS = 1 << 12  # in the first block that is marked in a lookup table; the next have twice as many each
MOST_SORTED_INTEGERS = 1 << 10  # integers up to which sorting is fast, and compiles nothing
FEW_EXAMINED = 1 << 9  # integers, at least, that show whether they are far apart
LEAST_SAMPLED_INTEGERS = 1 << 18  # to read fewer takes less time than what follows
MOST_LOOKUP_SPAN = 1 << 16  # range up to which a lookup table is used, even for fewer integers
NO_CODES = np.empty(0, np.int32)  # to write none
LEAST_SLOTS = 1 << 14  # of a hash table: 64 KB
SLOTS_PER_KEY = 4  # at least; with two a lookup among 1e5 keys takes twice the time
GROWTH = 4  # factor by which a full table grows
MOST_STEPS, SPARE_STEPS = 8, 256  # probes beyond the first, per integer and per call, after which keys are sorted
MOST_DISTINCT = 1 << 20  # distinct integers, above which the hash table leaves the caches, and sorting is faster
MOST_NEW_SHARE, NEW_AFTER = 0.5, 4  # new integers of the block with this number, above which sorting is faster
FEW_NEW = 1 << 11  # new integers in a block, down to which one thread collects those that all threads share
SECONDS_PER_INTEGER, SECONDS_PER_COMPARED_INTEGER = 2e-9, 1.5e-10


class HashingError(Exception):
    """Hashing was given up, because sorting is faster: many keys collide, perhaps on purpose, or most are distinct."""


@jit(inner=True, inline=True)
def _mix_bits(x):
    """Mix the bits of a 64-bit key so that each affects all others: the finaliser of SplitMix64 (Steele et al. 2014).

    It is one to one, so different keys collide only after bits are dropped.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit()
def _insert(values, first, slots, keys, count, codes):
    """Append the values, from the index `first` on, that are new to `keys`; return the index of the next, and `count`.

    Returns early if `keys` is full, and with a negative count if there are too many probes. A slot holds
    the index of a key, or -1; keys that collide are in the following slots. `codes` gets the index of the key of each
    value, if it has elements.
    """
    mask, one, left = np.uint64(len(slots) - 1), np.uint64(1), MOST_STEPS * len(values) + SPARE_STEPS
    for k in range(first, len(values)):
        value = values[k]
        at = _mix_bits(np.uint64(value)) & mask
        index = slots[at]
        while index >= 0 and keys[index] != value:
            at = (at + one) & mask
            index = slots[at]
            left -= 1
            if left < 0:
                return k, -1
        if index < 0:
            if count == len(keys):
                return k, count
            index = np.int32(count)
            slots[at] = index
            keys[count] = value
            count += 1
        if len(codes) > 0:
            codes[k] = index
    return len(values), count


@jit()
def _look_up(values, slots, keys, out):
    """Write the index in `keys` of each value, -1 for other values; return False if that takes too many probes."""
    mask, one, left = np.uint64(len(slots) - 1), np.uint64(1), MOST_STEPS * len(values) + SPARE_STEPS
    for k in range(len(values)):
        value = values[k]
        at = _mix_bits(np.uint64(value)) & mask
        index = slots[at]
        while index >= 0 and keys[index] != value:
            at = (at + one) & mask
            index = slots[at]
            left -= 1
            if left < 0:
                return False
        out[k] = index
    return True


class _HashedKeys:
    """A set of int64 keys in order of first occurrence, in an open-addressing hash table."""

    def __init__(self, n_slots=LEAST_SLOTS):
        self._reserve(n_slots)
        self._count = 0

    def _reserve(self, n_slots):
        """Replace the table by an empty one."""
        self._slots = np.full(n_slots, -1, np.int32)
        self._keys = np.empty(n_slots // SLOTS_PER_KEY, np.int64)

    @property
    def keys(self):
        """The keys."""
        return self._keys[: self._count]

    def add(self, values):
        """Add the values that are no keys yet; raise HashingError if too many collide."""
        at, values = 0, _freeze(values)
        while at < len(values):
            at, count = _insert(values, at, self._slots, self._keys, self._count, NO_CODES)
            if count < 0:
                raise HashingError
            self._count = count
            if at < len(values):
                self._grow()

    def encode(self, values):
        """Add the values that are no keys yet and return the index of each; raise HashingError if too many collide."""
        at, values, codes = 0, _freeze(values), np.empty(len(values), np.int32)
        while at < len(values):
            at, count = _insert(values, at, self._slots, self._keys, self._count, codes)
            if count < 0:
                raise HashingError
            self._count = count
            if at < len(values):
                self._grow()
        return codes

    def _grow(self):
        """Enlarge the table, which is full; the keys keep their indices."""
        before = self.keys
        self._reserve(GROWTH * len(self._slots))
        _, self._count = _insert(_freeze(before), 0, self._slots, self._keys, 0, NO_CODES)
        if self._count < 0:
            raise HashingError

    def find(self, values):
        """Return the index of each value among the keys, -1 for others; raise HashingError if too many collide."""
        out = np.empty(len(values), np.int32)
        if not _look_up(_freeze(values), self._slots, self._keys, out):
            raise HashingError
        return out


def find_distinct(*arrays: Any, num_threads: int | None = None) -> Any:
    """Return the sorted distinct integers of arrays: int64, uint64, or objects if neither holds all of them."""
    flats = [a.reshape(-1) for a in arrays if a.size]
    if not flats:
        return np.empty(0, np.int64)
    kind: Any = np.int64
    unsigned = [flat for flat in flats if flat.dtype == np.uint64]
    if unsigned and find_extent(unsigned, num_threads)[1] >= 2**63:
        kind = np.uint64
        if find_extent(flats, num_threads)[0] < 0:
            every = {value for flat in flats for value in find_distinct(flat, num_threads=num_threads).tolist()}
            return np.array(sorted(every), object)
    size = sum(flat.size for flat in flats)
    if size <= MOST_SORTED_INTEGERS:
        return _sort_distinct(flats, kind)
    steps = (1,) if size < LEAST_SAMPLED_INTEGERS else (size // MOST_SORTED_INTEGERS, 1)
    for step in steps:  # a sample suffices if its range is large
        low, high = find_extent([flat[::step] for flat in flats], num_threads)
        if high - low >= max(MOST_LOOKUP_SPAN, size):
            break
    else:
        occurs = np.zeros(high - low + 1, np.bool_)
        for block in _iterate_blocks(flats, FIRST_INTEGERS):
            occurs[_subtract(block, low).view(np.int64)] = True  # NumPy is slow for unsigned indices
            if occurs.size <= 2 * block.size and occurs.all():
                break  # often early: the test takes less than a fiftieth of the time of a block
        return np.flatnonzero(occurs).astype(kind) + kind(low)
    try:
        return np.sort(_hash_distinct(flats, num_threads).view(kind))
    except HashingError:
        return _sort_distinct(flats, kind)


def find_extent(flats: list[Any], num_threads: int | None = None) -> tuple[int, int]:
    """Return the smallest and the largest integer of flat arrays, (0, -1) if they are empty; read them once."""
    found, blocks = [], list(_iterate_blocks(flats))

    def work(_, start, stop):
        """Find the extent of some blocks, which stay in the cache between two passes."""
        for block in blocks[start:stop]:
            pool.checkpoint()
            found.append((int(block.min()), int(block.max())))

    seconds = sum(flat.size for flat in flats) * SECONDS_PER_COMPARED_INTEGER
    if seconds < pool.INLINE_SECONDS:
        work(0, 0, len(blocks))
    else:
        pool.run_pieces(work, pool.free_pieces(len(blocks), seconds), seconds=seconds, num_threads=num_threads)
    return (min(low for low, _ in found), max(high for _, high in found)) if found else (0, -1)


def _iterate_blocks(flats, first=BLOCK_INTEGERS):
    """Yield the arrays in blocks, the first one of `first` integers, each next one twice as large up to a limit."""
    for flat in flats:
        start, size = 0, first
        while start < flat.size:
            yield flat[start : start + size]
            start, size = start + size, min(2 * size, BLOCK_INTEGERS)


def _subtract(values, low):
    """Return ``values - low`` modulo 2**64 as uint64, so that values below `low` become large."""
    return values.astype(np.uint64) - np.uint64(low % 2**64)


def _freeze(values):
    """Return a read-only view of an array, so that kernels are compiled for one type."""
    values = values.view()
    values.flags.writeable = False
    return values


def _convert_keys(values):
    """Return integers of any type as contiguous int64 with the same 64 bits."""
    return np.ascontiguousarray(values, None if values.dtype == np.uint64 else np.int64).view(np.int64)


def _sort_distinct(flats, kind):
    """Return the sorted distinct integers of arrays by sorting."""
    found = np.concatenate([flat.astype(kind) for flat in flats])
    found.sort()
    differs = np.ones(found.size, np.bool_)
    np.not_equal(found[1:], found[:-1], out=differs[1:])
    return found[differs]


def _hash_distinct(flats, num_threads):
    """Return the distinct integers of arrays as int64 of the same bits, unsorted; raise HashingError if they are many.

    One thread collects keys until a block has few new ones; the other blocks add theirs to a small set for each piece.
    """
    blocks, shared = list(_iterate_blocks(flats)), _HashedKeys()
    for first, block in enumerate(blocks, start=1):
        pool.checkpoint()
        before = len(shared.keys)
        shared.add(_convert_keys(block))
        new = len(shared.keys) - before
        if len(shared.keys) > MOST_DISTINCT or (first == NEW_AFTER and new > MOST_NEW_SHARE * BLOCK_INTEGERS):
            raise HashingError
        if first > 1 and new <= FEW_NEW:
            break
    rest = blocks[first:]
    seconds = len(rest) * BLOCK_INTEGERS * SECONDS_PER_INTEGER
    bounds = pool.pieces(len(rest), seconds)
    parts = [_HashedKeys() for _ in bounds]

    def work(i, start, stop):
        """Collect the keys of a piece that are not shared."""
        for block in rest[start:stop]:
            pool.checkpoint()
            values = _convert_keys(block)
            missing = shared.find(values) < 0
            if missing.any():
                parts[i].add(values[missing])
            if len(parts[i].keys) > MOST_DISTINCT:
                raise HashingError

    pool.run_pieces(work, bounds, seconds=seconds, num_threads=num_threads)
    for part in parts:
        shared.add(part.keys)
    return shared.keys


def find_positions(values: Any, classes: Any, *, ignored: int | None = None, num_threads: int | None = None) -> Any:
    """Return the position in `classes` of each integer, int8 or int32; NO_POSITION for others, and for `ignored`.

    `classes` are distinct integers in any order, as an array or a list of Python integers.
    """
    keys, places = _select_keys(classes, np.uint64 if values.dtype == np.uint64 else np.int64, ignored)
    narrow = np.int8 if len(classes) <= np.iinfo(np.int8).max else np.int32
    if keys.size and values.size <= MOST_SORTED_INTEGERS:
        keys, places = _sort_keys(keys, places)
        return _search_sorted(keys, places, values).astype(narrow)
    if not keys.size:
        return np.full(values.shape, NO_POSITION, narrow)
    out = np.empty(values.shape, narrow)
    values, flat = values.reshape(-1), out.reshape(-1)
    try:
        _write_positions(values, _choose_search(values, keys, places), flat, num_threads)
    except HashingError:
        keys, places = _sort_keys(keys, places)
        _write_positions(values, partial(_search_sorted, keys, places), flat, num_threads)
    return out


def encode_far_apart(a: Any, b: Any) -> tuple[Any, Any, Any] | None:
    """Return the sorted distinct integers of two flat arrays, and the position of each element of either among them.

    None for few integers and those of a small range, which other ways encode faster. Each is hashed once.
    """
    size = a.size + b.size
    unsigned = [x.dtype == np.uint64 for x in (a, b)]
    if size <= MOST_SORTED_INTEGERS or any(unsigned) != all(unsigned):
        return None
    some = [x[:: max(1, x.size // FEW_EXAMINED)] for x in (a, b)]
    low, high = min(int(x.min()) for x in some), max(int(x.max()) for x in some)
    if high - low < max(MOST_LOOKUP_SPAN, size):
        return None
    hashed = _HashedKeys()
    try:
        codes = [hashed.encode(_convert_keys(x)) for x in (a, b)]
    except HashingError:
        return None
    keys = hashed.keys.view(np.uint64 if any(unsigned) else np.int64)
    order = keys.argsort()
    positions = np.empty(len(keys), np.int32)
    positions[order] = np.arange(len(keys), dtype=np.int32)
    return keys[order], positions[codes[0]], positions[codes[1]]


def _select_keys(classes, kind, ignored):
    """Return the classes that `kind` can hold, without `ignored`, and their positions."""
    if not isinstance(classes, np.ndarray):
        try:
            classes = np.array(classes, np.int64)
        except OverflowError:
            classes = np.array(classes, object)
    if classes.dtype == kind and ignored is None:
        return classes, np.arange(len(classes))
    limits = np.iinfo(kind)
    possible = (classes >= limits.min) & (classes <= limits.max)
    if ignored is not None:
        possible &= classes != ignored
    places = np.flatnonzero(possible)
    return classes[places].astype(kind), places


def _choose_search(values: Any, keys: Any, places: Any) -> Callable[[Any], Any]:
    """Return a function from some values to their positions by a lookup table or, far apart, by hashing."""
    low = int(keys.min())
    span = int(keys.max()) - low + 1
    if span <= max(MOST_LOOKUP_SPAN, values.size):
        table = np.full(span + 1, NO_POSITION, np.int32)
        table[_subtract(keys, low).view(np.int64)] = places
        return partial(_read_table, low, table)
    hashed = _HashedKeys(max(LEAST_SLOTS, 1 << (SLOTS_PER_KEY * len(keys)).bit_length()))
    hashed.add(_convert_keys(keys))
    if len(places) == places[-1] + 1:
        return lambda values: hashed.find(_convert_keys(values))
    places = np.append(places, NO_POSITION)
    return lambda values: places[hashed.find(_convert_keys(values))]


def _sort_keys(keys, places):
    """Return keys and their places in the order of the keys."""
    order = keys.argsort()
    return keys[order], places[order]


def _search_sorted(keys, places, values):
    """Return the positions of values by bisection in sorted keys."""
    at = np.minimum(keys.searchsorted(values), len(keys) - 1)
    return np.where(keys[at] == values, places[at], NO_POSITION)


def _read_table(low, table, values):
    """Return what a lookup table holds for each value; its last entry for values outside."""
    return table[np.minimum(_subtract(values, low), np.uint64(len(table) - 1)).view(np.int64)]


def _write_positions(values, search, out, num_threads):
    """Write the positions that `search` finds, block by block in parallel."""
    seconds = len(values) * SECONDS_PER_INTEGER

    def work(_, start, stop):
        """Write one piece."""
        for first in range(start, stop, BLOCK_INTEGERS):
            pool.checkpoint()
            last = min(first + BLOCK_INTEGERS, stop)
            out[first:last] = search(values[first:last])

    pool.run_pieces(work, pool.pieces(len(values), seconds), seconds=seconds, num_threads=num_threads)
