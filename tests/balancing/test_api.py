"""Weights of contact maps: planted answers, verdicts against a linear program, laws, sums measured again."""

import collections
import itertools
import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from cases.balancing import both_sides, contacts
from checks import assert_same_bits
from oracle.balancing import existence

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.solver.symmetric_packing import pack
from cmfast.kernels.cpu.solver.symmetric_passes import SymmetricProducts
from cmfast.kernels.cpu.solver.triangles_and_components import find_components
from cmfast.kernels.shared.balancing import REASONS
from cmfast.kernels.shared.symmetric_conditioning import bound_eigenvalue_by_triangles, estimate_eigenvalue_by_probes
from cmfast.kernels.shared.symmetric_newton import compute_newton_step


def dense(i, j, a, n):
    """Return the matrix of pixels that are given once each."""
    A = np.zeros((n, n))
    np.add.at(A, (i, j), a)
    return A + np.triu(A, 1).T


def assert_sums(result, A, s=1.0, tol=1e-9):
    """Assert that the bins that are left have their sums, added up exactly."""
    x = np.nan_to_num(result.weights)
    s = np.broadcast_to(s, len(x))
    for k in np.flatnonzero(result.kept):
        assert abs(math.fsum(x[k] * A[k] * x) / s[k] - 1) <= tol + 1e-14 * len(x)


def upper(i, j, a, n, *sums, **options):
    return cmfast.balance((i, j, a, n), *sums, symmetric="upper", **options)


def test_planted_weights_are_found():
    i, j, a = contacts(200, 1, 0.3)
    planted = np.exp(np.random.default_rng(2).normal(0.0, 1.0, 200))
    s = (dense(i, j, a, 200) * planted * planted[:, None]).sum(1)
    result = upper(i, j, a, 200, s, tol=1e-12)
    np.testing.assert_allclose(result.weights, planted, rtol=1e-9)
    assert result.n_iter < 60


def test_newton_takes_few_passes_however_far_sums_differ():
    i, j, a = contacts(300, 3, 0.4)
    bias = np.exp(np.random.default_rng(4).normal(0.0, 3.0, 300))
    result = upper(i, j, a * bias[i] * bias[j], 300, tol=1e-10)
    assert result.status == Status.CONVERGED
    assert_sums(result, dense(i, j, a * bias[i] * bias[j], 300), tol=1e-10)
    assert result.n_iter < 200


def test_counts_times_a_power_of_ten_have_the_same_weights():
    i, j, a = contacts(80, 5)
    base = upper(i, j, a, 80, tol=1e-13)
    for power in (1, 3, 6, -3):
        other = upper(i, j, a * 10.0**power, 80, tol=1e-13)
        np.testing.assert_allclose(other.weights * 10 ** (power / 2), base.weights, rtol=1e-11)


def test_bins_in_another_order_have_the_same_weights():
    i, j, a = contacts(80, 6)
    base = upper(i, j, a, 80, tol=1e-13)
    order = np.random.default_rng(7).permutation(80)
    at = np.argsort(order)
    moved = upper(np.minimum(at[i], at[j]), np.maximum(at[i], at[j]), a, 80, tol=1e-13)
    np.testing.assert_allclose(moved.weights, base.weights[order], rtol=1e-11)


@pytest.mark.parametrize("kind", ["coo_array", "csr_matrix", "csc_array"])
def test_scipy_sparse_is_taken(kind):
    i, j, a = contacts()
    A = getattr(scipy.sparse, kind)((both_sides(i, j, a)[2], both_sides(i, j, a)[:2]), shape=(40, 40))
    assert_same_bits(cmfast.balance(A).weights, upper(i, j, a, 40).weights)


@pytest.mark.exhaustive
def test_the_same_bits_for_any_threads():
    i, j, a = contacts(3000, 8, 0.05, 3000.0)
    found = [upper(i, j, a, 3000, num_threads=threads) for threads in (1, 2, 3)]
    for other in found[1:]:
        assert_same_bits(tuple(other), tuple(found[0]))


