"""What callers see of scaling: the traps that other libraries fell into, words, starts, bits."""

import warnings

import numpy as np
import pytest
from backends import BACKENDS, convert
from cases.scaling import confusion
from checks import assert_same_bits, library
from optional import torch

import cmfast
from cmfast import FailureError, FailureWarning, Status
from cmfast.results import ScalingResult

OPTIONS = {"on_failure": "ignore"}


def residual(P, u, v):
    """L1 distance of the margins from their targets over the mass, from scratch."""
    P, u, v = (np.asarray(a, np.float64) for a in (P, u, v))
    return (np.abs(P.sum(-1) - u).sum(-1) + np.abs(P.sum(-2) - v).sum(-1)) / u.sum(-1)


def message(function, *args, **options):
    with pytest.warns(FailureWarning) as caught:
        _ = function(*args, **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return str(caught[0].message)


# Traps that other implementations fell into.


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("tol", [1e-6, 1e-10, 1e-13])
def test_converged_means_the_margins_fit(solver, tol):
    """Not that the iterate has stopped changing, as elsewhere: 2.6e-6 was reported as 1e-10."""
    rng = np.random.default_rng(1)
    M = np.stack([confusion(rng, 6, a) for a in (0.6, 0.9, 0.99, 0.9999)])
    result = cmfast.ipf(M, solver=solver, tol=tol, **OPTIONS)
    done = result.status == Status.CONVERGED
    assert done.all() if solver != "sinkhorn" else done[0]
    measured = residual(result.matrix, np.ones(6), np.ones(6))
    assert (measured[done] <= tol + 2e-15).all()
    np.testing.assert_allclose(result.residual, measured, rtol=1e-3, atol=2e-15)
    assert (result.residual[~done] > tol).all()


def test_a_slow_two_by_two_has_right_small_cells():
    M = np.array([[1.0, 1e-9], [1e-7, 1.0]])
    small = np.sqrt(1e-16) / (1 + np.sqrt(1e-16))
    np.testing.assert_allclose(cmfast.bi_normalize(M)[0, 1], small, rtol=1e-6)


@pytest.mark.parametrize(
    ("M", "u", "v", "status"),
    [
        ([[np.nan, 1.0], [1.0, 1.0]], [1, 1], [1, 1], Status.INVALID),
        ([[0.0, 0.0], [1.0, 1.0]], [10, 1], [5, 6], Status.ZERO_LINE),
        ([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.4], [10.0, 20.0], Status.TOTALS),
        ([[1.0, 2.0], [3.0, 4.0]], [10.0, -1.0], [4.0, 5.0], Status.INVALID),
        ([[1.0, 2.0], [3.0, 4.0]], [10.0, np.inf], [4.0, 5.0], Status.INVALID),
    ],
)
def test_nonsense_is_never_called_converged(M, u, v, status):
    for solver in ("auto", "newton", "sinkhorn"):
        result = cmfast.ipf(M, u, v, solver=solver, **OPTIONS)
        assert result.status == status
        for part in result[:4]:
            assert np.isnan(part).all()


def test_no_state_survives_a_call_and_no_input_changes():
    M = confusion(np.random.default_rng(2), 5, 0.8)
    before, first = M.copy(), cmfast.ipf(M)
    _ = cmfast.ipf(M[::-1] * 3, max_iter=1, **OPTIONS)
    assert_same_bits(tuple(first), tuple(cmfast.ipf(M)))
    np.testing.assert_array_equal(M, before)
    for part in first[:3]:
        assert not np.shares_memory(part, M)
        assert part.flags.writeable


@pytest.mark.parametrize("view", [np.asarray, np.transpose, np.flip, np.asfortranarray], ids=lambda view: view.__name__)
def test_what_a_call_returns_is_nobody_elses(view, rng):
    """Single matrices are scaled in memory that is kept from call to call."""
    M = rng.random((3, 5, 5)) + 4.0 * np.eye(5)
    results = [cmfast.ipf(view(one)) for one in M]
    together = cmfast.ipf(np.stack([view(one) for one in M]))
    for k, result in enumerate(results):
        assert_same_bits(tuple(result), tuple(part[k] for part in together))
        assert not any(np.shares_memory(a, b) for a in result[:3] for other in results[:k] for b in other[:3])


def test_unequal_totals_are_not_turned_into_proportions():
    M = np.ones((2, 2))
    assert cmfast.ipf(M, [1, 1], [2, 2], **OPTIONS).status == Status.TOTALS
    close = cmfast.ipf(M, [1.0, 1.0], [1.0, 1.0 + 1e-9])
    assert close.status == Status.CONVERGED
    np.testing.assert_allclose(close.matrix.sum(), 2.0, rtol=1e-15)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_one_bad_member_costs_the_others_nothing(solver):
    """Neither sweeps nor bits: elsewhere one infeasible matrix drove a whole batch to the last iteration."""
    rng = np.random.default_rng(3)
    good = np.stack([confusion(rng, 4, 0.7) for _ in range(70)])
    alone = cmfast.ipf(good, solver=solver, max_iter=2000)
    mixed = good.copy()
    mixed[10, 0, 0], mixed[20], mixed[69] = np.nan, 0.0, np.triu(np.ones((4, 4)))
    beside = cmfast.ipf(mixed, solver=solver, max_iter=2000, **OPTIONS)
    keep = np.setdiff1d(np.arange(70), [10, 20, 69])
    for a, b in zip(alone, beside, strict=True):
        assert_same_bits(a[keep], b[keep])
    assert (alone.status == Status.CONVERGED).all()
    assert (beside.status[[10, 20]] == [Status.INVALID, Status.ZERO_LINE]).all()
    assert beside.status[69] != Status.CONVERGED


# The options, and what is equal to what.


def test_ras_is_ipf_without_the_matrix():
    rng = np.random.default_rng(4)
    M, u, v = rng.random((6, 3, 5)) + 0.01, np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 2.0, 1.5, 0.5])
    whole, factors = cmfast.ipf(M, u, v), cmfast.ras(M, u, v)
    assert factors.matrix is None
    assert_same_bits(tuple(whole)[1:], tuple(factors)[1:])
    np.testing.assert_allclose(
        factors.row_scale[..., None] * M * factors.col_scale[:, None, :], whole.matrix, rtol=1e-14
    )


