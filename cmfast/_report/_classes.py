"""What a report says of every class: how much of it is found, with intervals, and what it is taken for most."""

from typing import Any

import numpy as np

from cmfast import metrics, uncertainty
from cmfast._core.p_values import binomial_test, holm
from cmfast._report._asked import Asked, Scaled
from cmfast._report._cells import Cells


def describe_classes(M: Any, cells: Cells, scaled: Scaled, asked: Asked) -> dict[str, np.ndarray]:
    """Return recall, precision and more of every class, a column each; `M` has the `cells`, dense or as SciPy's CSR."""
    d, t, p = cells.sums()
    found = metrics.compute(M, ["recall", "precision", "f1"], undefined="nan", num_threads=asked.num_threads)
    columns: dict[str, np.ndarray] = {"support": t, "predicted": p}
    for name, of in (("recall", t), ("precision", p)):
        low, high = share_ends(d, of, asked)
        columns |= {name: found[name], f"{name}_low": np.where(of > 0, low, np.nan)}
        columns |= {f"{name}_high": np.where(of > 0, high, np.nan)}
    columns["f1"] = found["f1"]
    columns["balanced"] = scaled.rows * (d + scaled.smoothing) * scaled.cols
    columns["taken_for"] = taken_for(cells, asked.level)
    return columns


def taken_for(cells: Cells, level: float) -> np.ndarray:
    """Return what every class is taken for most, -1 where the first of its row is not told from the second."""
    off = cells.rows != cells.cols
    rows, cols, counts = cells.rows[off], cells.cols[off], cells.counts[off]
    order = np.lexsort((cols, -counts, rows))
    rows, cols, counts = rows[order], cols[order], counts[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    after = np.append(counts, 0)[first + 1]
    second = np.where(np.append(rows, -1)[first + 1] == rows[first], after, 0)
    out = np.full(cells.n_classes, -1)
    if cells.n_classes > 2 and len(first):  # of two classes there is no other
        first = first[holm(np.atleast_1d(binomial_test(counts[first], second))) <= 1.0 - level]
    out[rows[first]] = cols[first]
    return out


def share_ends(counts: np.ndarray, of: np.ndarray, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's intervals of shares: each is the recall of the first of two classes."""
    pairs = np.zeros((len(counts), 2, 2), np.int64)
    pairs[:, 0] = np.stack([counts, of - counts], axis=-1)
    options: dict[str, Any] = {"method": "wilson", "level": asked.level, "on_failure": "ignore"}
    found = uncertainty.interval(pairs, "recall", num_threads=asked.num_threads, **options)
    return found.low[:, 0], found.high[:, 0]
