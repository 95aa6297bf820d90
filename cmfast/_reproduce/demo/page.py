"""The report as one self-contained page: nothing is fetched, so it can be mailed and kept."""

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._core.markup import escape_prose
from cmfast._pages import parts
from cmfast._reproduce.demo import figures, words

Numbers = dict[str, Any]
Matrices = Mapping[str, np.ndarray]

SET_COLOURS = {"imbalanced training": "#7c9bd6", "imbalanced test": "#2457c5", "balanced": "#ccd2db"}
WIDTH_COLUMNS = ("overlap", "guaranteed", "null", "origin_spread")
CURVE_COLOURS = {"overlap": "#2457c5", "guaranteed": "#8aa6e0", "permuted": "#c0322b"}
SHOWN_PAIRS = 12


def whole(numbers: Numbers, matrices: Matrices) -> str:
    """Return the page."""
    sections = (_head, _data, _normalisation, _geometry, _bootstrap, _foot)
    body = "".join(section(numbers, matrices) for section in sections)
    return parts.document("cmfast demo", body, dark=False)


def _maps(shown: dict[str, tuple[str, np.ndarray]]) -> str:
    """Return heatmaps on one common scale; every matrix is scaled so that its mean row sum is one."""
    scaled = {title: (text, S * (len(S) / S.sum())) for title, (text, S) in shown.items()}
    off = ~np.eye(len(next(iter(scaled.values()))[1]), dtype=bool)
    # The few largest cells may saturate: with them as the end of the scale, all others would look empty.
    top = float(np.ceil(20 * np.quantile([S[off] for _, S in scaled.values()], 0.98)) / 20)
    maps = [figures.heatmap(S, title=title, subtitle=text, off_diagonal_max=top) for title, (text, S) in scaled.items()]
    cells = "".join(f"<div>{picture}</div>" for picture in maps)
    return f'<div class="maps">{cells}<div class="legend">{figures.heat_legend(top)}</div></div>'


