"""Proven statements of the paper as tests: invariance (3.1), linear convergence (3.2), lemmas 1 and 2."""

from typing import Any

import numpy as np

import cmfast
from cmfast._pages.parts import Claim
from cmfast._reproduce.normalization.training import NormalizationSettings

TINY = 1e-6  # what a relation may be off by, scaled to a residual of 1e-9
MOST_LEMMA_SWEEPS = 20_000  # at most
END = 1e-12  # L1 distance of the row sums from one at which a matrix is done; rounding is a thousandth of that
MOST_RATE_GAP = 0.02  # by which a measured ratio of residuals may differ from the rate that theory gives
BLOCK_MATRICES, COUPLED = 20, 0.01  # matrices that are made nearly two blocks, by what their other cells are multiplied
POINTS, POINT_CLASSES, AXES, CELLS = 4000, 4, 3, 6  # of a drawn space, and cells of a side
MOVES = 50
RISE = 0.25  # of the chi-square distance of a move: half of it for a short one, a third for one of half a cell


def judge_scaling_invariance(M: np.ndarray, A: np.ndarray, B: np.ndarray) -> Claim:
    """Judge section 3.1: row(A M) = row(M) and col(M B) = col(M) for positive diagonal A and B."""
    rows = cmfast.normalize(A[:, :, None] * M, "row") - cmfast.normalize(M, "row")
    columns = cmfast.normalize(M * B[:, None, :], "col") - cmfast.normalize(M, "col")
    off = [float(np.abs(each).max()) for each in (rows, columns)]
    return Claim(
        "row(A M) is row(M), and col(M B) is col(M), for positive diagonal A and B.",
        "section 3.1",
        "holds" if max(off) <= TINY else "fails",
        f"largest difference {off[0]:.1e} of rows, {off[1]:.1e} of columns, of {len(M)} random matrices",
        {"row": off[0], "col": off[1]},
    )


