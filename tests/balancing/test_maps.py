"""Cells of contact maps read, counted and packed, against dictionaries; in any order and type, for any threads."""

from collections import Counter

import numpy as np
import pytest
from cases.balancing import both_sides, contacts
from checks import assert_same_bits

import cmfast
from cmfast import _warmup
from cmfast.kernels.cpu.balancing import _contact_maps
from cmfast.kernels.cpu.solver import symmetric_cells
from cmfast.kernels.shared import symmetric_packing

pytestmark = pytest.mark.exhaustive

FEW = symmetric_cells.MOST_NUMPY_CELLS
TYPES = [
    (np.int64, np.int64),
    (np.int32, np.int32),
    (np.int64, np.int32),
    (np.int32, np.float32),
    (np.int64, np.float64),
    (np.uint16, np.uint8),
    (np.int32, np.float64),
]


@pytest.fixture(params=[0, FEW], ids=["many", "few"], autouse=True)
def few(monkeypatch, request):
    """Let kernels read cells, and NumPy."""
    monkeypatch.setattr(symmetric_cells, "MOST_NUMPY_CELLS", request.param)
    return request.param


def unpacked(p):
    """Return the cells that are packed, each once, and check that they lie where passes look for them."""
    found = {}
    for t in range(len(p.low)):
        rows = range(p.cuts[t], p.cuts[t + 1])
        cells = [
            (i, max(i, p.shift) + int(p.gap[k]), float(p.value[k])) for i in rows for k in range(*p.first[i : i + 2])
        ]
        rest = range(*p.rest_first[t : t + 2])
        cells += [(int(p.rest_row[k]), int(p.rest_column[k]), float(p.rest_value[k])) for k in rest]
        for i, j, v in cells:
            assert i in rows
            assert p.low[t] <= j < p.high[t]
            assert (i, j) not in found
            found[i, j] = v
    on = np.flatnonzero(p.diagonal)
    assert not any((i, i) in found for i in on)
    return found | {(int(i), int(i)): float(p.diagonal[i]) for i in on}


def wanted(cells, place, low, high, nearest):
    """Return the cells of a block among bins that have a place, by these places."""
    base = sum(p >= 0 for p in place[:low])
    return {
        (place[i] - base, place[j] - base): v
        for (i, j), v in cells.items()
        if v > 0 and low <= i <= j < high and j - i >= nearest and place[i] >= 0 and place[j] >= 0
    }


def given(kind, of_values, rng, n=200):
    """Return cells as they may come, and what they are; some zero, most of them far from their values' narrow types."""
    i, j, a = contacts(n, 3, 1.0, 3000.0)
    a = np.where(rng.random(len(a)) < 0.03, rng.choice([0, 250], len(a)), a % 180).astype(of_values)
    if np.dtype(of_values).kind == "f":
        a[rng.random(len(a)) < 0.02] *= of_values(0.37)
    i, j = i.astype(kind), j.astype(kind)
    return i, j, a, {(int(r), int(c)): float(v) for r, c, v in zip(i, j, a, strict=True)}


