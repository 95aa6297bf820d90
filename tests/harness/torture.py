"""Families of hard matrices, and an independent check of the results of scaling.

``python tests/harness/torture.py 1000000 100000`` writes the tables of ``docs/scaling_proof.md``. The checks do not use
cmfast: zero patterns are classified with SciPy's matchings, every row and column is summed again in extended precision,
and tables of widely spread cells and margins are compared with exact arithmetic, cell by cell (``spread_tables.py``).
"""

import itertools
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import spread_tables
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

CONVERGED, LIMIT_ONLY, INFEASIBLE, INVALID, ZERO_LINE, UNDETERMINED = 0, 2, 3, 5, 6, 8
CLASSES = (2, 3, 5, 10, 16, 24, 32, 48, 64)
TOL = 1e-9


def counts(rng, B, C, accuracy, most=1000):
    """Confusion matrices of imbalanced classes with Dirichlet errors."""
    errors = rng.gamma(0.5, size=(B, C, C)) * (1 - np.eye(C)) + 1e-300
    P = accuracy * np.eye(C) + (1 - accuracy) * errors / errors.sum(-1, keepdims=True)
    return rng.poisson(P * np.exp(rng.uniform(np.log(100), np.log(most), size=(B, C, 1)))).astype(float)


def blocks(rng, B, C, coupling):
    """Two groups of classes that are confused within, and hardly between."""
    same = np.arange(C)[:, None] // max(1, C // 2) == np.arange(C) // max(1, C // 2)
    return rng.uniform(0.1, 1, size=(B, C, C)) * np.where(same, 1.0, coupling)


def chain(rng, B, C, rest):
    """Each class is confused with the next one only."""
    near = abs(np.subtract.outer(np.arange(C), np.arange(C))) <= 1
    return near * rng.uniform(0.1, 1, size=(B, C, C)) + rest


def hidden(rng, B, C, eps):
    """Permutations with a little of everything, in units of all sizes."""
    M = np.stack([np.eye(C)[rng.permutation(C)] for _ in range(B)]) + eps * rng.uniform(0.1, 1, size=(B, C, C))
    return M * np.exp(rng.normal(0, 3, size=(B, 1, C)))


def pattern(rng, B, C, share):
    """Zeros anywhere."""
    return rng.integers(1, 100, size=(B, C, C)) * (rng.random((B, C, C)) < share).astype(float)


def one_way(rng, B, C):
    """Total support but for cells that lead one way: these die."""
    M = counts(rng, B, C, 0.8) + 0.5
    cut = rng.integers(1, C, size=B)
    low = np.arange(C)[None, :] < cut[:, None]
    return np.where(low[:, :, None] & ~low[:, None, :], 0.0, M)


POSITIVE = {
    "uniform": lambda rng, B, C: rng.uniform(1e-3, 1, size=(B, C, C)),
    "accuracy .6 + .5": lambda rng, B, C: counts(rng, B, C, 0.6) + 0.5,
    "accuracy .9 + 1e-3": lambda rng, B, C: counts(rng, B, C, 0.9) + 1e-3,
    "accuracy .99 + 1e-6": lambda rng, B, C: counts(rng, B, C, 0.99) + 1e-6,
    "accuracy .999 + 1e-12": lambda rng, B, C: counts(rng, B, C, 0.999) + 1e-12,
    "counts to 1e9, .99 + 1e-12": lambda rng, B, C: counts(rng, B, C, 0.99, 1e9) + 1e-12,
    "two groups, 1e-6": lambda rng, B, C: blocks(rng, B, C, 1e-6),
    "two groups, 1e-12": lambda rng, B, C: blocks(rng, B, C, 1e-12),
    "chain + 1e-12": lambda rng, B, C: chain(rng, B, C, 1e-12),
    "hidden permutation, 1e-9": lambda rng, B, C: hidden(rng, B, C, 1e-9),
    "entries 1e-12 to 1e12": lambda rng, B, C: 10 ** rng.uniform(-12, 12, size=(B, C, C)),
    "entries 1e-100 to 1e100": lambda rng, B, C: 10 ** rng.uniform(-100, 100, size=(B, C, C)),
}
ZEROS = {
    "raw counts, accuracy .9": lambda rng, B, C: counts(rng, B, C, 0.9),
    "raw counts, accuracy .99": lambda rng, B, C: counts(rng, B, C, 0.99),
    "one cell in two": lambda rng, B, C: pattern(rng, B, C, 0.5),
    "few cells": lambda rng, B, C: pattern(rng, B, C, min(1.0, 3 / C)),
    "one way": one_way,
}
MARGINS = ("margins over six orders", "rectangular")