def test_bi_normalize_is_the_matrix_of_ipf():
    M = confusion(np.random.default_rng(5), 6, 0.9)
    options = {"smoothing": 0.25, "tol": 1e-12}
    assert_same_bits(cmfast.bi_normalize(M, **options), cmfast.ipf(M, **options).matrix)
    assert_same_bits(cmfast.bi_normalize(M, **options), cmfast.normalize(M, "bi", **options))


def test_transposed_problems_agree():
    rng = np.random.default_rng(6)
    M, u, v = rng.random((9, 3, 6)) + 0.01, np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 2.0, 1.0, 0.5, 0.5])
    one, other = cmfast.ipf(M, u, v, tol=1e-13), cmfast.ipf(M.swapaxes(1, 2), v, u, tol=1e-13)
    np.testing.assert_allclose(other.matrix.swapaxes(1, 2), one.matrix, rtol=1e-11)


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_warm_starts(solver):
    rng = np.random.default_rng(7)
    M = np.stack([confusion(rng, 5, 0.7) for _ in range(4)])
    cold = cmfast.ipf(M, solver=solver, tol=1e-12)
    for start in (cold, (cold.row_scale, cold.col_scale), [cold.row_scale, cold.col_scale]):
        warm = cmfast.ipf(M, solver=solver, tol=1e-12, start=start)
        assert (warm.n_iter <= cold.n_iter).all()
        np.testing.assert_allclose(warm.matrix, cold.matrix, rtol=1e-9)
    near = cmfast.ipf(M * 1.001, solver=solver, tol=1e-12, start=cmfast.ras(M[0], solver=solver))
    assert (near.status == Status.CONVERGED).all()