def _head(numbers: Numbers, matrices: Matrices) -> str:
    overlap, geometry = numbers["normalisation"]["overlap"], numbers["geometry"]["matched"]["bi"]
    timings, repeats = numbers["timings"], numbers["settings"]["repeats"]
    rival, took = words.best_but(overlap, "bi"), words.seconds(timings["bootstrap_bi_normalising"])
    facts = [
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
    return (
        "<header><h1>Which classes does a network really confuse?</h1>"
        '<p class="lead">A confusion matrix mixes two things: which classes look alike to a network, and which are '
        "merely frequent. Bi-normalisation divides the second one out. Here it is put to the test on real handwritten "
        "digits: one network learns from an imbalanced set, its twin from a balanced one, and we ask which way of "
        "normalising the first one's matrix comes closest to the second one's.</p>"
        f"{parts.facts(facts)}<p>{escape_prose(words.level(numbers))} <code>{words.REPRODUCTION}</code>.</p></header>"
    )


def _data(numbers: Numbers, matrices: Matrices) -> str:
    samples = numbers["samples"]
    sizes = {
        "imbalanced training": samples["imbalanced_train"],
        "imbalanced test": samples["imbalanced_test"],
        "balanced": samples["balanced_test"],
    }
    bars = figures.class_sizes(sizes, SET_COLOURS, "Pictures per class")
    pictures = figures.pictures(matrices["pictures"], "One picture of each class")
    return f"<h2>1. The data</h2>{parts.figure(parts.two(bars, pictures), words.data(numbers))}"


def _normalisation(numbers: Numbers, matrices: Matrices) -> str:
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
    overlap_bars = figures.bars(
        overlap,
        title="Overlap with the balanced truth",
        subtitle=f"higher is better; mean of {repeats} ± one sd, dot: the one shown above",
        limit=1.0,
        best=words.best_of(overlap, largest=True),
    )
    kl_bars = figures.bars(
        kl,
        title="Distance from the balanced truth",
        subtitle=f"lower is better; Kullback-Leibler, nats, all matrices + {eps:g}",
        limit=float(np.ceil(2 * max(v["mean"] + v["sd"] for v in kl.values())) / 2),
        best=words.best_of(kl, largest=False),
    )
    return (
        "<h2>2. Four ways to normalise one matrix</h2>"
        + parts.figure(_maps(shown), words.matrices(numbers))
        + parts.figure(parts.two(overlap_bars, kl_bars), f"{words.verdict(numbers)} {words.divergence(numbers)}")
        + parts.figure(parts.two(_smoothing_curve(numbers), _normalisation_table(numbers)), words.smoothing(numbers))
    )


def _smoothing_curve(numbers: Numbers) -> str:
    overlap, others = numbers["normalisation"]["overlap"], numbers["normalisation"]["overlap_by_smoothing"]
    rival = words.best_but(overlap, "bi")
    return figures.lines(
        list(others),
        {"bi": list(others.values()), rival: [overlap[rival]["mean"]] * len(others)},
        figures.METHOD_COLOURS,
        title="Overlap by smoothing constant",
        x_title="added to every cell before bi-normalising",
        lowest=0.5,
    )


def _normalisation_table(numbers: Numbers) -> str:
    rows = []
    for name in NORMALIZATIONS:
        row: list[str] = [name]
        for measure in ("overlap", "kl"):
            v = numbers["normalisation"][measure][name]
            row += [f"{v['shown']:.3f}", f"{v['mean']:.3f} ± {v['sd']:.3f}"]
        rows.append(row)
    return parts.table(("", "overlap", "mean ± sd", "KL", "mean ± sd"), rows)


def _geometry(numbers: Numbers, matrices: Matrices) -> str:
    g = numbers["geometry"]
    table = figures.overlap_table(
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
    curve = figures.lines(
        [f"{w['factor']:g}" for w in by],
        {name: [w["null" if name == "permuted" else name] for w in by] for name in CURVE_COLOURS},
        CURVE_COLOURS,
        title="The width of the cells decides (bi)",
        x_title="cell width, in units of Scott's rule",
    )
    widths = parts.table(
        ("width", "cells", "overlap", "guaranteed", "permuted", "origin"),
        [(f"{w['factor']:g}", f"{w['cells']:,}", *(f"{w[key]:.3f}" for key in WIDTH_COLUMNS)) for w in by],
    )
    return (
        "<h2>3. Does the matrix show how the classes lie?</h2>"
        f"<p>The hidden layer of the network places every picture as a point. The {g['points']:,} test points are "
        f"projected on their {numbers['settings']['components']} main axes, that space is cut into cells by Scott's "
        "rule, and in every cell we see how much of a true class and of a predicted class is there: the overlap of "
        "these clouds is the geometric confusion matrix.</p>"
        + parts.figure(parts.two(table, figures.decided(g["matched"])), words.geometry(numbers), words.decided(numbers))
        + parts.figure(_maps(shown), words.clouds(numbers))
        + parts.figure(parts.two(curve, widths), words.widths(numbers))
    )


def _bootstrap(numbers: Numbers, matrices: Matrices) -> str:
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
        ("Time to bi-normalise them", words.seconds(timings["bootstrap_bi_normalising"])),
        ("Matrices per second", f"{timings['bootstrap_matrices_per_second']:,.0f}"),
        ("Outcome", words.statuses(numbers)),
        ("Largest residual (asked)", f"{b['largest_residual']:.1e} ({numbers['settings']['tol']:.0e})"),
        ("Passes over a matrix, mean", f"{b['mean_passes']:.1f}"),
        ("Width of an interval, median", f"{100 * b['median_interval_width']:.1f} %"),
        ("The same without draws: time", f"{1000 * timings['intervals_without_draws']:.2g} ms"),
        ("... width, in that of the drawn", f"{b['median_width_ratio_without_draws']:.2f}"),
        ("Truth inside the interval", f"{100 * b['balanced_inside_interval']:.0f} % of the confusions"),
    ]
    picture = figures.intervals(rows, title=f"The {SHOWN_PAIRS} largest confusions")
    both = parts.two(picture, parts.table((), facts))
    return f"<h2>4. How sure are the numbers?</h2>{parts.figure(both, words.bootstrap(numbers))}"


def _foot(numbers: Numbers, matrices: Matrices) -> str:
    timings = numbers["timings"]
    stages = [
        f"{name.replace('_', ' ')} {words.seconds(value)}"
        for name, value in timings.items()
        if not name.endswith("per_second")
    ]
    return (
        f"<footer><h2>How this was made</h2><p>{escape_prose(words.making(numbers))}</p>"
        f"<p>The same again: <code>cmfast demo --seed {numbers['seed']}</code>. All numbers are in "
        "<code>results.json</code>, all matrices in <code>matrices.npz</code>, beside this file.</p>"
        f"<p>Time: {escape_prose(', '.join(stages))}.</p>"
        f"<p>cmfast {cmfast.__version__}, Python {platform.python_version()}, NumPy {np.__version__}. Method: Erbani "
        "et al., On the Normalization of Confusion Matrices: Methods and Geometric Interpretations, sections 5 and 6. "
        "Data: the digits that come with scikit-learn (UCI, optical recognition of handwritten digits).</p></footer>"
    )
