"""Sections 5.1 and 5.3: shapes of metric surfaces, and their sensitivity to imbalance."""

from typing import NamedTuple

import numpy as np

from cmfast import contingency
from cmfast._pages.parts import Claim
from cmfast._reproduce.contingency._space import MOST_ROUNDING, join_names
from cmfast._reproduce.contingency._table import AGNOSTIC, BENT, METRICS, OTHERS, PLANES
from cmfast.metrics import MetricName

SIDES = (1.0, 5.0)  # of Fig. 2
WARPED = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of Fig. 5
STRICT = (1.0, 5.0, 32.0, 95.0)
SURFACE_POINTS = 101
AWAY = np.array([100.0, 1e4, 1e6])


def surface(name: str, r: float, size: int = SURFACE_POINTS) -> np.ndarray:
    """Return the values of a metric of Table 2 over (tpr, tnr) at imbalance `r`, (size, size)."""
    return contingency.metric_surface(METRICS[name], r, size)


class Sensitivities(NamedTuple):
    """The volumes of Fig. 7."""

    ratios: np.ndarray
    by_name: dict[str, np.ndarray]
    """By metric, one for each ratio."""
    error: float
    """The largest that the quadrature estimates."""
    far: dict[str, np.ndarray]
    """At the ratios of ``AWAY``."""


def compute_sensitivities(n_ratios: int) -> Sensitivities:
    """Return the imbalance sensitivity of every metric, from 1 to 32 and far beyond."""
    ratios = np.linspace(1.0, 32.0, n_ratios)
    names: dict[str, MetricName] = {**METRICS, **OTHERS}
    found = {name: contingency.imbalance_sensitivity(metric, list(ratios)) for name, metric in names.items()}
    far = {name: contingency.imbalance_sensitivity(METRICS[name], list(AWAY)).value for name in METRICS}
    worst = max(float(one.error.max()) for one in found.values())
    return Sensitivities(ratios, {name: one.value for name, one in found.items()}, worst, far)


def _measure_bend(name: str, r: float) -> float:
    """Return the range (largest minus smallest) of the Laplacian of a metric's surface, away from its edges."""
    S = surface(name, r)[20:-20, 20:-20]
    bent = S[2:, 1:-1] + S[:-2, 1:-1] + S[1:-1, 2:] + S[1:-1, :-2] - 4.0 * S[1:-1, 1:-1]
    return float(np.ptp(bent) * (SURFACE_POINTS - 1) ** 2)


def _measure_slopes(name: str, r: float) -> tuple[float, float]:
    """Return the mean slope of a metric along the true negative rate, and along the true positive rate."""
    S = surface(name, r)
    return float(np.mean(S[:, -1] - S[:, 0])), float(np.mean(S[-1] - S[0]))


def _measure_miss_preference(name: str, r: float) -> float:
    """Return in which share of mirrored model pairs, better than chance, the metric prefers more misses."""
    S, places = surface(name, r), np.arange(SURFACE_POINTS)
    tpr, tnr = places[:, None], places[None, :]
    chosen = (tpr > tnr) & (tpr + tnr > SURFACE_POINTS - 1) & (tpr < SURFACE_POINTS - 1)
    return float((S.T[chosen] > S[chosen]).mean())


