"""Matrices of 36 to 64 classes: sweeps scale the easy ones, Newton's method in tiles the others of the same batch."""

import numpy as np
import pytest
from cases.scaling import confusion
from checks import assert_same_bits

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.scaling import _large_batch, launch

pytestmark = pytest.mark.exhaustive

OPTIONS = {"on_failure": "ignore"}
FIELDS = "matrix", "row_scale", "col_scale", "residual", "n_iter", "status", "smoothing", "line_error"


def make_batch(C, seed=0):
    """Return easy matrices, accurate ones, permuted ones, ones with zeros, and ones without an answer, in turn."""
    rng = np.random.default_rng(seed)
    easy = [confusion(rng, C, accuracy) + 1e-3 for accuracy in (0.3, 0.6, 0.8)]
    accurate = [confusion(rng, C, accuracy) + 1e-6 for accuracy in (0.95, 0.999)]
    permuted = [confusion(rng, C, accuracy)[rng.permutation(C)] + 1e-6 for accuracy in (0.6, 0.99)]
    zeros = [np.floor(confusion(rng, C, 0.6, 1e5)), np.triu(rng.random((C, C))), np.eye(C)]
    bad = [np.full((C, C), np.nan), -np.ones((C, C)), np.zeros((C, C))]
    wide = [10.0 ** rng.uniform(-9, 9, (C, C)), np.full((C, C), 1e200), np.full((C, C), 1e-200)]
    return np.array([M for k in range(3) for M in (easy + accurate + permuted + zeros + bad + wide)[k::3]])


def fields(result):
    return tuple(getattr(result, name) for name in FIELDS)


def hidden_calls(monkeypatch):
    """Return a list that gets, of every range, how many matrices there were and how many sweeps left."""
    found, prepare = [], _large_batch.prepare_sweeps

    def counted(problem):
        scale_range = prepare(problem)

        def scale(first, end):
            hard = scale_range(first, end)
            found.append((end - first, len(hard)))
            return hard

        return scale

    monkeypatch.setattr(launch, "prepare_sweeps", counted)
    launch._cache_workspaces.cache_clear()
    return found


@pytest.mark.parametrize("C", [36, 43, 64])
def test_a_batch_has_the_bits_of_its_matrices(C):
    M = make_batch(C)
    whole = cmfast.ipf(M, **OPTIONS)
    for b, one in enumerate(M):
        alone = cmfast.ipf(one, **OPTIONS)
        assert_same_bits(tuple(np.asarray(a[b]) for a in fields(whole)), tuple(map(np.asarray, fields(alone))))


