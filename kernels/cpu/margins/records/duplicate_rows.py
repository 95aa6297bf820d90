"""Merge duplicate records, found by hashing, into one with the sum of their weights."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

ODD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio of 2**64: multiples of it lie far apart
EXACT_KEYS = 2**63
HALF = np.uint64(32)
MOST_LEFT = 0.75  # of the records, where it is worth while
NEGATIVE_ZERO, INFINITE = np.uint64(1 << 63), np.uint64(0x7FF << 52)  # words of a float64


class Groups(NamedTuple):
    """Records that are alike."""

    of: np.ndarray  # (records,) int64: the group of each
    chosen: np.ndarray  # (groups,) int64: a record of each


def of_categories(codes: Sequence[np.ndarray], sizes: Sequence[int], others: Sequence[np.ndarray]) -> Groups | None:
    """Group records of the same categories, and the same numbers in `others`; None where too many are left."""
    exact = math.prod(sizes) < EXACT_KEYS and not others
    keys = np.zeros(len(codes[0]), np.uint64)
    for code, size in zip(codes, sizes, strict=True):
        keys *= np.uint64(size) if exact else ODD
        keys += code.view(np.uint64)
    for numbers in others:
        keys = _mixed(keys) + _mixed(numbers.view(np.uint64))

    def alike(record: np.ndarray) -> bool:
        return exact or all(bool((own == own[record]).all()) for own in (*codes, *others))

    return _grouped(keys, alike, math.prod(sizes) if exact else EXACT_KEYS)


def of_matrix(A: np.ndarray, others: Sequence[np.ndarray]) -> tuple[Groups | None, int]:
    """Group equal rows of a matrix, with equal numbers in `others`; and count what is not zero, -1 if not finite."""
    keys = np.zeros(len(A), np.uint64)
    used = add_keys(A.view(np.uint64), _mixed(ODD * np.arange(1, A.shape[1] + 1, dtype=np.uint64)), keys)
    if used < 0:
        return None, -1
    if others:
        beside = np.column_stack(others)
        add_keys(beside.view(np.uint64), _mixed(~(ODD * np.arange(1, len(others) + 1, dtype=np.uint64))), keys)

    def alike(record: np.ndarray) -> bool:
        return all(bool((own == own[record]).all()) for own in others) and bool(same_lines(A, record))

    return _grouped(keys, alike), int(used)


def of_rows(first: np.ndarray, columns: np.ndarray, values: np.ndarray, others: Sequence[np.ndarray]) -> Groups | None:
    """Group rows with the same numbers in the same columns, and in `others`; None where too many are left."""
    parts = _mixed(values.view(np.uint64) + ODD * columns.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(parts, dtype=np.uint64)])
    keys = sums[first[1:]] - sums[first[:-1]]
    for numbers in others:
        keys = _mixed(keys) + _mixed(numbers.view(np.uint64))

    def alike(record: np.ndarray) -> bool:
        same = all(bool((own == own[record]).all()) for own in others)
        return same and bool(same_rows(first, columns, values, record))

    return _grouped(keys, alike)


def _mixed(words: np.ndarray) -> np.ndarray:
    """Return words of which every bit depends on the upper ones of what they were."""
    words = (words ^ (words >> HALF)) * ODD
    words ^= words >> HALF
    return words


def _grouped(keys: np.ndarray, alike: Callable[[np.ndarray], bool], number_of_keys: int = EXACT_KEYS) -> Groups | None:
    n = len(keys)
    bits = max(1, n.bit_length())
    few = number_of_keys <= 1 << bits  # then each has its own place
    begin = (keys if few else (keys * ODD) >> np.uint64(64 - bits)).view(np.int64)
    of, chosen = np.empty(n, np.int64), np.empty(int(MOST_LEFT * n), np.int64)
    number = group(keys, begin, np.full(1 << bits, -1, np.int32), of, chosen)
    chosen = chosen[:number]
    return Groups(of, chosen) if number >= 0 and alike(chosen[of]) else None


@jit()
def group(keys, begin, slots, of, chosen):
    """Give keys numbers, in the order in which they come; -1 where `chosen` does not hold as many."""
    number, last = 0, len(slots) - 1
    for c in range(len(keys)):
        slot = begin[c]
        while slots[slot] >= 0 and keys[chosen[slots[slot]]] != keys[c]:
            slot = (slot + 1) & last
        if slots[slot] < 0:
            if number == len(chosen):
                return -1
            slots[slot], chosen[number] = number, c
            number += 1
        of[c] = slots[slot]
    return number


@jit()
def add_keys(words, factors, keys):
    """Add to the key of each row what its numbers are; return how many are not zero, -1 if one is not finite."""
    used = 0
    for c in range(len(words)):
        key, known = keys[c], True
        for j in range(len(factors)):
            word = words[c, j] if words[c, j] != NEGATIVE_ZERO else np.uint64(0)
            used += word != np.uint64(0)
            known &= word & INFINITE != INFINITE
            word = (word ^ (word >> HALF)) * ODD
            key += (word ^ (word >> HALF)) * factors[j]
        if not known:
            return -1
        keys[c] = key
    return used


@jit()
def same_lines(A, record):
    """Return whether each row of a matrix is that of the record that stands for it."""
    for c in range(len(record)):
        for j in range(A.shape[1]):
            if A[c, j] != A[record[c], j]:
                return False
    return True


@jit()
def same_rows(first, columns, values, record):
    """Return whether each row is that of the record that stands for it."""
    for c in range(len(record)):
        start, other = first[c], first[record[c]]
        if first[c + 1] - start != first[record[c] + 1] - other:
            return False
        for j in range(first[c + 1] - start):
            if columns[start + j] != columns[other + j] or values[start + j] != values[other + j]:
                return False
    return True
