"""Propositions of the paper as numeric tests, and its figures 1 and 2."""

from typing import Any

import numpy as np

import cmfast
from cmfast._pages import charts
from cmfast._pages.parts import Claim, Picture, Section
from cmfast._pages.pictures import make_picture
from cmfast._pages.svg import CHART, MUTED, Svg
from cmfast._reproduce._reproduction import make_figure_section
from cmfast._reproduce.normalization import lemmas
from cmfast._reproduce.normalization.lemmas import TINY
from cmfast._reproduce.normalization.training import NormalizationSettings

SIMILAR_CLASSES = np.array([[18.0, 1.0, 1.0], [1.0, 13.0, 6.0], [1.0, 6.0, 13.0]])  # the classes B and C look alike
APART = np.array([[18.0, 1.0, 1.0], [1.0, 18.0, 1.0], [1.0, 1.0, 18.0]])
TRUE, ANSWERED = np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.5, 2.0])  # how often a class occurs, and is predicted
DRAWS = 200
CLOUDS, SIDE = 300, 14  # points of a cluster, cells of a side
COLOURS = ("#2457c5", "#d9922b", "#2a9d8f")


def claims(settings: NormalizationSettings) -> list[Claim]:
    """Judge the propositions of the paper on random positive matrices."""
    rng = np.random.default_rng([settings.seed, DRAWS])
    M = rng.gamma(0.5, size=(DRAWS, 6, 6)) + 1e-3
    A, B = np.exp(rng.normal(0, 2, (2, DRAWS, 6)))
    bi = cmfast.bi_normalize(M, tol=settings.tol)
    moved = cmfast.bi_normalize(A[:, :, None] * M * B[:, None, :], tol=settings.tol)
    again = cmfast.bi_normalize(bi, tol=settings.tol)
    twice, own = float(np.abs(again - bi).max()), float(np.abs(moved - bi).max())
    S, T = M[::2], M[1::2]
    l1, shared = cmfast.l1_distance(S, T), cmfast.overlap(S, T)
    apart = float(np.abs(l1 - (2 - 2 * shared)).max())
    doubled = float(cmfast.overlap(M[0], 2 * M[0]))
    out = [
        _judge_identity("Bi-normalising twice is bi-normalising once.", "Prop. 1", twice),
        _judge_identity("bi(A M B) is bi(M) for positive diagonal A and B.", "Prop. 1", own),
        _judge_identity("The L1 distance is 2 less twice the overlap.", "section 5.3, C.2", apart),
        Claim(
            "The overlap is 1 if and only if both matrices are equal.",
            "section 5.3",
            "fails where they are proportional" if abs(doubled - 1) < TINY else "holds",
            f"of a matrix with its double it is {doubled:g}; both are divided by their totals first",
            {"overlap": doubled},
        ),
    ]
    return [
        *out,
        *(_judge_closest(method, M, rng, settings) for method in ("row", "col", "bi", "all")),
        *_judge_weights(M, settings),
        lemmas.judge_scaling_invariance(M, A, B),
        lemmas.judge_convergence(M, settings),
        lemmas.judge_volumes(settings),
        lemmas.judge_minimality(M, settings),
    ]


def _judge_identity(text: str, where: str, off: float) -> Claim:
    """Judge an identity by the largest difference of its two sides, `off`."""
    found = f"largest difference {off:.1e}, of {DRAWS} random matrices of six classes"
    return Claim(text, where, "holds" if off <= TINY else "fails", found, {"largest_difference": off})


def _judge_closest(method: Any, M: np.ndarray, rng: np.random.Generator, settings: NormalizationSettings) -> Claim:
    """Judge whether a normalisation is the closest matrix with its sums, by feasible moves."""
    options: dict[str, Any] = {"tol": settings.tol} if method == "bi" else {}
    P = cmfast.normalize(M, method, **options)
    least = np.inf
    for _ in range(50):
        D = rng.normal(size=P.shape)
        D -= D.mean(axis=1, keepdims=True)
        D -= D.mean(axis=2, keepdims=True)
        step = 0.5 * (P / np.maximum(np.abs(D), 1e-300)).min(axis=(1, 2), keepdims=True)
        for Q in (P + step * D, P - step * D):
            least = min(least, float((_compute_divergence(Q, M) - _compute_divergence(P, M)).min()))
    return Claim(
        f"Of all matrices with its sums of rows and columns, {method}(M) has the least KL divergence from M.",
        "section 3, appendix E.1",
        "holds" if least >= -TINY else "fails",
        f"100 moves within these sums from each of {DRAWS} matrices: the divergence changes by {least:.1e} at least",
        {"least_change": least},
    )


