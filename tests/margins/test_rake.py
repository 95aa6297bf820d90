"""Weights of records: planted answers, verdicts against a linear program, laws, complaints about peers."""

import collections

import exact_raking
import numpy as np
import pytest
from cases.margins import PAIRS, attributes, counted, survey, table
from oracle.margins import columns_of, weighed
from scipy.optimize import linprog
from scipy.sparse import coo_array, csc_matrix, csr_array

import cmfast
from cmfast import Status


def persons(rng):
    """Return records with a column of ones and counts of persons, and design weights."""
    n, K = int(rng.integers(50, 1000)), int(rng.integers(2, 30))
    A = np.column_stack([np.ones(n), rng.poisson(0.7, (n, K - 1))])
    return A[:, A.any(0)], np.exp(rng.normal(0.0, 0.5, n))


def effects(rng, A):
    """Return what records add to multipliers, about zero in the middle."""
    z = A @ rng.normal(0.0, rng.choice([0.3, 1.0, 3.0]), A.shape[1])
    return z - np.median(z)


def assert_planted_weights_are_found(number, seed=0):
    """Assert that weights at many bounds are found; return the largest number of passes."""
    rng, most = np.random.default_rng(seed), 0
    for _ in range(number):
        A, q = persons(rng)
        low, high = rng.uniform(0.1, 0.9), rng.uniform(1.1, 4.0)
        w = q * np.clip(np.exp(effects(rng, A)), low, high)
        result = cmfast.rake(A, A.T @ w, weights=q, method="truncated", bounds=(low, high), on_failure="ignore")
        right = np.abs(result.weights / w - 1).max() <= max(1e-6, 2 * result.weight_error)
        assert result.status == Status.CONVERGED
        assert right
        most = max(most, int(result.n_iter))
        smooth = cmfast.rake(A, A.T @ w, weights=q, method="logit", bounds=(0.99 * low, 1.01 * high))
        assert smooth.status == Status.CONVERGED
        assert ((smooth.weights > 0.98 * low * q) & (smooth.weights < 1.02 * high * q)).all()
    return most


@pytest.mark.exhaustive
def test_planted_weights_at_bounds_are_found():
    assert assert_planted_weights_are_found(25) <= 100


@pytest.mark.slow
def test_many_planted_weights_at_bounds_are_found():
    assert assert_planted_weights_are_found(300, 1) <= 200


def assert_proved(A, q, m, low, high, y):
    """Assert that no weights within the bounds add up to as much as the targets do, each times its number."""
    z = A @ y
    assert m @ y - np.where(z > 0, q * high * z, q * low * z).sum() > 0