def test_a_start_that_failed_is_no_start():
    M = confusion(np.random.default_rng(8), 4, 0.7)
    failed = cmfast.ras(np.full((4, 4), np.nan), **OPTIONS)
    assert_same_bits(tuple(cmfast.ipf(M, start=failed)), tuple(cmfast.ipf(M)))


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("function", [cmfast.ipf, cmfast.ras])
def test_any_number_of_threads_gives_the_same_bits(solver, function):
    M = np.random.default_rng(9).random((3000, 5, 5)) + 1e-3
    M[5, 0, 0], M[77] = np.nan, np.triu(np.ones((5, 5)))
    runs = [function(M, solver=solver, max_iter=200, num_threads=n, **OPTIONS) for n in (1, 2, 5, 8)]
    for run in runs[1:]:
        for a, b in zip(runs[0], run, strict=True):
            assert a is b is None or a.tobytes() == b.tobytes()


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_every_library_gets_its_own_back(backend):
    M = confusion(np.random.default_rng(11), 3, 0.8).round(3) + 0.1
    result = cmfast.ipf(convert(backend, M), tol=1e-12)
    assert {library(part) for part in result} == {backend.library}
    np.testing.assert_array_equal(np.asarray(result.matrix), cmfast.ipf(M, tol=1e-12).matrix)


def test_progress_is_reported_up_to_the_end():
    seen = []
    M = np.random.default_rng(12).random((5000, 4, 4)) + 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = cmfast.bi_normalize(M, progress=lambda done, total: seen.append((done, total)))
        _ = cmfast.normalize(M, "row", progress=lambda done, total: seen.append((done, total)))
    assert seen.count((5000, 5000)) >= 2
    assert all(0 <= done <= total == 5000 for done, total in seen)


# Words.


@pytest.mark.parametrize(
    ("M", "options", "said"),
    [
        ([[1, np.nan], [1, 1]], {}, "INVALID: NaN value at M[0, 1]"),
        ([[1, 1], [np.inf, 1]], {}, "INVALID: infinite value at M[1, 0]"),
        ([[1, 1], [1, -2]], {}, "INVALID: negative value at M[1, 1]"),
        ([[1, 1], [0, 0]], {}, "ZERO_LINE: row 1 is empty but its target is 1; leave class 1 out or pass smoothing="),
        (
            [[1, 0], [1, 0]],
            {},
            "ZERO_LINE: column 1 is empty but its target is 1; leave class 1 out or pass smoothing=",
        ),
        ([[1, 0], [0, 0]], {}, 'ZERO_LINE: row 1 is empty but its target is 1; pass empty="drop" or smoothing='),
        ([[1, 0], [0, 0]], {"smoothing": "pseudo-bayes"}, 'pass empty="drop" or smoothing= a number'),
        ([[5e-324, 1e-323], [5e-324, 5e-324]], {}, "RANGE: scale factors leave the float64 range"),
        (
            [[900, 3], [5, 1]],
            {"solver": "sinkhorn", "max_iter": 3},
            "MAX_ITER: not converged after 3 passes: residual ",
        ),
        ([[900, 3], [5, 1]], {"solver": "sinkhorn", "max_iter": 3}, 'sweeps left; try solver="auto"'),
        ([[900, 3], [5, 1]], {"solver": "newton", "max_iter": 1}, "pass a larger max_iter="),
    ],
)
def test_messages_about_one_matrix(M, options, said):
    assert said in message(cmfast.ipf, M, **options)
    assert said in message(cmfast.bi_normalize, M, **options)
    assert said in message(cmfast.importance_weights, M, "bi", **options)