@pytest.mark.parametrize("scale", [1.0, 0.37, 40.0])
def test_packed_pixels_are_those_of_a_matrix(scale):
    i, j, a = contacts(150, 9)
    far = np.arange(0, 140, 7)
    n = 70_000
    i, j = np.concatenate([i, far]), np.concatenate([j, far + 69_000])
    a = np.concatenate([a, np.full(len(far), 90_000)]) * scale
    order = np.lexsort((j, i))
    i, j, a = i[order], j[order], a[order]
    packed = pack(i, j, a, n, 0)
    assert packed.gap.dtype == np.uint16
    assert packed.value.dtype == (np.uint16 if scale != 0.37 else np.float64)
    assert len(packed.rest_row) >= len(far)
    x = np.random.default_rng(10).random(n)
    A = scipy.sparse.coo_array((a, (i, j)), shape=(n, n)).tocsr()
    wanted = x * (A @ x + A.T @ x - A.diagonal() * x)
    np.testing.assert_allclose(SymmetricProducts(packed, 2).sums(x), wanted, rtol=1e-12)
    np.testing.assert_allclose(SymmetricProducts(packed, 1).least(x), (a * x[i] * x[j]).min(), rtol=1e-12)


def test_a_table_of_rows_and_columns_is_packed():
    rng = np.random.default_rng(11)
    M = rng.random((40, 90)) * (rng.random((40, 90)) < 0.3)
    i, j = np.nonzero(M)
    passes = SymmetricProducts(pack(i, j + 40, M[i, j], 130, 40), 1)
    x, y = rng.random(40), rng.random(90)
    P = x[:, None] * M * y
    np.testing.assert_allclose(passes.sums(np.concatenate([x, y])), np.concatenate([P.sum(1), P.sum(0)]), rtol=1e-12)