def assert_verdicts_agree(number, seed=2):
    """Assert that verdicts on bounds are those of a linear program; return how many there are of each."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    while counts.total() < number:
        A, q = persons(rng)
        if len(q) > 300:
            continue
        low, high = rng.uniform(0.1, 0.9), rng.uniform(1.1, 4.0)
        w = q * np.clip(np.exp(effects(rng, A)), low, high)
        wide = np.where(rng.random(len(q)) < 0.9, w, q * rng.choice([low / 2, high * 2], len(q)))
        m = A.T @ wide
        found = linprog(0 * q, A_eq=A.T, b_eq=m, bounds=np.column_stack([low * q, high * q]), method="highs").status
        result = cmfast.rake(A, m, weights=q, method="truncated", bounds=(low, high), on_failure="ignore")
        assert result.status == (Status.INFEASIBLE if found == 2 else Status.CONVERGED)
        if found == 2:
            assert_proved(A, q, m, low, high, result.proof)
        counts[found] += 1
    return counts


def test_verdicts_on_bounds_are_those_of_a_linear_program():
    assert min(assert_verdicts_agree(40).values()) >= 5


@pytest.mark.slow
def test_verdicts_on_many_bounds_are_those_of_a_linear_program():
    assert assert_verdicts_agree(400, 3).total() == 400


def test_records_of_a_table_are_what_ipf_nd_does():
    counts = collections.Counter()
    rng = np.random.default_rng(6)
    for seed in range(120):
        M = table((3, 4, 3), seed, 0.4)
        base = [M > 0, (M > 0) & (rng.random(M.shape) < 0.7), rng.random(M.shape) < 0.6][seed % 3]
        T = base * rng.integers(1, 10, M.shape).astype(float)
        margins = [(of, T.sum(tuple({0, 1, 2} - set(of)))) for of in PAIRS]
        cells = np.stack([axis.ravel() for axis in np.indices(M.shape)])
        its = cmfast.ipf_nd(M, margins, tol=1e-12, on_failure="ignore")
        ours = cmfast.rake(cells, margins, weights=M.ravel(), tol=1e-12, on_failure="ignore")
        assert ours.status == its.status
        counts[int(ours.status)] += 1
        if its.status <= Status.LIMIT_ONLY:
            np.testing.assert_array_equal(ours.weights == 0, its.table.ravel() == 0)
            np.testing.assert_allclose(ours.weights, its.table.ravel(), rtol=1e-7)
    assert min(counts[Status.CONVERGED], counts[Status.LIMIT_ONLY], counts[Status.INFEASIBLE]) >= 3


def test_a_combination_that_no_records_reach_is_proved():
    codes = np.array([[0, 0, 1], [0, 1, 1]])
    result = cmfast.rake(codes, [(0, [1.0, 1.0]), (1, [1.5, 0.5])], on_failure="ignore")
    assert result.status == Status.INFEASIBLE
    y = np.concatenate(result.proof)
    A = columns_of(codes, {0: 2, 1: 2}, ((0,), (1,)))
    assert np.array([1.0, 1.0, 1.5, 0.5]) @ y > 2.0 * (A @ y).max()


def test_columns_that_contradict_each_other_are_proved():
    A = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    for options in ({"method": "linear"}, {}, {"method": "truncated", "bounds": (0.0, 10.0)}):
        with pytest.warns(cmfast.FailureWarning, match=r"contradict each other: (one = 3|two = 4), (one = 3|two = 4)"):
            result = cmfast.rake(A, [3.0, 4.0], names=["one", "two"], **options)
        assert result.status == Status.INFEASIBLE
        assert cmfast.rake(A, [3.0, 3.0], **options).status == Status.CONVERGED


def test_bounds_that_bind_nowhere_change_no_bit():
    A, q, m = survey()
    plain = cmfast.rake(A, m, weights=q)
    same = cmfast.rake(A, m, weights=q, method="truncated", bounds=(0.0, np.inf))
    assert plain.weights.tobytes() == same.weights.tobytes()
    wide = cmfast.rake(A, m, weights=q, method="truncated", bounds=(1e-6, 1e6), tol=1e-13)
    np.testing.assert_allclose(wide.weights, plain.weights, rtol=1e-8)


def test_divergence_is_least():
    # Any other weights with the same totals are further from the design weights.
    A, q, m = survey()
    rng = np.random.default_rng(0)
    null = np.linalg.svd(A.T)[2][4:]
    for method, bounds, distance in (
        ("raking", None, lambda w: (w * np.log(w / q) - w + q).sum()),
        ("linear", None, lambda w: ((w - q) ** 2 / q).sum()),
        ("truncated", (0.4, 2.2), lambda w: (w * np.log(w / q) - w + q).sum()),
    ):
        w = cmfast.rake(A, m, weights=q, method=method, bounds=bounds, tol=1e-13).weights
        for _ in range(20):
            other = w + 1e-3 * null.T @ rng.normal(size=len(null))
            if bounds is None or ((other >= bounds[0] * q) & (other <= bounds[1] * q)).all():
                assert distance(other) > distance(w)


def test_important_targets_become_ones_that_must_be_met():
    A, q, m = survey()
    hard = cmfast.rake(A, m, weights=q, tol=1e-13).weights
    off = [np.abs(cmfast.rake(A, m, weights=q, importance=p).weights / hard - 1).max() for p in (1e2, 1e4, 1e6)]
    assert 50 < off[0] / off[1] < 200
    assert 50 < off[1] / off[2] < 200


def test_the_order_of_contradicting_targets_changes_nothing():
    codes, q, _ = attributes()
    margins = [(0, [60.0, 30.0, 20.0]), (1, [70.0, 30.0]), (2, [10.0, 50.0, 20.0, 40.0])]
    p = [1.0, 2.0, 5.0]
    one = cmfast.rake(codes, margins, weights=q, importance=p)
    other = cmfast.rake(codes, margins[::-1], weights=q, importance=p[::-1])
    assert one.status == Status.CONVERGED
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    with pytest.warns(
        cmfast.FailureWarning, match=r"targets\[0\] and targets\[1\] disagree on the total: 110 against 100"
    ):
        cmfast.rake(codes, margins, weights=q)


def test_neighbours_threads_and_grouping_change_no_bit():
    codes, q, w = attributes(500)
    A = columns_of(codes, {0: 3, 1: 2, 2: 4}, ((0,), (1,), (2,)))
    m = A.T @ w
    many, targets = np.stack([q, np.full(500, np.nan), 2 * q]), np.stack([m, m, m * 1.5])
    for options in ({}, {"method": "truncated", "bounds": (0.2, 5.0)}):
        alone = cmfast.rake(A, m, weights=q, **options)
        for num_threads in (1, 2):
            found = cmfast.rake(A, targets, weights=many, num_threads=num_threads, on_failure="ignore", **options)
            assert found.status.tolist() == [0, Status.INVALID, 0]
            assert found.weights[0].tobytes() == alone.weights.tobytes()
    margins = list(zip((0, 1, 2), counted(codes, w, (3, 2, 4), ((0,), (1,), (2,))), strict=True))
    grouped = cmfast.rake(codes, margins, weights=q, tol=1e-13).weights
    np.testing.assert_allclose(grouped, cmfast.rake(A, m, weights=q, tol=1e-13).weights, rtol=1e-10)


def test_design_weights_are_never_ignored():
    # balance's issue 431.
    codes, q, w = attributes()
    margins = list(zip((0, 1, 2), counted(codes, w, (3, 2, 4), ((0,), (1,), (2,))), strict=True))
    one, other = (cmfast.rake(codes, margins, weights=weights).weights for weights in (q, np.ones(80)))
    assert np.abs(one / other - 1).max() > 0.1
    ratio = one / q
    same = (codes[:, :, None] == codes[:, None]).all(0)
    np.testing.assert_allclose(np.where(same, ratio[:, None] / ratio, 1.0), 1.0, rtol=1e-12)


def test_a_zero_target_of_a_column_with_both_signs():
    # icarus' issue 18.
    A = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 2.0]])
    result = cmfast.rake(A, [10.0, 0.0])
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(A.T @ result.weights, [10.0, 0.0], atol=1e-8)


def test_bounds_that_cannot_be_kept_are_said_to_be():
    # icarus' issue 10: weights outside the bounds, without a word.
    A, q, m = survey()
    with pytest.warns(cmfast.FailureWarning, match="INFEASIBLE: no weights, nonnegative and within the bounds"):
        result = cmfast.rake(A, 1.5 * m, weights=q, method="logit", bounds=(0.9, 1.1))
    assert np.isnan(result.weights).all()
    for method in ("raking", "linear"):
        with pytest.raises(ValueError, match=f'bounds must be None with method="{method}"'):
            cmfast.rake(A, m, weights=q, method=method, bounds=(0.5, 2.0))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": [1.0, -1.0, 1.0]}, r"INVALID: negative value at weights\[1\]"),
        ({"codes": [[0, 0, 3], [0, 1, 1]]}, "INVALID: record 2 has category 3 of attribute 0, which has 2"),
        ({"rows": [1.0, np.inf]}, r"INVALID: infinite value at target of targets\[0\]\[1\]"),
        ({"codes": [[0, 0, 0], [0, 1, 1]]}, "ZERO_LINE: no record adds to age 1, which should be 1"),
    ],
)
def test_says_what_is_wrong(changes, said):
    codes, rows = changes.get("codes", [[0, 0, 1], [0, 1, 1]]), changes.get("rows", [2.0, 1.0])
    names = ["age 0", "age 1", "sex 0", "sex 1"]
    with pytest.raises(cmfast.FailureError, match=said):
        cmfast.rake(
            codes, [(0, rows), (1, [1.0, 2.0])], weights=changes.get("weights"), names=names, on_failure="raise"
        )


NO_BOUNDS = (
    None,
    3,
    "ab",
    {},
    (0.5,),
    (2.0, 0.5),
    (-0.1, 2.0),
    (0.5, np.nan),
    (np.inf, np.inf),
    ([0.5], 2.0),
    ("a", 2),
)
NO_IMPORTANCE = (True, "1", 1j, np.nan, 0, -1.0, [1.0], {}, [[1.0, 1.0]], [1.0, -1.0], ["a", "b"])


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("bounds", NO_BOUNDS),
        ("importance", NO_IMPORTANCE),
        ("names", (3, True, "ab", b"ab", ["a"], ["a", "b", "c"], {"a": 0, "b": 1})),
        ("method", (None, 3, "greg", b"logit", ["logit"], "all")),
    ],
)
def test_refuses_wrong_options(option, values):
    A, known = np.ones((3, 2)) * [[1, 2], [1, 1], [1, 0]], [6.0, 5.0]
    for value in values:
        others = {"method": "truncated"} if option == "bounds" else {}
        with pytest.raises((TypeError, ValueError), match=rf"rake: {option}"):
            cmfast.rake(A, known, **others, **{option: value})
    for bounds in ((1.0, 2.0), (0.5, 1.0), (0.5, np.inf)):
        with pytest.raises(ValueError, match='low < 1 < high, finite, with method="logit"'):
            cmfast.rake(A, known, method="logit", bounds=bounds)


@pytest.mark.parametrize(
    ("design", "targets", "said"),
    [
        (np.ones(3), [3.0], r"design must be of shape \(n, K\)"),
        (np.ones((3, 2)), [3.0], r"targets must be of shape \(..., 2\)"),
        (np.ones((2, 3)), [(0, [3.0])], "design must be integers"),
        ([[0, 1]], [(1, [3.0])], r"attributes of targets\[0\] must be below 1, the rows of design, got 1"),
        ([[0, 1], [0, 1]], [(0, [1.0, 1.0]), ((0, 1), np.ones((3, 2)))], "must be for 2 categories of attribute 0"),
        ([[0, 1]], [((0, 0), np.ones((2, 2)))], r"attributes of targets\[0\] must be different ones"),
    ],
)
def test_refuses_shapes_that_do_not_agree(design, targets, said):
    with pytest.raises((TypeError, ValueError), match=said):
        cmfast.rake(design, targets)


def test_says_what_limits_and_last_weights_are():
    with pytest.warns(cmfast.FailureWarning, match="LIMIT_ONLY: no dual solution exists; in this limit 1 records have"):
        result = cmfast.rake([[0, 0, 1], [0, 1, 1]], [(0, [1.0, 1.0]), (1, [1.0, 1.0])])
    np.testing.assert_array_equal(result.weights, [1.0, 0.0, 1.0])
    assert np.isnan(result.multipliers[0]).all()
    A, q, m = survey(sd=2.0)
    with pytest.warns(cmfast.FailureWarning, match="MAX_ITER: not converged after 3 passes: residual"):
        result = cmfast.rake(A, m, weights=q, max_iter=3)
    assert result.explain().startswith("MAX_ITER: not converged")
    assert "records 60, status MAX_ITER" in repr(result)


def sparse_survey(n=400, K=20, seed=0):
    """Return columns of numbers of either sign, most of them zero, design weights, and totals of other weights."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, K)) * (rng.random((n, K)) < 0.2)
    A[:, 0] = 1.0
    q = rng.uniform(1.0, 2.0, n)
    return A, q, A.T @ (q * np.exp(A @ rng.normal(0.0, 0.2, K)))