def _compute_divergence(P: np.ndarray, M: np.ndarray) -> np.ndarray:
    """Return the divergence of P from M as the paper defines it, without normalising totals."""
    out: np.ndarray = (P * np.log(P / M)).sum(axis=(1, 2))
    return out


def _judge_weights(M: np.ndarray, settings: NormalizationSettings) -> list[Claim]:
    """Judge whether counting pairs with their weights gives the normalised matrix."""
    off = 0.0
    for method in ("all", "row", "col", "bi"):
        options: dict[str, Any] = {"tol": settings.tol} if method == "bi" else {}
        weighted = cmfast.importance_weights(M, method, **options) * M
        off = max(off, float(np.abs(weighted - cmfast.normalize(M, method, **options)).max()))
    return [_judge_identity("Every normalisation is a sum of pairs with weights.", "section 4.1, appendix F", off)]


def sections(settings: NormalizationSettings) -> list[Section]:
    """Return figures 1 and 2."""
    return [
        make_figure_section(
            "What a matrix mixes (Fig. 1)",
            _draw_mixed_effects(settings),
            after=["The first three have one cause each, the fourth all of them; bi of the fourth is the third again."],
        ),
        make_figure_section(
            "Clusters and their histograms (Fig. 2)", _draw_clusters(settings), after=["Drawn points, as in the paper."]
        ),
    ]


def _draw_mixed_effects(settings: NormalizationSettings) -> list[Picture]:
    """Draw figure 1: class frequencies, biased predictions and similarity, all in one matrix, and what bi recovers."""
    shown = {
        "test_set": ("(a) test set", "B is frequent, C is rare", TRUE[:, None] * APART),
        "predictions": ("(b) predictions", "C too often, B too rarely", APART * ANSWERED),
        "similarity": ("(c) similarity", "B and C look alike", SIMILAR_CLASSES),
        "all_of_it": ("(d) all of it", "what one sees", TRUE[:, None] * SIMILAR_CLASSES * ANSWERED),
    }
    whole = shown["all_of_it"][2]
    shown["divided_out"] = ("bi of (d)", "similarity alone", cmfast.bi_normalize(whole, tol=settings.tol))
    out = []
    for name, (title, text, S) in shown.items():
        share = S * (len(S) / S.sum())
        image = charts.draw_heatmap(share, title=title, subtitle=text, off_diagonal_max=0.5, names="ABC")
        out.append(make_picture(f"mixed_{name}", image, {"matrix": S}))
    return out


def _draw_clusters(settings: NormalizationSettings) -> list[Picture]:
    """Draw figure 2: random points of three classes, and the histogram cells coloured by the most frequent class."""
    rng = np.random.default_rng([settings.seed, CLOUDS])
    centres = np.array([[-1.0, 0.0], [1.0, 0.4], [0.1, 1.5]])
    points = np.concatenate([rng.normal(c, 0.55, (CLOUDS, 2)) for c in centres])
    y = np.repeat(np.arange(3), CLOUDS)
    low, high = points.min(axis=0), points.max(axis=0)
    edges = np.linspace(low, high, SIDE + 1, axis=1)
    at = (points - low) / (high - low)
    column, row = np.minimum((at * SIDE).astype(int), SIDE - 1).T
    counts = np.zeros((3, SIDE, SIDE), int)
    np.add.at(counts, (y, column, row), 1)
    scatter, cells = (Svg(CHART, CHART + 30, text) for text in ("points of three clusters", "their histograms"))
    scatter.write_title("Embedded points of three classes")
    cells.write_title("The class with most points of a cell")
    for c, (x, z) in zip(y, at, strict=True):
        scatter.dot(6 + (CHART - 12) * x, 30 + (CHART - 12) * (1 - z), 3, COLOURS[c])
    side = CHART / SIDE
    for i, j in np.ndindex(SIDE, SIDE):
        first = int(counts[:, i, j].argmax())
        share = float(counts[first, i, j] / counts.max())
        said = ", ".join(f"class {c}: {n}" for c, n in enumerate(counts[:, i, j]))
        where = (i * side + 0.5, 28 + (SIDE - 1 - j) * side, side - 1, side - 1)
        cells.rect(*where, COLOURS[first], title=said, more=f'fill-opacity="{share:.3f}"')
    cells.text(0, CHART + 28, "the darker, the more points", size=10.5, fill=MUTED)
    return [
        make_picture("clusters", scatter, {"points": points, "classes": y}),
        make_picture("histograms", cells, {"counts": counts, "edges": edges}),
    ]
