"""Draw the small picture of each page that the indexes of the site show, when the site is built."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import cmfast
from cmfast import metrics, uncertainty

HERE = Path(__file__).parent
FOLDER = HERE / "thumbnails"
SIZE = 360, 180
BLUE, ORANGE, GREY = "#2a6fbb", "#e08214", "#9aa4ae"
M = np.array([[60, 9, 3, 1], [14, 70, 2, 4], [2, 3, 45, 12], [1, 2, 9, 30]])
UNEQUAL = M * np.array([9, 1, 4, 1])[:, None]

# Parts of pictures that pages show already: left, top, right and bottom, as shares of the picture.
PARTS = {
    "conformal": ("conformal.png", (0.0, 0.0, 0.46, 1.0)),
    "contingency": ("surfaces.png", (0.0, 0.0, 0.5, 0.5)),
    "coverage": ("coverage.png", (0.0, 0.0, 0.6, 0.5)),
    "displays": ("displays_orders.png", (0.5, 0.0, 1.0, 1.0)),
    "geometry": ("lengths.png", (0.0, 0.0, 1.0, 1.0)),
    "gradients": ("gradients.png", (0.0, 0.0, 0.48, 1.0)),
    "report": ("report.png", (0.0, 0.0, 1.0, 0.4)),
    "reproduced": ("reproduced.png", (0.0, 0.0, 1.0, 1.0)),
    "rivals": ("rivals.png", (0.0, 0.0, 1.0, 0.5)),
    "simulated_teams": ("simulated_teams.png", (0.0, 0.0, 1.0, 1.0)),
    "cuda": ("cuda.png", (0.0, 0.0, 1.0, 0.6)),
    "reference-cmfast.uncertainty": ("uncertainty_intervals.png", (0.0, 0.0, 1.0, 1.0)),
    "reference-cmfast.conformal": ("conformal.png", (0.0, 0.0, 0.46, 1.0)),
    "reference-cmfast.contingency": ("surfaces.png", (0.0, 0.0, 0.5, 0.5)),
    "reference-cmfast.display": ("displays_orders.png", (0.5, 0.0, 1.0, 1.0)),
    "uncertainty": ("uncertainty_intervals.png", (0.0, 0.0, 1.0, 1.0)),
    "paired": ("uncertainty_paired.png", (0.0, 0.0, 1.0, 1.0)),
}


def grids(*matrices: object) -> Callable:
    """Return a function that draws matrices side by side, the larger a cell the darker."""

    def draw(figure) -> None:
        for ax, each in zip(np.atleast_1d(figure.subplots(1, len(matrices))), matrices, strict=True):
            ax.imshow(np.ma.masked_equal(each, 0), cmap="Blues", vmin=0)

    return draw


def bars(values: object, colors: object = BLUE, *, log: bool = False, labels: tuple[str, ...] = ()) -> Callable:
    """Return a function that draws horizontal bars, the first on top."""

    def draw(figure) -> None:
        ax = figure.subplots()
        ax.barh(np.arange(len(values)), values, color=colors, log=log)
        for k, label in enumerate(labels):
            ax.text(ax.get_xlim()[0], k, f" {label}", va="center", color="white", fontweight="bold")
        ax.invert_yaxis()

    return draw


def curve(y: object) -> Callable:
    """Return a function that draws a curve."""

    def draw(figure) -> None:
        figure.subplots().plot(y, color=BLUE, linewidth=3)

    return draw


def words(text: str) -> Callable:
    """Return a function that draws text."""
    return lambda figure: figure.text(0.5, 0.5, text, ha="center", va="center", fontsize=17, color=BLUE)


def points(figure) -> None:
    """Draw points of three classes on a grid."""
    rng, ax = np.random.default_rng(0), figure.subplots()
    for x, color in zip((0, 1.6, 3.2), (BLUE, ORANGE, GREY), strict=True):
        ax.scatter(*rng.normal([x, x % 3], 0.7, (120, 2)).T, s=7, color=color)
    ax.set(xticks=np.arange(-2, 6, 0.7), yticks=np.arange(-2, 4, 0.7))
    ax.grid(visible=True, linewidth=0.6)


def boxes(figure) -> None:
    """Draw true boxes, and predictions next to two of them and elsewhere."""
    ax = figure.subplots()
    for color, style, places in (
        (BLUE, "-", ((0, 0), (5, 1), (2, 6))),
        (ORANGE, "--", ((0.6, 0.4), (4.6, 1.5), (8, 6))),
    ):
        for x, y in places:
            ax.plot([x, x + 3, x + 3, x, x], [y, y, y + 3, y + 3, y], style, color=color, linewidth=2)


def margins(figure) -> None:
    """Draw a table with the totals of its rows and columns."""
    axes = figure.subplots(
        2, 2, width_ratios=(4, 1), height_ratios=(1, 3), gridspec_kw={"wspace": 0.05, "hspace": 0.05}
    )
    table = np.random.default_rng(1).uniform(1, 9, (5, 12))
    axes[0, 0].bar(np.arange(12), table.sum(0), color=ORANGE)
    axes[1, 1].barh(np.arange(5), table.sum(1), color=ORANGE)
    axes[1, 0].imshow(table, cmap="Blues", aspect="auto", vmin=0)
    axes[0, 1].set_visible(False)


def surveys(figure) -> None:
    """Draw survey weights before and after raking."""
    rng, ax = np.random.default_rng(0), figure.subplots()
    age, region = rng.integers(0, 3, 3000), rng.integers(0, 4, 3000)
    before = rng.uniform(0.5, 1.5, 3000)
    after = cmfast.rake([age, region], [(0, [900, 1500, 600]), (1, [1200, 500, 900, 400])], weights=before).weights
    ax.hist([before, after], bins=24, color=[GREY, BLUE], histtype="stepfilled", alpha=0.7)


def _epochs() -> list[np.ndarray]:
    return [np.eye(5) * k + 3.0 / (1 + k) for k in (0.3, 1.5, 4.0)]


def _contacts() -> np.ndarray:
    near = 1.0 / (1 + np.abs(np.subtract.outer(np.arange(60), np.arange(60))))
    bias = np.exp(np.random.default_rng(3).normal(0, 0.5, 60))
    return near * bias * bias[:, None]


def _balanced() -> np.ndarray:
    return cmfast.bi_normalize(_contacts())


def _scores(names: tuple[str, ...]) -> list[float]:
    return [float(value) for value in metrics.compute(M, list(names)).values()]


def _errors() -> list[float]:
    """Return standard errors of a metric for ever more samples."""
    return [float(uncertainty.standard_error(M, "mcc", n=n)) for n in range(50, 1000, 50)]


def _times_ours() -> list[float]:
    """Return how many times our time rivals took for a job of the newest benchmark."""
    newest = sorted((HERE.parent / "benchmarks" / "results").glob("*-quick-scaling.json"))[-1]
    jobs = json.loads(newest.read_text(encoding="utf-8"))["jobs"]
    return sorted(rival["ratio"] for job in jobs if job["job"] == "bi 0.9" for rival in job["rivals"])


USUAL = ("accuracy", "balanced_accuracy", "f1_macro", "mcc", "kappa")
DRAWN: dict[str, Callable] = {
    "guide": margins,
    "howto-many_matrices": grids(*np.random.default_rng(2).gamma(0.4, 1.0, (5, 4, 4))),
    "howto-raters": bars(_scores(("gwet_ac1", "kappa", "scott_pi", "kappa_linear")), [GREY, BLUE, GREY, BLUE]),
    "detection": boxes,
    "reference-cmfast.detection": boxes,
    "agreement": bars((0.62, 0.58, 0.71, 0.6), (BLUE, GREY, ORANGE, GREY)),
    "multilabel": grids((np.random.default_rng(3).random((9, 12)) < 0.3).astype(float)),
    "groups": bars((0.9, 0.78, 0.86, 0.83), (GREY, ORANGE, BLUE, GREY)),
    "reference-cmfast.agreement": bars((0.62, 0.58, 0.71, 0.6), (BLUE, GREY, ORANGE, GREY)),
    "jax": words("jit(grad(loss))"),
    "stability": words("1.0 → 1.1 → 2.0"),
    "security": words("read, never run"),
    "howto-epochs": grids(*_epochs()),
    "howto-trackers": words("run.log(counts)"),
    "howto-groups": grids(np.random.default_rng(0).beta(8, 2, (6, 14))),
    "howto-class_shares": grids(M, cmfast.normalize(M, "row") * np.array([[70], [10], [10], [10]])),
    "howto-two_models": grids(M, M + 4 * np.eye(4)[::-1]),
    "howto-embeddings": points,
    "howto-large_files": grids(*np.array_split(np.random.default_rng(5).gamma(0.5, 1.0, (8, 12)), 3, axis=1)),
    "howto-engines": words("part + part + part"),
    "howto-federated": grids(M // 3, M // 2, M),
    "howto-coming_from": words("ipfn  →  ipf_nd\nsklearn  →  cmfast"),
    "howto-surveys": surveys,
    "howto-populations": grids(np.random.default_rng(4).poisson(0.5, (10, 30))),
    "howto-contact_maps": grids(_contacts() ** 0.4, _balanced() ** 0.4),
    "howto-input_output": margins,
    "counts": grids(UNEQUAL),
    "metrics": bars(_scores(USUAL), labels=USUAL),
    "metrics_table": words("accuracy  mcc  kappa\nf1  tau  gerrity ..."),
    "zeros": grids([[9, 1, 0, 0], [0, 8, 0, 0], [0, 0, 7, 2], [0, 3, 1, 6]]),
    "tables": margins,
    "glossary": words("A to Z"),
    "sizes": words("one call, one file,\nDask, Spark"),
    "dask": grids(*np.random.default_rng(6).gamma(0.5, 1.0, (4, 3, 3))),
    "dask_limits": words("1,000 workers"),
    "thread_safety": words("any number of threads,\nthe same bits"),
    "first_calls": words("the first call"),
    "compat": words("sklearn.patch()"),
    "benchmarks": bars(_times_ours(), GREY, log=True),
    "scaling_proof": words("verdicts beside\nexact arithmetic"),
    "paired_sizes": curve(_errors()),
    "errata": words("printed  →  correct"),
    "support": words("NumPy  torch  CuPy\nDask  xarray"),
    "reference-cmfast": grids(UNEQUAL, cmfast.bi_normalize(UNEQUAL)),
    "reference-cmfast.metrics": bars(_scores(USUAL), labels=USUAL),
    "reference-cmfast.results": words("isinstance(result, ...)"),
    "reference-cmfast.nn": words("loss.backward()"),
    "reference-cmfast.compat.sklearn": words("sklearn.patch()"),
    "reference-cmfast.compat.torchmetrics": words("MetricCollection"),
}


def write() -> None:
    """Draw those that are missing or older than this file."""
    from matplotlib.figure import Figure  # noqa: TID251
    from PIL import Image

    FOLDER.mkdir(exist_ok=True)
    for name in sorted(PARTS.keys() | DRAWN.keys()):
        path = FOLDER / f"{name}.png"
        if path.exists() and path.stat().st_mtime > Path(__file__).stat().st_mtime:
            continue
        if name in PARTS:
            source, (left, top, right, bottom) = PARTS[name]
            whole = Image.open(HERE / source).convert("RGB")
            width, height = whole.size
            part = whole.crop((int(left * width), int(top * height), int(right * width), int(bottom * height)))
            part.thumbnail(SIZE)
            card = Image.new("RGB", SIZE, "white")
            card.paste(part, tuple((a - b) // 2 for a, b in zip(SIZE, part.size, strict=True)))
            card.save(path)
            continue
        figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
        DRAWN[name](figure)
        for ax in figure.axes:
            ax.tick_params(length=0, which="both", labelleft=False, labelbottom=False)
            ax.spines[:].set_visible(False)
        figure.savefig(path, metadata={"Software": None})