@pytest.mark.parametrize("kind", [csr_array, csc_matrix, coo_array])
@pytest.mark.parametrize(
    ("method", "bounds"), [("raking", None), ("linear", None), ("truncated", (0.3, 4.0)), ("logit", (0.2, 5.0))]
)
@pytest.mark.parametrize("K", [20, 70])
def test_sparse_designs_are_what_dense_ones_are(kind, method, bounds, K):
    A, q, m = sparse_survey(K=K)
    dense = cmfast.rake(A, m, weights=q, method=method, bounds=bounds)
    sparse = cmfast.rake(kind(A), m, weights=q, method=method, bounds=bounds)
    assert dense.status == Status.CONVERGED
    for one, other in zip(dense, sparse, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("n", [5, 203])
@pytest.mark.parametrize(("method", "bounds"), [("raking", None), ("truncated", (0.7, 1.4))])
def test_columns_with_and_without_their_zeros_are_passed_over_alike(n, method, bounds):
    rng = np.random.default_rng(n)
    A = np.repeat(rng.poisson(0.6, (n, 3 if n < 10 else 25)) * np.sign(rng.normal(size=(n, 1))), 3, 0)
    q = np.tile(rng.uniform(1.0, 2.0, n), 3)
    m = A.T @ (q * np.exp(rng.normal(0.0, 0.1, 3 * n)))
    whole = cmfast.rake(A, m, weights=q, method=method, bounds=bounds)
    assert whole.status == Status.CONVERGED
    wide = np.column_stack([A, np.zeros((len(A), 60))])
    without = cmfast.rake(wide, np.append(m, np.full(60, np.nan)), weights=q, method=method, bounds=bounds)
    np.testing.assert_allclose(without.weights, whole.weights, rtol=1e-9)
    signed = cmfast.rake(np.where(A == 0, -0.0, A), m, weights=q, method=method, bounds=bounds)
    assert signed.weights.tobytes() == whole.weights.tobytes()


def test_sparse_designs_stay_as_they_are_and_say_what_is_wrong():
    A, q, m = sparse_survey()
    twice = coo_array((np.ones(2), ([0, 0], [1, 1])), shape=(3, 2)).tocsr()
    before = twice.indices.copy(), twice.data.copy()
    cmfast.rake(twice, [0.0, 4.0])
    np.testing.assert_array_equal(twice.indices, before[0])
    np.testing.assert_array_equal(twice.data, before[1])
    np.testing.assert_allclose(cmfast.rake(twice, [np.nan, 4.0]).weights, [2.0, 1.0, 1.0])
    hole = A.copy()
    hole[7, 0] = np.nan
    with pytest.raises(cmfast.FailureError, match=r"INVALID: NaN value at design\[7, 0\]"):
        cmfast.rake(csr_array(hole), m, weights=q, on_failure="raise")
    empty = csr_array(A * (np.arange(20) != 3))
    with pytest.raises(cmfast.FailureError, match="ZERO_LINE: no record adds to column 3, which should be"):
        cmfast.rake(empty, m, weights=q, on_failure="raise")
    with pytest.raises(TypeError, match="design must be an array of categories, a row per attribute"):
        cmfast.rake(csr_array(A), [(0, [1.0, 2.0])])


def many_columns(n=3000, attributes=30, levels=8, sd=0.3, seed=5):
    """Return codes of correlated attributes, design weights, and weights whose totals are wanted."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    codes = np.stack([np.digitize(common + rng.normal(size=n), np.linspace(-2, 2, levels - 1))] * attributes)
    codes = np.where(rng.random(codes.shape) < 0.7, rng.integers(0, levels, codes.shape), codes)
    q = np.exp(rng.normal(0.0, 0.5, n))
    return codes, q, q * np.exp(rng.normal(0.0, sd, (attributes, levels))[np.arange(attributes)[:, None], codes].sum(0))


def test_hundreds_of_columns_are_as_right_as_few():
    # Conjugate gradients; the last ones, all alike but for a few records, leave them to the matrix.
    for alike in (0, 4):
        codes, q, w = many_columns()
        codes[1 : 1 + alike] = codes[0]
        codes[1 : 1 + alike, :3] = (codes[0, :3] + 1) % 8
        effects = np.random.default_rng(9).normal(0.0, 0.3, (30, 8))
        w = q * np.exp(effects[np.arange(30)[:, None], codes].sum(0))
        sizes, ways = (8,) * 30, tuple((k,) for k in range(30))
        result = cmfast.rake(codes, list(zip(ways, counted(codes, w, sizes, ways), strict=True)), weights=q)
        off = np.abs(result.weights / w - 1).max()
        assert result.status == Status.CONVERGED
        assert off <= max(1e-6, 10 * result.weight_error)


def test_no_bound_comes_from_eigenvalues_that_nobody_saw():
    # Two blocks of categories that three faint records connect: sweeps meet the totals, and that says little of these.
    codes = np.stack([np.arange(1200) % 60, np.arange(1200) // 20])
    codes[1] = (codes[0] // 30) * 30 + codes[1] % 30
    codes[:, :3] = [[0, 1, 2], [30, 31, 32]]
    q = np.ones(1200)
    for faint in (1e-4, 1e-8, 1e-13):
        q[:3] = faint
        w = q * np.exp(np.random.default_rng(0).normal(0.0, 0.3, (2, 60))[[0, 1], codes.T].sum(1))
        margins = list(zip(((0,), (1,)), counted(codes, w, (60, 60), ((0,), (1,))), strict=True))
        result = cmfast.rake(codes, margins, weights=q, on_failure="ignore")
        off = np.abs(result.weights / w - 1).max()
        assert off <= 1e-4 or result.status in (Status.UNDETERMINED, Status.MAX_ITER)


@pytest.mark.parametrize("method", ["truncated", "logit"])
def test_hundreds_of_columns_with_bounds(method):
    codes, q, _ = many_columns(attributes=20)
    rng = np.random.default_rng(0)
    w = q * rng.uniform(0.7, 1.4, len(q))
    sizes, ways = (8,) * 20, tuple((k,) for k in range(20))
    margins = list(zip(ways, counted(codes, w, sizes, ways), strict=True))
    by_products = cmfast.rake(codes, margins, weights=q, method=method, bounds=(0.6, 1.6), tol=1e-12)
    A = columns_of(codes, sizes, ways)
    free = A[:, [k for k in range(160) if k < 8 or k % 8]]  # as few columns as there can be, among them all others
    by_matrix = cmfast.rake(free, free.T @ w, weights=q, method=method, bounds=(0.6, 1.6), tol=1e-12)
    assert by_products.status == by_matrix.status == Status.CONVERGED
    np.testing.assert_allclose(by_products.weights, by_matrix.weights, rtol=1e-6)


def test_records_that_are_alike_are_counted_together():
    codes, q, w = attributes(3000)
    A = columns_of(codes, {0: 3, 1: 2, 2: 4}, ((0,), (1,), (2,)))
    low, high = np.where(codes[0] == 0, 0.5, 0.7), np.where(codes[1] == 0, 1.9, 1.6)
    m = A.T @ np.clip(w, low * q, high * q)
    many = cmfast.rake(A, m, weights=q, method="truncated", bounds=(low, high), tol=1e-13)
    ratio = many.weights / q
    assert ((ratio >= low - 1e-12) & (ratio <= high + 1e-12)).all()
    marked = np.column_stack([A, np.arange(3000.0)])  # no two alike, with the same totals
    each = cmfast.rake(marked, np.append(m, np.nan), weights=q, method="truncated", bounds=(low, high), tol=1e-13)
    np.testing.assert_allclose(many.weights, each.weights, rtol=1e-9)


def test_targets_that_contradict_each_other_may_be_very_important():
    rng = np.random.default_rng(0)
    counts = collections.Counter()
    for _ in range(40):
        A = np.column_stack([np.ones(100), rng.poisson(0.7, (100, 8))])
        q = np.exp(rng.normal(0.0, 0.5, 100))
        m = (q @ A) * np.exp(rng.normal(0.0, 0.3, 9))
        p = 10.0 ** rng.uniform(-1.0, 6.0, 9)
        result = cmfast.rake(A, m, weights=q, importance=p, on_failure="ignore")
        counts[int(result.status)] += 1
        if result.status == Status.CONVERGED:
            z = A @ result.multipliers
            np.testing.assert_allclose(result.weights, q * np.exp(z), rtol=1e-6)
            np.testing.assert_allclose(A.T @ result.weights, m * np.exp(-result.multipliers / p), rtol=1e-6)
    assert counts[Status.CONVERGED] >= 38
    assert set(counts) <= {Status.CONVERGED, Status.UNDETERMINED, Status.MAX_ITER}


def test_a_total_that_can_only_have_the_other_sign_is_infeasible_however_unimportant():
    # The penalty is a divergence: of a target above zero no total below it has one.
    A = np.array([[1.0, -1.0], [1.0, -2.0]])
    result = cmfast.rake(A, [2.0, 1.0], importance=[np.inf, 0.1], on_failure="ignore")
    assert result.status == Status.INFEASIBLE
    assert result.proof @ [2.0, 0.0] > 0.0
    assert (A @ result.proof <= 1e-12).all()


def drawn(rng):
    """Return a random problem: columns, design weights, totals, importances, and options."""
    n, K = int(rng.integers(20, 300)), int(rng.integers(2, 16))
    columns = [
        lambda: np.column_stack([np.ones(n), rng.poisson(0.7, (n, K - 1))]),
        lambda: rng.normal(size=(n, K)),
        lambda: np.column_stack([np.ones(n), rng.normal(30.0, 10.0, (n, K - 1)) * (rng.random((n, K - 1)) < 0.5)]),
        lambda: np.concatenate([np.eye(s)[rng.integers(0, s, n)] for s in rng.integers(2, 6, 3)], 1),
    ]
    A = columns[rng.integers(4)]()
    A = A[:, (A != 0).any(0)]
    q = np.exp(rng.normal(0.0, 0.5, n)) * (rng.random(n) < rng.choice([0.6, 1.0]))
    method = str(rng.choice(["raking", "linear", "truncated", "logit"]))
    low, high = rng.uniform(0.0, 0.9), rng.uniform(1.1, 5.0)
    z = A @ (rng.normal(0.0, rng.choice([0.1, 0.5, 1.0, 2.0]), A.shape[1]) / np.abs(A).max(0))
    w = weighed(q, z, method, low, high)[0]
    w = [w, w * rng.choice([0, 1, 1, 1], n), w * np.exp(rng.normal(size=n)), rng.integers(0, 3, n)][rng.integers(4)]
    p = np.where(rng.random(A.shape[1]) < rng.choice([0.5, 1.0, 1.0]), np.inf, 10.0 ** rng.uniform(-1, 6, A.shape[1]))
    m = A.T @ w * np.where(np.isinf(p), 1.0, np.exp(rng.normal(0.0, 0.3, A.shape[1])))
    return A, q, m, p, {"method": method, "bounds": (low, high) if method in ("truncated", "logit") else None}


def is_impossible(A, q, m, p, method, bounds):
    """Return whether no weights have the totals, those of some importance by their sign alone: by a linear program."""
    hard = np.isinf(p) | (m == 0)
    low, high = bounds or ((-np.inf, np.inf) if method == "linear" else (0.0, np.inf))
    limits = [(low * w, high * w) if w > 0 else (0, 0) for w in q]
    signs = -(A[:, ~hard] * np.sign(m[~hard])).T
    found = linprog(
        0 * q, A_eq=A[:, hard].T, b_eq=m[hard], A_ub=signs, b_ub=np.zeros(len(signs)), bounds=limits, method="highs"
    )
    return found.status == 2


def assert_optimal(A, q, m, p, method, bounds, result):
    """Assert that weights follow from the multipliers as the method says, and have the totals that these allow."""
    known = np.where(np.isfinite(result.multipliers), result.multipliers, 0.0)  # what is zero has no multiplier
    expected, _ = weighed(q, A @ known, method, *(bounds or (0.0, np.inf)))
    gone = (A[:, ~np.isfinite(result.multipliers)] != 0).any(1)
    np.testing.assert_allclose(result.weights, np.where(gone, 0.0, expected), rtol=1e-6, atol=1e-9 * q.max())
    goal = m * np.exp(np.clip(-np.sign(m) * known / p, -700, 700))
    scale = np.maximum(np.abs(goal), 1e-3 * (np.abs(A) * np.abs(result.weights)[:, None]).sum(0))
    np.testing.assert_array_less(np.abs(A.T @ result.weights - goal), 1e-7 * scale + 1e-300)


def assert_random_problems_are_right(number, seed):
    """Assert it of problems of all methods; return how many ended how."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    for _ in range(number):
        A, q, m, p, options = drawn(rng)
        result = cmfast.rake(A, m, weights=q, importance=p, on_failure="ignore", **options)
        status = Status(int(result.status))
        counts[status] += 1
        if status is Status.CONVERGED:
            assert_optimal(A, q, m, p, options["method"], options["bounds"], result)
        elif status is Status.INFEASIBLE and options["method"] != "linear":
            assert is_impossible(A, q, m, p, **options)
    return counts


def test_random_problems_are_right():
    counts = assert_random_problems_are_right(150, 0)
    assert counts[Status.CONVERGED] >= 80
    assert counts[Status.INFEASIBLE] >= 10
    assert counts[Status.MAX_ITER] <= 3


@pytest.mark.slow
def test_many_random_problems_are_right():
    counts = assert_random_problems_are_right(2000, 1)
    assert counts[Status.CONVERGED] >= 1000
    assert counts[Status.MAX_ITER] <= 40


def region(seed, n=4000):
    """Return what a household survey of a region looks like to PopulationSim: 25 controls of households and persons.

    Columns, design weights, totals that agree only nearly, importances, and the bounds of each household.
    """
    rng = np.random.default_rng(seed)
    size = 1 + rng.poisson(1.3, n)
    income, age, cars = rng.integers(0, 4, n), rng.integers(0, 5, n), np.minimum(rng.poisson(1.2, n), 3)
    persons = np.stack([rng.multinomial(k, rng.dirichlet(np.ones(6))) for k in size])
    workers = rng.binomial(size, 0.45)
    parts = [np.ones((n, 1)), np.eye(4)[np.minimum(size, 4) - 1], np.eye(4)[income], np.eye(5)[age], np.eye(4)[cars]]
    A = np.column_stack([*parts, persons, workers])
    q = rng.uniform(10.0, 60.0, n)
    m = (q * np.exp(rng.normal(0.0, 0.4, n))) @ A * np.exp(rng.normal(0.0, 0.03, 25))
    p = np.concatenate([[1e9], np.full(18, 1e5), 10.0 ** rng.integers(3, 6, 6)])
    return A, q, m, p, (rng.uniform(0.5, 0.9, n), rng.uniform(1.1, 2.0, n))


def test_households_of_regions_as_populationsim_balances_them():
    for seed in range(4):
        A, q, m, p, bounds = region(seed, 1500)
        result = cmfast.rake(A, m, weights=q, method="truncated", bounds=bounds, importance=p)
        assert result.status == Status.CONVERGED
        assert result.n_iter <= 60
        assert_optimal(A, q, m, p, "truncated", bounds, result)
        assert ((result.weights <= bounds[0] * q * (1 + 1e-12)) | (result.weights >= bounds[1] * q * (1 - 1e-12))).any()
        np.testing.assert_allclose(result.weights.sum(), m[0], rtol=1e-3)


@pytest.mark.parametrize("seed", [3, 6, 47])
def test_totals_that_are_far_from_met_are_not_said_to_be_met(seed):
    rng = np.random.default_rng(seed)
    columns = rng.poisson(1.0, (40, 3)) * [1e2, 1e8, 1e2]
    columns = np.column_stack([columns, columns[:, 0] + columns[:, 2]])
    weights = np.exp(3.0 * rng.normal(size=40))
    totals = (weights @ columns) * (1.0 + 0.5 * rng.normal(size=4))  # the last is not the sum of two others
    result = cmfast.rake(columns, totals, weights=weights, on_failure="ignore")
    assert result.status in (Status.INFEASIBLE, Status.UNDETERMINED)
    assert "are met" not in result.explain()


def test_linear_weights_that_are_zero_are_found():
    for A, m, expected in (
        ([[0, 2], [2, 2], [1, 2], [2, 2]], [0, 0], [0, 0, 0, 0]),
        ([[1, 1, 0, 1], [1, 0, 0, 0], [1, 0, 1, 1]], [3, 1, 0, 1], [1, 2, 0]),
    ):
        result = cmfast.rake(np.array(A, float), np.array(m, float), method="linear")
        assert result.status == Status.CONVERGED
        np.testing.assert_allclose(result.weights, expected, atol=1e-12)


def test_a_weight_at_a_bound_that_logit_does_not_reach_is_a_limit():
    A = np.array([[1.0, 1, 0], [1, 0, 1], [0, 0, 0], [0, -1, 2]])
    for design, m, expected in (
        ([[1.0, 1.0, 0.0]], [2.0, 2.0, 0.0], [2.0]),
        (A, [4.0, 0.0, 6.0], [2.0, 2.0, 1.0, 2.0]),
    ):
        with pytest.warns(
            cmfast.FailureWarning, match="LIMIT_ONLY: no dual solution exists; in this limit some weights"
        ):
            result = cmfast.rake(design, m, method="logit", bounds=(0.5, 2.0))
        assert result.status == Status.LIMIT_ONLY
        np.testing.assert_allclose(result.weights, expected, rtol=1e-9)


def test_no_gap_of_rounding_proves_that_there_are_no_weights():
    A = [[-1.0, 0.0, -1.0], [2.0, 2.0, 0.0], [-1.0, 2.0, 2.0], [0.0, -1.0, 0.0], [1.0, 2.0, 1.0]]
    result = cmfast.rake(A, [0.0, 2.5, 0.0], method="logit", bounds=(0.5, 1.5), on_failure="ignore")
    assert result.status == Status.LIMIT_ONLY


def small_problem(rng):
    """Return a problem of few records and columns of integers, whose totals are often those of weights at bounds."""
    n, K = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    least, most = ((-1, 3), (0, 2), (0, 3))[rng.integers(3)]
    A = rng.integers(least, most, (n, K)).astype(float)
    q = np.ones(n) if rng.random() < 0.6 else rng.integers(0, 4, n).astype(float)
    method = str(rng.choice(["raking", "linear", "truncated", "logit"]))
    low, high = ((0.0, 2.0), (0.5, 2.0), (0.5, 1.5), (0.0, 3.0))[rng.integers(4)]
    m = A.T @ (q * rng.choice([low, 1.0, high, 0.75], n))
    if rng.random() < 0.4:
        m = m + rng.integers(-1, 2, K)
    return A, q, m, method, (low, high) if method in ("truncated", "logit") else None


def assert_small_problems_are_right(number, seed):
    """Assert that rational arithmetic gives the same verdicts, but for UNDETERMINED; return how many of each."""
    rng, counts = np.random.default_rng(seed), collections.Counter()
    for _ in range(number):
        A, q, m, method, bounds = small_problem(rng)
        result = cmfast.rake(A, m, weights=q, method=method, bounds=bounds, on_failure="ignore")
        status = Status(int(result.status))
        status = Status.INFEASIBLE if status is Status.ZERO_LINE else status
        counts[status] += 1
        if status is not Status.UNDETERMINED:
            assert status.name == exact_raking.verdict(A, q, m, method, bounds), (A, q, m, method, bounds)
    return counts


@pytest.mark.exhaustive
def test_verdicts_of_small_problems_are_those_of_rational_arithmetic():
    counts = assert_small_problems_are_right(800, 0)
    assert counts[Status.UNDETERMINED] <= 4
    assert min(counts[s] for s in (Status.CONVERGED, Status.LIMIT_ONLY, Status.INFEASIBLE)) >= 50


@pytest.mark.slow
def test_verdicts_of_many_small_problems_are_those_of_rational_arithmetic():
    counts = assert_small_problems_are_right(40_000, 1)
    assert counts[Status.UNDETERMINED] <= 80
