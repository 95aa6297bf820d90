"""Balanced cells of thousands of classes: those of the dense way, however nearly the matrix falls apart."""

import numpy as np
import pytest
from report_pages import Page

import cmfast
from cmfast._report import _balance_cells, _counting, _many_classes, _sentences, _sparse_counts
from cmfast._report._balance_cells import balance_cells

pytestmark = pytest.mark.exhaustive

RNG = np.random.default_rng(5)
C = 300
LINE = np.arange(C)
FEW = RNG.integers(0, C, (2, 40))


def listed(rows, cols, counts, n_classes=C):
    """Return the cells of positions and counts, which may come several times."""
    return _sparse_counts.sum_keys(np.asarray(rows) * n_classes + cols, np.asarray(counts), n_classes)


def joined(*parts):
    """Return the cells of several lists of positions and counts."""
    return listed(*(np.concatenate(line) for line in zip(*parts, strict=True)))


HOSTILE = {
    "nearly right": joined((LINE, LINE, RNG.geometric(1e-6, C)), (*FEW, np.ones(40, np.int64))),
    "all right": listed(LINE, LINE, np.maximum(1, 10**8 // (LINE + 1))),
    "permuted": listed(LINE, RNG.permutation(C), RNG.integers(1, 10**9, C)),
    "a chain": joined((LINE, LINE, RNG.integers(1, 10**6, C)), (LINE[1:], LINE[:-1], RNG.integers(1, 10**6, C - 1))),
    "two blocks": joined((LINE, LINE % 2, RNG.integers(1, 10**7, C)), (LINE % 2, LINE, RNG.integers(1, 10**7, C))),
    "empty classes": listed(LINE[:20], LINE[:20] // 2, RNG.integers(1, 10**4, 20)),
    "one cell": listed([3], [4], [10**12]),
}


def worst(cells, smoothing):
    """Return how far off the largest row or column sum is, and a cell beside that of the dense way, of itself."""
    found = balance_cells(cells, smoothing)
    assert found.settled
    M = cells.make_csr().toarray() + smoothing
    dense = cmfast.ras(M, tol=1e-12)
    assert dense.status == cmfast.Status.CONVERGED
    B = found.rows[:, None] * M * found.cols
    wanted = dense.row_scale[:, None] * M * dense.col_scale
    return np.abs(np.concatenate([B.sum(0), B.sum(1)]) - 1).max(), np.abs(B / wanted - 1).max()


@pytest.mark.parametrize("name", HOSTILE)
def test_cells_that_are_nearly_decomposable_are_accurate(name):
    line, cell = worst(HOSTILE[name], 1 / C)
    assert line < 1e-9
    assert cell < 1e-6


def test_cells_of_any_size_and_constants_of_any_size():
    rng = np.random.default_rng(0)
    for k in range(150):
        n = int(rng.integers(1, 30))
        m = int(rng.integers(1, 4 * n + 1))
        rows = rng.integers(0, n, m)
        cols = np.where(rng.random(m) < rng.random(), rows, rng.integers(0, n, m))
        counts = np.maximum(1, np.exp(rng.random(m) * rng.uniform(0, 25))).astype(np.int64)
        line, cell = worst(listed(rows, cols, counts, n), 10.0 ** rng.uniform(-9, 2) if k % 2 else 1 / n)
        assert line < 1e-9
        assert cell < 1e-6


def test_sweeps_alone_would_be_wrong_without_a_word():
    cells, smoothing = HOSTILE["all right"], 1 / C
    M = cells.make_csr().toarray() + smoothing
    c = np.ones(C)
    for _ in range(10_000):
        r = 1 / (M @ c)
        c = 1 / (M.T @ r)
    exact = balance_cells(cells, smoothing)
    assert np.abs(M @ c * r - 1).max() < 1e-3
    assert np.abs(np.outer(r, c) / np.outer(exact.rows, exact.cols) - 1).max() > 0.1


def test_the_page_says_that_balanced_numbers_are_approximate(monkeypatch):
    monkeypatch.setattr(_counting, "MOST_DENSE", 20)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, 600)
    guess = np.where(rng.random(600) < 0.8, y, rng.integers(0, 40, 600))
    said = "model: bi-normalisation did not converge, so balanced values are approximate."
    settled = cmfast.report(y, guess, smoothing=0.5)
    assert settled.to_dict()["models"][0]["settled"] is True
    assert said not in "".join(Page(settled.html).text)
    monkeypatch.setattr(_balance_cells, "MOST_NEWTON_STEPS", 0)
    found = cmfast.report(y, guess, smoothing=0.5)
    assert found.to_dict()["models"][0]["settled"] is False
    assert said in "".join(Page(found.html).text).replace("\u2068", "").replace("\u2069", "")


def test_why_a_constant_was_added():
    one = {"name": "m", "smoothing": 0.5, "asked": False, "settled": True}
    sums = {"support": np.array([3, 4]), "predicted": np.array([3, 4])}
    for status in cmfast.Status:
        facts = {"labels": ["a", "b"], "models": [{**one, "status": status.name, "classes": sums}]}
        said = _sentences.explain_balancing(facts)[-1]
        of_zeros = status.name in ("LIMIT_ONLY", "INFEASIBLE", "ZERO_LINE")
        assert ("because its zeros allow no such matrix" in said) == of_zeros


def test_scaling_of_cells_says_what_became_of_it():
    assert _many_classes.scale_cells(HOSTILE["all right"], _many_classes.ReportOptions(0.95, None, 2, 0, 1)).settled