@pytest.mark.exhaustive  # each type is compiled by itself
@pytest.mark.parametrize(("kind", "of_values"), TYPES)
def test_maps_of_all_types_are_read_counted_and_packed(monkeypatch, kind, of_values, few):
    monkeypatch.setattr(symmetric_packing, "LEAST_WIDE_VALUE", 190)
    rng, n = np.random.default_rng(1), 200
    i, j, a, cells = given(kind, of_values, rng, n)
    cuts, nearest = np.array([0, 90, 90, 200]), 2
    if few == 0 and np.dtype(of_values) in (np.int32, np.float32, np.float64) and kind != np.uint16:
        assert all(
            np.shares_memory(one, other)
            for one, other in zip(symmetric_cells.convert_arrays((i, j), a), (i, j, a), strict=True)
        )
    kept = rng.random(n) < 0.8
    place = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    found = []
    for threads in (1, 3):
        m = _contact_maps.read_contact_map(i, j, a, n=n, upper=True, cuts=cuts, nearest=nearest, num_threads=threads)
        assert few or len(symmetric_cells.partition_rows(m.cells.first, n, symmetric_cells.PACKED_PIXEL_BYTES)) > 3
        number, total, parts = m.sum_by_bin(place), m.sum_by_bin(place, weigh=True), []
        for low, high in ((0, 90), (90, 90), (90, 200)):
            base, there = int(kept[:low].sum()), int(kept[low:high].sum())
            p = m.passes(low, high, place, base, there).packed
            block = wanted(cells, place, low, high, nearest)
            assert unpacked(p) == block
            assert sorted(block) == list(zip(*(x.tolist() for x in m.list_bins(low, high, place, base)), strict=True))
            assert p.gap.dtype == np.uint16
            assert p.value.dtype == np.uint16
            parts += [*p[1:], number[low:high], total[low:high]]
            of = [[v for pair, v in block.items() if q in pair] for q in range(there)]
            np.testing.assert_array_equal(number[low:high][kept[low:high]], [len(values) for values in of])
            np.testing.assert_allclose(total[low:high][kept[low:high]], [sum(values) for values in of], rtol=1e-12)
        found.append(tuple(map(np.asarray, parts)))
    assert_same_bits(*found)


@pytest.mark.parametrize("narrow", [9, symmetric_packing.LEAST_WIDE_VALUE])
@pytest.mark.parametrize("large", [0.0, 0.03, 0.5])
def test_what_is_far_or_large_is_packed_apart_where_it_is_rare(monkeypatch, narrow, large):
    monkeypatch.setattr(symmetric_packing, "LEAST_WIDE_VALUE", narrow)
    rng, n = np.random.default_rng(2), 60
    i, j = np.triu_indices(n)
    near = j - i < (9 if large == 0.03 else n)
    i, j = i[near], j[near]
    a = np.where(rng.random(len(i)) < large, 100_000, rng.integers(1, 9, len(i)))
    m = _contact_maps.read_contact_map(i, j, a, n=n, upper=True, cuts=np.array([0, n]), nearest=0, num_threads=1)
    p = m.passes(0, n, np.arange(n, dtype=np.int32), 0, n).packed
    assert unpacked(p) == {(int(r), int(c)): float(v) for r, c, v in zip(i, j, a, strict=True)}
    assert p.gap.dtype == (np.int32 if narrow == 9 and large != 0.03 else np.uint16)
    assert p.value.dtype == (np.float64 if large == 0.5 else np.uint16)
    assert len(p.rest_row) == (((a > 9) & (i < j)).sum() if large == 0.03 else 0)


def positions(number):
    """Return where cells are planted: at the ends of chunks too."""
    return (
        0,
        1,
        symmetric_cells.CELLS_PER_CHUNK - 1,
        symmetric_cells.CELLS_PER_CHUNK,
        symmetric_cells.CELLS_PER_CHUNK + 1,
        number - 1,
    )


def pixels_read(i, j, a, n, upper=True):
    """Return the cells of a map, as a dictionary; None where it is refused."""
    m = _contact_maps.read_contact_map(i, j, a, n=n, upper=upper, cuts=np.array([0, n]), nearest=0, num_threads=2)
    return None if m is None else unpacked(m.passes(0, n, np.arange(n, dtype=np.int32), 0, n).packed)


def test_what_is_wrong_is_found_wherever_it_is():
    i, j, a = contacts(200, 3, 1.0, 3000.0)
    a = a.astype(float)
    assert len(a) > 2 * symmetric_cells.CELLS_PER_CHUNK
    assert pixels_read(i, j, a, 200) is not None
    for at in positions(len(a)):
        for name, value in (
            ("a", np.nan),
            ("a", np.inf),
            ("a", -1.0),
            ("i", -1),
            ("i", 200),
            ("j", 200),
            ("j", -(2**62)),
        ):
            wrong = {"i": i, "j": j, "a": a} | {name: {"i": i, "j": j, "a": a}[name].copy()}
            wrong[name][at] = value
            assert pixels_read(wrong["i"], wrong["j"], wrong["a"], 200) is None
        below = np.where(np.arange(len(i)) == at, j + 1, i)
        assert pixels_read(below, j, a, 201) is None


