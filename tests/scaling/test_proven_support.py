"""Matrices with zeros and any targets: where the scaled matrix proves support, nothing depends on classifying zeros."""

from types import SimpleNamespace

import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast import Status
from cmfast.kernels.cpu.scaling import launch
from cmfast.kernels.cpu.scaling._proven_support import find_unproven

ALL_FIELDS = "matrix", "row_scale", "col_scale", "residual", "n_iter", "status", "smoothing", "line_error"
N = 60


def sparse_counts(rng, R, C):
    """Return counts with many zeros, some of them without a scaling."""
    return rng.poisson(0.7, (N, R, C)) + np.eye(R, C)


def in_blocks(rng, R, C):
    """Return two blocks, which nothing connects or cells in one direction, and whole matrices between them."""
    M = rng.random((N, R, C)) + 0.1
    M[::3, : R // 2, C // 2 :] = 0.0
    M[::6, R // 2 :, : C // 2] = 0.0
    return M


FAMILIES = {
    "sparse counts": sparse_counts,
    "blocks": in_blocks,
    "triangles": lambda rng, R, C: np.triu(rng.random((N, R, C))) + (rng.random((N, 1, 1)) < 0.5),
    "few zeros": lambda rng, R, C: rng.poisson(4.0, (N, R, C)) + 0.0,
    "tiny cells": lambda rng, R, C: rng.random((N, R, C)) ** 30 * (rng.random((N, R, C)) < 0.7) + np.eye(R, C),
    "bad cells": lambda rng, R, C: np.where(rng.random((N, R, C)) < 0.01, np.nan, rng.poisson(2.0, (N, R, C))),
}


def make_targets(kind, rng, M):
    """Return row and column targets of one kind."""
    R, C = M.shape[1:]
    if kind == "own":  # of another matrix with these zeros: whole numbers, which the zeros allow
        other = np.nan_to_num(M > 0) * rng.integers(1, 9, M.shape)
        return other.sum(2), other.sum(1)
    if kind == "ties":  # tenths: their sums agree but for rounding
        rows = np.full(R, 0.1)
        return rows, np.full(C, 0.1 * R / C)
    if kind == "zeros":
        rows, cols = np.arange(R) % 3 * 1.0, np.ones(C)
        return rows, cols * rows.sum() / C
    rows = rng.random((len(M), R)) + 0.5
    return rows, np.tile(rows.sum(1, keepdims=True) / C, (1, C))


def assert_same_results(found, wanted):
    for name in ALL_FIELDS:
        assert_same_bits(getattr(found, name), getattr(wanted, name), what=name)


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (3, 3), (4, 7), (7, 4), (12, 12), (20, 70)], ids=str)
@pytest.mark.parametrize("targets", ["own", "ties", "zeros", "any"])
@pytest.mark.parametrize("family", FAMILIES)
def test_results_do_not_depend_on_what_is_classified(monkeypatch, family, targets, shape):
    rng = np.random.default_rng(7)
    M = FAMILIES[family](rng, *shape)
    lines = make_targets(targets, rng, M)
    calls = [
        lambda: cmfast.ipf(M, *lines, on_failure="ignore"),
        lambda: cmfast.ipf(
            M[::-1], *(x[::-1] if x.ndim == 2 else x for x in lines), on_failure="ignore", num_threads=1
        ),
        lambda: cmfast.ipf(M.astype(np.float32), *lines, on_failure="ignore"),
        lambda: cmfast.ipf(M[0], *lines, on_failure="ignore"),
        lambda: cmfast.ipf(M, *lines, on_failure="ignore", max_iter=6),
    ]
    found = [call() for call in calls]
    monkeypatch.setattr(launch, "find_unproven", lambda p, first, end: np.arange(end - first))
    for one, call in zip(found, calls, strict=True):
        assert_same_results(one, call())


@pytest.mark.parametrize("targets", ["own", "ties", "zeros", "any"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 7), (7, 4), (12, 12)], ids=str)
def test_bits_do_not_depend_on_neighbours(targets, shape):
    rng = np.random.default_rng(3)
    M = np.concatenate([make(rng, *shape) for make in FAMILIES.values()])
    M = M[rng.permutation(len(M))[:N]]
    lines = make_targets(targets, rng, M)
    whole = cmfast.ipf(M, *lines, on_failure="ignore")
    for b in range(N):
        alone = cmfast.ipf(M[b], *(x[b] if x.ndim == 2 else x for x in lines), on_failure="ignore")
        for name in ALL_FIELDS:
            assert_same_bits(
                np.asarray(getattr(alone, name)), np.asarray(getattr(whole, name)[b]), what=f"{name} of {b}"
            )


