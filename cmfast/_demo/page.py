"""The report as one self-contained page: nothing is fetched, so it can be mailed and kept."""

import platform
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._demo import figures, words

Numbers = dict[str, Any]
Matrices = Mapping[str, np.ndarray]

SET_COLOURS = {"imbalanced training": "#7c9bd6", "imbalanced test": "#2457c5", "balanced": "#ccd2db"}
WIDTH_COLUMNS = ("overlap", "guaranteed", "null", "origin_spread")
CURVE_COLOURS = {"overlap": "#2457c5", "guaranteed": "#8aa6e0", "permuted": "#c0322b"}
SHOWN_PAIRS = 12

STYLE = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{margin:0;background:#f6f7f9;color:#1c2430;
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:36px 20px 60px}
h1{font-size:30px;line-height:1.2;margin:0 0 8px;letter-spacing:-.4px}
h2{font-size:21px;margin:44px 0 6px;letter-spacing:-.2px}
p{margin:6px 0 12px;max-width:74ch}
.lead{font-size:17.5px;color:#39424f}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(215px,1fr));gap:14px;margin:24px 0 8px}
.fact{background:#fff;border:1px solid #e3e7ed;border-radius:10px;padding:14px 16px}
.fact b{display:block;font-size:25px;line-height:1.25;letter-spacing:-.4px}
.fact span{font-size:13.5px;line-height:1.4;color:#5d6878;display:block}
figure{background:#fff;border:1px solid #e3e7ed;border-radius:10px;margin:14px 0;padding:18px 18px 12px}
figcaption{margin-top:14px;border-top:1px solid #eceff3;padding-top:8px;font-size:15px;color:#39424f}
figcaption p{max-width:96ch;margin:4px 0}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(290px,100%),1fr));gap:16px 22px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:20px 36px}
svg{display:block;width:100%;height:auto;font-family:inherit}
.legend{align-self:center}
table{border-collapse:collapse;font-size:14px;width:100%}
th,td{padding:5px 10px;text-align:right;border-bottom:1px solid #eceff3;font-variant-numeric:tabular-nums;
white-space:nowrap}
th:first-child,td:first-child{text-align:left}
th{color:#5d6878;font-weight:600}
.wide{overflow-x:auto}
code{font:14px ui-monospace,"Liberation Mono",Menlo,monospace;background:#eceff3;border-radius:4px;padding:1px 5px}
footer{margin-top:44px;font-size:13.5px;color:#5d6878}
@media(max-width:560px){main{padding:22px 12px 40px}h1{font-size:24px}figure{padding:14px 12px 10px}
th,td{padding:5px 6px;font-size:13px}}
"""


def whole(numbers: Numbers, matrices: Matrices) -> str:
    """Return the page."""
    sections = (_head, _data, _normalisation, _geometry, _bootstrap, _foot)
    body = "".join(section(numbers, matrices) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>cmfast demo</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _figure(pictures: str, *paragraphs: str) -> str:
    caption = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    return f"<figure>{pictures}<figcaption>{caption}</figcaption></figure>"


def _two(left: str, right: str) -> str:
    return f'<div class="two"><div>{left}</div><div class="wide">{right}</div></div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{first}{body}</table>"


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
    rival = words.best_but(overlap, "bi")
    facts = {
        f"{overlap['bi']['mean']:.2f} vs {overlap[rival]['mean']:.2f}": (
            f"overlap with the balanced truth, bi against {rival}, the next best; mean of {repeats} repetitions"
        ),
        f"{overlap['bi']['best_in']} of {repeats}": "repetitions in which bi comes closest of all four",
        f"{geometry['guaranteed']['mean']:.2f} of {geometry['overlap']['mean']:.2f}": (
            "of the overlap with the geometric matrix was guaranteed before looking"
        ),
        f"{timings['bootstrap_matrices_per_second']:,.0f} /s": (
            f"bi-normalised: {numbers['bootstrap']['resamples']:,} matrices in "
            f"{words.seconds(timings['bootstrap_bi_normalising'])}"
        ),
    }
    cards = "".join(
        f'<div class="fact"><b>{escape(value)}</b><span>{escape(text)}</span></div>' for value, text in facts.items()
    )
    return (
        "<header><h1>Which classes does a network really confuse?</h1>"
        '<p class="lead">A confusion matrix mixes two things: which classes look alike to a network, and which are '
        "merely frequent. Bi-normalisation divides the second one out. Here it is put to the test on real handwritten "
        "digits: one network learns from an imbalanced set, its twin from a balanced one, and we ask which way of "
        "normalising the first one's matrix comes closest to the second one's.</p>"
        f'<div class="facts">{cards}</div></header>'
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
    return f"<h2>1. The data</h2>{_figure(_two(bars, pictures), words.data(numbers))}"


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
        + _figure(_maps(shown), words.matrices(numbers))
        + _figure(_two(overlap_bars, kl_bars), f"{words.verdict(numbers)} {words.divergence(numbers)}")
        + _figure(_two(_smoothing_curve(numbers), _normalisation_table(numbers)), words.smoothing(numbers))
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
    return _table(("", "overlap", "mean ± sd", "KL", "mean ± sd"), rows)


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
    widths = _table(
        ("width", "cells", "overlap", "guaranteed", "permuted", "origin"),
        [(f"{w['factor']:g}", f"{w['cells']:,}", *(f"{w[key]:.3f}" for key in WIDTH_COLUMNS)) for w in by],
    )
    return (
        "<h2>3. Does the matrix show how the classes lie?</h2>"
        f"<p>The hidden layer of the network places every picture as a point. The {g['points']:,} test points are "
        f"projected on their {numbers['settings']['components']} main axes, that space is cut into cells by Scott's "
        "rule, and in every cell we see how much of a true class and of a predicted class is there: the overlap of "
        "these clouds is the geometric confusion matrix.</p>"
        + _figure(_two(table, figures.decided(g["matched"])), words.geometry(numbers), words.decided(numbers))
        + _figure(_maps(shown), words.clouds(numbers))
        + _figure(_two(curve, widths), words.widths(numbers))
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
    return f"<h2>4. How sure are the numbers?</h2>{_figure(_two(picture, _table((), facts)), words.bootstrap(numbers))}"


def _foot(numbers: Numbers, matrices: Matrices) -> str:
    timings = numbers["timings"]
    stages = [
        f"{name.replace('_', ' ')} {words.seconds(value)}"
        for name, value in timings.items()
        if not name.endswith("per_second")
    ]
    return (
        f"<footer><h2>How this was made</h2><p>{escape(words.making(numbers))}</p>"
        f"<p>The same again: <code>cmfast demo --seed {numbers['seed']}</code>. All numbers are in "
        "<code>results.json</code>, all matrices in <code>matrices.npz</code>, beside this file.</p>"
        f"<p>Time: {escape(', '.join(stages))}.</p>"
        f"<p>cmfast {cmfast.__version__}, Python {platform.python_version()}, NumPy {np.__version__}. Method: Erbani "
        "et al., On the Normalization of Confusion Matrices: Methods and Geometric Interpretations, sections 5 and 6. "
        "Data: the digits that come with scikit-learn (UCI, optical recognition of handwritten digits).</p></footer>"
    )
