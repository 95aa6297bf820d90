"""Histograms of Dask arrays: the bits of NumPy for any chunks, whatever the weights are."""

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast

pytestmark = pytest.mark.exhaustive

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(23)
N = 1000
G = RNG.integers(0, 3, N)
X = RNG.normal(size=(N, 3))
GRID = cmfast.Grid.regular(X, bins=4)
NARROW = cmfast.Grid([0.0] * 3, [1e-9] * 3)  # its cells are ranked
CHUNKS = [(300,), (N,), ((1,) * 5 + (N - 5,),), ((0, 500, 0, 500),), (10,)]
WEIGHTS = {
    "none": None,
    "float64": RNG.normal(size=N) * 10.0 ** RNG.integers(-30, 30, N),
    "float32": (RNG.normal(size=N) * 10.0 ** RNG.integers(-9, 9, N)).astype(np.float32),
    "float16": RNG.normal(size=N).astype(np.float16),
    "int64": RNG.integers(-(2**53), 2**53, N),
    "uint8": RNG.integers(0, 255, N).astype(np.uint8),
    "uint64": RNG.integers(0, 2**54, N).astype(np.uint64),
    "zeros": np.zeros(N),
    "subnormal": RNG.integers(0, 9, N) * 5e-324,
}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(x, chunks=(300,)):
    """Return an array in chunks along its first axis."""
    return None if x is None else da.from_array(x, chunks=(*chunks, *x.shape[1:]))


def assert_same_histogram(found, want):
    """Compare everything that a histogram says."""
    assert (found.grid, found.n_groups, found.n_dropped) == (want.grid, want.n_groups, want.n_dropped)
    for name in ("cells", "groups", "values"):
        assert_same_bits(getattr(found, name), getattr(want, name))


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("kind", WEIGHTS)
def test_chunks_do_not_matter(kind, chunks):
    weights = WEIGHTS[kind]
    lost = X.copy()
    lost[[3, 700], 1] = np.nan, 1e300  # the second is beyond the cells
    if weights is not None and kind.startswith("float"):
        weights = weights.copy()
        weights[700] = np.finfo(weights.dtype).max / 4  # the scale is that of weights in cells
    for points, grid in ((lost, GRID), (X, NARROW)):
        quiet = {"grid": grid, "on_failure": "ignore"}
        found = cmfast.sparse_histogram(lazy(points, chunks), weights=lazy(weights, chunks), **quiet)
        assert_same_histogram(found.compute(), cmfast.sparse_histogram(points, weights=weights, **quiet))
    groups = {"groups": lazy(G, chunks), "n_groups": 3}
    found = cmfast.sparse_histogram(lazy(X, chunks), weights=lazy(weights, chunks), grid=GRID, **groups)
    assert_same_histogram(found.compute(), cmfast.sparse_histogram(X, weights=weights, grid=GRID, groups=G, n_groups=3))


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.processes)])
def test_schedulers(scheduler):
    weights = WEIGHTS["float64"]
    found = cmfast.sparse_histogram(lazy(X), weights=lazy(weights), grid=cmfast.Grid.scott(lazy(X)))
    with dask.config.set(scheduler=scheduler, num_workers=2):
        got = found.compute()
    assert_same_histogram(got, cmfast.sparse_histogram(X, weights=weights, grid=cmfast.Grid.scott(X)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "most"])
def test_values_that_are_none_are_reported_once(value, dtype):
    weights = np.ones(N, dtype)
    weights[G == 1] = np.finfo(dtype).max if value == "most" else value
    options = {"grid": GRID, "n_groups": 3}
    with pytest.warns(cmfast.FailureWarning) as wanted:
        want = cmfast.sparse_histogram(X, weights=weights, groups=G, **options)
    found = cmfast.sparse_histogram(lazy(X), weights=lazy(weights), groups=lazy(G), **options)
    with pytest.warns(cmfast.FailureWarning) as caught:
        got = found.compute()
    assert [str(w.message) for w in caught] == [str(w.message) for w in wanted]
    assert_same_histogram(got, want)
    assert np.isnan(want.values).any()
    with pytest.raises(cmfast.FailureError, match=r"^sparse_histogram: "):
        cmfast.sparse_histogram(lazy(X), weights=lazy(weights), groups=lazy(G), **options, on_failure="raise").compute()


def test_sums_beyond_int64_are_refused():
    weights = np.full(N, -(2**60))
    found = cmfast.sparse_histogram(lazy(X), weights=lazy(weights), grid=GRID)
    with pytest.raises(OverflowError) as wanted:
        cmfast.sparse_histogram(X, weights=weights, grid=GRID)
    with pytest.raises(OverflowError) as e:
        found.compute()
    assert str(e.value).startswith("sparse_histogram: a sum of weights is -")
    assert str(e.value) == str(wanted.value)
    weights[::2] *= -1  # parts of a sum may be beyond it
    points = np.sort(X, axis=0) * 0
    found = cmfast.sparse_histogram(lazy(points, (7,)), weights=lazy(weights, (7,)), grid=GRID).compute()
    assert found.values.tolist() == [0]


def test_nothing_is_computed_early():
    def fail(block):
        pytest.fail("a block was computed")
        return block

    points = lazy(X).map_blocks(fail, meta=lazy(X)._meta)
    found = cmfast.sparse_histogram(points, weights=lazy(WEIGHTS["float64"]), grid=cmfast.Grid.scott(points))
    cmfast.min_overlap(found, found)
    with pytest.raises(pytest.fail.Exception, match="a block was computed"):
        found.compute()


def test_bad_groups_and_points_name_their_chunk():
    bad = G.copy()
    bad[700] = 9
    where = r"got 1 outside \(first: 9 at 100\), in chunk \(2,\), which begins at index \(600,\)$"
    with pytest.raises(ValueError, match=rf"^sparse_histogram: groups must be in 0\.\.2, {where}"):
        cmfast.sparse_histogram(lazy(X), groups=lazy(bad), n_groups=3, grid=GRID).compute()
    lost = X.copy()
    lost[700] = np.nan
    found = cmfast.sparse_histogram(lazy(lost), weights=lazy(WEIGHTS["float64"]), grid=GRID)
    with pytest.warns(cmfast.FailureWarning, match=r"^sparse_histogram: 1 of 300 points left out .*, in chunk \(2,\)"):
        assert found.compute().n_dropped == 1