def expected(M):
    """Return the status that the zeros of a square matrix impose, and which cells live."""
    positive = M > 0
    if not (positive.any(0).all() and positive.any(1).all()):
        return ZERO_LINE, positive
    match = maximum_bipartite_matching(csr_array(positive), perm_type="column")
    if (match < 0).any():
        return INFEASIBLE, positive
    # Rows are the nodes: from a row to the one that is matched with a column it reaches.
    owner = np.empty(len(M), int)
    owner[match] = np.arange(len(M))
    _, group = connected_components(csr_array(positive[:, match]), directed=True, connection="strong")
    alive = positive & (group[:, None] == group[owner][None, :])
    return (CONVERGED if (alive == positive).all() else LIMIT_ONLY), alive


def wrong_scaling(M, result, u, v):
    """Return which elements are not diag(x) M diag(y), or have a row or column that misses its target.

    Each is added up again in extended precision, and may miss the tolerance times its own target, however small.
    """
    missed = worst_line(result.matrix, u, v)
    again = result.row_scale[..., :, None] * M * result.col_scale[..., None, :]
    apart = (abs(result.matrix - again) > 1e-12 * abs(again) + 1e-300).any((-1, -2))
    return ~(missed <= TOL * (1 + 1e-6)) | apart


def worst_line(P, u, v):
    """Return the largest relative errors of a row sum or column sum."""
    P = P.astype(np.longdouble)
    return np.maximum(abs(P.sum(-1) / u - 1).max(-1), abs(P.sum(-2) / v - 1).max(-1))


def wrong_zeros(M, result):
    """Return which elements have another status than their zeros impose, or a limit that is none."""
    wrong = np.zeros(len(M), bool)
    for b, m in enumerate(M):
        status, alive = expected(m)
        P = result.matrix[b]
        wrong[b] = result.status[b] != status
        if status in (CONVERGED, LIMIT_ONLY):
            wrong[b] |= not worst_line(P, 1.0, 1.0) <= TOL * (1 + 1e-6) or ((P > 0) != alive).any()
        else:
            wrong[b] |= not np.isnan(P).all()
    return wrong