def claim_shapes() -> list[Claim]:
    """Judge the claims read off Fig. 2."""
    across = {name: float(max(np.ptp(surface(name, r), axis=1).max() for r in SIDES)) for name in METRICS}
    one_class = [name for name, width in across.items() if width < MOST_ROUNDING]
    bend = {name: _measure_bend(name, 5.0) for name in METRICS}
    curved = [name for name in PLANES if bend[name] > 1e-8]
    straight = [name for name in BENT if bend[name] <= 1e-8]
    moved = {name: float(np.abs(surface(name, 5.0) - surface(name, 1.0)).max()) for name in METRICS}
    still = [name for name in METRICS if moved[name] < MOST_ROUNDING]
    slopes = {name: {r: _measure_slopes(name, r) for r in SIDES} for name in ("Gilbert", "Heidke")}
    leans = {r: [name for name, each in slopes.items() if each[r][0] > each[r][1] + MOST_ROUNDING] for r in SIDES}
    misses = {name: _measure_miss_preference(name, 5.0) for name in ("Gilbert", "Heidke")}
    red = {r: float((surface("Heidke", r) > 0.5).mean()) for r in STRICT}
    where = {r: float(np.argwhere(surface("Heidke", r) > 0.5)[:, 1].mean() / (SURFACE_POINTS - 1)) for r in STRICT}
    shrinks, goes = (all(np.diff(sign * np.array(list(each.values()))) < 0) for sign, each in ((1, red), (-1, where)))
    said = "; ".join(
        f"{name} rises {each[5.0][0]:.2f} with tnr and {each[5.0][1]:.2f} with tpr at r = 5, {each[1.0][0]:.2f} and "
        f"{each[1.0][1]:.2f} at 1"
        for name, each in slopes.items()
    )
    return [
        Claim(
            "Recall does not see false alarms: its surface has horizontal patterns.",
            "section 5.1, Fig. 2",
            "holds" if "recall" in one_class else "fails",
            f"it changes by {across['recall']:.0e} along the true negative rate; of the twelve {join_names(one_class)} "
            "alone stay",
            {"change": across},
        ),
        Claim(
            "Accuracy, balanced accuracy, recall, TSS, J and tau have constant curvature.",
            "section 5.1, Fig. 2",
            f"fails where the metric is {join_names(curved)}" if curved else "holds",
            f"second differences of the planes are constant to rounding; those of {join_names(curved)} range over "
            f"{max(bend[name] for name in PLANES):.1f}: a cone",
            {"range": bend},
        ),
        Claim(
            "The curvature of precision, F1, Gilbert and Doolittle varies.",
            "section 5.1, Fig. 2",
            f"fails where the metric is {join_names(straight)}" if straight else "holds",
            ", ".join(f"{name} over {bend[name]:.1f}" for name in BENT) + " at r = 5, in the middle of the space",
            {"range": {name: bend[name] for name in BENT}},
        ),
        Claim(
            "Balanced accuracy, geometric mean, recall, TSS, J and tau are the same at r = 1 and at r = 5, others not.",
            "section 5.1, Fig. 2",
            "holds" if set(still) == set(AGNOSTIC) else "fails",
            f"unchanged to {max(moved[name] for name in still):.0e}: {join_names(still)}; others change by "
            f"{min(moved[name] for name in METRICS if name not in still):.2f} and more",
            {"largest_change": moved},
        ),
        Claim(
            "Gilbert and Heidke emphasise high true negative rates more than true positive ones.",
            "section 5.1, Fig. 2",
            "holds"
            if len(leans[1.0]) == 2
            else "holds where negatives are more frequent"
            if len(leans[5.0]) == 2
            else "fails",
            said,
            {"rise": slopes},
        ),
        Claim(
            "This favours models with a lower chance of a miss.",
            "section 5.1",
            "fails" if min(misses.values()) > 0.5 else "holds",
            "at r = 5, of two models with rates swapped, better than guesses, the one with more misses is preferred "
            "by "
            + ", ".join(f"{name} in {share:.0%}" for name, share in misses.items())
            + ": a high true negative rate means few false alarms",
            {"prefers_misses": misses},
        ),
        Claim(
            "Heidke becomes stricter with the imbalance: its red region shrinks to the right.",
            "section 5.1, Fig. 2",
            "holds" if shrinks and goes else "fails",
            f"above 0.5 at r = {', '.join(f'{r:g}' for r in STRICT)}: "
            + ", ".join(f"{share:.1%}" for share in red.values())
            + " of the space, at a mean true negative rate of "
            + ", ".join(f"{x:.2f}" for x in where.values()),
            {"share": red, "tnr": where},
        ),
    ]


def claim_volumes(found: Sensitivities) -> list[Claim]:
    """Judge the claims on the sensitivity to imbalance."""
    warped = [name for name in METRICS if name not in AGNOSTIC]
    still = {name: float(found.by_name[name].max()) for name in AGNOSTIC}
    last = {name: float(found.by_name[name][-1]) for name in warped}
    times = {name: last[name] / float(np.interp(5.0, found.ratios, found.by_name[name])) for name in warped}
    foretold = {}
    for name in warped:
        a, b = np.polyfit(np.log(found.ratios), found.by_name[name], 1)
        foretold[name] = float(a * np.log(AWAY[-1]) + b)
    short = {name: float(found.far[name][-1]) / foretold[name] for name in warped}
    most = {name: float(found.far[name].max()) for name in METRICS}
    worst = max(most, key=lambda name: most[name])
    difference = surface("accuracy", 5.0) - surface("accuracy", 1.0)
    signed, unsigned = float(difference.mean()), float(np.abs(difference).mean())
    return [
        Claim(
            "Tau, recall, TSS and J are agnostic of the imbalance.",
            "section 5.3, Fig. 7",
            "holds" if max(still.values()) < MOST_ROUNDING else "fails",
            f"volumes from r = 1 to 32 at most {max(still.values()):.0e}, of balanced accuracy and the geometric mean "
            "too",
            {"largest": still},
        ),
        Claim(
            "Other metrics are impacted logarithmically.",
            "section 5.3, Fig. 7",
            "fails" if max(short.values()) < 0.9 else "holds",
            "a logarithm fitted from 1 to 32 foretells at 1e6 "
            + ", ".join(f"{foretold[name]:.2f} for {name} ({found.far[name][-1]:.3f})" for name in warped)
            + "; in brackets the volume: each is bounded",
            {"foretold": foretold, "far": {name: found.far[name] for name in warped}, "ratios": AWAY},
        ),
        Claim(
            "Surfaces warp proportionally to the imbalance.",
            "sections 5.1 and 5.3, Fig. 5",
            "fails" if max(times.values()) < 32 / 5 / 2 else "holds",
            f"from r = 5 to 32, 6.4 times, the volume grows {min(times.values()):.2f} to {max(times.values()):.2f} "
            "times",
            {"growth": times},
        ),
        Claim(
            "The sensitivity is at most the volume of the space, 1.",
            "section 5.3",
            "holds" if max(most.values()) <= 1 else "fails",
            f"the largest is that of {worst}, {most[worst]:.3f} at r = 1e6",
            {"far": most},
        ),
        Claim(
            "Surfaces may intersect; the volume is right all the same.",
            "section 5.3",
            "holds" if abs(signed) < MOST_ROUNDING < unsigned else "fails",
            f"those of accuracy cross where both rates are equal: the mean difference at r = 5 is {abs(signed):.0e}, "
            f"its absolute value {unsigned:.3f}",
            {"signed": signed, "absolute": unsigned},
        ),
    ]
