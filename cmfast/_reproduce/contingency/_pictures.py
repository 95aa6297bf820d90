"""Figures 1 to 9, and the hull and iso-performance lines of section 6.1."""

from typing import Any

import numpy as np

from cmfast import contingency
from cmfast._core import plotting
from cmfast._pages.parts import Picture
from cmfast._pages.pictures import make_picture
from cmfast._reproduce.contingency import _costs, _epochs, _paths, _roc, _surfaces
from cmfast._reproduce.contingency._table import AGNOSTIC, METRICS, OTHERS
from cmfast.display import PathDisplay, SurfaceDisplay

KEPT = 21  # nodes a side of the surfaces that are written down


def _hide_axes(ax: Any, title: str) -> None:
    """Set a title, remove the labels of the x and y axes and keep only their ticks at 0 and 1."""
    ax.set(xlabel="", ylabel="", xticks=(0, 1), yticks=(0, 1))
    ax.set_title(title, fontsize="small")


def draw_precision() -> list[Picture]:
    """Draw Fig. 1: the surface of precision from above, and in three dimensions."""
    display = SurfaceDisplay.from_metric("precision")
    numbers = {"r": 1.0, "surface": _surfaces.surface("precision", 1.0, KEPT)}
    above, beside = display.plot().figure_, display.plot_3d().figure_
    return [
        make_picture("figure_1_contours", above, numbers, "contours of precision, which meet in (1, 0)"),
        make_picture("figure_1_surface", beside, numbers, "the surface of precision: a wall along tnr = 1"),
    ]


