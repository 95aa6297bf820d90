"""Merging of duplicate records, found by hashing: groups of equal rows, whose weights are summed."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cmfast.kernels.cpu._core.jit import jit

GOLDEN_RATIO_WORD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: multiplicative hashing
EXACT_KEYS = 2**63
HALF = np.uint64(32)
MAX_GROUP_SHARE = 0.75  # largest number of groups over records for which merging pays
NEGATIVE_ZERO, INFINITE = np.uint64(1 << 63), np.uint64(0x7FF << 52)  # bit patterns of float64


class Groups(NamedTuple):
    """Groups of equal records."""

    of: np.ndarray  # (records,) int64: group of each record
    representatives: np.ndarray  # (groups,) int64: the first record of each group


def group_categories(codes: Sequence[np.ndarray], sizes: Sequence[int], others: Sequence[np.ndarray]) -> Groups | None:
    """Group records with the same categories and the same values in `others`; None where merging does not pay."""
    exact = math.prod(sizes) < EXACT_KEYS and not others
    keys = np.zeros(len(codes[0]), np.uint64)
    for code, size in zip(codes, sizes, strict=True):
        keys *= np.uint64(size) if exact else GOLDEN_RATIO_WORD
        keys += code.view(np.uint64)
    for numbers in others:
        keys = _mix_bits(keys) + _mix_bits(numbers.view(np.uint64))

    def are_equal(record: np.ndarray) -> bool:
        """Test whether all records equal their representatives, unless the keys are exact."""
        return exact or all(bool((own == own[record]).all()) for own in (*codes, *others))

    return _group_keys(keys, are_equal, math.prod(sizes) if exact else EXACT_KEYS)


def group_matrix_rows(A: np.ndarray, others: Sequence[np.ndarray]) -> tuple[Groups | None, int]:
    """Group equal rows of a matrix with equal values in `others`.

    Also count nonzero values, -1 if any is not finite.
    """
    keys = np.zeros(len(A), np.uint64)
    used = add_keys(
        A.view(np.uint64), _mix_bits(GOLDEN_RATIO_WORD * np.arange(1, A.shape[1] + 1, dtype=np.uint64)), keys
    )
    if used < 0:
        return None, -1
    if others:
        beside = np.column_stack(others)
        add_keys(
            beside.view(np.uint64),
            _mix_bits(~(GOLDEN_RATIO_WORD * np.arange(1, len(others) + 1, dtype=np.uint64))),
            keys,
        )

    def are_equal(record: np.ndarray) -> bool:
        """Test whether all rows equal those of their representatives."""
        return all(bool((own == own[record]).all()) for own in others) and bool(match_matrix_rows(A, record))

    return _group_keys(keys, are_equal), int(used)


def group_sparse_rows(
    first: np.ndarray, columns: np.ndarray, values: np.ndarray, others: Sequence[np.ndarray]
) -> Groups | None:
    """Group sparse rows with the same values in the same columns, and in `others`; None where merging does not pay."""
    parts = _mix_bits(values.view(np.uint64) + GOLDEN_RATIO_WORD * columns.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(parts, dtype=np.uint64)])
    keys = sums[first[1:]] - sums[first[:-1]]
    for numbers in others:
        keys = _mix_bits(keys) + _mix_bits(numbers.view(np.uint64))

    def are_equal(record: np.ndarray) -> bool:
        """Test whether all sparse rows equal those of their representatives."""
        same = all(bool((own == own[record]).all()) for own in others)
        return same and bool(match_sparse_rows(first, columns, values, record))

    return _group_keys(keys, are_equal)


def _mix_bits(words: np.ndarray) -> np.ndarray:
    """Return words mixed so that the lower bits depend on the upper ones (xor-shift and multiply)."""
    words = (words ^ (words >> HALF)) * GOLDEN_RATIO_WORD
    words ^= words >> HALF
    return words


def _group_keys(
    keys: np.ndarray, are_equal: Callable[[np.ndarray], bool], number_of_keys: int = EXACT_KEYS
) -> Groups | None:
    """Group equal keys by a hash table, and verify that grouped records are equal; None where merging does not pay."""
    n = len(keys)
    bits = max(1, n.bit_length())
    few = number_of_keys <= 1 << bits  # then each key has a slot of its own
    begin = (keys if few else (keys * GOLDEN_RATIO_WORD) >> np.uint64(64 - bits)).view(np.int64)
    of, chosen = np.empty(n, np.int64), np.empty(int(MAX_GROUP_SHARE * n), np.int64)
    number = assign_groups(keys, begin, np.full(1 << bits, -1, np.int32), of, chosen)
    chosen = chosen[:number]
    return Groups(of, chosen) if number >= 0 and are_equal(chosen[of]) else None


@jit()
def assign_groups(keys, begin, slots, of, chosen):
    """Assign a group number to each record by its key, in order of appearance (open addressing).

    Return the number of groups, -1 where `chosen` is too short.
    """
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
    """Add a hash of its values to the key of each row; return the number of nonzero values, -1 if one is not finite."""
    used = 0
    for c in range(len(words)):
        key, known = keys[c], True
        for j in range(len(factors)):
            word = words[c, j] if words[c, j] != NEGATIVE_ZERO else np.uint64(0)
            used += word != np.uint64(0)
            known &= word & INFINITE != INFINITE
            word = (word ^ (word >> HALF)) * GOLDEN_RATIO_WORD
            key += (word ^ (word >> HALF)) * factors[j]
        if not known:
            return -1
        keys[c] = key
    return used


@jit()
def match_matrix_rows(A, record):
    """Test whether each row of a matrix equals the row of its representative."""
    for c in range(len(record)):
        for j in range(A.shape[1]):
            if A[c, j] != A[record[c], j]:
                return False
    return True


@jit()
def match_sparse_rows(first, columns, values, record):
    """Test whether each sparse row equals the row of its representative."""
    for c in range(len(record)):
        start, other = first[c], first[record[c]]
        if first[c + 1] - start != first[record[c] + 1] - other:
            return False
        for j in range(first[c + 1] - start):
            if columns[start + j] != columns[other + j] or values[start + j] != values[other + j]:
                return False
    return True
