"""Sections 2 to 4: metrics of Table 2, meaning of a point, and chance levels."""

from typing import Any

import numpy as np

from cmfast import contingency, metrics
from cmfast._pages.parts import Claim, Section, Table
from cmfast._reproduce._reproduction import make_figure_section
from cmfast._reproduce.contingency._table import METRICS, compute_printed_formulas
from cmfast.metrics import MetricName

MOST_ROUNDING = 1e-12
RATIOS = (1.0, 5.0)
SHARES = np.linspace(0.0, 1.0, 101)
FORMS: dict[MetricName, MetricName] = {  # of many classes, and as the mean of each class against the rest
    "accuracy": "accuracy_ovr_macro", "balanced_accuracy": "balanced_accuracy_ovr_macro",
    "geometric_mean": "geometric_mean_ovr_macro", "heidke": "heidke_ovr_macro", "peirce": "tss_ovr_macro",
}  # fmt: skip


def join_names(names: Any) -> str:
    """Return names joined by commas."""
    return ", ".join(names) or "none"


def value(M: Any, name: str) -> np.ndarray:
    """Return a metric of Table 2; for a metric per class, that of class 1."""
    found: np.ndarray = metrics.compute(M, METRICS[name], undefined="zero")
    return found[..., 1] if found.ndim == np.ndim(M) - 1 else found


def draw_matrices(seed: int, n: int = 2000) -> np.ndarray:
    """Return random matrices of two classes with counts from 1 to 99."""
    return np.random.default_rng(seed).integers(1, 100, (n, 2, 2)).astype(float)


def claim_table_2(seed: int) -> list[Claim]:
    """Judge the printed formulas of Table 2 and the claims on its list."""
    M = draw_matrices(seed)
    by_print = compute_printed_formulas(M)
    apart = {name: float(np.abs(found - value(M, name)).max()) for name, found in by_print.items()}
    off = [name for name, gap in apart.items() if gap > MOST_ROUNDING]
    outside = [
        name for name, found in by_print.items() if found.min() < -1 - MOST_ROUNDING or found.max() > 1 + MOST_ROUNDING
    ]
    twins = float(np.abs(by_print["TSS"] - by_print["Youden's J"]).max())
    meant = float(np.abs(value(M, "TSS") - by_print["Youden's J"]).max())
    same = max(float(np.abs(value(7.0 * M, name) - value(M, name)).max()) for name in METRICS)
    lowest = {name: float(contingency.metric_surface(metric, RATIOS, 11).min()) for name, metric in METRICS.items()}
    below = [name for name, low in lowest.items() if low < -MOST_ROUNDING]
    five = np.random.default_rng(seed).integers(1, 50, (200, 5, 5)) + 60 * np.eye(5, dtype=int)
    own, means = (metrics.compute(five, list(names)) for names in (FORMS, FORMS.values()))
    gaps = {a: float(np.abs(own[a] - means[b]).max()) for a, b in FORMS.items()}
    known = [name for name, gap in gaps.items() if gap > MOST_ROUNDING]
    return [
        Claim(
            "The formulas of Table 2 are the metrics of their names.",
            "Table 2",
            f"fails where the metric is {join_names(off)}" if off else "holds",
            f"of {len(M)} matrices the printed {join_names(off)} differ from the metric; "
            f"out of range: {join_names(outside)}",
            {"largest_difference": apart},
            seeds=(seed,),
        ),
        Claim(
            "TSS and Youden's J are identical, despite their formulas.",
            "section 2",
            "holds" if twins < MOST_ROUNDING else "holds where TSS is tpr - fpr" if meant < MOST_ROUNDING else "fails",
            f"tpr - fpr is J to {meant:.0e}; the quotient that is printed for TSS is up to {twins:.2f} from it",
            {"printed": twins, "tpr_less_fpr": meant},
            seeds=(seed,),
        ),
        Claim(
            "A metric has one value for all relatively identical matrices.",
            "section 3",
            "holds" if same < MOST_ROUNDING else "fails",
            f"twelve metrics of M and of 7 M: at most {same:.0e} apart",
            {"largest_difference": same},
            seeds=(seed,),
        ),
        Claim(
            "All ranges are unified to [0, 1].",
            "after Definition 3.4",
            "fails" if below else "holds",
            f"the surfaces of Fig. 2 have a scale from -1 to 1; {join_names(below)} go below 0",
            {"lowest": lowest},
        ),
        Claim(
            "Unlike tau, none of these metrics has a multi-class form of its own.",
            "section 5.5",
            "fails" if known else "holds",
            f"of five classes {join_names(known)} have values of their own, "
            f"up to {max(gaps.values()):.2f} from the mean "
            "over each class against the rest",
            {"largest_difference": gaps},
            seeds=(seed,),
        ),
    ]


