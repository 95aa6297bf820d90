"""Tables and pictures of sets, of epochs and of clients."""

from typing import Any

import numpy as np

from cmfast import conformal
from cmfast._core import drawing
from cmfast._reproduce._frame import Picture, Section, Table, mean_and_error, png
from cmfast._reproduce.conformal._network import ALPHAS, CENTRE, OTHER, PAIR

COLUMNS = ("coverage", "mean_size", "empty", "shared", "never_confused", "undefined_classes")


def of_sets(centre: list[dict[str, Any]]) -> Section:
    """Return the sets of the first seed, by alpha, beside its confusion matrix."""
    sets, y, guess = centre[0]["picture"]
    display = conformal.CcmDisplay.from_sets(sets, y, guess, index=CENTRE, alpha=ALPHAS[CENTRE]).plot()
    counts = conformal.ccm(sets)
    numbers = {"correlation": counts.correlation()[CENTRE], "counts": counts.G[CENTRE], "n": counts.n[CENTRE]}
    numbers |= {"confusion": display.confusion, "coverage": display.coverage, "rows_by_size": display.sizes}
    rows = [[f"{one['alpha']}", *(f"{one[name]:.4g}" for name in COLUMNS)] for one in centre[0]["by_alpha"]]
    head = ["alpha", "coverage", "mean size", "empty", "pairs that share a set", "never confused", "undefined classes"]
    said = f"Seed 0: accuracy {centre[0]['accuracy']:.3f}; {centre[0]['empty_cells']} of 90 confusions did not occur."
    picture = Picture("sets", png(display.figure_), numbers, "correlation of sets, confusion matrix, coverage, sizes")
    return Section("Beside the confusion matrix, by alpha", [picture, Table("Sets by alpha", head, rows)], after=[said])


def of_epochs(centre: list[dict[str, Any]]) -> Section:
    """Return the correlation of two pairs by epoch, of all seeds."""
    rho = np.array([[epoch["rho"] for epoch in one["by_epoch"]] for one in centre])
    figure, ax = drawing.pyplot().subplots(figsize=(6, 3.2), layout="constrained")
    epochs = np.arange(1, rho.shape[1] + 1)
    low, middle, high = np.quantile(rho, (0.1, 0.5, 0.9), axis=0)
    for k, (pair, colour) in enumerate(((PAIR, "C0"), (OTHER, "C1"))):
        ax.fill_between(epochs, low[:, k], high[:, k], color=colour, alpha=0.25, linewidth=0)
        ax.plot(epochs, middle[:, k], color=colour, label=f"{pair[0]} and {pair[1]}")
    ax.axhline(-1 / 9, color="0.4", linestyle="--", linewidth=1, label="sets of one label")
    ax.set(xlabel="epoch", ylabel="correlation at alpha = 0.1")
    ax.legend()
    numbers = {"low": low, "median": middle, "high": high, "pairs": [PAIR, OTHER]}
    picture = Picture("epochs", png(figure), numbers, "correlation of two pairs of digits by epoch")
    return Section("By epoch", [picture], after=[f"Median and eight of ten of {len(centre)} seeds."])


def of_clients(apart: dict[float, dict[str, Any]], runs: dict[str, list[dict[str, Any]]]) -> Section:
    """Return how far apart clients are, and what choosing them does."""
    keys = ("gap", "largest_gap", "largest_rho", "undefined", "given_away")
    rows = [[f"{c:g}", *(f"{one[key]:.3f}" for key in keys)] for c, one in apart.items()]
    head = ["Dirichlet", "mean distance", "largest", "largest correlation", "undefined", "size given away"]
    chosen = []
    for name, each in runs.items():
        means = [f"{np.nanmean([one[key] for one in each]):.3f}" for key in ("accuracy", "pair", "rho")]
        gaps = [
            mean_and_error([a[key] - b[key] for a, b in zip(each, runs["all clients"], strict=True)])
            for key in ("accuracy", "pair")
        ]
        chosen.append([name, *means, *(f"{mean:+.3f} ({error:.3f})" for mean, error in gaps)])
    said = (
        "Counts of clients add up to those of all rows, exactly; the mean of their correlations is something else. "
        "Differences are to all clients, with their standard errors."
    )
    heads = ["clients", "accuracy", "of the pair", "correlation", "difference", "of the pair"]
    return Section(
        "With clients",
        [Table("Mean of correlations against that of all sets", head, rows), Table("Choosing clients", heads, chosen)],
        after=[said],
    )
