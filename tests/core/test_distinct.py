"""Distinct integers and their positions: every way gives what a set and a dict of Python give."""

import numpy as np
import pytest

from cmfast.kernels.cpu._core import distinct

pytestmark = pytest.mark.exhaustive

MOST = 2**64 - 1
MULTIPLIERS = 0x94D049BB133111EB, 0xBF58476D1CE4E5B9


def _invert_shift(x, bits):
    """Return what ``y ^ (y >> bits)`` made `x` of, for 64 bits."""
    y = x
    for _ in range(64 // bits):
        y = x ^ (y >> bits)
    return y


def _make_key(mixed):
    """Return the key whose mixed bits are `mixed`."""
    x = _invert_shift(mixed, 31)
    for multiplier, bits in zip(MULTIPLIERS, (27, 30), strict=True):
        x = _invert_shift(x * pow(multiplier, -1, 2**64) & MOST, bits)
    return x


def _collide(number):
    """Return keys of 64 bits whose mixed bits agree in the lowest 40, so that they share a slot in any table."""
    return np.array([_make_key(k << 40 | 12345) for k in range(number)], np.uint64).view(np.int64)


def _inputs():
    rng = np.random.default_rng(20261128)
    ids = rng.integers(-(2**63), 2**63 - 1, 5000)
    some = rng.choice(ids[:20], 30_000)
    yield "few", (some, rng.choice(ids[:20], 30_000))
    yield "many", (rng.choice(ids, 300_000), rng.choice(ids, 10_000))
    yield "all distinct", (rng.integers(-(2**63), 2**63 - 1, 200_000), rng.integers(-(2**63), 2**63 - 1, 9000))
    yield "no class in common", (rng.choice(ids[:50], 20_000), rng.choice(ids[50:90], 20_000))
    yield "ends", (rng.choice(np.array([-(2**63), 2**63 - 1, -1, 0, 1]), 20_000), some)
    yield "beyond int64", (rng.choice(np.array([2**63, MOST, 5], np.uint64), 20_000), some.view(np.uint64))
    yield (
        "uint64 beside negative",
        (rng.choice(np.array([MOST, 2**63, 1], np.uint64), 20_000), np.where(some > 0, -1, 1)),
    )
    yield "uint64 beside bool", (rng.choice(np.array([MOST, 1], np.uint64), 20_000), some > 0)
    yield "int32", (rng.integers(-(2**31), 2**31 - 1, 20_000, np.int32), (some >> 40).astype(np.int32))
    yield "new late", (np.r_[np.zeros(200_000, np.int64), ids], np.r_[some, np.arange(500) * 2**40])
    yield "multiples of powers of two", (rng.integers(0, 3000, 50_000) << 50, rng.integers(0, 3000, 50_000) << 33)
    yield "near", (rng.integers(10**12, 10**12 + 3000, 20_000), rng.integers(10**12, 10**12 + 40, 20_000))
    yield "a few", (ids[:30], ids[20:70])
    yield "two axes, strided", (rng.choice(ids[:99], (300, 200))[:, ::2], rng.choice(ids, (100, 300)).T)
    yield "empty beside one", (np.empty(0, np.int64), some)
    yield "empty", (np.empty(0, np.int64), np.empty((0, 3), np.int32))
    yield "colliding", (rng.choice(_collide(2000), 40_000), some)


@pytest.mark.parametrize("arrays", [pytest.param(pair, id=name) for name, pair in _inputs()])
@pytest.mark.parametrize("threads", [1, 2])
def test_distinct_integers_and_their_positions_are_those_of_a_set_and_a_dict(arrays, threads):
    want = sorted({value for y in arrays for value in y.reshape(-1).tolist()})
    found = distinct.find_distinct(*arrays, num_threads=threads)
    assert found.tolist() == want
    shuffled = want[1::2] + want[::4]
    for classes, ignored in ((want, None), (shuffled, None), (shuffled[:100], shuffled[3] if len(want) > 9 else 7)):
        index = {value: k for k, value in enumerate(classes) if value != ignored}
        for y in arrays:
            out = distinct.find_positions(y, classes, ignored=ignored, num_threads=threads)
            assert out.shape == y.shape
            assert out.dtype == (np.int8 if len(classes) < 128 else np.int32)
            assert out.reshape(-1).tolist() == [index.get(value, -1) for value in y.reshape(-1).tolist()]
    if want:
        as_array = distinct.find_positions(arrays[1], found, num_threads=threads)
        assert as_array.tobytes() == distinct.find_positions(arrays[1], want, num_threads=threads).tobytes()


def test_colliding_keys_are_given_up_after_a_bounded_number_of_probes():
    keys = _collide(3000)
    table = distinct._HashedKeys()
    with pytest.raises(distinct.HashingError):
        table.add(keys)
    assert len(table.keys) < 3000
    few = distinct._HashedKeys()
    few.add(np.concatenate([keys[:16], np.arange(1000)]))
    with pytest.raises(distinct.HashingError):
        few.find(np.repeat(keys[15:16], 1000))


def test_a_table_grows_and_keeps_the_order_of_first_occurrence():
    ids = np.random.default_rng(7).permutation(np.arange(100_000) * 2**40)
    table = distinct._HashedKeys()
    for start in range(0, len(ids), 30_000):
        table.add(np.tile(ids[start : start + 30_000], 2))
    np.testing.assert_array_equal(table.keys, ids)
    np.testing.assert_array_equal(table.find(ids[::-1]), np.arange(100_000)[::-1])
    assert (table.find(ids + 1) == -1).all()


def test_few_or_near_integers_are_not_hashed(monkeypatch):
    monkeypatch.setattr(distinct, "_HashedKeys", None)
    rng = np.random.default_rng(3)
    few, near = rng.integers(-(2**62), 2**62, 1000), rng.integers(-400, 60_000, 50_000)
    for y in (few, near):
        found = distinct.find_distinct(y)
        assert found.tolist() == sorted(set(y.tolist()))
        np.testing.assert_array_equal(found[distinct.find_positions(y, found)], y)