def compute_chance_levels() -> dict[str, Any]:
    """Return every metric at random guesses, by imbalance and share of positives."""
    return {name: contingency.chance_level(metric, RATIOS, list(SHARES)) for name, metric in METRICS.items()}


def claim_guesses(found: dict[str, Any]) -> list[Claim]:
    """Judge the claims on random guesses."""
    spread = {name: float(np.ptp(level, axis=1).max()) for name, level in found.items()}
    flat = [name for name, width in spread.items() if width < MOST_ROUNDING]
    zero = [name for name in flat if np.abs(found[name]).max() < MOST_ROUNDING]
    wide = {name: width for name, width in spread.items() if width >= MOST_ROUNDING}
    most = max(wide, key=lambda name: wide[name])
    best = {name: contingency.metric_surface(metric, 5.0, 41) for name, metric in METRICS.items()}
    perfect = {name: int((surface > 1 - MOST_ROUNDING).sum()) for name, surface in best.items()}
    missed = [name for name, surface in best.items() if not surface[-1, -1] > 1 - MOST_ROUNDING]
    several = [name for name, count in perfect.items() if count > 1]
    return [
        Claim(
            "A random guess is the point (0.5, 0.5).",
            "section 4",
            "holds" if not wide else "holds where half of the samples are called positive",
            f"guesses are the line tnr + tpr = 1; on it {join_names(flat)} do not change, all others do, {most} by "
            f"{wide[most]:.2f}"
            if wide
            else "no metric tells guesses apart",
            {"spread": spread},
        ),
        Claim(
            "What represents a random guess depends on the metric; Heidke measures success relative to one.",
            "section 5.4",
            "holds" if "Heidke" in zero and wide else "fails",
            f"0 on all of the line: {join_names(zero)}; "
            f"accuracy at r = 5 runs from {found['accuracy'][1].min():.3f} to "
            f"{found['accuracy'][1].max():.3f}, though guesses know nothing",
            {"zero": zero},
        ),
        Claim(
            "Whatever the metric, the perfect classification is one point, (1, 1).",
            "section 5.4",
            "fails" if missed else f"fails where the metric is {join_names(several)}" if several else "holds",
            f"all have their maximum there; {join_names(several)} have it elsewhere too, on "
            f"{', '.join(str(perfect[name]) for name in several)} of 41 x 41 nodes at r = 5",
            {"nodes_of_value_1": perfect},
        ),
    ]


