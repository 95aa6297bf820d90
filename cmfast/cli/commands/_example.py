"""``cmfast example``: write a small file to try the other commands on; the same file on every machine."""

import argparse
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import validate
from cmfast._files.output import check_target, replace_file
from cmfast.cli import _screen
from cmfast.cli._parser import Parser, misuse
from cmfast.cli._result import Result

CLASSES = ("cat", "dog", "fox", "wolf")
SHARES = (0.5, 0.3, 0.15, 0.05)
CONFUSED = {"cat": "fox", "dog": "wolf", "fox": "cat", "wolf": "dog"}  # what a class is mistaken for
SITES = ("north", "south")
N_SAMPLES = 400


class Example(NamedTuple):
    """What an example file holds, and the function that returns its bytes."""

    content: str
    make: Callable[[], bytes]


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    known = "; ".join(f"{name}: {one.content}" for name, one in FILES.items())
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=known)
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> Result:
    """Write the files."""
    for path in args.files:
        if path.name not in FILES:
            near = validate.suggest_name(path.name, FILES)
            misuse(f"there is no example {path.name}{near}; there are {', '.join(FILES)}")
    for path in args.files:
        content = FILES[path.name].make()
        if path.is_file() and path.read_bytes() == content:
            continue  # as written before, by the same command
        with replace_file(check_target(path, force=args.force), force=args.force) as file:
            file.write(content)
    lines = [f"{_screen.shown(path)}: {FILES[path.name].content}" for path in args.files]
    return Result({"files": [str(path) for path in args.files]}, lines)


@cache
def _draw_labels() -> dict[str, np.ndarray]:
    """Return true classes, the predictions of two models and the site of every sample."""
    rng = np.random.default_rng(0)
    label = rng.choice(CLASSES, N_SAMPLES, p=SHARES)
    mistaken = np.array([CONFUSED[name] for name in label.tolist()])
    hard = rng.random(N_SAMPLES)
    columns = {
        "label": label,
        "new": np.where(hard < 0.1, mistaken, label),
        "old": np.where(hard < 0.2, mistaken, label),
    }
    return columns | {"site": rng.choice(SITES, N_SAMPLES)}


def _write_table(columns: dict[str, Any]) -> bytes:
    """Return a csv file of columns."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows), ""]).encode()


def _write_array(make: Callable[[], np.ndarray]) -> bytes:
    """Return an npy file of an array."""
    import io

    file = io.BytesIO()
    np.save(file, make(), allow_pickle=False)
    return file.getvalue()


def _count_days(day: int) -> bytes:
    """Return saved counts of every other sample."""
    import cmfast

    columns = _draw_labels()
    some = slice(day, None, 2)
    counts = cmfast.ConfusionCounts.from_labels(columns["label"][some], columns["new"][some], labels=CLASSES)
    return counts.to_json().encode()


def _draw_matrices() -> np.ndarray:
    """Return the confusion matrices of five epochs."""
    right = np.diag([50, 30, 15, 5])
    return np.stack([right * epoch + np.random.default_rng(epoch).integers(0, 9, (4, 4)) for epoch in range(1, 6)])


def _draw_table() -> np.ndarray:
    """Return a table of three axes."""
    return np.random.default_rng(1).integers(1, 20, (3, 4, 2)).astype(float)


def _draw_margin(axes: tuple[int, ...], seed: int) -> np.ndarray:
    """Return sums of another table of the same shape and total."""
    table = _draw_table()
    other = table * np.random.default_rng(seed).uniform(0.5, 2.0, table.shape)
    return np.asarray((other * (table.sum() / other.sum())).sum(axes))


def _draw_respondents() -> bytes:
    """Return a survey of 200 respondents with their weights."""
    rng = np.random.default_rng(2)
    age, region = rng.choice(["18-39", "40-64", "65+"], 200, p=[0.2, 0.4, 0.4]), rng.choice(SITES, 200, p=[0.7, 0.3])
    return _write_table({"age": age, "region": region, "w": np.ones(200)})


def _list_totals() -> bytes:
    """Return the population by age and by region."""
    by_age = {"18-39": 350, "40-64": 400, "65+": 250}
    names, none = list(by_age), [""] * len(by_age)
    columns = {"age": [*names, "", ""], "region": [*none, *SITES], "target": [*by_age.values(), 500, 500]}
    return _write_table(columns)


def _draw_map() -> bytes:
    """Return a contact map of 60 bins, as scipy.sparse writes it."""
    import io

    from scipy import sparse

    rng = np.random.default_rng(3)
    near = 400.0 / (1 + np.abs(np.subtract.outer(np.arange(60), np.arange(60))))
    bias = np.exp(rng.normal(0.0, 0.3, 60))
    file = io.BytesIO()
    sparse.save_npz(file, sparse.coo_array(np.triu(rng.poisson(near * bias * bias[:, None]))))
    return file.getvalue()


def _draw_points() -> np.ndarray:
    """Return embeddings of the samples: each class has a centre of its own."""
    columns = _draw_labels()
    centres = 2.0 * np.eye(4, 6)
    return np.asarray(centres[_encode(columns["label"])] + np.random.default_rng(4).normal(size=(N_SAMPLES, 6)))


def _encode(names: np.ndarray) -> np.ndarray:
    """Return the indices of class names."""
    return np.array([CLASSES.index(name) for name in names.tolist()])


def _draw_probabilities(seed: int) -> np.ndarray:
    """Return class probabilities of the samples, less certain for the mistaken ones."""
    shares = np.random.default_rng(seed).gamma(0.5, 1.0, (N_SAMPLES, 4))
    shares[np.arange(N_SAMPLES), _encode(_draw_labels()["new"])] += 2.0
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


FILES = {
    "t.csv": Example("400 samples: true label, predictions of two models, site", lambda: _write_table(_draw_labels())),
    "monday.json": Example("saved counts", partial(_count_days, 0)),
    "tuesday.json": Example("saved counts", partial(_count_days, 1)),
    "matrices.npy": Example("five confusion matrices of four classes", partial(_write_array, _draw_matrices)),
    "table.npy": Example("a table of three axes", partial(_write_array, _draw_table)),
    "rows.npy": Example("wanted sums by its first two axes", lambda: _write_array(partial(_draw_margin, (2,), 5))),
    "depth.npy": Example("wanted sums by its last axis", lambda: _write_array(partial(_draw_margin, (0, 1), 5))),
    "survey.csv": Example("200 respondents", _draw_respondents),
    "totals.csv": Example("the population by age and region", _list_totals),
    "map.npz": Example("a contact map of 60 bins", _draw_map),
    "X.npy": Example("an embedding of each sample", partial(_write_array, _draw_points)),
    "y.npy": Example("its true class", lambda: _write_array(lambda: _encode(_draw_labels()["label"]))),
    "p.npy": Example("its predicted class", lambda: _write_array(lambda: _encode(_draw_labels()["new"]))),
    "known.npy": Example("class probabilities of each sample", lambda: _write_array(partial(_draw_probabilities, 7))),
    "new.npy": Example("class probabilities of new samples", lambda: _write_array(partial(_draw_probabilities, 8))),
}
