"""Sorts by a range of bits: with a library that looks at these bits alone, the results of one that looks at all."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take these arrays
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import metrics
from cmfast.kernels.cuda._core import sorting

pytestmark = [
    pytest.mark.cuda_host,
    pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
]

TEMPORARY = 100  # bytes that the sort below says it takes


class Library:
    """What cuda-cccl offers, called as it wants to be: sorts that see no other bits than they are told to.

    Attributes
    ----------
    seen : list of tuple of int
        First and last bit of every sort.
    compiled, read : int
        How many were compiled, and how many read again.
    ready : threading.Event
        No sort is compiled before this is set.
    """

    class SortOrder:
        """Which way."""

        ASCENDING = "rising"

    def __init__(self):
        self.seen, self.compiled, self.read, self.ready = [], 0, 0, threading.Event()
        self._made = {}
        self.ready.set()

    # Named and called as there.
    def make_radix_sort(self, *, d_in_keys, d_out_keys, d_in_values, d_out_values, order, compute_capability):  # noqa: D102
        assert (order, compute_capability) == ("rising", 90)
        kinds = tuple(None if a is None else a.dtype for a in (d_in_keys, d_in_values))
        assert kinds == tuple(None if a is None else a.dtype for a in (d_out_keys, d_out_values))
        if kinds not in self._made:  # the build is kept for all threads, as there
            assert self.ready.wait(60)
            self.compiled += 1
            self._made[kinds] = self._sort
        return self._made[kinds]

    def serialize(self, sort):  # noqa: D102
        assert sort == self._sort
        return b"a sort"

    def deserialize(self, blob):  # noqa: D102
        if blob != b"a sort":
            msg = "serialization blob"
            raise ValueError(msg)
        self.read += 1
        return self._sort

    def _sort(
        self, *, temp_storage, d_in_keys, d_out_keys, d_in_values, d_out_values, num_items, begin_bit, end_bit, stream
    ):
        assert stream.__cuda_stream__() == (0, 0)
        if temp_storage is None:
            return TEMPORARY
        assert temp_storage.nbytes >= TEMPORARY
        assert num_items == len(d_in_keys)
        assert d_in_keys.dtype.kind == "u"
        assert 0 <= begin_bit < end_bit <= 8 * d_in_keys.itemsize
        self.seen.append((begin_bit, end_bit))
        bits = d_in_keys._host >> d_in_keys.dtype.type(begin_bit)
        places = (bits & d_in_keys.dtype.type((1 << end_bit - begin_bit) - 1)).argsort(kind="stable")
        d_out_keys._host[:] = d_in_keys._host[places]
        if d_in_values is not None:
            d_out_values._host[:] = d_in_values._host[places]
        return TEMPORARY


@pytest.fixture
def found(monkeypatch, tmp_path):
    """Return the library, found by sorts of any length, in a process that has not compiled any."""
    library = Library()
    monkeypatch.setattr(sorting, "_import_algorithms", lambda: library)
    monkeypatch.setattr(sorting, "LEAST_SORTED_KEYS", 1)
    monkeypatch.setattr(sorting.metadata, "version", lambda name: "1")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kernels"))
    new_process(monkeypatch)
    return library


def new_process(monkeypatch):
    """Forget what only a process keeps."""
    monkeypatch.setattr(sorting, "_own", sorting._ThreadSorters())
    monkeypatch.setattr(sorting, "_compilers", {})
    monkeypatch.setattr(sorting, "_broken", threading.Event())


@pytest.fixture
def by_bits(monkeypatch, found):
    """Let every sort be one of the library, once it is compiled; return which bits they have seen."""
    sort_of = sorting._find_sorter

    def settled(keys, values):
        sort_of(keys, values)
        sorting.wait_for_compilers()
        return sort_of(keys, values)

    monkeypatch.setattr(sorting, "_find_sorter", settled)
    return found.seen


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n_keys", [1, 8, 100, 2**20, 2**31 - 2])
def test_keys_and_dropped_ones_are_sorted(by_bits, dtype, n_keys):
    rng = np.random.default_rng(n_keys)
    keys = rng.integers(0, n_keys, 500).astype(dtype)
    keys[::7], keys[3] = np.iinfo(dtype).max, n_keys - 1
    got = sorting.sort_keys(cuda_host.asarray(keys), n_keys).get()
    assert got.dtype == dtype
    assert np.array_equal(got, np.sort(keys))
    order = sorting.argsort_keys(cuda_host.asarray(keys), n_keys).get()
    assert order.dtype == np.int64
    assert np.array_equal(order, keys.argsort(kind="stable"))
    assert by_bits == [(0, n_keys.bit_length())] * 2


def test_cells_and_matrices_are_the_same(monkeypatch, by_bits):
    rng = np.random.default_rng(6)
    X, (y, p), w = rng.random((800, 3)), rng.integers(0, 5, (2, 800)), rng.random(800)
    X[5] = np.nan
    grid = cmfast.Grid([0.0] * 3, [0.3] * 3)

    def results():
        there = [cuda_host.asarray(a) for a in (X, y, p, w)]
        cells = cmfast.cell_counts(*there[:3], grid=grid, n_classes=5, on_failure="ignore")
        parts = [cmfast.sparse_histogram(there[0], grid=grid, groups=there[1], on_failure="ignore", **weights)
                 for weights in ({}, {"weights": there[3]}, {"weights": there[2]})]  # fmt: skip
        made = [part for part in (cells + cells, *parts) for part in vars(part).values() if hasattr(part, "get")]
        assert len(made) >= 8
        return tuple(part.get() for part in (*made, cmfast.gcm(cells, "row")))

    got, sorts = results(), len(by_bits)
    assert sorts == 4
    monkeypatch.setattr(sorting, "LEAST_SORTED_KEYS", 1 << 22)
    assert_same_bits(got, results())
    assert len(by_bits) == sorts


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8"])
@pytest.mark.parametrize("shape", [(2000,), (3, 700), (1, 9), (200, 7)], ids=str)
def test_thresholds_are_the_same(monkeypatch, by_bits, dtype, shape):
    """Also where zeros of both signs stand for the same score."""
    rng = np.random.default_rng(7)
    s = (rng.integers(-40, 90, shape) * rng.choice([0.0, 0.25, -0.5], shape)).astype(dtype)
    s.ravel()[:4] = [0.0, -0.0, 0.0, -0.0]
    there, w = [cuda_host.asarray(a) for a in (rng.integers(0, 2, shape), s)], cuda_host.asarray(rng.random(shape))

    def results():
        weighted = metrics.threshold_matrices(*there, sample_weight=w)  # takes positions along
        return tuple(part.get() for part in (*metrics.threshold_matrices(*there), *weighted))

    with np.errstate(all="ignore"):
        got = results()
    bits = 64 if dtype[1] == "8" else 32 + (len(s.reshape(-1, shape[-1])) - 1).bit_length()
    rows = [(1, 1 + (shape[0] - 1).bit_length())] if len(shape) == 2 and shape[0] > 1 and bits == 64 else []
    assert by_bits == [(0, bits), (0, bits), *rows]
    monkeypatch.setattr(sorting, "LEAST_SORTED_KEYS", 1 << 22)
    assert_same_bits(got, results())


def sorted_here(keys, values=None):
    """Return the sorted keys, and whether the library sorted them."""
    out = sorting.sort_by_bits(cuda_host.asarray(keys), values, 0, 32)
    return None if out is None else out[0].get()


def test_cupy_sorts_until_the_sort_is_compiled(found):
    keys = np.random.default_rng(8).integers(0, 99, 500).astype(np.int32)
    found.ready.clear()
    assert sorted_here(keys) is None
    assert np.array_equal(sorting.sort_keys(cuda_host.asarray(keys), 99).get(), np.sort(keys))
    found.ready.set()
    sorting.wait_for_compilers()
    assert np.array_equal(sorted_here(keys), np.sort(keys))
    assert found.compiled == 1


def test_every_thread_has_a_sort_of_its_own(found):
    keys = np.arange(9, dtype=np.int32)
    sorted_here(keys)
    sorting.wait_for_compilers()
    sorted_here(keys)
    before = found.read
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            assert pool.submit(sorted_here, keys).result().tolist() == keys.tolist()
    assert (found.compiled, found.read) == (1, before + 1)


def test_what_was_compiled_is_kept_for_the_next_process(monkeypatch, found, tmp_path):
    keys = np.array([3, 1, 2], np.int32)
    sorted_here(keys)
    sorting.wait_for_compilers()
    new_process(monkeypatch)
    assert sorted_here(keys).tolist() == [1, 2, 3]
    assert found.compiled == 1
    assert found.read >= 1
    (file,) = (tmp_path / "kernels").iterdir()
    file.write_bytes(b"of another release")
    new_process(monkeypatch)
    sorted_here(keys)
    sorting.wait_for_compilers()
    assert sorted_here(keys).tolist() == [1, 2, 3]
    assert file.read_bytes() == b"a sort"


def count_warnings(call):
    """Return what a call returns, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return call(), [str(each.message) for each in caught]