def test_the_only_failure_of_a_batch_is_named():
    M = np.ones((2, 3, 2, 2))
    M[1, 2, 0, 1] = -1
    assert message(cmfast.ipf, M) == "ipf: INVALID (element (1, 2) of 6): negative value at M[0, 1]"


def test_messages_about_targets():
    M = np.ones((2, 3))
    text = message(cmfast.ipf, [[0, 2], [5, 0]], [2, 2], [4, 0])
    assert "ZERO_LINE: row 0 has positive cells only where the target is zero but its target is 2;" in text
    assert "negative value at row_sums[1]" in message(cmfast.ipf, M, [3, -1], [1, 1, 0])
    assert "NaN value at col_sums[2]" in message(cmfast.ipf, M, [2, 1], [1, 1, np.nan])
    text = message(cmfast.ipf, M, [2, 1], [1, 1, 2])
    assert "TOTALS: row targets add up to 3, column targets to 4 (relative gap 2.5e-01; 1e-9 allowed)" in text
    assert "NaN value at col_sums[0]" in message(cmfast.ipf, M, np.ones((2, 2)) * 1.5, [[1, 1, 1], [np.nan, 1, 1]])


def test_the_sweeps_left_are_about_right():
    M = np.array([[900.0, 3.0], [50.0, 4.7e-5]])
    text = message(cmfast.ipf, M, solver="sinkhorn", max_iter=20)
    left = int(text.split("about ")[1].split(" ")[0])
    needed = cmfast.ipf(M, solver="sinkhorn").n_iter
    assert abs(20 + left - needed) <= 0.2 * needed


def test_messages_about_a_batch():
    M = np.ones((6, 2, 2))
    M[1, 0, 0], M[4] = np.nan, 0
    said = "2 of 6 matrices not scaled (first: 1, 4): 1 INVALID, 1 ZERO_LINE"
    assert message(cmfast.ipf, M) == f"ipf: {said}"
    assert message(cmfast.bi_normalize, M) == f"bi_normalize: {said}"
    assert message(cmfast.normalize, M, "row") == "normalize: INVALID (element 1 of 6): NaN value at M[0, 0]"
    tiny = np.full((2, 2), 5e-324)
    assert message(cmfast.importance_weights, tiny, "row").endswith("RANGE: a weight leaves the range of the result")
    small = np.full((2, 2), 1e-45, np.float32)  # factors in range, their products not
    assert message(cmfast.importance_weights, small, "bi").endswith("RANGE: a weight leaves the range of the result")


