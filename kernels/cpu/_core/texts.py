"""Encode texts, given as bytes, by a hash table of the distinct ones."""

import numpy as np

from cmfast.kernels.cpu._core.bits import popcount, read_word
from cmfast.kernels.cpu._core.distinct import GROWTH, LEAST_SLOTS, MOST_STEPS, SLOTS_PER_KEY, SPARE_STEPS, HashingError
from cmfast.kernels.cpu._core.jit import jit

WORD_BYTES = 8  # bytes that are hashed and compared at a time; so many follow the last text of an array


@jit(inner=True, inline=True)
def _read_last_word(data, at, stop):
    """Return the bytes before `stop`, fewer than eight, as one number."""
    return read_word(data, at) & ((np.uint64(1) << np.uint64(8 * (stop - at))) - np.uint64(1))


@jit(inner=True, inline=True)
def _hash_text(data, start, stop):
    """Return a hash of 64 bits: for each word an exclusive or, a multiplication and a shift, as in Murmur hashes."""
    h, at = np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15), start
    while at + 8 <= stop:
        h = (h ^ read_word(data, at)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
        at += 8
    h = (h ^ _read_last_word(data, at, stop)) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(32))


@jit(inner=True, inline=True)
def _are_equal(data, start, stop, store, at):
    """Return whether a text equals the stored text of the same length."""
    while start + 8 <= stop:
        if read_word(data, start) != read_word(store, at):
            return False
        start += 8
        at += 8
    return _read_last_word(data, start, stop) == _read_last_word(store, at, at + stop - start)


@jit()
def _find_zeros(data, positions):
    """Write the positions of the first zero bytes, which must suffice, eight bytes at a time."""
    low, found = np.uint64(0x7F7F7F7F7F7F7F7F), 0
    for at in range(0, len(data) - 7, 8):
        word = read_word(data, at)
        zeros = ~(((word & low) + low) | word | low)  # the highest bit of each zero byte
        while zeros != 0:
            positions[found] = at + popcount(np.int64((zeros - np.uint64(1)) & ~zeros)) // 8
            found += 1
            if found == len(positions):
                return
            zeros &= zeros - np.uint64(1)


@jit()
def _encode_texts(data, starts, stops, first, table, count, codes, new):
    """Write the codes of texts from the index `first` on; return the index of the next, and the number of texts known.

    Returns early if the table is full, and with a negative number if there are too many probes. `new` gets the indices
    of the texts that are new, from the position `count` on. The `table` holds slots, the hash of each known text, where
    its bytes begin in the store and end, and the store.
    """
    slots, hashes, ends, store = table
    mask, one, left = np.uint64(len(slots) - 1), np.uint64(1), MOST_STEPS * len(starts) + SPARE_STEPS
    for k in range(first, len(starts)):
        start, stop = starts[k], stops[k]
        h = _hash_text(data, start, stop)
        at = h & mask
        index = slots[at]
        while index >= 0 and not (
            hashes[index] == h
            and ends[index + 1] - ends[index] == stop - start
            and _are_equal(data, start, stop, store, ends[index])
        ):
            at = (at + one) & mask
            index = slots[at]
            left -= 1
            if left < 0:
                return k, -1
        if index < 0:
            begin = ends[count]
            if count == len(hashes) or begin + stop - start + 8 > len(store):
                return k, count
            index = count
            slots[at], hashes[index], new[index] = index, h, k
            for byte in range(start, stop):
                store[begin + byte - start] = data[byte]
            count += 1
            ends[count] = begin + stop - start
        codes[k] = index
    return len(starts), count


@jit()
def _fill_slots(hashes, slots):
    """Insert the hashes, which are of different texts, into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for k in range(len(hashes)):
        at = hashes[k] & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = k


class TextCodes:
    """The distinct texts of blocks of texts, as bytes, in order of first occurrence."""

    def __init__(self):
        self.count = 0
        self._slots = np.full(LEAST_SLOTS, -1, np.int32)
        self._hashes = np.empty(LEAST_SLOTS // SLOTS_PER_KEY, np.uint64)
        self._ends = np.zeros(len(self._hashes) + 1, np.int64)
        self._store = np.empty(16 * len(self._hashes), np.uint8)

    def encode_bytes(self, data, n):
        """Return what :meth:`_encode` does for `n` texts without zero bytes, each followed by one.

        WORD_BYTES zero bytes follow the last text and its zero byte. Raises HashingError if a text has a zero byte.
        """
        data, stops = np.frombuffer(data, np.uint8), np.empty(n, np.int64)
        _find_zeros(data, stops)
        if stops[-1] != len(data) - WORD_BYTES - 1:
            raise HashingError
        return self._encode(data, np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1]), stops)

    def encode_rows(self, texts):
        """Return what :meth:`_encode` does for an array of fixed-width text."""
        data = np.zeros(texts.nbytes + WORD_BYTES, np.uint8)
        data[:-WORD_BYTES] = texts.view(np.uint8)
        data.flags.writeable = False  # as bytes are, so that kernels are compiled for one type
        starts = np.arange(len(texts)) * texts.itemsize
        return self._encode(data, starts, starts + texts.itemsize)

    def encode_slices(self, data, ends):
        """Return what :meth:`_encode` does for the texts ``data[ends[k]:ends[k + 1]]``.

        Only the last texts, with less than WORD_BYTES bytes after them, are copied.
        """
        ends = ends.astype(np.int64)
        whole = int(np.searchsorted(ends[1:], len(data) - WORD_BYTES, side="right"))
        codes, new = self._encode(data, ends[:whole], ends[1 : whole + 1])
        if whole + 1 == len(ends):
            return codes, new
        tail = np.zeros(int(ends[-1] - ends[whole]) + WORD_BYTES, np.uint8)
        tail[:-WORD_BYTES] = data[ends[whole] : ends[-1]]
        tail.flags.writeable = False
        rest, late = self._encode(tail, ends[whole:-1] - ends[whole], ends[whole + 1 :] - ends[whole])
        return np.concatenate([codes, rest]), np.concatenate([new, late + whole])

    def _encode(self, data, starts, stops):
        """Return the codes of texts ``data[start:stop]``, and the indices of those that no block before has.

        Raises HashingError if too many texts collide.
        """
        codes, at, known = np.empty(len(starts), np.int32), 0, self.count
        new = np.empty(len(self._hashes), np.int64)
        while True:
            table = self._slots, self._hashes, self._ends, self._store
            at, count = _encode_texts(data, starts, stops, at, table, self.count, codes, new)
            if count < 0:
                raise HashingError
            self.count = count
            if at == len(starts):
                return codes, new[known:count]
            self._grow(int(stops[at] - starts[at]))
            new = np.concatenate([new[:count], np.empty(len(self._hashes) - count, np.int64)])

    def _grow(self, length):
        """Enlarge what is full, for one more text of this length."""
        used = self._ends[self.count]
        if used + length + WORD_BYTES > len(self._store):
            self._store = np.concatenate([self._store[:used], np.empty(used + 2 * length + LEAST_SLOTS, np.uint8)])
        if self.count == len(self._hashes):
            self._slots = np.full(GROWTH * len(self._slots), -1, np.int32)
            _fill_slots(self._hashes, self._slots)
            more = (GROWTH - 1) * self.count
            self._hashes = np.concatenate([self._hashes, np.empty(more, np.uint64)])
            self._ends = np.concatenate([self._ends, np.empty(more, np.int64)])
