"""Section 5.4: weighted tau, its dependence on costs, and the total error of a forecast."""

from math import erf, exp, sqrt
from typing import Any, NamedTuple, cast

import numpy as np

from cmfast import contingency, metrics
from cmfast._pages.parts import Claim
from cmfast._reproduce.contingency._space import MOST_ROUNDING
from cmfast.metrics import MetricName

WEIGHTED = (  # omega_x, omega_y and v of Fig. 8
    (1, 1, 1.0), (2, 1, 1.0), (5, 1, 1.0), (10, 1, 1.0),
    (1, 1, 1.0), (1, 2, 1.0), (1, 5, 1.0), (1, 10, 1.0),
    (1, 5, 0.5), (1, 5, 1.0), (1, 5, 1.5), (1, 5, 2.0),
)  # fmt: skip
SHIFT = 1.5  # between what flares and what does not, in standard deviations
COSTS = (2.0, 10.0, 100.0)  # of a miss, in false alarms
HEAD = ("cost of a miss", "threshold of E_c", "E_c", "threshold of tau", "E_c there", "pairs ranked differently")
PLACES = np.linspace(-5.0, 6.5, 11_501)


def compute_weighted_surface(x: int, y: int, v: float, size: int) -> np.ndarray:
    """Return the surface of weighted tau (definition 5.5), which is linear in v."""
    return v * contingency.metric_surface(cast(MetricName, f"tau_weighted_{x}_{y}"), size=size)


class Forecast(NamedTuple):
    """Optimal thresholds on the flux for one cost of a miss."""

    cost: float
    closed: float
    """Of least error ``E_c``, where the derivative is zero."""
    least: float
    """... and its value."""
    by_tau: float
    """Where weighted tau is highest, with the costs for weights."""
    error_by_tau: float
    """``E_c`` there."""
    tilted: float
    """Share of pairs of models that ``E_c`` and weighted tau rank differently."""


def compute_forecasts(seed: int) -> list[Forecast]:
    """Return the best thresholds of a forecast by error and by weighted tau, for each cost of a miss.

    The forecast has two normal densities.
    """
    fnr = np.array([_compute_normal_cdf(x - SHIFT) for x in PLACES])
    fpr = np.array([1.0 - _compute_normal_cdf(x) for x in PLACES])
    one, other = np.random.default_rng(seed).random((2, 2, 100_000))
    out = []
    for cost in COSTS:
        error = _compute_error(1.0 - fpr, 1.0 - fnr, cost)
        closed = SHIFT / 2.0 - np.log(cost) / SHIFT
        chosen = int(np.argmax(_compute_weighted_tau(1.0 - fpr, 1.0 - fnr, cost)))
        at = cost * _compute_normal_cdf(closed - SHIFT) + 1.0 - _compute_normal_cdf(closed)
        cheaper = _compute_error(one[0], one[1], cost) < _compute_error(other[0], other[1], cost)
        nearer = _compute_weighted_tau(one[0], one[1], cost) > _compute_weighted_tau(other[0], other[1], cost)
        tilted = float((cheaper != nearer).mean())
        out.append(Forecast(cost, float(closed), float(at), float(PLACES[chosen]), float(error[chosen]), tilted))
    return out


def _compute_normal_cdf(x: float) -> float:
    """Return the standard normal distribution function at `x`."""
    return 0.5 * (1.0 + erf(x / sqrt(2.0)))


def _compute_error(tnr: np.ndarray, tpr: np.ndarray, cost: float) -> np.ndarray:
    """Return the total error E_c: `cost` times the miss rate, plus the false alarm rate."""
    return cost * (1.0 - tpr) + (1.0 - tnr)


def _compute_weighted_tau(tnr: np.ndarray, tpr: np.ndarray, cost: float) -> np.ndarray:
    """Return tau of models at the given rates, weighted by 1 for tnr and `cost` for tpr."""
    M = np.stack([tnr, 1.0 - tnr, 1.0 - tpr, tpr], axis=-1).reshape(-1, 2, 2)
    return metrics.tau_weighted(M, [1.0, cost])


def _measure_widths(x: int, y: int) -> list[float]:
    """Return the distance from (1, 1) at which weighted tau has fallen to 0.9, along x and along y."""
    S, axis = compute_weighted_surface(x, y, 1.0, 1001), np.linspace(0.0, 1.0, 1001)
    return [float(1.0 - np.interp(0.9, line, axis)) for line in (S[-1], S[:, -1])]


