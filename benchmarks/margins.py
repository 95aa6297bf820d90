"""Tables scaled to margins over any of their axes, and weights of records moved to totals."""

from typing import Any, NamedTuple

import numpy as np

import cmfast
from benchmarks import _rivals
from benchmarks._job import Job, Rival

PAIRS = ((0, 1), (0, 2), (1, 2))
SWEEPS = 100
MOST_ERROR = 1e-4  # of a weight of those whose time is worth to be told


class Records(NamedTuple):
    """Records of categories, and the weights that alone have these totals."""

    codes: np.ndarray  # (attributes, n)
    weights: np.ndarray  # to begin with
    totals: list[np.ndarray]  # of each attribute
    answer: np.ndarray


class Region(NamedTuple):
    """A survey of households with columns, totals that need not be met, and bounds."""

    columns: np.ndarray
    totals: np.ndarray
    options: dict[str, Any]


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    records = [(5, 5, 0.5), (10, 6, 0.3)] if small else [(5, 5, 0.5), (5, 5, 2.0), (25, 10, 0.3), (50, 50, 0.2)]
    n = 500 if small else 100_000
    tables = [_job(4, 20 if small else 20_000), _job(6 if small else 20, 1)]
    return [
        *tables,
        _listed(6 if small else 20),
        _supported(6, 4 if small else 200),
        *(raked(f"rake {a}x{levels} sd {sd:g}", planted(n, a, levels, sd)) for a, levels, sd in records),
        softened("rake households", households(small=small)),
    ]


def _sweep_batch(M: np.ndarray, targets: list[np.ndarray]) -> np.ndarray:
    """Scale all tables of a batch by a fixed number of sweeps, as a capable user would write it."""
    T = M.copy()
    for _ in range(SWEEPS):
        for axis, target in zip((3, 2, 1), targets, strict=True):
            T *= np.expand_dims(target / T.sum(axis), axis)
    return T


def _job(n: int, B: int) -> Job:
    rng = np.random.default_rng(n)
    M = np.exp(rng.normal(size=(B, n, n, n)))
    lines = np.exp(rng.normal(0.0, 0.5, (3, B, n, n)))
    answer = M * lines[0][..., None] * lines[1][:, :, None] * lines[2][:, None]
    targets = [answer.sum(axis) for axis in (3, 2, 1)]
    margins = list(zip(PAIRS, targets, strict=True))

    def check_ours(found):
        np.testing.assert_allclose(found.table, answer, rtol=1e-6)
        return f"cells to 1e-6, {found.n_iter.mean():.0f} passes"

    def check_rival(found):
        return f"cells to {np.abs(found / answer[: len(found)] - 1).max():.0e}"

    return Job(
        f"ipf_nd {n}",
        f"{B:,} tables {n}x{n}x{n}, all two-way margins",
        B,
        "tables",
        lambda threads: cmfast.ipf_nd(M, margins, num_threads=threads),
        check_ours,
        M.sum,
        "read",
        [
            Rival(f"{SWEEPS} sweeps in NumPy", lambda: _sweep_batch(M, targets), B, check_rival),
            Rival("ipfn", lambda: _rivals.ipfn_tables(M[:200], targets, PAIRS), min(B, 200), check_rival),
            Rival("humanleague", lambda: _rivals.humanleague_tables(M[:200], targets, PAIRS), min(B, 200), check_rival),
        ],
    )