def run(total, seed=0, say=lambda text: None):
    """Scale about `total` matrices; return rows of (family, number, statuses, worst line, most passes, wrong)."""
    import cmfast

    names = [*POSITIVE, *MARGINS, *ZEROS]
    weights = 1 / np.array(CLASSES)
    weights /= weights.sum()
    rows = []
    for number, family in enumerate(names):
        rng = np.random.default_rng([seed, number])
        statuses, worst, most, wrong, n = Counter(), 0.0, 0, 0, 0
        for C, weight in zip(CLASSES, weights, strict=True):
            left = max(1, round(total / len(names) * weight))
            while left:
                B = min(left, max(1, 400_000 // C**2))
                left -= B
                u = v = np.ones(C)
                if family in MARGINS:
                    R = C if family == MARGINS[0] else int(rng.integers(1, 2 * C + 1))
                    M = rng.gamma(0.5, size=(B, R, C)) + 1e-6
                    u, v = 10 ** rng.uniform(-3, 3, (B, R)), 10 ** rng.uniform(-3, 3, (B, C))
                    v *= (u.sum(-1) / v.sum(-1))[:, None]
                    result = cmfast.ipf(M, u, v, tol=TOL, on_failure="ignore")
                else:
                    M = (POSITIVE | ZEROS)[family](rng, B, C)
                    result = cmfast.ipf(M, tol=TOL, on_failure="ignore")
                if family in ZEROS:
                    wrong += int(wrong_zeros(M, result).sum())
                else:
                    ended = result.status == CONVERGED
                    if family in MARGINS:  # which are rounded, and may decide small cells
                        ended |= result.status == UNDETERMINED
                    wrong += int((wrong_scaling(M, result, u, v) | ~ended).sum())
                n += B
                statuses.update(cmfast.Status(int(s)).name for s in result.status)
                worst = max(worst, float(np.nanmax(result.line_error, initial=0.0)))
                most = max(most, int(result.n_iter.max()))
        rows.append((family, n, statuses, worst, most, wrong))
        say(line(rows[-1]))
    return rows


def run_spread_tables(total, seed=0, say=lambda text: None):
    """Scale about `total` spread tables; return rows of (family, number, statuses, worst line and cell, wrong ones)."""
    import cmfast

    def scale(M, u, v):
        result = cmfast.ipf(M, u, v, tol=TOL, on_failure="ignore")
        return result.matrix, result.status

    rows, quick = [], [f for f in spread_tables.FAMILIES if spread_tables.is_quick(f)]
    for family in spread_tables.FAMILIES:
        n = max(1, total // len(quick) // (1 if family in quick else 60))
        status, lines, cells, worst = spread_tables.judge(family, n, seed, scale)
        rows.append((family, n, Counter(cmfast.Status(int(s)).name for s in status), *worst, lines, cells))
        say(spread_line(rows[-1]))
    return rows


def run_paths(total, seed=0, say=lambda text: None):
    """Scale about `total` spread tables by each path; return rows of (path, number, statuses, worst, wrong ones)."""
    from scaling_paths import PATHS, SWEEPS

    import cmfast

    rows = []
    for path, scale in (PATHS | SWEEPS).items():
        statuses, n, worst, lines, cells = Counter(), 0, (0.0, 0.0), 0, 0
        for family in spread_tables.FAMILIES:
            size = max(1, total // len(spread_tables.FAMILIES) // (1 if spread_tables.is_quick(family) else 60))
            status, some_lines, some_cells, some = spread_tables.judge(family, size, seed, scale)
            statuses.update(cmfast.Status(int(s)).name for s in status)
            n, lines, cells = n + size, lines + some_lines, cells + some_cells
            worst = tuple(map(max, worst, some))
        rows.append((path, n, statuses, *worst, lines, cells))
        say(spread_line(rows[-1]))
    return rows


def run_large(number, seed=0, say=lambda text: None):
    """Scale `number` planted tables of each kind and size by each path; return rows as :func:`run_paths`."""
    from scaling_paths import AUTO, PATHS, SWEEPS

    import cmfast

    rows = []
    for path, scale in ({"auto": AUTO} | PATHS | SWEEPS).items():
        statuses, worst, lines, cells = Counter(), (0.0, 0.0), 0, 0
        for kind, size in itertools.product(spread_tables.KINDS, spread_tables.SIZES):
            status, some_lines, some_cells, some = spread_tables.judge_planted(kind, size, number, seed, scale)
            statuses.update(cmfast.Status(int(s)).name for s in status)
            lines, cells = lines + some_lines, cells + some_cells
            worst = tuple(map(max, worst, some))
        rows.append((path, statuses.total(), statuses, *worst, lines, cells))
        say(spread_line(rows[-1]))
    return rows


def spread_line(row):
    """Return a row of the second table."""
    family, n, statuses, line, cell, lines, cells = row
    found = ", ".join(f"{k:,} {name}" for name, k in statuses.most_common())
    return f"| {family} | {n:,} | {found} | {line:.1e} | {cell:.1e} | {lines} | {cells} |"


def line(row):
    """Return a row of the table."""
    family, n, statuses, worst, most, wrong = row
    found = ", ".join(f"{k:,} {name}" for name, k in statuses.most_common())
    return f"| {family} | {n:,} | {found} | {worst:.1e} | {most} | {wrong} |"


def paths_section(paths):
    """Return the part of the page about other ways to scale the same tables."""
    return f"""
## The same tables by other paths

`solver="newton"`, matrices of scipy.sparse and logarithms (`logits=True`) are tested in the same way: over all families
here, no CONVERGED table may have a wrong row, column or cell. Plain sweeps, `solver="sinkhorn"`, guarantee only sums:
with tiny cells they end with every sum within `tol` and inaccurate cells. Sparse tables whose accuracy is uncertain are
scaled as dense ones, separately for each connected component of at most 16,384 cells, zeros included; in larger
components the error of the cells is bounded by the residuals of the sums, or estimated if that bound is too large.

| path | tables | statuses | worst row or column | worst cell | wrong rows or columns | wrong cells |
|---|---|---|---|---|---|---|
{chr(10).join(map(spread_line, paths))}
"""


def large_section(large):
    """Return the part of the page about tables of many lines."""
    sizes = ", ".join(f"{R} x {C}" for R, C in spread_tables.SIZES)
    return f"""
## Large tables

Tables of {sizes}, with planted scalings: cells are small
integers times powers of two, over up to 14 decades, so that all sums are exact in float64, and rows and columns are
divided by powers of two. Families: cells of any size, weakly coupled blocks and chains, and one dominant cell in each
row. The CUDA kernels pass the same tests, compiled for the host (`tests/scaling/test_verdicts.py`).

| path | tables | statuses | worst row or column | worst cell | wrong rows or columns | wrong cells |
|---|---|---|---|---|---|---|
{chr(10).join(map(spread_line, large))}
"""


def page(asked, rows, spread, paths, large):
    """Return the page of the documentation; `asked` are the arguments of the command."""
    tables, lines, cells = (sum(row[k] for row in spread) for k in (1, -2, -1))
    undetermined = sum(row[2]["UNDETERMINED"] for row in spread)
    total, wrong = sum(row[1] for row in rows), sum(row[5] for row in rows)
    return f"""# {total:,} hard matrices

Written by `python tests/harness/torture.py {" ".join(asked)}`; continuous integration runs
a part of it (`tests/scaling/test_torture.py`). Sizes
2 to 64, `tol` {TOL:.0e}. *Wrong* counts every matrix whose status is not what SciPy's matchings say of its zeros, every
positive matrix that did not converge, and every CONVERGED one of which a row or column, added up again in extended
precision, misses its own target by more than the tolerance: {wrong} of {total:,}.

| family | matrices | statuses | worst row or column | most passes | wrong |
|---|---|---|---|---|---|
{chr(10).join(map(line, rows))}

## Tables of widely spread cells and margins

Compared with exact arithmetic ({spread_tables.DIGITS} digits or more) for the given targets. Of
{tables:,} tables, {lines} CONVERGED ones have a row or column that differs by more than `tol` from its target, and
{cells} a cell with a relative error above {spread_tables.MOST_ERROR:g}. {undetermined:,} are UNDETERMINED:
rounding the targets alone may change a cell by that much. In families with rows and columns scaled at random, the
targets are the rounded margins of the scaled table; free margins are independent of the cells.

| family | tables | statuses | worst row or column | worst cell | wrong rows or columns | wrong cells |
|---|---|---|---|---|---|---|
{chr(10).join(map(spread_line, spread))}
{paths_section(paths)}{large_section(large)}"""


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs" / "scaling_proof.md").write_text(
        page(
            sys.argv[1:],
            run(int(sys.argv[1]), say=print),
            run_spread_tables(int(sys.argv[2]), say=print),
            run_paths(int(sys.argv[2]) // 20, say=print),
            run_large(max(1, int(sys.argv[2]) // 10_000), say=print),
        )
    )
