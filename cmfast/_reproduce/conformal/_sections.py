"""Tables and pictures of prediction sets, epochs, rounds and clients."""

from typing import Any

import numpy as np

from cmfast import conformal
from cmfast._core import plotting
from cmfast._pages.parts import Picture, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce._reproduction import make_figure_section
from cmfast._reproduce.conformal._clients import Runs
from cmfast._reproduce.conformal._network import ALPHAS, CENTRE, OTHER, PAIR
from cmfast.display import CcmDisplay

COLUMNS = ("coverage", "mean_size", "empty", "shared", "never_confused", "undefined_classes")


def make_sets_section(centre: list[dict[str, Any]]) -> Section:
    """Return the section on the sets of the first seed, by alpha, with its confusion matrix."""
    sets, y, guess = centre[0]["picture"]
    display = CcmDisplay.from_sets(sets, y, guess, index=CENTRE, alpha=ALPHAS[CENTRE]).plot()
    counts = conformal.ccm(sets)
    numbers = {"correlation": counts.correlation()[CENTRE], "counts": counts.G[CENTRE], "n": counts.n[CENTRE]}
    numbers |= {"confusion": display.confusion, "coverage": display.coverage, "rows_by_size": display.sizes}
    rows = [[f"{one['alpha']}", *(f"{one[name]:.4g}" for name in COLUMNS)] for one in centre[0]["by_alpha"]]
    head = ["alpha", "coverage", "mean size", "empty", "pairs that share a set", "never confused", "undefined classes"]
    said = f"Seed 0: accuracy {centre[0]['accuracy']:.3f}; {centre[0]['empty_cells']} of 90 confusions did not occur."
    picture = make_picture("sets", display.figure_, numbers, "correlation of sets, confusion matrix, coverage, sizes")
    return make_figure_section(
        "Beside the confusion matrix, by alpha", [picture, Table("Sets by alpha", head, rows)], after=[said]
    )


def make_epochs_section(centre: list[dict[str, Any]]) -> Section:
    """Return the section on the correlation of two pairs by epoch, over all seeds."""
    shown = []
    for name, key, label, said in (
        ("epochs", "rho", "correlation at alpha = 0.1", "correlation of two pairs of digits by epoch"),
        (
            "epochs_confused",
            "error_share",
            "share of their rows confused",
            "confusions of two pairs of digits by epoch",
        ),
    ):
        values = np.array([[epoch[key] for epoch in one["by_epoch"]] for one in centre])
        bands = {f"{a} and {b}": values[:, :, k] for k, (a, b) in enumerate((PAIR, OTHER))}
        dashed = (-1 / 9, "sets of one label") if key == "rho" else None
        shown.append(_draw_bands(name, bands, "epoch", label, said, dashed))
    after = [f"Median and eight of ten of {len(centre)} seeds; left correlations of sets, right confusions."]
    return make_figure_section("By epoch (Figs. 3 and 4)", shown, after=after)


def _draw_bands(
    name: str, bands: dict[str, np.ndarray], step: str, label: str, says: str, dashed: tuple[float, str] | None = None
) -> Picture:
    """Draw median and central 80 % of the seeds by step, from arrays (seeds, steps); NaN is left out."""
    figure, ax = plotting.load_pyplot().subplots(figsize=(6, 3.2), layout="constrained")
    numbers: dict[str, Any] = {}
    for colour, (text, values) in zip(("C0", "C1", "C2"), bands.items(), strict=False):
        known = [column[~np.isnan(column)] for column in values.T]
        low, middle, high = np.array(
            [np.quantile(each, (0.1, 0.5, 0.9)) if len(each) else (np.nan,) * 3 for each in known]
        ).T
        steps = np.arange(1, len(middle) + 1)
        ax.fill_between(steps, low, high, color=colour, alpha=0.25, linewidth=0)
        ax.plot(steps, middle, color=colour, label=text)
        numbers[text] = {"low": low, "median": middle, "high": high}
    if dashed:
        ax.axhline(dashed[0], color="0.4", linestyle="--", linewidth=1, label=dashed[1])
    ax.set(xlabel=step, ylabel=label)
    ax.legend()
    return make_picture(name, figure, numbers, says)


def make_rounds_section(runs: dict[int, Runs]) -> Section:
    """Return the section on the correlation of the critical pair by round."""
    shown = []
    for classes, by_name in runs.items():
        bands = {name: np.array([one["by_round"][:, 0] for one in each]) for name, each in by_name.items()}
        label, says = f"correlation at alpha = {ALPHAS[0]:g}", f"correlation of 3 and 9 of {classes} classes by round"
        shown.append(_draw_bands(f"rounds_{classes}_classes", bands, f"round, {classes} classes", label, says))
    after = [
        "The critical pair is 3 and 9. Median and eight of ten of all seeds; highest, lowest: which clients learn."
    ]
    return make_figure_section("By round (Figs. 6 and 7)", shown, after=after)


def make_clients_section(apart: dict[float, dict[str, Any]], runs: dict[int, Runs]) -> Section:
    """Return the section on client distances and on choosing clients."""
    keys = ("gap", "largest_gap", "largest_rho", "undefined", "given_away")
    rows = [[f"{c:g}", *(f"{one[key]:.3f}" for key in keys)] for c, one in apart.items()]
    head = ["Dirichlet", "mean distance", "largest", "largest correlation", "undefined", "size given away"]
    chosen = []
    for classes, by_name in runs.items():
        everyone = by_name["all clients"]
        for name, each in by_name.items():
            means = [f"{np.nanmean([one[key] for one in each]):.3f}" for key in ("accuracy", "pair")]
            means += [f"{mean:.3f}" for mean in np.mean([one["each_of_pair"] for one in each], axis=0)]
            means += [f"{np.nanmean([one[key] for one in each]):.3f}" for key in ("others", "rho")]
            gaps = [
                paired.compute_interval(
                    np.array([a[key] - b[key] for a, b in zip(each, everyone, strict=True)]), paired.CLAIM_LEVEL
                )
                for key in ("accuracy", "pair")
            ]
            row = [f"{classes} classes, {name}", *means, *(f"{gap['mean']:+.3f} ({gap['error']:.3f})" for gap in gaps)]
            chosen.append(row)
    said = (
        "Counts of clients add up to those of all rows, exactly; the mean of their correlations is something else. "
        "Differences are to all clients, with their standard errors."
    )
    heads = ["clients", "accuracy", "of the pair", *(f"of {label}" for label in PAIR), "of others", "correlation"]
    heads += ["difference", "of the pair"]
    return make_figure_section(
        "With clients (Table 1)",
        [
            Table("Mean of correlations against that of all sets", head, rows),
            Table("Choosing clients", heads, chosen),
        ],
        after=[said],
    )