def _listed(n: int) -> Job:
    """Return a job of one sparse table with a known answer."""
    rng = np.random.default_rng(n)
    there = rng.random((n, n, n)) < (0.5 if n < 10 else 0.15)
    M = np.where(there, np.exp(rng.normal(size=there.shape)), 0.0)
    lines = np.exp(rng.normal(size=(3, n, n)))
    answer = M * lines[0][..., None] * lines[1][:, None] * lines[2][None]
    coords, targets = np.stack(np.nonzero(M)), [answer.sum(axis) for axis in (2, 1, 0)]
    cells, values = answer[tuple(coords)], M[tuple(coords)]
    codes, totals = [], []
    for of, target in zip(PAIRS, targets, strict=True):
        used, code = np.unique(np.ravel_multi_index(tuple(coords[list(of)]), (n, n)), return_inverse=True)
        codes.append(code)
        totals.append(target.ravel()[used])

    def check_ours(found):
        np.testing.assert_allclose(found.table, cells, rtol=1e-6)
        return f"cells to {np.abs(found.table / cells - 1).max():.0e}, {found.n_iter} passes"

    def check_rival(found):
        return f"cells to {np.abs(found / cells - 1).max():.0e}"

    def dense():
        return _rivals.ipfn_tables(M[None], [target[None] for target in targets], PAIRS)[0][tuple(coords)]

    return Job(
        f"ipf_cells {n}",
        f"a table {n}x{n}x{n} with {len(cells):,} cells, all two-way margins",
        len(cells),
        "cells",
        lambda threads: cmfast.ipf_cells(
            values, coords, list(zip(PAIRS, targets, strict=True)), shape=M.shape, num_threads=threads
        ),
        check_ours,
        coords.sum,
        "read",
        [
            Rival("sweeps in NumPy", lambda: _rivals.numpy_rake(codes, values, totals), len(cells), check_rival),
            Rival("ipfn on the dense table", dense, len(cells), check_rival),
        ],
    )


def _supported(n: int, B: int) -> Job:
    """Return a job of sparse tables; half of them have margins from another pattern of zeros."""
    rng = np.random.default_rng(n)
    M = (rng.random((B, n, n, n)) < 0.4).astype(float)
    other = rng.integers(0, 4, M.shape) * (rng.random(M.shape) < 0.6)
    other *= np.where((np.arange(B) % 2 == 0)[:, None, None, None], M > 0, 1)
    targets = [other.sum(axis).astype(float) for axis in (3, 2, 1)]
    margins = list(zip(PAIRS, targets, strict=True))
    alive = M > 0
    for target, axis in zip(targets, (3, 2, 1), strict=True):
        alive &= np.expand_dims(target > 0, axis)  # the others vanish as they are asked to

    def check_ours(found):
        none = np.isin(found.status, (cmfast.Status.INFEASIBLE, cmfast.Status.ZERO_LINE))
        z = sum(np.expand_dims(part, axis) for part, axis in zip(found.proof, (3, 2, 1), strict=True))
        asked = sum((part * target).sum((1, 2)) for part, target in zip(found.proof, targets, strict=True))
        assert (asked[none] > 0).all()
        assert (z[none][alive[none]] <= 0).all()
        assert (found.status != cmfast.Status.MAX_ITER).all()
        return f"{none.sum()} of {B} without a table, each proved; {found.dead_cells.sum():,} cells must vanish"

    def check_rival(found):
        ours = cmfast.support_nd(M[: len(found)], [(of, target[: len(found)]) for of, target in margins])
        none = np.isin(ours.status, (cmfast.Status.INFEASIBLE, cmfast.Status.ZERO_LINE))
        np.testing.assert_array_equal(none, [dead is None for dead in found])
        for k in np.flatnonzero(~none):
            np.testing.assert_array_equal(ours.dead_cells[k], found[k] & alive[k])
        return "the same verdicts and cells"

    few = min(B, 50)
    return Job(
        f"support_nd {n}",
        f"{B:,} tables {n}x{n}x{n}, 40 % filled, all two-way margins",
        B,
        "tables",
        lambda threads: cmfast.support_nd(M, margins, num_threads=threads),
        check_ours,
        M.sum,
        "read",
        [
            Rival(
                "HiGHS by SciPy",
                lambda: _rivals.highs_support(M[:few], [target[:few] for target in targets], PAIRS),
                few,
                check_rival,
            )
        ],
    )


def planted(n: int, attributes: int, levels: int, sd: float, *, spread: float = 0.5) -> Records:
    """Return records of correlated attributes with the totals of other weights; `spread` is of the weights given."""
    rng = np.random.default_rng(levels)
    common = rng.normal(size=n)
    codes = np.empty((attributes, n), np.int64)
    for a in range(attributes):
        ranks = np.argsort(np.argsort(common + rng.normal(size=n))) if a % 3 == 0 else rng.permutation(n)
        shares = np.maximum(rng.dirichlet(np.full(levels, 0.7)), 1e-2)
        codes[a] = np.searchsorted(np.cumsum(shares / shares.sum()), ranks / n).clip(max=levels - 1)
    q = np.exp(rng.normal(0.0, spread, n))
    effects = rng.normal(0.0, sd, (attributes, levels))
    w = q * np.exp(effects[np.arange(attributes)[:, None], codes].sum(0))
    w *= q.sum() / w.sum()
    return Records(codes, q, [np.bincount(code, w, levels) for code in codes], w)


