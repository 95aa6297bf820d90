"""Estimates for other distributions: matrix, weights and effective sample size are those of the samples, one by one."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from optional import torch

import cmfast
from cmfast import DiagnosticWarning, FailureError, FailureWarning, Status

QUIET = {"on_failure": "ignore"}
SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6)
COUNTS = hnp.arrays(np.int64, SHAPES, elements=st.integers(0, 9))


def of_samples(M, class_shares=None, target=None):
    """Return matrix, weights and effective sample size in exact arithmetic, from a list of samples; None without any.

    Each sample of row i counts ``share / n_i``, or ``target / n_ij`` where the target is of cells.
    """
    R, C = np.shape(M)
    samples = [(i, j) for i in range(R) for j in range(C) for _ in range(int(M[i][j]))]
    rows = [i for i, _ in samples]
    if class_shares is not None:
        weight = {s: Fraction(float(class_shares[s[0]])) / rows.count(s[0]) for s in set(samples)}
        reached = all(share == 0 or i in rows for i, share in enumerate(class_shares))
    else:
        weight = {s: Fraction(float(target[s[0]][s[1]])) / samples.count(s) for s in set(samples)}
        reached = all(target[i][j] == 0 or (i, j) in weight for i in range(R) for j in range(C))
    total, squares = sum(weight[s] for s in samples), sum(weight[s] ** 2 for s in samples)
    if not reached or not total:
        return None
    matrix, table = np.zeros((R, C)), np.zeros((R, C))
    for s in set(samples):
        matrix[s], table[s] = weight[s] * samples.count(s), weight[s]
    return matrix, table, float(total**2 / squares)


def assert_is(found, want, wanted):
    if want is None:
        assert found.status == (Status.INFEASIBLE if wanted.any() else Status.INVALID)
        assert all(np.isnan(x).all() for x in found[:3])
        return
    assert found.status == 0
    matrix, weights, size = want
    np.testing.assert_allclose(found.matrix, matrix, rtol=4e-16)
    used = matrix > 0  # a class with a share has its weight in cells without samples, too
    np.testing.assert_allclose(np.asarray(found.weights)[used], weights[used], rtol=4e-16)
    np.testing.assert_allclose(found.effective_sample_size, size, rtol=1e-14)


@given(COUNTS, st.data())
def test_class_shares(M, data):
    shares = data.draw(hnp.arrays(np.float64, M.shape[0], elements=st.sampled_from([0.0, 0.1, 0.25, 3.0])))
    assert_is(cmfast.estimate_for_target(M, class_shares=shares, **QUIET), of_samples(M, class_shares=shares), shares)


@given(COUNTS, st.integers(0, 2**32 - 1))
def test_joint_targets(M, seed):
    target = np.random.default_rng(seed).random(M.shape) * (M > 0)
    found = cmfast.estimate_for_target(M, target=target, **QUIET)
    assert_is(found, of_samples(M, target=target), target)
    want = np.where(found.status == 0, cmfast.importance_weights(M, target=target), np.nan)
    np.testing.assert_array_equal(found.weights, want)


def test_the_effective_sample_size_has_its_closed_form_and_its_bounds(rng):
    M, shares = rng.integers(1, 90, (50, 4, 4)), rng.dirichlet(np.ones(4), 50)
    found = cmfast.estimate_for_target(M, class_shares=shares).effective_sample_size
    np.testing.assert_allclose(found, 1 / (shares**2 / M.sum(-1)).sum(-1), rtol=1e-13)
    assert (found <= M.sum((-2, -1)) * (1 + 1e-14)).all()
    own = cmfast.estimate_for_target(M, class_shares=M.sum(-1))
    np.testing.assert_allclose(own.effective_sample_size, M.sum((-2, -1)), rtol=1e-14)
    np.testing.assert_allclose(own.matrix, M, rtol=1e-15)


def test_equal_shares_are_the_normalisation_by_rows(rng):
    M = rng.integers(1, 90, (5, 4, 3))
    found = cmfast.estimate_for_target(M, class_shares=np.ones(4))
    assert_same_bits(found.matrix, cmfast.normalize(M, "row"))
    assert_same_bits(found.weights, cmfast.importance_weights(M, "row"))


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 2.0**40, 1e300])
def test_the_total_of_the_target_does_not_change_the_effective_sample_size(scale, rng):
    M, shares = rng.integers(1, 90, (4, 4)), rng.random(4)
    options = ({"class_shares": shares}, {"target": shares[:, None] * cmfast.normalize(M, "row")})
    for one in options:
        want = cmfast.estimate_for_target(M, **one)
        found = cmfast.estimate_for_target(M, **{name: scale * value for name, value in one.items()})
        np.testing.assert_allclose(found.effective_sample_size, want.effective_sample_size, rtol=1e-13)
        np.testing.assert_allclose(found.matrix, scale * want.matrix, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-150, 1e150, 1e290])
def test_large_and_small_cells_do_not_overflow(scale, rng):
    M, shares = rng.integers(1, 90, (4, 4)).astype(float), rng.random(4)
    want = cmfast.estimate_for_target(M, class_shares=shares).effective_sample_size
    found = cmfast.estimate_for_target(M * scale, class_shares=shares, **QUIET)
    np.testing.assert_allclose(found.effective_sample_size, scale * want, rtol=1e-13)


def test_batches_broadcast_and_layouts_change_no_bit(rng):
    M, shares = rng.integers(1, 90, (5, 1, 17, 9)), rng.random((4, 17))
    found = cmfast.estimate_for_target(M, class_shares=shares, **QUIET)
    assert found.matrix.shape == found.weights.shape == (5, 4, 17, 9)
    assert found.effective_sample_size.shape == found.status.shape == (5, 4)
    for other in (np.asfortranarray(M), np.repeat(M, 2, axis=-1)[..., ::2]):
        for x, y in zip(cmfast.estimate_for_target(other, class_shares=shares, **QUIET), found, strict=True):
            assert_same_bits(x, y)
    for x, y in zip(cmfast.estimate_for_target(M[2, 0], class_shares=shares[3], **QUIET), found, strict=True):
        assert_same_bits(x, y[2, 3])
    none = cmfast.estimate_for_target(np.ones((0, 3, 3)), class_shares=np.ones(3))
    assert [x.shape for x in none] == [(0, 3, 3), (0, 3, 3), (0,), (0,)]


@pytest.mark.parametrize("name", ["class_shares", "target"])
def test_types(name):
    M, wanted = np.full((2, 2), 50), np.ones(2) if name == "class_shares" else np.ones((2, 2))
    for one, other, kind in (("f4", "f4", "f4"), ("f4", "f8", "f8"), ("i8", "f4", "f8"), ("u1", "i2", "f8")):
        found = cmfast.estimate_for_target(M.astype(one), **{name: wanted.astype(other)})
        assert [x.dtype for x in found] == [kind, kind, "f8", "i1"]
        assert found.effective_sample_size == 200


BAD = [
    ((0, 0), 0.0, 0.5, Status.INFEASIBLE, r"class_shares\[1\] is positive but M has no such sample"),
    ((np.nan, 1), 0.5, 0.5, Status.INVALID, r"NaN value at M\[1, 0\]"),
    ((-1, 1), 0.5, 0.5, Status.INVALID, r"negative value at M\[1, 0\]"),
    ((1, 1), 0.5, np.inf, Status.INVALID, r"infinite value at class_shares\[1\]"),
    ((1, 1), 0.5, -1.0, Status.INVALID, r"negative value at class_shares\[1\]"),
    ((1, 1), 0.0, 0.0, Status.INVALID, r"class_shares is zero everywhere"),
    ((0, 0), 0.0, np.nan, Status.INVALID, r"NaN value at class_shares\[1\]"),
    ((1e-200, 0), 0.5, 1e200, Status.RANGE, "a weight leaves the range of the result"),
]


@pytest.mark.parametrize(("row", "first", "second", "status", "said"), BAD)
def test_what_has_no_estimate_is_said_and_harms_no_neighbour(row, first, second, status, said):
    M, shares = np.full((3, 2, 2), 50.0), np.full((3, 2), 0.5)
    M[1, 1], shares[1] = row, (first, second)
    with pytest.warns(FailureWarning, match=rf"^estimate_for_target: {status.name} \(element 1 of 3\): {said}$"):
        found = cmfast.estimate_for_target(M, class_shares=shares)
    assert found.status.tolist() == [0, status, 0]
    for x in found[:3]:
        assert np.isnan(x[1]).all()
    assert (found.effective_sample_size[[0, 2]] == 200).all()
    assert (found.matrix[[0, 2]] == 0.25).all()
    assert status.name in found.explain()
    with pytest.raises(FailureError) as caught:
        cmfast.estimate_for_target(M, class_shares=shares, on_failure="raise")
    assert caught.value.status.tolist() == [0, status, 0]
    alone = cmfast.estimate_for_target(M[1], class_shares=shares[1], **QUIET)
    assert alone.status == status
    assert np.isnan(alone.effective_sample_size)


@pytest.mark.parametrize(
    ("cell", "wanted", "status", "said"),
    [
        (0.0, 0.5, Status.INFEASIBLE, r"the target is positive where M has no samples, at M\[1, 0\]"),
        (1.0, np.nan, Status.INVALID, r"NaN value at target\[1, 0\]"),
        (1e-200, 1e200, Status.RANGE, "a weight leaves the range of the result"),
    ],
)
def test_joint_targets_out_of_reach(cell, wanted, status, said):
    M, target = np.full((3, 2, 2), 50.0), np.full((3, 2, 2), 0.25)
    M[1, 1, 0], target[1, 1, 0] = cell, wanted
    with pytest.warns(FailureWarning, match=rf"^estimate_for_target: {status.name} \(element 1 of 3\): {said}$"):
        found = cmfast.estimate_for_target(M, target=target)
    assert found.status.tolist() == [0, status, 0]
    assert np.isnan(found.effective_sample_size).tolist() == [False, True, False]
    with pytest.warns(FailureWarning, match="INVALID: target is zero everywhere"):
        cmfast.estimate_for_target(M[0], target=np.zeros((2, 2)))


def test_a_class_without_share_needs_no_samples():
    found = cmfast.estimate_for_target([[90, 10, 0], [0, 0, 0], [0, 5, 95]], class_shares=[0.5, 0, 0.5])
    assert found.status == 0
    np.testing.assert_allclose(found.matrix, [[0.45, 0.05, 0], [0, 0, 0], [0, 0.025, 0.475]])
    assert found.effective_sample_size == pytest.approx(200)


def test_few_effective_samples_are_warned_of():
    M = np.array([[[900, 100], [2, 3]], [[900, 100], [40, 60]]])
    with pytest.warns(DiagnosticWarning, match=r"^estimate_for_target: 1 of 2 estimates have fewer than 30 .* 6\.17\)"):
        cmfast.estimate_for_target(M, class_shares=[0.1, 0.9])
    with pytest.warns(
        DiagnosticWarning, match=r"the estimate has fewer than 30 effective samples \(effective sample size 6"
    ):
        cmfast.estimate_for_target(M[0], class_shares=[0.1, 0.9], on_failure="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cmfast.estimate_for_target(M, class_shares=[0.1, 0.9], **QUIET)
        cmfast.estimate_for_target(M[1], class_shares=[0.1, 0.9])
        cmfast.estimate_for_target([[15, 0], [0, 15]], class_shares=[1, 1])  # exactly 30


def test_what_is_refused():
    M, ticks = np.full((2, 2), 50.0), []
    with pytest.raises(TypeError, match=r"^estimate_for_target: give one of class_shares and target, got neither"):
        cmfast.estimate_for_target(M)
    with pytest.raises(TypeError, match=r"^estimate_for_target: give one of class_shares and target, got both"):
        cmfast.estimate_for_target(M, class_shares=np.ones(2), target=M)
    with pytest.raises(ValueError, match=r"^estimate_for_target: class_shares must be of shape \(..., 2\), got shape"):
        cmfast.estimate_for_target(M, class_shares=np.ones(3))
    with pytest.raises(
        ValueError, match=r"^estimate_for_target: batch shapes do not broadcast, got M: \(2,\), class_sh"
    ):
        cmfast.estimate_for_target(np.ones((2, 2, 2)), class_shares=np.ones((3, 2)))
    cmfast.estimate_for_target(
        np.ones((3, 2, 2)), class_shares=np.ones(2), progress=lambda *at: ticks.append(at), **QUIET
    )
    assert ticks == [(3, 3)]


# Libraries


@pytest.mark.torch
def test_tensors_have_the_bits_of_numpy_and_gradients(rng):
    M, shares = rng.integers(1, 90, (5, 4, 3)), rng.random((5, 4))
    want = cmfast.estimate_for_target(M, class_shares=shares)
    found = cmfast.estimate_for_target(torch.tensor(M), class_shares=torch.tensor(shares))
    for x, y in zip(found, want, strict=True):
        assert_same_bits(x.numpy(), y)
    cells, wanted = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (M[:2], shares[:2]))
    joint = torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    assert check(lambda M, s: cmfast.estimate_for_target(M, class_shares=s, **QUIET)[:3], (cells, wanted))
    assert check(lambda M, t: cmfast.estimate_for_target(M, target=t, **QUIET)[:3], (cells, joint))
    bad = torch.tensor([[[50.0, 9.0], [0.0, 0.0]], [[50.0, 9.0], [9.0, 60.0]]], requires_grad=True)
    size = cmfast.estimate_for_target(bad, class_shares=torch.ones(2), **QUIET).effective_sample_size
    size[1].backward()
    assert torch.isfinite(bad.grad[1]).all()


def test_dask_arrays(rng):
    da = pytest.importorskip("dask.array")
    M, shares = rng.integers(1, 90, (7, 4, 3)), rng.random((7, 4))
    lazy = da.from_array(M, chunks=(3, 4, 3))
    for one in (shares[0], shares):
        want = cmfast.estimate_for_target(M, class_shares=one)
        chunked = da.from_array(one, chunks=(2, 4) if one.ndim > 1 else 4)
        found = cmfast.estimate_for_target(lazy, class_shares=chunked).compute()
        for x, y in zip(found, want, strict=True):
            assert_same_bits(x, y)


def test_dimensions_of_xarray_are_kept(rng):
    xr = pytest.importorskip("xarray")
    counts = rng.integers(20, 90, (2, 3, 3))
    M = xr.DataArray(counts, {"model": ["a", "b"], "true": list("xyz")}, ("model", "true", "predicted"))
    shares = xr.DataArray([0.2, 0.3, 0.5], {"true": list("xyz")}, ("true",))
    found = cmfast.estimate_for_target(M, class_shares=shares)
    want = cmfast.estimate_for_target(counts, class_shares=shares.values)
    assert [x.dims for x in found] == [M.dims, M.dims, ("model",), ("model",)]
    assert found.effective_sample_size.coords["model"].values.tolist() == ["a", "b"]
    for x, y in zip(found, want, strict=True):
        np.testing.assert_array_equal(x.values, y)


# What the limit of the warning stands for


def simulate(rng, C, n, decades, shares, recall, draws=300):
    """Return effective sample size, coverage of Wilson's interval of the accuracy by it, and bias of macro F1."""
    p = 10.0 ** (-decades * np.arange(C) / (C - 1))
    p /= p.sum()
    shares = {"equal": np.full(C, 1 / C), "reversed": p[::-1], "random": rng.dirichlet(np.full(C, 0.5))}[shares]
    P = rng.dirichlet(np.ones(C), C) * (1 - np.eye(C))
    P *= ((1 - recall) / P.sum(1))[:, None]
    P += np.diag(recall)
    M = rng.multinomial(n, (p[:, None] * P).ravel(), size=draws).reshape(draws, C, C)
    M = M[M.sum(-1).all(-1)]
    if len(M) < draws / 3:
        return None
    found = cmfast.estimate_for_target(M, class_shares=shares, **QUIET)
    truth, z = shares[:, None] * P, 1.959964
    size, right = found.effective_sample_size, cmfast.metrics.accuracy(found.matrix)
    half = z * np.sqrt(right * (1 - right) / size + (z / size) ** 2 / 4) / (1 + z**2 / size)
    middle = (right + z**2 / size / 2) / (1 + z**2 / size)
    covered = (np.abs(middle - np.trace(truth)) <= half).mean()
    bias = cmfast.metrics.f1(found.matrix, average="macro").mean() - cmfast.metrics.f1(truth, average="macro")
    return size.mean(), covered, abs(bias)


@pytest.mark.slow
def test_the_limit_of_effective_samples_parts_biased_estimates_from_others(rng):
    results = []
    for _ in range(2500):
        C = int(rng.choice([2, 3, 5, 10]))
        recall = (np.full(C, rng.uniform(0.3, 0.99)), np.linspace(0.99, 0.5, C), np.linspace(0.5, 0.99, C))
        n, shares = int(rng.choice([20, 50, 100, 300, 1000, 5000])), rng.choice(["equal", "reversed", "random"])
        results.append(simulate(rng, C, n, rng.uniform(0, 3), shares, recall[rng.integers(3)]))
    size, covered, bias = np.array([one for one in results if one is not None]).T
    few, enough = size < 20, size >= 30
    assert few.sum() > 100
    assert enough.sum() > 100
    assert np.quantile(bias[few], 0.95) > 0.12
    assert np.quantile(bias[enough], 0.95) < 0.04
    assert np.quantile(covered[enough], 0.05) > 0.89