def draw_metrics() -> Picture:
    """Draw Fig. 2: twelve metrics at two imbalances."""
    figure, axes = plotting.make_axes_grid(4, 6, 1.9)
    for k, (name, metric) in enumerate(METRICS.items()):
        for side, r in enumerate(_surfaces.SIDES):
            ax = axes[6 * (k // 3) + k % 3 + 3 * side]
            SurfaceDisplay.from_metric(metric, r).plot(ax=ax, colorbar=False)
            _hide_axes(ax, f"{name}, r = {r:g}")
    figure.colorbar(axes[0].images[0], ax=axes, shrink=0.5)
    kept = {name: {f"{r:g}": _surfaces.surface(name, r, KEPT) for r in _surfaces.SIDES} for name in METRICS}
    return make_picture(
        "figure_2_metrics", figure, kept, "twelve metrics, balanced on the left, r = 5 on the right", dpi=64
    )


def draw_paths(found: _paths.Paths, rate: float) -> list[Picture]:
    """Draw Figs. 3 and 4: a path on each pair over the surface of F1, box plots of all lengths."""
    runs = found.both[rate]
    figure, axes = plotting.make_axes_row(2, 4.0)
    for ax, (name, one) in zip(axes, runs.items(), strict=True):
        display = PathDisplay.from_matrices(one.matrices[0])
        display.surface = SurfaceDisplay.from_metric("f1")
        display.plot(ax=ax)
        ax.set_title(f"{name}, over F1, r = 1")
    first = {name: one.path.points[0] for name, one in runs.items()}
    lengths = {f"{rate:g}": {name: one.path.length for name, one in both.items()} for rate, both in found.both.items()}
    figure_4, sides = plotting.make_axes_row(len(found.both), 4.0)
    for ax, (rate_, both) in zip(sides, found.both.items(), strict=True):
        ax.boxplot([one.path.length for one in both.values()], tick_labels=list(both))
        ax.set(title=f"rate of learning {rate_:g}", ylabel="length of the path")
    return [
        make_picture("figure_3_paths", figure, first, "a training on 0 and 1, and one on 3 and 8"),
        make_picture("figure_4_lengths", figure_4, lengths, "lengths of the paths of both pairs, by rate of learning"),
    ]


def draw_pairs(found: _paths.Paths) -> Picture:
    """Draw length and error of every two digits."""
    figure, ax = plotting.load_pyplot().subplots(figsize=(5.2, 4.0), layout="constrained")
    x, y = np.array(list(found.pairs.values())).T
    ax.plot(x, y, "o", color="C0")
    for name, place in found.pairs.items():
        if name in _paths.NAMES:
            ax.annotate(name, place, xytext=(5, 5), textcoords="offset points")
    ax.set(xlabel="median length of the path", ylabel="error at the end (1 - balanced accuracy)")
    return make_picture("pairs", figure, found.pairs, "length of the path and error at the end, of 45 pairs of digits")


def draw_imbalance_effects() -> list[Picture]:
    """Draw Figs. 5 and 6: F1 as the imbalance grows, and the volume between two of its surfaces."""
    figure, axes = plotting.make_axes_row(len(_surfaces.WARPED), 2.0, 2.4)
    for ax, r in zip(axes, _surfaces.WARPED, strict=True):
        SurfaceDisplay.from_metric("f1", r).plot(ax=ax, colorbar=False)
        _hide_axes(ax, f"F1, r = {r:g}")
    kept = {f"{r:g}": _surfaces.surface("F1", r, KEPT) for r in _surfaces.WARPED}
    above, below = (SurfaceDisplay.from_metric("f1", r) for r in (_surfaces.WARPED[0], _surfaces.WARPED[-1]))
    figure_6 = below.plot_3d(ax=above.plot_3d().ax_).figure_
    above.ax_.set_title("F1 at r = 1 (above) and r = 32")
    volume = contingency.imbalance_sensitivity("f1", 32.0)
    surfaces = {r: kept[r] for r in (f"{_surfaces.WARPED[0]:g}", f"{_surfaces.WARPED[-1]:g}")}
    numbers = {"volume": float(volume.value), "error": float(volume.error), "surfaces": surfaces}
    return [
        make_picture("figure_5_imbalance", figure, kept, "F1 from r = 1 to r = 32: it falls but for tnr near 1"),
        make_picture("figure_6_volume", figure_6, numbers, "the surface of F1 at r = 32 hangs below that at r = 1"),
    ]


def draw_sensitivities(found: _surfaces.Sensitivities) -> list[Picture]:
    """Draw Fig. 7: the sensitivity of all metrics against the imbalance, and far beyond."""
    figure, axes = plotting.make_axes_row(3, 4.2, 3.8)
    for ax, names, title in zip(axes, (METRICS, OTHERS), ("Table 2", "others"), strict=False):
        for name in names:
            style = "--" if name in AGNOSTIC else "-"
            ax.plot(found.ratios, found.by_name[name], style, label=name)
        ax.set(xlabel="imbalance r", ylabel="volume", title=title, ylim=(-0.02, 0.72))
        ax.legend(fontsize="x-small", ncols=2, loc="upper left")
    for name, far in found.far.items():
        if name not in AGNOSTIC:
            axes[2].semilogx([1.0, 32.0, *_surfaces.AWAY], [0.0, found.by_name[name][-1], *far], "o-", label=name)
    axes[2].set(xlabel="imbalance r", title="far beyond: bounded", ylim=(-0.02, 0.72))
    axes[2].legend(fontsize="x-small", ncols=2, loc="upper left")
    numbers = {
        "r": found.ratios, "volume": found.by_name, "error": found.error, "far_r": _surfaces.AWAY, "far": found.far
    }  # fmt: skip
    return [make_picture("figure_7_sensitivity", figure, numbers, "volumes against the imbalance; none is a logarithm")]


def draw_weights() -> Picture:
    """Draw Fig. 8: weighted tau, x heavier, y heavier, v larger."""
    figure, axes = plotting.make_axes_grid(3, 4, 2.2)
    kept = {}
    for ax, (x, y, v) in zip(axes, _costs.WEIGHTED, strict=True):
        shown = SurfaceDisplay(_costs.compute_weighted_surface(x, y, v, _surfaces.SURFACE_POINTS), low=-2.0, high=2.0)
        shown.plot(ax=ax, colorbar=False, levels=21)
        title = f"omega ({x}, {y}), v = {v:g}"
        _hide_axes(ax, title)
        kept[title] = _costs.compute_weighted_surface(x, y, v, KEPT)
    return make_picture(
        "figure_8_weighted_tau", figure, kept, "weighted tau: quarters of ellipses about (1, 1)", dpi=64
    )


def draw_epochs(tracks: _epochs.Tracks) -> list[Picture]:
    """Draw Fig. 9 for one run: tau with three metrics, and with six."""
    out = []
    for kind, M in tracks.items():
        found = {name: one[0] for name, one in _epochs.compute_ten_metrics(M[:1]).items()}
        figure, axes = plotting.make_axes_row(2, 5.0, 3.6)
        epochs = np.arange(1, M.shape[1] + 1)
        for ax, names in zip(axes, (list(found)[1:4], list(found)[4:]), strict=True):
            for name in names:
                ax.plot(epochs, found[name], linewidth=1, label=name)
            ax.plot(epochs, found["tau"], color="red", linewidth=2.5, label="tau")
            ax.set(xlabel="epoch", ylim=(-0.1, 1.02), title=f"five digits, {kind}")
            ax.legend(fontsize="x-small")
        out.append(make_picture(f"figure_9_{kind}", figure, found, f"ten metrics by epoch, five {kind} digits"))
    return out


def draw_roc(found: _roc.Scores) -> Picture:
    """Draw one score in both spaces, its hull, and lines of equal cost."""
    figure, axes = plotting.make_axes_row(2, 4.4, 4.2)
    tnr, tpr = found.rates.T
    x, y = found.hull.points.T
    for ax, mirrored in zip(axes, (False, True), strict=True):
        sides = [1.0 - one if mirrored else one for one in (tnr, x)]
        ax.plot(sides[0], tpr, ".-", color="C0", linewidth=1, markersize=3, label="thresholds")
        ax.plot(sides[1], y, "--", color="0.4", label="hull")
        for colour, (name, cost) in zip(("C1", "C3"), _roc.LINES.items(), strict=True):
            vertex, slope = _roc.find_tangent_vertex(found, cost)
            ends = np.array([0.0, 1.0])
            ax.plot(1.0 - ends if mirrored else ends, y[vertex] + slope * (ends - x[vertex]), color=colour, label=name)
        ax.plot([0, 1], [0, 1] if mirrored else [1, 0], ":", color="0.6", label="guesses")
        first = "false positive rate" if mirrored else "true negative rate"
        ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal", xlabel=first, ylabel="true positive rate")
        ax.set_title("ROC space" if mirrored else "contingency space")
    axes[0].legend(fontsize="x-small", loc="lower left")
    return make_picture("roc", figure, _roc.numbers(found), "one score in both spaces: mirror images")