def raked(name: str, records: Records) -> Job:
    """Return a job whose weights are known."""
    codes, q, totals, w = records
    (attributes, n), levels = codes.shape, len(totals[0])

    def check_ours(found):
        np.testing.assert_allclose(found.weights, w, rtol=1e-6)
        return f"weights to {np.abs(found.weights / w - 1).max():.0e}, {found.n_iter} passes"

    def check_rival(found):
        error = np.abs(found / w - 1).max()
        if error > MOST_ERROR:
            text = f"weights are off by {error:.0e}"
            raise AssertionError(text)
        return f"weights to {error:.0e}"

    rivals = [Rival("sweeps in NumPy", lambda: _rivals.numpy_rake(codes, q, totals), n, check_rival)]
    if levels**attributes <= 2 * n:
        rivals.append(Rival("ipfn on the table", lambda: _rivals.ipfn_rake(codes, q, totals), n, check_rival))
    return Job(
        name,
        f"{n:,} records, {attributes} attributes of {levels} categories",
        n,
        "records",
        lambda threads: cmfast.rake(codes, list(enumerate(totals)), weights=q, num_threads=threads),
        check_ours,
        codes.sum,
        "read",
        rivals,
    )


def households(*, small: bool) -> list[Region]:
    """Return surveys of four regions."""
    return [_region(seed, 500 if small else 7_000) for seed in range(4)]


def _region(seed: int, n: int) -> Region:
    """Return a survey of households as PopulationSim gets them: totals agree only nearly."""
    rng = np.random.default_rng(seed)
    size = 1 + rng.poisson(1.3, n)
    classes = [
        np.minimum(size, 4) - 1,
        rng.integers(0, 4, n),
        rng.integers(0, 5, n),
        np.minimum(rng.poisson(1.2, n), 3),
    ]
    persons = np.stack([rng.multinomial(k, rng.dirichlet(np.ones(6))) for k in size])
    A = np.column_stack([np.ones(n), *(np.eye(1 + of.max())[of] for of in classes), persons, rng.binomial(size, 0.45)])
    q = rng.uniform(10.0, 60.0, n)
    totals = (q * np.exp(rng.normal(0.0, 0.4, n))) @ A * np.exp(rng.normal(0.0, 0.03, A.shape[1]))
    importance = np.concatenate([[1e9], np.full(17, 1e5), 10.0 ** rng.integers(3, 6, A.shape[1] - 18)])
    bounds = rng.uniform(0.5, 0.9, n), rng.uniform(1.1, 2.0, n)
    return Region(A, totals, {"weights": q, "method": "truncated", "importance": importance, "bounds": bounds})


def softened(name: str, regions: list[Region]) -> Job:
    """Return a job of regions with bounds and importances, checked by what an optimum is."""
    n = sum(len(A) for A, _, _ in regions)

    def check_ours(found):
        for (A, totals, given), one in zip(regions, found, strict=True):
            low, high = given["bounds"]
            w = given["weights"] * np.exp(np.clip(A @ one.multipliers, np.log(low), np.log(high)))
            np.testing.assert_allclose(one.weights, w, rtol=1e-6)
            np.testing.assert_allclose(w @ A, totals * np.exp(-one.multipliers / given["importance"]), rtol=1e-6)
        return f"optimal to 1e-6, {', '.join(str(one.n_iter) for one in found)} passes"

    return Job(
        name,
        f"{len(regions)} regions, {n:,} households, {len(regions[0].totals)} controls, bounds, importances 1e3 to 1e9",
        n,
        "households",
        lambda threads: [cmfast.rake(A, totals, num_threads=threads, **given) for A, totals, given in regions],
        check_ours,
        lambda: [A.sum() for A, _, _ in regions],
        "read",
        [],
    )