@pytest.mark.exhaustive
@pytest.mark.parametrize("targets", ["own", "ties", "zeros", "any", "unequal"])
@pytest.mark.parametrize("C", [65, 90, 200])
def test_a_batch_of_large_matrices_has_the_bits_of_each(C, targets):
    rng = np.random.default_rng(C)
    half = C // 2
    M = rng.poisson(3.0, (24, C, C)) + 20.0 * np.eye(C)
    M[3] = rng.random((C, C)) ** 20
    M[5] = np.triu(M[5])
    M[7, :half, half:] = 0.0  # one block flows into the other
    M[8, :half, half:] = M[8, half:, :half] = 0.0
    M[9, 4] = 0.0
    M[11, 2, 3] = np.nan
    M[12] += 0.5
    M[13, :half, half:] = 1e-9 * (rng.random((half, C - half)) < 0.1)
    M[14] = 10.0 ** rng.uniform(-12, 0, (C, C))
    M[15] = np.eye(C) + 1e-3 * np.roll(np.eye(C), 1, 0)
    lines = make_targets("own" if targets == "unequal" else targets, rng, M)
    if targets == "unequal":  # totals that differ by rounding, and some by more
        factors = np.where(np.arange(len(M)) % 4 == 0, 1.0 + 1e-3, 1.0 + 1e-12)
        lines = lines[0] / 7.0, lines[1] * factors[:, None] / 7.0
    whole = cmfast.ipf(M, *lines, on_failure="ignore")
    turned = cmfast.ipf(M[::-1], *(x[::-1] if x.ndim == 2 else x for x in lines), on_failure="ignore", num_threads=1)
    assert len(set(whole.status.tolist())) > 2
    for b in range(len(M)):
        alone = cmfast.ipf(M[b], *(x[b] if x.ndim == 2 else x for x in lines), on_failure="ignore")
        for name in ALL_FIELDS:
            one = np.asarray(getattr(alone, name))
            assert_same_bits(np.asarray(getattr(whole, name)[b]), one, what=f"{name} of {b}")
            assert_same_bits(np.asarray(getattr(turned, name)[-1 - b]), one, what=f"{name} of {b}, turned")


def swept(M, rows, cols, sweeps):
    """Return factors after some sweeps, and the error of the sums over their total."""
    y = np.ones(len(cols))
    for _ in range(sweeps):
        x = rows / (M @ y)
        y = cols / (x @ M)
    P = x[:, None] * M * y
    return x, y, (abs(P.sum(1) - rows).sum() + abs(P.sum(0) - cols).sum()) / rows.sum()


@pytest.mark.parametrize("sweeps", [5, 50, 500, 5000])
@pytest.mark.parametrize(
    ("M", "proven"),
    [
        ([[3, 1, 1], [1, 2, 0], [1, 1, 3]], True),
        ([[3, 1, 0], [0, 2, 1], [1, 0, 3]], True),  # one cycle
        ([[3, 1, 1], [0, 2, 0], [1, 0, 3]], False),  # the second cell has no support
        ([[3, 1, 0], [1, 2, 0], [0, 0, 3]], False),  # two blocks
    ],
)
def test_a_cell_without_support_is_never_proven(M, proven, sweeps):
    M, ones = np.array(M, float), np.ones(3)
    x, y, residual = swept(M, ones, ones, sweeps)
    given = SimpleNamespace(
        cells=M.reshape(1, 9), m_step=0, row_sums=SimpleNamespace(values=ones[None], step=0), out_row=x[None],
        out_col=y[None], residual=np.array([residual]), status=np.array([Status.CONVERGED], np.int8),
    )  # fmt: skip
    expected = proven and residual < 0.01
    assert (find_unproven(given, 0, 1).size == 0) == expected
    for name, bad in (("out_row", np.nan), ("out_col", np.inf), ("out_col", 0.0)):
        wrong = getattr(given, name).copy()
        wrong[0, 1] = bad
        assert find_unproven(SimpleNamespace(**{**vars(given), name: wrong}), 0, 1).size == 1
    given.status[0] = Status.MAX_ITER
    assert find_unproven(given, 0, 1).size == 1


def test_blocks_whose_sums_disagree_are_infeasible_though_they_converge():
    M = np.array([[1.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 3.0, 1.0]])
    rows = np.array([1.0, 1.0, 1.0, 1.0])
    cols = np.array([1.0, 1.0 + 1e-11, 1.0, 1.0 - 1e-11])
    assert cmfast.ipf(M, rows, cols, on_failure="ignore").status == Status.INFEASIBLE
    M[0, 3] = M[3, 0] = 0.5
    assert cmfast.ipf(M, rows, cols).status == Status.CONVERGED


def test_most_matrices_need_no_classification(monkeypatch):
    rng = np.random.default_rng(1)
    M = rng.poisson(3.0, (500, 10, 10)) + 5 * np.eye(10)
    pruned, prune = [], launch.prune_unsupported
    monkeypatch.setattr(launch, "prune_unsupported", lambda p, *known: pruned.append(p.n) or prune(p, *known))
    found = cmfast.ipf(M, np.linspace(1, 2, 10), np.linspace(2, 1, 10))
    assert (M == 0).any(axis=(1, 2)).mean() > 0.9
    assert (found.status == Status.CONVERGED).all()
    assert sum(pruned) < 25