def assert_verdicts(number, seed):
    """Assert that what zeros allow is said as a linear program says it; return how many there are of each."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    for _ in range(number):
        n = int(rng.integers(2, 9))
        i, j = np.triu_indices(n, int(rng.integers(0, 2)))
        keep = rng.random(len(i)) < rng.uniform(0.2, 0.8)
        if not keep.any():
            continue
        i, j, a = i[keep], j[keep], np.exp(rng.normal(0.0, rng.choice([0.3, 2.0]), int(keep.sum())))
        s = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else np.ones(n)
        result = upper(i, j, a, n, s, on_failure="ignore")
        k = np.flatnonzero(result.kept)
        A = dense(i, j, a, n)[np.ix_(k, k)]
        assert result.status == existence(A, s[k])
        if result.status == Status.CONVERGED:
            assert_sums(result, dense(i, j, a, n), s)
        if result.status == Status.INFEASIBLE:
            proof = result.proof[k]
            rows, reached = proof % 2 == 1, (A[proof % 2 == 1] > 0).any(0)
            assert (reached <= (proof >= 2)).all()
            assert s[k][rows].sum() > s[k][proof >= 2].sum()
        counts[Status(int(result.status)).name] += 1
    return counts


@pytest.mark.exhaustive
def test_zeros_are_judged_as_by_a_linear_program():
    counts = assert_verdicts(300, 12)
    assert min(counts[name] for name in ("CONVERGED", "LIMIT_ONLY", "INFEASIBLE")) >= 30
    assert set(counts) == {"CONVERGED", "LIMIT_ONLY", "INFEASIBLE"}


@pytest.mark.slow
def test_many_zeros_are_judged_as_by_a_linear_program():
    assert assert_verdicts(20_000, 13).total() > 18_000  # others have no pixel


def test_a_tiny_pixel_that_must_vanish_is_not_overlooked():
    i, j, a = np.array([0, 0, 1, 0]), np.array([1, 2, 2, 3]), np.array([1.0, 1.0, 1.0, 1.0])
    for tiny in (1e-3, 1e-9, 1e-15, 1e-60):
        weights = np.array([tiny, tiny, 1.0, 1.0])
        assert upper(i, j, a * weights, 4, on_failure="ignore").status == Status.LIMIT_ONLY


def test_two_colours_whose_sums_agree_have_weights():
    i, j, a = np.array([0, 1, 2, 0]), np.array([1, 2, 3, 3]), np.array([1.0, 2.0, 3.0, 9.0])
    result = upper(i, j, a, 4)
    assert result.status == Status.CONVERGED
    assert_sums(result, dense(i, j, a, 4))


def test_weights_that_the_sums_barely_fix_are_not_called_right():
    """Two colours, but for pixels of 1e-14 within each: the weights of one over the other are free but for these."""
    i, j = np.array([0, 1, 2, 0, 0, 1]), np.array([1, 2, 3, 3, 0, 1])
    a = np.array([1.0, 2.0, 3.0, 9.0, 1e-14, 3e-14])
    with pytest.warns(cmfast.FailureWarning, match="that does not determine all weights"):
        result = upper(i, j, a, 4)
    assert result.status == Status.UNDETERMINED


def test_a_block_does_not_see_the_others():
    i, j, a = contacts(60, 14, 0.8)
    cuts = [0, 25, 60]
    result = upper(i, j, a, 60, blocks=cuts)
    for b, (low, high) in enumerate(itertools.pairwise(cuts)):
        keep = (i >= low) & (j < high)
        alone = upper(i[keep] - low, j[keep] - low, a[keep], high - low)
        assert_same_bits(result.weights[low:high], alone.weights)
        assert result.residual[b] == alone.residual
    a = a.astype(float)
    a[0] = 0.0
    assert result.status.tolist() == [0, 0]


def test_reasons_have_names():
    i, j, a = contacts(60, 5, 0.15, 60.0)
    result = upper(i, j, a, 60, min_nnz=6, min_count=60, keep=np.arange(60) != 7)
    assert {REASONS[k] for k in np.unique(result.reason)} >= {"kept", "min_nnz"}
    assert "min_nnz" in repr(result)
    assert result.kept.sum() == (result.reason == 0).sum()
    assert np.isnan(result.weights[~result.kept]).all()


@pytest.mark.parametrize(
    ("cells", "n", "said"),
    [
        ([(0, 1, 1), (1, 2, 1)], 3, "bins 0, 2 must sum to 2 but have pixels only with bin 1, which sum to 1"),
        ([(0, 1, 1), (0, 2, 1), (1, 2, 1), (0, 3, 1)], 4, "pixels of bins 0, 1, 2 would have to be zero; .* by ipf"),
        ([(0, 1, 1), (0, 2, np.nan)], 3, r"NaN value at values\[1\]"),
        ([(0, 1, 1), (0, 5, 1)], 3, "pixel 1 is in column 5, of 3"),
        ([(0, 1, 1), (2, 0, 1)], 3, "pixel 1 is below the diagonal, in row 2, column 0"),
        ([(0, 1, 0)], 3, "no bin is left"),
    ],
)
def test_messages_say_which_bins(cells, n, said):
    i, j, a = (np.array(x) for x in zip(*cells, strict=True))
    with pytest.raises(cmfast.FailureError, match=said):
        upper(i, j, a, n, on_failure="raise")


def test_a_matrix_that_is_not_symmetric_is_refused():
    with pytest.warns(cmfast.FailureWarning, match="not symmetric"):
        assert cmfast.balance(([0], [1], [1.0], 2)).status == Status.INVALID


def test_what_is_not_converged_says_so():
    i, j, a = contacts(80, 15)
    result = upper(i, j, a, 80, max_iter=6, on_failure="ignore")
    assert result.status == Status.MAX_ITER
    assert np.isfinite(result.weights).all()
    with pytest.warns(cmfast.FailureWarning, match="not converged after .* passes: a sum is off by"):
        upper(i, j, a, 80, max_iter=6)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"keep": np.ones(3)}, "keep must be an array of bool"),
        ({"keep": np.ones(4, bool)}, "keep must be of shape"),
        ({"blocks": [0, 2]}, "blocks must be offsets"),
        ({"blocks": [1, 3]}, "blocks must be offsets"),
        ({"blocks": [0, 2, 1, 3]}, "blocks must be offsets"),
        ({"blocks": "x"}, "blocks must be offsets"),
        ({"mad_blocks": [0.0, 3.0]}, "mad_blocks must be offsets"),
        ({"ignore_diags": -1}, "ignore_diags must be"),
        ({"min_nnz": 1.5}, "min_nnz must be"),
        ({"min_count": -1}, "min_count must be"),
        ({"mad_max": 0}, "mad_max must be"),
        ({"symmetric": "lower"}, "symmetric must be False, for pixels on both sides of the diagonal, or 'upper', got"),
        (
            {"symmetric": True},
            "symmetric must be False, for pixels on both sides of the diagonal, or 'upper', got bool",
        ),
    ],
)
def test_wrong_options_are_refused(wrong, said):
    i, j, a = np.array([0, 0, 1]), np.array([1, 2, 2]), np.ones(3)
    with pytest.raises((TypeError, ValueError), match=said):
        cmfast.balance((i, j, a, 3), **{"symmetric": "upper", **wrong})


def test_the_proved_step_never_raises_what_is_minimised():
    rng = np.random.default_rng(16)
    i, j, a = contacts(40, 17, 0.3)
    A = dense(i, j, a, 40).astype(np.longdouble)
    A = A[np.ix_(*(np.flatnonzero(A.any(0)),) * 2)]
    n = len(A)
    rows, columns = np.nonzero(np.triu(A))
    passes = SymmetricProducts(pack(rows, columns, A[rows, columns].astype(float), n, 0), 1)
    e = rng.normal(0.0, 4.0, n)
    values = []
    for _ in range(40):
        x = np.exp(e)
        r = passes.sums(x)
        wide = np.exp(e.astype(np.longdouble))
        values.append(wide @ A @ wide / 2 - e.astype(np.longdouble).sum())
        d, _ = compute_newton_step(passes, x, r, 1.0 - r, 1e-6)
        rho = 2 * max(d.max(), 0.0)
        e = e + d * (1.0 if rho <= 1.79 else max(1.79, np.log1p(rho)) / rho)
    assert (np.diff(values) <= 1e-15 * np.abs(values[:-1])).all()
    assert np.abs(r - 1).max() < 1e-9


def test_components_and_their_colours():
    rng, kinds = np.random.default_rng(18), collections.Counter()
    for _ in range(200):
        n = int(rng.integers(1, 12))
        i, j = np.triu_indices(n, int(rng.integers(0, 2)))
        keep = rng.random(len(i)) < 1.3 / n
        i, j = i[keep], j[keep]
        component, sign = find_components(pack(i, j, np.ones(len(i)), n, 0))
        A = dense(i, j, 1.0, n) > 0
        reach = np.linalg.matrix_power(A + np.eye(n), n) > 0
        assert ((component[:, None] == component) == reach).all()
        for members in np.unique(reach, axis=0):
            k = np.flatnonzero(members)
            part = A[np.ix_(k, k)].astype(float)
            two = bool(np.trace(np.linalg.matrix_power(part, 2 * n - 1)) == 0) and not odd_cycles(part)
            assert (sign[k] != 0).all() == two == (sign[k] != 0).any()
            assert not two or (sign[k][:, None] * part * sign[k] <= 0).all()
            kinds[two] += 1
    assert min(kinds.values()) > 50


def odd_cycles(part):
    """Whether some odd power of a matrix has something on its diagonal."""
    return any(np.trace(np.linalg.matrix_power(part, k)) > 0 for k in range(1, 2 * len(part), 2))


def test_the_smallest_eigenvalue_is_bounded_by_triangles_and_found_by_probes():
    rng, bounded = np.random.default_rng(19), 0
    for seed in range(20):
        i, j, a = contacts(60, seed, rng.uniform(0.3, 0.9))
        if seed % 2:
            i, j, a = (x[i < j] for x in (i, j, a))
        passes = SymmetricProducts(pack(i, j, a.astype(float), 60, 0), 1)
        x = upper(i, j, a, 60, tol=1e-12).weights
        r = passes.sums(x)
        P = dense(i, j, a, 60) * x * x[:, None]
        least = np.linalg.eigvalsh(np.eye(60) + P / np.sqrt(r * r[:, None]))[0]
        bound = bound_eigenvalue_by_triangles(passes, x, r)
        assert bound <= least * (1 + 1e-9)
        bounded += bound > 0
        seen, moved = estimate_eigenvalue_by_probes(
            passes, partial(compute_newton_step, passes, x, r, forcing=1e-9), x, r
        )
        assert least * (1 - 1e-9) <= seen <= 1.2 * least
        assert moved < 1e-13
    assert bounded >= 5