@pytest.mark.parametrize("C", [36, 43, 64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_batch_scaled_to_given_sums_has_the_bits_of_its_matrices(C, dtype, rng):
    """Also with another first matrix, and where a sum is missing or the totals disagree."""
    M = np.concatenate([make_batch(C), [np.floor(confusion(rng, C, a, 1e5)) for a in (0.3, 0.6, 0.9)]])
    with np.errstate(over="ignore", invalid="ignore"):
        M = M.astype(dtype)
    rows, cols = rng.uniform(1.0, 3.0, (2, len(M), C))
    cols *= (rows.sum(1) / cols.sum(1))[:, None]
    rows[3, 0], cols[5, 1], cols[-1] = 0.0, np.nan, 2.0 * cols[-1]
    whole, rest = (cmfast.ipf(M[k:], rows[k:], cols[k:], **OPTIONS) for k in (0, 1))
    assert (whole.status == Status.CONVERGED).sum() >= 10
    for b, one in enumerate(M):
        alone = tuple(map(np.asarray, fields(cmfast.ipf(one, rows[b], cols[b], **OPTIONS))))
        assert_same_bits(tuple(np.asarray(a[b]) for a in fields(whole)), alone)
        if b:
            assert_same_bits(tuple(np.asarray(a[b - 1]) for a in fields(rest)), alone)


@pytest.mark.parametrize("C", [35, 40, 64, 70, 100])
@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("shared", [True, False])
def test_sums_of_any_layout_have_the_same_answers(C, n, shared, rng):
    """Transposed ones, and those of one line for all matrices, whatever the axes of length one."""
    M = np.array([np.floor(confusion(rng, C, 0.5, 1e5)) for _ in range(n)])
    rows, cols = rng.uniform(1.0, 2.0, (2, 1 if shared else n, C))
    cols *= (rows.sum(1) / cols.sum(1))[:, None]
    want = fields(cmfast.ipf(M, rows, cols, **OPTIONS))
    turned = [np.ascontiguousarray(a.T).T for a in (rows, cols)]
    for given in ((turned[0], cols), (rows, turned[1]), [np.asfortranarray(a) for a in (rows, cols)]):
        assert_same_bits(fields(cmfast.ipf(M, *given, **OPTIONS)), want)
    if shared:
        assert_same_bits(fields(cmfast.ipf(M, rows[0], np.repeat(cols[0], 2)[::2], **OPTIONS)), want)
        every = np.broadcast_to(cols, (n, C))  # one side for all matrices, the other for each
        assert_same_bits(fields(cmfast.ipf(M, rows[0], every, **OPTIONS)), want)
        assert_same_bits(fields(cmfast.ipf(M[0], rows[0], every, **OPTIONS))[1][:1], want[1][:1])


@pytest.mark.parametrize("C", [29, 57])
@pytest.mark.parametrize("options", [{}, {"smoothing": 0.5}, {"empty": "drop"}, {"tol": 1e-13}, {"max_iter": 9}])
def test_order_and_threads_change_nothing(C, options):
    M = np.concatenate([make_batch(C, seed) for seed in range(4)])
    order = np.random.default_rng(1).permutation(len(M))
    first = cmfast.ipf(M, **options, **OPTIONS, num_threads=1)
    second = cmfast.ipf(M[order], **options, **OPTIONS, num_threads=2)
    assert_same_bits(tuple(a[order] for a in fields(first)), fields(second))


@pytest.mark.parametrize("C", [36, 39, 51, 64])
def test_what_has_converged_has_its_sums_and_small_cells(C):
    M = make_batch(C)
    result, closer = cmfast.ipf(M, **OPTIONS), cmfast.ipf(M, tol=1e-14, **OPTIONS)
    good = result.status == Status.CONVERGED
    assert good[: len(M)].sum() >= 10
    P = result.matrix[good]
    missed = (abs(P.sum(-1) - 1).sum(-1) + abs(P.sum(-2) - 1).sum(-1)) / C
    assert (missed <= 1e-9 + 1e-14).all()
    np.testing.assert_allclose(missed, result.residual[good], atol=1e-14)
    np.testing.assert_allclose(P, closer.matrix[good], rtol=2e-3)


def test_easy_ones_are_swept_and_others_are_not(monkeypatch):
    found = hidden_calls(monkeypatch)
    rng = np.random.default_rng(2)
    easy = np.array([confusion(rng, 48, 0.6) + 1e-3 for _ in range(5)])
    accurate = np.array([confusion(rng, 48, 0.97) + 1e-3 for _ in range(3)])
    cmfast.ipf(np.concatenate([easy, accurate]))
    cmfast.ipf(easy[0])
    cmfast.ipf(accurate[0])
    assert found == [(8, 3), (1, 0), (1, 1)]
    for options in ({"max_iter": 20}, {"solver": "sinkhorn"}):
        cmfast.ipf(easy, **options, **OPTIONS)
    cmfast.ipf(easy[:, :35, :35])
    assert len(found) == 3
    sums, zeros = np.arange(1.0, 49.0), np.array([np.floor(confusion(rng, 48, 0.6, 1e5)) for _ in range(4)])
    cmfast.ipf(np.concatenate([easy, zeros]), sums, sums[::-1])  # to given sums, those with zeros alone
    assert (zeros == 0).any(axis=(1, 2)).all()
    assert found[3:] == [(9, 5)]
    launch._cache_workspaces.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types_have_the_same_answers(dtype):
    rng = np.random.default_rng(3)
    M = np.array([np.ceil(confusion(rng, 45, accuracy, 1e4)) for accuracy in (0.5, 0.98, 0.7)]).astype(dtype)
    given, wanted = cmfast.ipf(M), cmfast.ipf(M.astype(np.float64))
    assert_same_bits((given.row_scale, given.n_iter), (wanted.row_scale, wanted.n_iter))
    np.testing.assert_array_equal(given.matrix, wanted.matrix.astype(given.matrix.dtype))


def test_factors_alone_and_one_matrix_for_all():
    M = make_batch(42)[:6]
    whole, factors = cmfast.ipf(M, **OPTIONS), cmfast.ras(M, **OPTIONS)
    assert_same_bits((whole.row_scale, whole.col_scale), (factors.row_scale, factors.col_scale))
    shared = cmfast.ipf(np.broadcast_to(M[0], (5, 42, 42)), **OPTIONS)
    for b in range(5):
        assert_same_bits(shared.matrix[b], whole.matrix[0])