def test_what_is_out_of_order_or_there_twice_is_put_in_order():
    i, j, a = contacts(200, 3, 1.0, 3000.0)
    whole = {(int(r), int(c)): float(v) for r, c, v in zip(i, j, a, strict=True)}
    for at in positions(len(a))[1:]:
        order = np.arange(len(a))
        order[[at - 1, at]] = at, at - 1
        assert pixels_read(i[order], j[order], a[order], 200) == whole
        twice = np.insert(np.arange(len(a)), at, at - 1)
        more = whole | {(int(i[at - 1]), int(j[at - 1])): 2.0 * a[at - 1]}
        assert pixels_read(i[twice], j[twice], a[twice], 200) == more
    order = np.random.default_rng(4).permutation(len(a))
    assert pixels_read(i[order].astype(np.int32), j[order].astype(np.int32), a[order], 200) == whole


def test_cells_are_sorted_as_by_two_keys():
    rng = np.random.default_rng(5)
    for number in (0, 1, 500):
        i, j = rng.integers(0, 20, (2, number))
        a = rng.random(number)
        rows, columns, values = _contact_maps._sort_cells(i, j, a, 20)
        total = Counter()
        for k in np.lexsort((j, i)):
            total[int(i[k]), int(j[k])] += a[k]
        assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == list(total)
        np.testing.assert_allclose(values, list(total.values()), rtol=1e-14)


def test_both_sides_must_agree_but_for_zeros():
    rng, verdicts = np.random.default_rng(6), Counter()
    for _ in range(400):
        n = int(rng.integers(1, 9))
        M = rng.integers(1, 5, (n, n)) * (rng.random((n, n)) < 0.5) * 1.0
        M = np.triu(M) + np.triu(M, 1).T
        there = (M > 0) | (rng.random((n, n)) < 0.2)  # some zeros are given
        if rng.random() < 0.6:
            r, c = rng.integers(0, n, 2)
            M[r, c] = rng.choice([0.0, M[r, c] * (1 + 1e-10), M[r, c] * (1 + 1e-14), 7.0])
        i, j = np.nonzero(there)
        agree = np.allclose(M * there, (M * there).T, rtol=1e-12, atol=0)
        if rng.random() < 0.5:
            order = rng.permutation(len(i))
            i, j = i[order], j[order]
        found = pixels_read(i, j, M[i, j], n, upper=False)
        assert (found is not None) == agree
        if agree:
            assert found == {(r, c): M[r, c] for r, c in zip(*np.nonzero(np.triu(M * there)), strict=True)}
        verdicts[agree] += 1
    assert min(verdicts.values()) > 40


def test_maps_are_balanced_in_their_own_types(monkeypatch, few):
    i, j, a = contacts(80, 7)
    base = cmfast.balance((i, j, a, 80), symmetric="upper", min_nnz=3, mad_max=4.0)
    monkeypatch.setattr(symmetric_cells, "MOST_NUMPY_CELLS", 0 if few else FEW)
    for kind, of_values in TYPES[:2]:
        cells = i.astype(kind), j.astype(kind), a.astype(of_values)
        found = cmfast.balance((*cells, 80), symmetric="upper", min_nnz=3, mad_max=4.0)
        assert_same_bits(tuple(found), tuple(base))
        full = cmfast.balance((*both_sides(*cells), 80), min_nnz=3, mad_max=4.0)
        assert_same_bits(tuple(full), tuple(base))


def test_warmup_makes_maps_of_many_cells(monkeypatch):
    monkeypatch.setattr(symmetric_cells, "MOST_NUMPY_CELLS", FEW)
    read, typed = [], symmetric_cells.convert_arrays
    monkeypatch.setattr(symmetric_cells, "convert_arrays", lambda bins, a: read.append(a.dtype) or typed(bins, a))
    _warmup.compile_op("balance")
    assert set(read) == {np.dtype(kind) for kind in (np.int64, np.int32, np.float64)}
