"""Pictures and tables of the page: figures 3 to 6 of the paper, and additional tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import cmfast
from cmfast._core.annotations import NORMALIZATIONS
from cmfast._pages import charts
from cmfast._pages.parts import Picture, Section, Table
from cmfast._pages.pictures import make_picture
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce._reproduction import make_figure_section
from cmfast._reproduce.normalization import properties
from cmfast._reproduce.normalization.data import LEVELS
from cmfast._reproduce.normalization.stripes import find_nearest_level, measure_stripes
from cmfast._reproduce.normalization.training import OF_STOPS, NormalizationSettings

Numbers = dict[str, Any]
OF_WEIGHTED = {"W o M": "overlap", "guaranteed": "guaranteed", "permuted": "null"}


def lay_out_sections(
    first: Numbers, second: Numbers, matrices: tuple[np.ndarray, np.ndarray], settings: NormalizationSettings
) -> list[Section]:
    """Return the sections of the page."""
    stop, eps = settings.stops[0], f"{settings.smoothings[0]:g}"
    axes = f"{settings.components[0]} axes"
    divergence = max(
        level["kl"][m]["mean"] for each in first.values() for level in each[stop][eps] for m in NORMALIZATIONS
    )
    return [
        *properties.sections(settings),
        make_figure_section(
            "Experiment 1: the overlap with the balanced matrix (Fig. 3a)",
            [
                _draw_levels(f"recovered_{name}", name, _collect_means(found[stop][eps], "overlap"), 1.0)
                for name, found in first.items()
            ],
            [f"From left to right more heterogeneous: {', '.join(LEVELS.values())}. Of {OF_STOPS[stop]}."],
            ["The ceiling of bi, below one, is what it reaches where the matrix is the balanced one already."],
        ),
        make_figure_section(
            "The same by KL divergence (Fig. 6)",
            [
                _draw_levels(
                    f"divergence_{name}",
                    name,
                    _collect_means(found[stop][eps], "kl"),
                    float(np.ceil(2 * divergence) / 2),
                )
                for name, found in first.items()
            ],
            [f"In nats, lower is better; all matrices + {eps}, or an empty cell would make it infinite."],
        ),
        make_figure_section(
            "The same in numbers",
            [_tabulate_recovery(first, s, e) for s in settings.stops for e in first[next(iter(first))][s]],
        ),
        make_figure_section(
            "One instance (Fig. 4)",
            _draw_instance(list(first), matrices, settings),
            after=["Stripes: share of the variance of errors that the row and the column alone explain."],
        ),
        make_figure_section(
            "Experiment 2: the overlap with geometric matrices (Figs. 3b, 3c and 5)",
            [
                _draw_levels(
                    f"clouds_{name}_{g}", f"{name}: {g}", _collect_cloud_overlaps(found[axes][eps]["levels"], g), 1.0
                )
                for name, found in second.items()
                for g in NORMALIZATIONS
            ],
            after=[
                "Guaranteed and permuted: what sparse cells and mere occupancy give of W o M, counts times weights.",
                "That is the normalisation itself, but for bi, which has a constant where there are no counts.",
                "The constant may grow so large that bi lies below what is guaranteed of W o M.",
            ],
        ),
        make_figure_section("The same in numbers, with their own normalisation", _tabulate_geometry(second)),
    ]


def _collect_means(levels: list[Numbers], key: str) -> dict[str, dict[str, float]]:
    """Return the mean of measure `key` by alpha and normalisation; for the overlap also the ceiling of bi."""
    ceiling = {"overlap": "ceiling of bi"}.get(key)
    return {
        f"{level['alpha']:g}": {m: float(level[key][m]["mean"]) for m in NORMALIZATIONS}
        | ({ceiling: float(level["ceiling"]["bi"])} if ceiling else {})
        for level in levels
    }


def _collect_cloud_overlaps(levels: list[Numbers], g: str) -> dict[str, dict[str, float]]:
    """Return by alpha the overlaps of every normalisation with the geometric matrix of `g`, and their baselines."""
    return {
        f"{level['alpha']:g}": {m: float(v) for m, v in level["normalised"][g]["overlap"].items()}
        | {said: float(level["matched"][g][key]) for said, key in OF_WEIGHTED.items() if g == "bi" or key != "overlap"}
        for level in levels
    }


def _draw_levels(name: str, title: str, values: dict[str, dict[str, float]], highest: float) -> Picture:
    """Draw lines of `values` over alpha, one for each series."""
    series: dict[str, Sequence[float]] = {
        m: [level[m] for level in values.values()] for m in next(iter(values.values()))
    }
    colours = charts.METHOD_COLOURS | {
        "ceiling of bi": "#8aa6e0",
        "W o M": "#10182b",
        "guaranteed": "#8aa6e0",
        "permuted": "#c0322b",
    }
    image = charts.draw_lines(
        list(values), series, colours, title=title, x_title="concentration alpha", highest=highest
    )
    return make_picture(name, image, {"by_alpha": values})


def _tabulate_recovery(first: Numbers, stop: str, eps: str) -> Table:
    """Return the table of experiment 1 at one stop and smoothing: a row for each data set and alpha."""
    rows = []
    for name, found in first.items():
        for level in found[stop][eps]:
            rival = level["overlap_of_bi_against_best"]
            row = [f"{name}, {level['alpha']:g}", *(f"{level['overlap'][m]['mean']:.3f}" for m in NORMALIZATIONS)]
            row += [
                f"{level['ceiling']['bi']:.3f}",
                paired.format_interval_of_mean(rival),
            ]
            row += [f"{level['kl'][m]['mean']:.3f}" for m in NORMALIZATIONS]
            row += [f"{100 * level['effective_share']['bi']:.1f} %", f"{level['variance_of_weights']['bi']:.1f}"]
            rows.append(row)
    head = ["data, alpha", *NORMALIZATIONS, "ceiling of bi", "bi less best other", *(f"KL {m}" for m in NORMALIZATIONS)]
    head += ["effective share, bi", "variance of weights, bi"]
    return Table(f"Of {OF_STOPS[stop]}; M + {eps} before bi", head, rows)


def _draw_instance(
    names: list[str], matrices: tuple[np.ndarray, np.ndarray], settings: NormalizationSettings
) -> list[Picture]:
    """Draw one balanced matrix, and the four normalisations of an imbalanced one, with their overlaps and stripes."""
    truth, skewed = (M[0, 0] for M in matrices)
    k = find_nearest_level(settings)
    M1, M2 = truth[0], skewed[k, 0]
    shown: dict[str, np.ndarray] = {"balanced": M1}
    for m in NORMALIZATIONS:
        smooth: dict[str, Any] = {"smoothing": settings.smoothings[0]} if m == "bi" else {}
        shown[m] = cmfast.normalize(M2, m, **smooth)
    out = []
    for title, S in shown.items():
        striped = f"stripes {float(measure_stripes(S)):.2f}"
        text = f"{names[0]}, alpha {settings.levels[k]:g}: overlap {float(cmfast.overlap(S, M1)):.3f}, {striped}"
        image = charts.draw_heatmap(S * (len(S) / S.sum()), title=title, subtitle=text, off_diagonal_max=0.25)
        out.append(make_picture(f"instance_{title}", image, {"matrix": S}))
    return out


def _tabulate_geometry(second: Numbers) -> list[Table]:
    """Return a table of experiment 2 for each number of axes and smoothing: overlaps of bi by data set and alpha."""
    head = [
        "data, alpha",
        "norm(M)",
        "W o M",
        "guaranteed",
        "permuted",
        "pattern",
        "its null",
        "missing mass",
        "unmixed",
    ]
    out = []
    for axes, found in next(iter(second.values())).items():
        for eps in found:
            rows = []
            for name in second:
                for level in second[name][axes][eps]["levels"]:
                    bi, own = level["matched"]["bi"], level["normalised"]["bi"]["overlap"]["bi"]
                    values = [own, *(bi[key] for key in ("overlap", "guaranteed", "null", "pattern", "pattern_null"))]
                    values += [level["missing_mass_bi"], level["unmixed"]]
                    rows.append([f"{name}, {level['alpha']:g}", *(f"{v:.3f}" for v in values)])
            out.append(Table(f"bi, {axes}, M + {eps}", head, rows))
    return out
