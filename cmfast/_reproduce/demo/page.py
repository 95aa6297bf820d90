"""Page of the demo: sections, pictures, tables and sentences from numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cmfast._core.annotations import NORMALIZATIONS
from cmfast._pages import charts
from cmfast._pages.parts import Code, Figure, Part, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._pages.svg import Svg
from cmfast._pages.values import format_seconds
from cmfast._reproduce._reproduction import Reproduction
from cmfast._reproduce.demo import figures, sentences

Numbers = dict[str, Any]
Matrices = Mapping[str, np.ndarray]

SET_COLOURS = {"imbalanced training": "#7c9bd6", "imbalanced test": "#2457c5", "balanced": "#ccd2db"}
WIDTH_COLUMNS = ("overlap", "guaranteed", "null", "origin_spread")
CURVE_COLOURS = {"overlap": "#2457c5", "guaranteed": "#8aa6e0", "permuted": "#c0322b"}
SHOWN_PAIRS = 12
LEAD = (
    "A confusion matrix mixes two things: which classes look alike to a network, and which are merely frequent. "
    "Bi-normalisation divides the second one out. Here it is put to the test on real handwritten digits: one network "
    "learns from an imbalanced set, its twin from a balanced one, and we ask which way of normalising the first one's "
    "matrix comes closest to the second one's."
)
SOURCE = (
    "Method: Erbani et al., On the Normalization of Confusion Matrices: Methods and Geometric Interpretations, "
    "sections 5 and 6. Data: the digits that come with scikit-learn (UCI, optical recognition of handwritten digits)."
)


class Demo(Reproduction):
    """The demo as a reproduction with its own command and result layout."""

    @property
    def command(self) -> str:
        """Command line of the demo."""
        return "cmfast demo"

    def to_dict(self, files: list[str]) -> dict[str, Any]:
        """Return the content of ``results.json``."""
        return self.numbers


def compose(numbers: Numbers, matrices: dict[str, np.ndarray]) -> Demo:
    """Return the page of the demo as parts, and the content of its other files."""
    timings = {name: value for name, value in numbers["timings"].items() if not name.endswith("per_second")}
    return Demo(
        name="demo",
        title="Which classes does a network really confuse?",
        source=SOURCE,
        lead=LEAD,
        claims=(),
        sections=[
            part(numbers, matrices) for part in (_show_data, _show_normalisations, _show_geometry, _show_bootstrap)
        ],
        settings=numbers["settings"],
        asked=[f"--seed {numbers['seed']}"],
        numbers=numbers,
        timings=timings,
        arrays=matrices,
        cards=_make_cards(numbers),
        opening=[(f"{sentences.level(numbers)} ", Code(sentences.REPRODUCTION), ".")],
        making=[sentences.making(numbers)],
    )


def _pair(left: Svg, right: Svg | Table, *caption: str) -> Figure:
    """Return a picture next to another picture or table, with captions of both."""
    return Figure(
        [make_picture("", left), right if isinstance(right, Table) else make_picture("", right)], caption, "two"
    )


def _maps(shown: dict[str, tuple[str, np.ndarray]], caption: str) -> Figure:
    """Draw heatmaps on one common scale, each scaled to a mean row sum of one."""
    scaled = {title: (text, S * (len(S) / S.sum())) for title, (text, S) in shown.items()}
    off = ~np.eye(len(next(iter(scaled.values()))[1]), dtype=bool)
    # The few largest cells may saturate: with them as the end of the scale, all others would look empty.
    top = float(np.ceil(20 * np.quantile([S[off] for _, S in scaled.values()], 0.98)) / 20)
    maps = [
        charts.draw_heatmap(S, title=title, subtitle=text, off_diagonal_max=top) for title, (text, S) in scaled.items()
    ]
    return Figure([make_picture("", picture) for picture in (*maps, figures.draw_heat_legend(top))], [caption], "maps")


def _make_cards(numbers: Numbers) -> list[tuple[str, str]]:
    """Return the headline numbers of the page, each with its explanation."""
    overlap, geometry = numbers["normalisation"]["overlap"], numbers["geometry"]["matched"]["bi"]
    timings, repeats = numbers["timings"], numbers["settings"]["repeats"]
    rival, took = sentences.best_but(overlap, "bi"), format_seconds(timings["bootstrap_bi_normalising"])
    return [
        (
            f"{overlap['bi']['mean']:.2f} vs {overlap[rival]['mean']:.2f}",
            f"overlap with the balanced truth, bi against {rival}, the next best; mean of {repeats} repetitions",
        ),
        (f"{overlap['bi']['best_in']} of {repeats}", "repetitions in which bi comes closest of all four"),
        (
            f"{geometry['guaranteed']['mean']:.2f} of {geometry['overlap']['mean']:.2f}",
            "of the overlap with the geometric matrix was guaranteed before looking",
        ),
        (
            f"{timings['bootstrap_matrices_per_second']:,.0f} /s",
            f"bi-normalised: {numbers['bootstrap']['resamples']:,} matrices in {took}",
        ),
    ]


def _show_data(numbers: Numbers, matrices: Matrices) -> Section:
    """Return section 1: class sizes of the sets, and one picture of each class."""
    samples = numbers["samples"]
    sizes = {
        "imbalanced training": samples["imbalanced_train"],
        "imbalanced test": samples["imbalanced_test"],
        "balanced": samples["balanced_test"],
    }
    bars = figures.draw_class_sizes(sizes, SET_COLOURS, "Pictures per class")
    pictures = figures.draw_pictures(matrices["pictures"], "One picture of each class")
    return Section("1. The data", [_pair(bars, pictures, sentences.data(numbers))])


def _show_normalisations(numbers: Numbers, matrices: Matrices) -> Section:
    """Return section 2: the four normalised matrices, and their overlap with and divergence from the balanced one."""
    overlap, kl = numbers["normalisation"]["overlap"], numbers["normalisation"]["kl"]
    repeats, eps = numbers["settings"]["repeats"], numbers["settings"]["smoothing"]
    titles = {
        "all": "all: divided by the total",
        "row": "row: true classes sum to 1",
        "col": "col: predicted classes sum to 1",
        "bi": f"bi: both sum to 1 (M + {eps:g})",
    }
    shown = {"Balanced truth": ("what we would like to see", matrices["balanced"])}
    shown |= {
        title: (f"overlap with the truth {overlap[name]['shown']:.3f}", matrices[f"imbalanced_{name}"])
        for name, title in titles.items()
    }
    overlap_bars = figures.draw_bars(
        overlap,
        title="Overlap with the balanced truth",
        subtitle=f"higher is better; mean of {repeats} ± one sd, dot: the one shown above",
        limit=1.0,
        best=sentences.best_of(overlap, largest=True),
    )
    kl_bars = figures.draw_bars(
        kl,
        title="Distance from the balanced truth",
        subtitle=f"lower is better; Kullback-Leibler, nats, all matrices + {eps:g}",
        limit=float(np.ceil(2 * max(v["mean"] + v["sd"] for v in kl.values())) / 2),
        best=sentences.best_of(kl, largest=False),
    )
    framed: list[Part] = [
        _maps(shown, sentences.matrices(numbers)),
        _pair(overlap_bars, kl_bars, f"{sentences.verdict(numbers)} {sentences.divergence(numbers)}"),
        _pair(_draw_smoothing_curve(numbers), _make_normalisation_table(numbers), sentences.smoothing(numbers)),
    ]
    return Section("2. Four ways to normalise one matrix", framed)


def _draw_smoothing_curve(numbers: Numbers) -> Svg:
    """Draw the overlap of bi by smoothing constant, and of the best other normalisation as a constant line."""
    overlap, others = numbers["normalisation"]["overlap"], numbers["normalisation"]["overlap_by_smoothing"]
    rival = sentences.best_but(overlap, "bi")
    return charts.draw_lines(
        list(others),
        {"bi": list(others.values()), rival: [overlap[rival]["mean"]] * len(others)},
        charts.METHOD_COLOURS,
        title="Overlap by smoothing constant",
        x_title="added to every cell before bi-normalising",
        lowest=0.5,
    )


def _make_normalisation_table(numbers: Numbers) -> Table:
    """Return a table of overlap and KL divergence by normalisation: as shown, mean and standard deviation."""
    rows = []
    for name in NORMALIZATIONS:
        row: list[str] = [name]
        for measure in ("overlap", "kl"):
            v = numbers["normalisation"][measure][name]
            row += [f"{v['shown']:.3f}", f"{v['mean']:.3f} ± {v['sd']:.3f}"]
        rows.append(row)
    return Table("", ("", "overlap", "mean ± sd", "KL", "mean ± sd"), rows)


def _show_geometry(numbers: Numbers, matrices: Matrices) -> Section:
    """Return section 3: overlaps of normalised and geometric matrices, and how they depend on the cell width."""
    g = numbers["geometry"]
    table = figures.draw_overlap_table(
        [[g["overlap_table"][a][b]["mean"] for b in NORMALIZATIONS] for a in NORMALIZATIONS], NORMALIZATIONS
    )
    shown = {
        "Errors, bi-normalised": (
            f"{100 * (1 - g['missing_mass_bi']):.1f} % of the mass has pictures",
            matrices["weighted_bi"],
        ),
        "Clouds, weighted by bi": (f"overlap {g['matched']['bi']['overlap']['shown']:.3f}", matrices["gcm_bi"]),
    }
    by = g["by_width"]
    curve = charts.draw_lines(
        [f"{w['factor']:g}" for w in by],
        {name: [w["null" if name == "permuted" else name] for w in by] for name in CURVE_COLOURS},
        CURVE_COLOURS,
        title="The width of the cells decides (bi)",
        x_title="cell width, in units of Scott's rule",
    )
    widths = Table(
        "",
        ("width", "cells", "overlap", "guaranteed", "permuted", "origin"),
        [(f"{w['factor']:g}", f"{w['cells']:,}", *(f"{w[key]:.3f}" for key in WIDTH_COLUMNS)) for w in by],
    )
    said = (
        f"The hidden layer of the network places every picture as a point. The {g['points']:,} test points are "
        f"projected on their {numbers['settings']['components']} main axes, that space is cut into cells by Scott's "
        "rule, and in every cell we see how much of a true class and of a predicted class is there: the overlap of "
        "these clouds is the geometric confusion matrix."
    )
    framed: list[Part] = [
        _pair(
            table, figures.draw_guaranteed_parts(g["matched"]), sentences.geometry(numbers), sentences.decided(numbers)
        ),
        _maps(shown, sentences.clouds(numbers)),
        _pair(curve, widths, sentences.widths(numbers)),
    ]
    return Section("3. Does the matrix show how the classes lie?", [said, *framed])


def _show_bootstrap(numbers: Numbers, matrices: Matrices) -> Section:
    """Return section 4: intervals of the largest confusions, and the outcome and speed of the bootstrap."""
    b, timings = numbers["bootstrap"], numbers["timings"]
    bi, truth = matrices["imbalanced_bi"], matrices["balanced"] / matrices["balanced"].sum(axis=1, keepdims=True)
    size = len(bi)
    largest = np.argsort(-np.where(np.eye(size, dtype=bool), -1.0, bi), axis=None, kind="stable")[:SHOWN_PAIRS]
    shown = [matrices["bi_low"], bi, matrices["bi_high"], truth]
    shown += [matrices["bi_low_without_draws"], matrices["bi_high_without_draws"]]
    rows = [
        (f"{i} taken for {j}", [float(values[i, j]) for values in shown])
        for i, j in (divmod(int(k), size) for k in largest)
    ]
    facts = [
        ("Matrices", f"{b['resamples']:,}"),
        ("Time to bi-normalise them", format_seconds(timings["bootstrap_bi_normalising"])),
        ("Matrices per second", f"{timings['bootstrap_matrices_per_second']:,.0f}"),
        ("Outcome", sentences.statuses(numbers)),
        ("Largest residual (asked)", f"{b['largest_residual']:.1e} ({numbers['settings']['tol']:.0e})"),
        ("Passes over a matrix, mean", f"{b['mean_passes']:.1f}"),
        ("Width of an interval, median", f"{100 * b['median_interval_width']:.1f} %"),
        ("The same without draws: time", f"{1000 * timings['intervals_without_draws']:.2g} ms"),
        ("... width, in that of the drawn", f"{b['median_width_ratio_without_draws']:.2f}"),
        ("Truth inside the interval", f"{100 * b['balanced_inside_interval']:.0f} % of the confusions"),
    ]
    picture = figures.draw_intervals(rows, title=f"The {SHOWN_PAIRS} largest confusions")
    return Section("4. How sure are the numbers?", [_pair(picture, Table("", (), facts), sentences.bootstrap(numbers))])