def test_where_none_can_be_compiled_cupy_sorts_after_one_warning(monkeypatch, found):
    monkeypatch.setattr(found, "make_radix_sort", lambda **given: found.ready.wait(60) // 0)
    keys = np.random.default_rng(9).integers(0, 99, 500).astype(np.int32)

    def results():
        orders = [each(cuda_host.asarray(keys), 99).get() for each in (sorting.sort_keys, sorting.argsort_keys)]
        sorting.wait_for_compilers()
        return orders

    found.ready.clear()
    assert sorted_here(keys) is None
    found.ready.set()
    sorting.wait_for_compilers()
    said = []
    for _ in range(3):
        (got, order), texts = count_warnings(results)
        said += texts
        assert np.array_equal(got, np.sort(keys))
        assert np.array_equal(order, keys.argsort(kind="stable"))
    with ThreadPoolExecutor(1) as pool:
        said += pool.submit(count_warnings, results).result()[1]
    (text,) = said
    assert "cuda-cccl does not work here: ZeroDivisionError" in text


@pytest.mark.parametrize(
    ("error", "texts"),
    [
        (ModuleNotFoundError("No module", name="cuda"), 0),
        (ModuleNotFoundError("No module", name="cuda.compute"), 0),
        (ModuleNotFoundError("No module", name="cuda.bindings"), 1),
        (ImportError("undefined symbol"), 1),
        (RuntimeError("cannot load libnvrtc"), 1),
    ],
    ids=str,
)
def test_a_library_that_cannot_be_imported_is_named_once_if_installed(monkeypatch, error, texts):
    def fail(name):
        assert name == "cuda.compute"
        raise error

    monkeypatch.setattr(sorting, "LEAST_SORTED_KEYS", 1)
    monkeypatch.setattr(sorting, "import_module", fail)
    monkeypatch.setattr(sorting, "_broken", threading.Event())
    sorting._import_algorithms.cache_clear()
    try:
        sort = partial(sorting.sort_keys, cuda_host.asarray(np.array([3, 1, 2])), 4)
        got, said = count_warnings(lambda: [sort().get().tolist() for _ in range(2)])
    finally:
        sorting._import_algorithms.cache_clear()
    assert got == [[1, 2, 3]] * 2
    assert len(said) == texts


def test_without_the_library_cupy_sorts(monkeypatch):
    monkeypatch.setattr(sorting, "LEAST_SORTED_KEYS", 1)
    sorting._import_algorithms.cache_clear()
    if sorting._import_algorithms() is None:
        assert sorting.sort_keys(cuda_host.asarray(np.array([3, 1, 2])), 4).get().tolist() == [1, 2, 3]
    monkeypatch.setattr(sorting, "import_module", lambda name: SimpleNamespace())
    sorting._import_algorithms.cache_clear()
    assert sorting._import_algorithms() is None  # one too old to have it
    sorting._import_algorithms.cache_clear()