def test_on_failure():
    M = np.array([[1.0, np.nan], [1.0, 1.0]])
    with pytest.raises(FailureError, match=r"ipf: INVALID: NaN value at M\[0, 1\]") as caught:
        _ = cmfast.ipf(M, on_failure="raise")
    assert caught.value.status == Status.INVALID
    for method in ("all", "bi"):
        with pytest.raises(FailureError, match="normalize: INVALID"):
            _ = cmfast.normalize(M, method, on_failure="raise")
        with pytest.raises(FailureError, match="importance_weights: INVALID"):
            _ = cmfast.importance_weights(M, method, on_failure="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(cmfast.bi_normalize(M, on_failure="ignore")).all()


@pytest.mark.parametrize(
    ("args", "options", "error", "said"),
    [
        ((np.ones((2, 3)),), {}, ValueError, r"M must be square, of shape \(\.\.\., C, C\), got shape \(2, 3\)"),
        ((np.ones(3),), {}, ValueError, r"M must be of shape"),
        ((np.ones((2, 2)), [1, 1]), {}, ValueError, "row_sums and col_sums must be given both or neither"),
        (
            (np.ones((2, 3)), [1, 1], [1, 1]),
            {},
            ValueError,
            r"col_sums must be of shape \(\.\.\., 3\), got shape \(2,\)",
        ),
        ((np.ones((2, 2)), 2.0, [1, 1]), {}, ValueError, r"row_sums must be of shape \(\.\.\., 2\), got shape \(\)"),
        ((np.ones((4, 2, 2)), np.ones((3, 2)), [1, 1]), {}, ValueError, "batch shapes do not broadcast"),
        ((np.ones((2, 2)) * 1j,), {}, TypeError, "M must"),
        ((np.ones((2, 2)), np.array(["a", "b"]), [1, 1]), {}, TypeError, "row_sums must be real numbers"),
        ((np.ones((2, 2)), torch.ones(2), torch.ones(2)), {}, TypeError, "one library"),
        ((np.ones((2, 2)),), {"tol": 0}, ValueError, "tol must be finite and above 0, got 0"),
        ((np.ones((2, 2)),), {"tol": 10**400}, ValueError, "tol must be finite and above 0"),
        ((np.ones((2, 2)),), {"tol": "1"}, TypeError, "tol must be a number"),
        ((np.ones((2, 2)),), {"max_iter": 0}, ValueError, "max_iter must be at least 1, got 0"),
        ((np.ones((2, 2)),), {"max_iter": 2.0}, TypeError, "max_iter must be an integer"),
        ((np.ones((2, 2)),), {"solver": "fast"}, ValueError, "solver must be one of 'auto', 'newton', 'sinkhorn'"),
        ((np.ones((2, 2)),), {"empty": "zero"}, ValueError, "empty must be one of 'nan', 'drop', got 'zero'"),
        ((np.ones((2, 2)),), {"smoothing": 0}, ValueError, "smoothing must be finite and above 0, got 0"),
        ((np.ones((2, 2)),), {"smoothing": "bayes"}, ValueError, "smoothing must be None, a positive number or"),
        ((np.ones((2, 2)),), {"smoothing": True}, TypeError, "smoothing must be a number"),
        ((np.ones((2, 2)),), {"start": np.ones((2, 2))}, TypeError, "start must be a ScalingResult or a pair"),
        ((np.ones((2, 2)),), {"start": (np.ones(2), None)}, TypeError, "start must be a pair of arrays"),
        (
            (np.ones((2, 2)),),
            {"start": (np.ones(2), np.ones(3))},
            ValueError,
            r"col_scale of start must be of shape \(\.\.\., 2\)",
        ),
        ((np.ones((2, 2)),), {"on_failure": "print"}, ValueError, "on_failure must be one of"),
        ((np.ones((2, 2)),), {"num_threads": 0}, ValueError, "num_threads must be at least 1"),
        ((np.ones((2, 2)),), {"progress": 3}, TypeError, "progress must be"),
    ],
)
@pytest.mark.parametrize("function", [cmfast.ipf, cmfast.ras])
def test_wrong_arguments(function, args, options, error, said):
    with pytest.raises(error, match=f"{function.__name__}: .*{said}"):
        _ = function(*args, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("n", [3, 100])
def test_no_number_of_passes_is_too_large(n, solver):
    assert cmfast.ipf(np.ones((n, n)) + np.eye(n), solver=solver, max_iter=10**30).status == Status.CONVERGED


def test_the_result_has_names():
    result = cmfast.ipf([[2.0, 1.0], [1.0, 2.0]], smoothing=0.5)
    assert isinstance(result, ScalingResult)
    assert result._fields == (
        "matrix",
        "row_scale",
        "col_scale",
        "residual",
        "n_iter",
        "status",
        "smoothing",
        "line_error",
    )
    assert result.smoothing == 0.5
    assert [np.asarray(part).dtype for part in result] == [*(np.float64,) * 4, np.int64, np.int8, *(np.float64,) * 2]


def test_float32_rounds_the_matrix_and_nothing_else():
    M = confusion(np.random.default_rng(13), 5, 0.9).astype(np.float32)
    single, double = cmfast.ipf(M), cmfast.ipf(M.astype(np.float64))
    assert single.matrix.dtype == np.float32
    assert_same_bits(single.matrix, double.matrix.astype(np.float32))
    assert_same_bits(tuple(single)[1:], tuple(double)[1:])
