"""Section 6.1: what the contingency space shares with ROC space: hull, area, iso-performance lines."""

from typing import Any, NamedTuple

import numpy as np

from cmfast import contingency, metrics
from cmfast._pages.parts import Claim
from cmfast._reproduce.contingency._space import MOST_ROUNDING
from cmfast._reproduce.contingency._training import HARD, ContingencySettings, ScoreNetwork, choose_images
from cmfast.results import Hull

LOOKED_AT = 12  # epochs: a network that still errs
DEAR = np.array([[0.0, 1.0], [5.0, 0.0]])  # a miss costs five false alarms
PLAIN = np.array([[0.0, 1.0], [1.0, 0.0]])
LINES = {"equal costs": PLAIN, "a miss costs 5": DEAR}


class Scores(NamedTuple):
    """Scores of a network for digits 3 and 8, with curve and hull."""

    score: np.ndarray
    y: np.ndarray
    rates: np.ndarray
    """(thresholds, 2): true negative and true positive rate."""
    hull: Hull
    r: float


def compute_scores(settings: ContingencySettings) -> Scores:
    """Return the scores of a network on the hard pair after a few epochs."""
    network = ScoreNetwork(
        *choose_images(HARD, (1.0, 1.0), settings.seed), 2, rate=settings.rates[0], seed=settings.seed
    )
    for _ in range(LOOKED_AT):
        network.learn()
    score, y = network.score(), network.y
    rates = metrics.recall(metrics.threshold_matrices(y, score, drop_ties=True).matrices)
    return Scores(score, y, rates, contingency.convex_hull(rates), float((y == 0).sum() / (y == 1).sum()))


def find_tangent_vertex(found: Scores, cost: np.ndarray) -> tuple[int, float]:
    """Return the index of the hull vertex that an iso-performance line touches, and the slope of the line."""
    slope = float(contingency.iso_performance_slope(cost, found.r))
    return int(np.argmax(found.hull.points @ [-slope, 1.0])), slope


def claim_roc(found: Scores, settings: ContingencySettings) -> list[Claim]:
    """Judge the claims on both spaces."""
    area = float(metrics.roc_auc(found.y, found.score))
    tnr, tpr = found.rates.T
    under = abs(float(np.trapezoid(tpr, tnr)))
    roc_hull = _compute_hull_area(1.0 - tnr, tpr)
    gap, angles = {}, {}
    for name, cost in LINES.items():
        vertex, slope = find_tangent_vertex(found, cost)
        x, y = found.hull.points[vertex]
        at = float((cost * [[found.r * x, found.r * (1 - x)], [1 - y, y]]).sum()) * float((found.y == 1).sum())
        gap[name] = abs(at - float(metrics.least_cost(found.y, found.score, cost).cost))
        across, up = np.diff([[1.0 - 0.2, 0.5], [1.0 - 0.3, 0.5 + 0.1 * slope]], axis=0)[0]
        angles[name] = [float(np.degrees(np.arctan2(rise, run))) % 180 for rise, run in ((up, across), (slope, 1.0))]
    turned = max(abs(a + b - 180.0) for a, b in angles.values())
    grid = np.linspace(0.0, 1.0, 21)
    surface = contingency.metric_surface("tau", size=21)
    from_corner = 1.0 - np.hypot((1.0 - grid)[None, :], (1.0 - grid)[:, None]) / np.sqrt(2.0)
    mirror = float(np.abs(surface - from_corner).max())
    recalls = np.random.default_rng(settings.seed).random((1000, 5))
    M = _make_matrices(recalls)
    errors = 1.0 - recalls
    to_origin = 1.0 - np.sqrt((errors**2).sum(axis=1) / 5.0)
    many = float(np.abs(metrics.tau(M) - to_origin).max())
    points = metrics.recall(np.array([[[r * 9.0, r * 1.0], [4.0, 6.0]] for r in (1, 5, 32)]))
    still = float(np.ptp(points, axis=0).max())
    accuracy = contingency.metric_surface("accuracy", [1, 5, 32], 3)[:, 1, 2]
    ok = max(abs(area - under), abs(found.hull.area - roc_hull), *gap.values())
    return [
        Claim(
            "AUC, hulls and iso-performance lines of ROC space are valid, the angle of a line is pi less what it was.",
            "section 6.1, point 2",
            "holds" if max(ok, turned) < 1e-9 else "fails",
            f"3 against 8: areas {area:.4f} and {under:.4f}, of the hulls {roc_hull:.4f} and {found.hull.area:.4f}; "
            "the line of equal cost touches the hull at the threshold of least cost; its angles add up to 180 degrees "
            f"(to {turned:.0e})",
            {"auc": [area, under], "hull": [roc_hull, found.hull.area], "angles": angles},
            seeds=(settings.seed,),
        ),
        Claim(
            "Tau and the distance from (0, 1) of ROC space form mirrored surfaces.",
            "section 6.1, point 4",
            "holds" if mirror < MOST_ROUNDING else "fails",
            f"equal to {mirror:.0e} on 21 x 21 nodes",
            {"largest_difference": mirror},
        ),
        Claim(
            "Only with the true negative rate does the space extend to many classes.",
            "sections 5.5 and 6.1, point 1",
            "fails" if many < MOST_ROUNDING else "holds",
            f"its mirror image, of the error rates of every class, extends as well: 1 less the distance from its "
            f"origin over the root of 5 is tau of five classes to {many:.0e}",
            {"largest_difference": many},
            seeds=(settings.seed,),
        ),
        Claim(
            "The base space takes the imbalance into account, ROC space disregards it.",
            "section 6.1, point 3",
            "holds where a metric is drawn over it" if still < MOST_ROUNDING else "holds",
            "points are the rates of ROC: with 1, 5 and 32 negatives per positive one model stays where it is "
            f"(to {still:.0e}); accuracy over it is " + ", ".join(f"{one:.3f}" for one in accuracy),
            {"moved": still, "accuracy": accuracy},
        ),
    ]


def _make_matrices(recalls: np.ndarray) -> np.ndarray:
    """Return matrices with unit rows and the given recalls; errors are spread evenly."""
    C = recalls.shape[1]
    off = (1.0 - recalls) / (C - 1)
    return np.where(np.eye(C, dtype=bool), recalls[..., None], off[..., None])


def _compute_hull_area(fpr: np.ndarray, tpr: np.ndarray) -> float:
    """Return the area below the convex hull in ROC space, by SciPy."""
    from scipy.spatial import ConvexHull

    corners = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]
    return float(ConvexHull(np.concatenate([np.stack([fpr, tpr], axis=1), corners])).volume)


def numbers(found: Scores) -> dict[str, Any]:
    """Return the curve, its convex hull with the area, and the tangent vertices."""
    lines = {}
    for name, cost in LINES.items():
        vertex, slope = find_tangent_vertex(found, cost)
        lines[name] = {"touches": found.hull.points[vertex], "slope": slope}
    curve = {"tnr": found.rates[:, 0], "tpr": found.rates[:, 1]}
    return {**curve, "hull": found.hull.points, "area": found.hull.area, "lines": lines}