def claim_costs(found: list[Forecast], seed: int) -> list[Claim]:
    """Judge the claims on weights, on v and on costs."""
    plain, heavy_x = _measure_widths(1, 1), _measure_widths(5, 1)
    flatter = heavy_x[0] > plain[0] + MOST_ROUNDING and heavy_x[1] < plain[1] - MOST_ROUNDING
    misses, alarms = np.array([[9, 1], [5, 5]]), np.array([[5, 5], [1, 9]])
    by = {
        name: [float(metrics.tau_weighted(M, weights)) for M in (misses, alarms)]
        for name, weights in (("omega_x", [5.0, 1.0]), ("omega_y", [1.0, 5.0]))
    }
    single, double = (compute_weighted_surface(1, 5, v, 21).ravel() for v in (1.0, 2.0))
    same = bool((np.argsort(single, kind="stable") == np.argsort(double, kind="stable")).all())
    slope = [float(contingency.iso_performance_slope([[0, 1], [10, 0]], r)) for r in (1.0, 5.0)]
    ten = next(one for one in found if one.cost == 10.0)
    grid = PLACES[
        int(np.argmin([ten.cost * _compute_normal_cdf(x - SHIFT) + 1.0 - _compute_normal_cdf(x) for x in PLACES]))
    ]
    density = [exp(-((ten.closed - shift) ** 2) / 2.0) for shift in (SHIFT, 0.0)]
    extra = {f"{one.cost:g}": one.error_by_tau / one.least - 1.0 for one in found}
    return [
        Claim(
            "Increasing omega_x lowers the kurtosis along x and raises that along y.",
            "section 5.4, Fig. 8",
            "holds" if flatter else "fails",
            f"with omega_x = 5 weighted tau falls by a tenth within {heavy_x[0]:.3f} of (1, 1) along x in place of "
            f"{plain[0]:.3f}, so it is steeper there, and within {heavy_x[1]:.3f} along y in place of {plain[1]:.3f}",
            {"of_1_1": plain, "of_5_1": heavy_x},
        ),
        Claim(
            "v magnifies the impact of the weights.",
            "section 5.4, Fig. 8",
            "fails where models are ranked" if same else "holds",
            "it multiplies all values: no two of 441 models change their order" if same else "it changes the order",
            {"same_order": same},
        ),
        Claim(
            "Where a miss costs k times a false alarm, omega_x is k.",
            "section 5.4",
            "holds" if by["omega_x"][0] < by["omega_x"][1] else "fails",
            f"of half of the positives missed, or half of the negatives called, omega_x = 5 gives "
            f"{by['omega_x'][0]:.3f} and {by['omega_x'][1]:.3f}, omega_y = 5 {by['omega_y'][0]:.3f} and "
            f"{by['omega_y'][1]:.3f}: x is the true negative rate",
            by,
        ),
        Claim(
            "The threshold of least error E_c is where its derivative is zero.",
            "section 5.4",
            "holds" if abs(grid - ten.closed) <= PLACES[1] - PLACES[0] else "fails",
            f"two normal densities {SHIFT} apart, a miss at ten false alarms: x0 = {ten.closed:.3f}, where one density "
            f"is ten times the other ({density[1] / density[0]:.2f}); of a grid {grid:.3f} is best",
            {"closed": ten.closed, "of_a_grid": grid},
        ),
        Claim(
            "With the costs for weights, weighted tau precisely reflects the objective of E_c.",
            "section 5.4",
            "holds" if max(one.tilted for one in found) == 0 else "fails",
            "its lines of equal value are arcs, those of E_c straight, of slope "
            f"{slope[0]:g} at r = 1 and {slope[1]:g} at r = 5: of random pairs of models they rank differently "
            + ", ".join(f"{one.tilted:.1%} (cost {one.cost:g})" for one in found)
            + "; the threshold that tau likes best costs "
            + ", ".join(f"{gap:.0%}" for gap in extra.values())
            + " more than the least",
            {"forecasts": [one._asdict() for one in found], "extra_cost": extra},
            seeds=(seed,),
        ),
    ]


def format_forecasts(found: list[Forecast]) -> list[list[str]]:
    """Return the forecasts as rows of text."""
    return [
        [f"{one.cost:g}", *(f"{x:.3f}" for x in (one.closed, one.least, one.by_tau, one.error_by_tau)),
         f"{one.tilted:.1%}"]
        for one in found
    ]  # fmt: skip


def numbers(found: list[Forecast]) -> dict[str, Any]:
    """Return the forecasts as dicts, by cost of a miss."""
    return {f"{one.cost:g}": one._asdict() for one in found}