def claim_definitions() -> list[Claim]:
    """Judge the definitions that numbers can test."""
    r, x, y = 5.0, 0.9, 0.6
    with_r, rates = (np.array([[k * x, k * (1 - x)], [1 - y, y]]) for k in (r, 1.0))
    apart = {name: float(value(with_r, name) - value(rates, name)) for name in METRICS}
    moved = [name for name, gap in apart.items() if abs(gap) > MOST_ROUNDING]
    sizes = (15, 51, 101)
    mean = [float(contingency.imbalance_sensitivity("accuracy", 4.0, rule="nodes", size=k).value) for k in sizes]
    exact = float(contingency.imbalance_sensitivity("accuracy", 4.0).value)
    bare = [one * size**2 for one, size in zip(mean, sizes, strict=True)]
    tau = [float(metrics.tau(M)) for M in ([[5, 0], [0, 5]], [[0, 5], [5, 0]])]
    weighted = float(contingency.metric_surface("tau_weighted_1_5", size=3).min())
    counts, recalls = np.array([100.0, 200.0, 400.0]), np.array([0.9, 0.5, 0.25])
    right = float((counts * recalls).sum() / counts.sum())
    both = [float((k * recalls).sum() / k.sum()) for k in (counts / counts[0], counts[0] / counts)]
    uniform = {}
    for name, metric in METRICS.items():
        sorted_values = np.sort(contingency.metric_surface(metric, 5.0, 101, grid="midpoints", rescale=True).ravel())
        steps = (np.arange(sorted_values.size) + 0.5) / sorted_values.size
        uniform[name] = float(np.abs(sorted_values - steps).max())
    even = [name for name, gap in uniform.items() if gap < 0.01]
    return [
        Claim(
            "The form with the factor r is nothing but the matrix of rates.",
            "Definition 3.3",
            "fails" if moved else "holds",
            f"of one point at r = 5 both forms have another {join_names(moved)}",
            {"difference": apart},
        ),
        Claim(
            "The size of the grid matters for pictures alone, and the sum over its nodes is the exact volume.",
            "sections 4 and 5.3",
            "fails" if max(bare) > 1 else "holds",
            f"accuracy at r = 4: sums {', '.join(f'{b:.1f}' for b in bare)} for {', '.join(map(str, sizes))} nodes a "
            f"side; their means {', '.join(f'{m:.4f}' for m in mean)}; the volume is {exact:.4f}",
            {"sums": bare, "means": mean, "volume": exact},
        ),
        Claim(
            "Tau is a semimetric.",
            "Definition 5.4",
            "fails" if tau[0] != 0 else "holds",
            f"of the perfect model, at distance 0 of itself, it is {tau[0]:g}, of the farthest {tau[1]:g}: it is 1 "
            "minus one",
            {"perfect": tau[0], "worst": tau[1]},
        ),
        Claim(
            "Surfaces lie in [0, 1]^3.",
            "Definition 4.3",
            "fails where tau is weighted" if weighted < 0 else "holds",
            f"with weights 1 and 5 its lowest value is {weighted:.3f}; divided by the root of their mean it is 0",
            {"lowest": weighted},
        ),
        Claim(
            "The ratios of many classes are those of the first class to the others.",
            "Definition 5.6",
            "fails" if abs(both[1] - right) > MOST_ROUNDING else "holds",
            f"of 100, 200, 400 samples with recalls .9, .5, .25 they give accuracy {both[1]:.3f}; the inverse ones "
            f"give {both[0]:.3f}, which it is",
            {"printed": both[1], "inverse": both[0], "accuracy": right},
        ),
        Claim(
            "That values of a metric are spread evenly is almost always a wrong assumption.",
            "section 2",
            "holds" if len(even) < len(METRICS) / 2 else "fails",
            f"over all models at r = 5 even are {join_names(even)}; the largest gap of the others is "
            f"{max(uniform.values()):.2f}",
            {"largest_gap": uniform},
        ),
    ]


def make_chance_section(found: dict[str, Any]) -> Section:
    """Return the table of chance levels."""
    head = ["", *(f"{what} at r = {r:g}" for r in RATIOS for what in ("(1/2, 1/2)", "lowest guess", "best guess"))]
    rows = [
        [name, *(f"{number:.3f}" for one in level for number in (one[len(one) // 2], one.min(), one.max()))]
        for name, level in found.items()
    ]
    said = "A guess calls a share of the samples positive, from none to all, whatever they are."
    return make_figure_section("What guesses are worth", [Table("Metrics of guesses", head, rows)], [said])