def measure_rates(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, of every matrix, the last ratio of residuals of the paper's algorithm 1, and the number of sweeps.

    A sweep divides the rows, then the columns, by their sums. NaN where `END` was not reached in `MOST_LEMMA_SWEEPS`.
    """
    rate, sweeps = np.full(len(M), np.nan), np.zeros(len(M), int)
    index, Q = np.arange(len(M)), M.copy()
    before = np.full(len(M), np.nan)
    for sweep in range(1, MOST_LEMMA_SWEEPS + 1):
        Q = Q / Q.sum(axis=2, keepdims=True)
        Q = Q / Q.sum(axis=1, keepdims=True)
        residual = np.abs(Q.sum(axis=2) - 1).sum(axis=1)
        done = residual <= END
        rate[index[done]], sweeps[index[done]] = residual[done] / before[done], sweep
        index, Q, before = index[~done], Q[~done], residual[~done]
        if not len(index):
            break
    return rate, sweeps


def judge_convergence(M: np.ndarray, settings: NormalizationSettings) -> Claim:
    """Judge section 3.2: the residual falls by a constant ratio below one, which the limit bi(M) foretells.

    It is the square of the second singular value of bi(M); where the third is as large the ratio comes near it late,
    so any ratio between both squares is accepted.
    """
    M = M.copy()
    half = M.shape[1] // 2
    M[:BLOCK_MATRICES, :half, half:] *= COUPLED
    M[:BLOCK_MATRICES, half:, :half] *= COUPLED
    rate, sweeps = measure_rates(M)
    near, other = sweeps[:BLOCK_MATRICES], sweeps[BLOCK_MATRICES:]
    bi = cmfast.bi_normalize(M, tol=settings.tol)
    theory, third = np.linalg.svd(bi, compute_uv=False)[:, 1:3].T ** 2
    off = float(np.maximum(rate - theory, third - rate).max())  # NaN where a matrix did not converge
    return Claim(
        "The iteration of a positive matrix converges linearly.",
        "section 3.2",
        "holds" if off <= MOST_RATE_GAP and theory.max() < 1 else "fails",
        f"from sweep to sweep the residual falls by the factor {rate.min():.3f} to {rate.max():.3f}, the square of the "
        f"second singular value of bi(M) (within {np.quantile(theory - rate, 0.95):.3f} in 19 of 20), of {len(M)} "
        f"random matrices. Linear is not always fast: {other.min()} to {other.max()} sweeps to {END:.0e}, but "
        f"{near.min()} to {near.max()} where the matrix is nearly two blocks",
        {"rate": rate, "theory": theory, "sweeps": sweeps, "beyond": off},
    )


def measure_volumes(seed: int) -> dict[str, float]:
    """Return the largest relative errors of lemma 1 and appendix G.1: volumes of weighted histograms.

    The volume is a sum over the cells of a grid, by NumPy's own histogram; of each class and each weighting.
    """
    rng = np.random.default_rng([seed, POINTS])
    y = rng.integers(POINT_CLASSES, size=POINTS)
    X = rng.normal(size=(POINTS, AXES)) + 1.5 * np.eye(POINT_CLASSES, AXES)[y]
    predicted = np.where(rng.random(POINTS) < 0.6, y, rng.integers(POINT_CLASSES, size=POINTS))
    edges = [np.linspace(low, high, CELLS + 1) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]
    r = float(np.prod([edge[1] - edge[0] for edge in edges]))
    M = cmfast.confusion_matrix(y, predicted, n_classes=POINT_CLASSES)

    def compute_volumes(table: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return the volume of each class's histogram: points of class `group`, weighted by their cell of `table`."""
        w = table[y, predicted]
        parts = [np.histogramdd(X[group == c], edges, weights=w[group == c])[0] for c in range(POINT_CLASSES)]
        return np.array([part.sum() * r for part in parts])

    table = rng.gamma(0.5, size=(POINT_CLASSES, POINT_CLASSES))
    sums = np.bincount(y, weights=table[y, predicted]) * r
    off = {"lemma": float(np.abs(compute_volumes(table, y) / sums - 1).max())}
    weights = {method: cmfast.importance_weights(M, method) for method in ("row", "col", "bi")}
    pairs = [("row", y), ("bi", y), ("col", predicted), ("bi", predicted)]
    off["unit"] = max(float(np.abs(compute_volumes(weights[name], group) / r - 1).max()) for name, group in pairs)
    for eps in (1e-3, 0.5):
        smoothed = cmfast.importance_weights(M, "bi", smoothing=eps)
        off[f"unit_smoothed_{eps:g}"] = float(np.abs(compute_volumes(smoothed, y) / r - 1).max())
    return off


def judge_volumes(settings: NormalizationSettings) -> Claim:
    """Judge lemma 1 and what appendix G.1 concludes from it."""
    off = measure_volumes(settings.seed)
    right = off["lemma"] <= TINY and off["unit"] <= TINY
    exact = "holds" if max(off.values()) <= TINY else "holds where no constant is added to M"
    return Claim(
        "The volume of a cluster's weighted histogram is the cell volume r times the sum of its weights; so it is r "
        "for labels under w_r and w_b, for predictions under w_c and w_b.",
        "lemma 1, appendix G.1",
        exact if right else "fails",
        f"largest relative difference {off['lemma']:.1e}, of r {off['unit']:.1e} ({POINTS} drawn points, any weights). "
        f"The weights of M + eps, which the paper uses, miss r by {off['unit_smoothed_0.001']:.1e} at eps = 1e-3, by "
        f"{off['unit_smoothed_0.5']:.1e} at 0.5: the constant is in no histogram",
        off,
        seeds=(settings.seed,),
    )


def judge_minimality(M: np.ndarray, settings: NormalizationSettings) -> Claim:
    """Judge lemma 2: the scaled matrix with any given sums is the one minimiser of the divergence from M."""
    rng = np.random.default_rng([settings.seed, MOVES])
    u, v = rng.gamma(1.0, size=(2, *M.shape[:2])) + 0.05
    v *= (u.sum(axis=1) / v.sum(axis=1))[:, None]
    P = cmfast.ipf(M, u, v, tol=settings.tol).matrix
    sums = max(float(np.abs(P.sum(axis=2) / u - 1).max()), float(np.abs(P.sum(axis=1) / v - 1).max()))
    factors = _double_centre(np.log(P / M))  # zero where log(P / M) is a sum of a row's and a column's number
    rise = np.inf
    for _ in range(MOVES):
        D = _double_centre(rng.normal(size=P.shape))
        step = 0.5 * (P / np.maximum(np.abs(D), 1e-300)).min(axis=(1, 2), keepdims=True)
        for move in (step * D, -step * D):
            change = ((P + move) * np.log((P + move) / M) - P * np.log(P / M)).sum(axis=(1, 2))
            rise = min(rise, float((change / (move**2 / P).sum(axis=(1, 2))).min()))
    off = float(np.abs(factors).max())
    found = {"sums": sums, "factors": off, "least_rise": rise}
    return Claim(
        "A matrix D M D' with given sums of rows and columns is the only one of least KL divergence from M.",
        "lemma 2",
        "holds" if max(sums, off) <= TINY and rise >= RISE else "fails",
        f"of {len(M)} random matrices and sums: the sums are met to {sums:.1e}, log(P / M) is a row's number plus a "
        f"column's to {off:.1e}, and {2 * MOVES} moves within the sums raise the divergence by {rise:.2f} of their "
        f"chi-square distance at least: above zero, so there is no second one",
        found,
        seeds=(settings.seed,),
    )


def _double_centre(D: np.ndarray) -> np.ndarray:
    """Return matrices projected to zero row and column sums."""
    rows: Any = D - D.mean(axis=1, keepdims=True)
    out: np.ndarray = rows - rows.mean(axis=2, keepdims=True)
    return out
