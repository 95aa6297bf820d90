"""How far cells and weights are off, over what `cell_error` and `weight_error` estimate; answers are exact.

Of two margins the answer is computed in 70 digits (``spread_tables.py``). Of more, and of records, it is planted in
integers whose sums are exact, and each is divided by powers of two, which rounds nothing.
"""

import collections

import numpy as np
import pytest
import spread_tables

import cmfast
from cmfast import Status

FEW = 1e-14  # of a cell, by which results are rounded anyway
MOST = 30.0  # times the estimate; docs/tables.md has what was measured
PAIRS = [(0, 1), (1, 2), (0, 2)]
QUICK = [family for family in spread_tables.FAMILIES if spread_tables.is_quick(family)]


def tables_of_two_margins(number, seed):
    """Yield the estimate and the true error of the worst cell of tables that are CONVERGED."""
    for family in QUICK:
        rng = np.random.default_rng([seed, spread_tables.is_quick(family), list(spread_tables.FAMILIES).index(family)])
        M, u, v = spread_tables.FAMILIES[family](rng, number)
        v = v * (u.sum(-1) / v.sum(-1))[:, None]
        found = cmfast.ipf_nd(M, [(0, u), (1, v)], on_failure="ignore")
        for k in np.flatnonzero(found.status == Status.CONVERGED):
            yield found.cell_error[k], spread_tables.errors(M[k], u[k], v[k], found.table[k])[1]


def tables_of_three_margins(number, seed):
    rng = np.random.default_rng(seed)
    for shape, decades, most in (((2, 2, 2), 6, 40), ((2, 3, 4), 8, 20), ((4, 4, 4), 3, 10), ((3, 3, 3), 12, 60)):
        T = np.floor(10.0 ** rng.uniform(0, decades, (number, *shape)))
        M = T
        for of in PAIRS:
            powers = rng.integers(-most, most + 1, (number, *(shape[a] for a in of)))
            M = np.ldexp(M, np.expand_dims(powers, 1 + ({0, 1, 2} - set(of)).pop()))
        margins = [(of, T.sum(1 + ({0, 1, 2} - set(of)).pop())) for of in PAIRS]
        found = cmfast.ipf_nd(M, margins, on_failure="ignore")
        off = np.abs(found.table / T - 1).max((1, 2, 3))
        good = found.status == Status.CONVERGED
        yield from zip(found.cell_error[good], off[good], strict=True)


def records(number, seed):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        n, K = int(rng.integers(5, 60)), int(rng.integers(2, 8))
        A = rng.integers(-1, 4, (n, K)).astype(float)
        w = np.floor(10.0 ** rng.uniform(0, rng.choice([1, 4, 8]), n))
        powers = rng.integers(-6, 7, K)
        found = cmfast.rake(A, A.T @ w, weights=np.ldexp(w, -(A @ powers).astype(int)), on_failure="ignore")
        if found.status == Status.CONVERGED:
            yield float(found.weight_error), float(np.abs(found.weights / w - 1).max())


def linear_records(number, seed):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        n, K = int(rng.integers(5, 60)), int(rng.integers(2, 8))
        A = rng.integers(-1, 4, (n, K)).astype(float)
        q = np.floor(2.0 ** rng.uniform(4, rng.choice([8, 24]), n))
        w = q * (1.0 + A @ (rng.integers(-8, 9, K) / 16.0))
        found = cmfast.rake(A, A.T @ w, weights=q, method="linear", on_failure="ignore")
        if found.status == Status.CONVERGED:
            yield float(found.weight_error), float((np.abs(found.weights - w) / q).max())


KINDS = {
    "two margins": tables_of_two_margins,
    "three margins": tables_of_three_margins,
    "records": records,
    "records, linear": linear_records,
}


def compare(kind, number, seed):
    """Return how many results there are, how many are off by more than estimated, and the worst ratio."""
    counts, worst = collections.Counter(), 0.0
    for estimate, off in KINDS[kind](number, seed):
        counts["all"] += 1
        counts["above"] += off > max(estimate, FEW)
        counts["wrong"] += off > 1e-3  # ten times what CONVERGED says of the estimate
        worst = max(worst, off / max(estimate, FEW))
    return counts, worst


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_near_what_cells_are_off(kind):
    counts, worst = compare(kind, 150, 0)
    assert counts["all"] >= 100
    assert counts["wrong"] == 0
    assert worst <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_estimates_of_many_are_near_what_cells_are_off(kind):
    counts, worst = compare(kind, 5_000, 1)
    assert counts["wrong"] == 0
    assert worst <= MOST
