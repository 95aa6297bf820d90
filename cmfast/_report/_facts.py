"""What a report says of one model: counts, scaling, metrics, classes and confusions, each with its interval."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmfast import metrics, uncertainty
from cmfast._core import caller
from cmfast._core.failures import DiagnosticWarning, FailureWarning
from cmfast.kernels.status import Status
from cmfast.scaling import ras

WHOLE = ("accuracy", "balanced_accuracy", "precision_macro", "f1_macro", "mcc", "kappa")
FEW = 50  # classes up to which intervals are drawn, and the derivative of the scaling is taken
LARGEST = 20  # confusions that are listed


@dataclass(frozen=True)
class Asked:
    """What the caller chose, checked."""

    level: float
    smoothing: float | None
    n_replicates: int
    seed: int
    num_threads: int | None


@dataclass
class Notes:
    """What functions warned of, once each: the page says it where it says what they found."""

    found: list[str] = field(default_factory=list)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the warnings of a block."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for one in caught:
            if not issubclass(one.category, DiagnosticWarning | FailureWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            elif (text := str(one.message).removeprefix(f"{caller.name()}: ")) not in self.found:
                self.found.append(text)


@dataclass(frozen=True)
class Scaled:
    """Factors of the rows and columns of a matrix whose lines then all add up to one."""

    rows: np.ndarray
    cols: np.ndarray
    smoothing: float
    """Added to every cell beforehand; 0 where the matrix can be scaled as it is."""
    why: str

    def cells(self, M: np.ndarray) -> np.ndarray:
        """Return the bi-normalised matrix."""
        return np.asarray(self.rows[:, None] * (M + self.smoothing) * self.cols)


@dataclass(frozen=True)
class Model:
    """One model on all samples."""

    name: str
    M: np.ndarray
    scaled: Scaled
    facts: dict[str, Any]


def named(label: object) -> str:
    """Return what a label is called on the page: one line that every encoding can write."""
    text = " ".join(str(label).split())
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") or "(empty)"


def model(name: str, M: np.ndarray, labels: Sequence[str], asked: Asked) -> Model:
    """Return everything that is said of one matrix."""
    scaled, notes = scaling(M, asked), Notes()
    with notes.taken():
        whole = of_whole(M, asked)
    classes = _of_classes(M, scaled, asked)
    found: dict[str, Any] = {"name": name, "right": int(np.trace(M)), "metrics": whole, "classes": classes}
    found |= {"smoothing": scaled.smoothing, "asked": asked.smoothing is not None, "status": scaled.why}
    found |= {"confusions": _confusions(M, scaled, labels, asked), "notes": notes.found}
    return Model(name, M, scaled, found)


def scaling(M: np.ndarray, asked: Asked) -> Scaled:
    """Return the factors of bi-normalisation; where zeros allow none, one sample per class is spread over its row."""
    given = asked.smoothing
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": asked.num_threads}
    found = ras(M, smoothing=given, **options)
    smoothing, why = given or 0.0, Status(int(found.status)).name
    if given is None and not _has_factors(found):
        smoothing = 1.0 / len(M)
        found = ras(M, smoothing=smoothing, **options)
    return Scaled(found.row_scale, found.col_scale, smoothing, why)


def _has_factors(found: Any) -> bool:
    factors = np.concatenate([found.row_scale, found.col_scale])
    return int(found.status) == Status.CONVERGED and bool(np.isfinite(factors).all())


def of_whole(M: np.ndarray, asked: Asked) -> dict[str, dict[str, Any]]:
    """Return metrics of matrices, shape (..., C, C), with their intervals."""
    few = M.shape[-1] <= FEW and M.ndim == 2
    options: dict[str, Any] = {"method": "bca" if few else "normal", "level": asked.level}
    options |= {"n_replicates": asked.n_replicates, "rng": asked.seed, "num_threads": asked.num_threads}
    found = uncertainty.interval(M, list(WHOLE), **options)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}


def _of_classes(M: np.ndarray, scaled: Scaled, asked: Asked) -> dict[str, np.ndarray]:
    """Return columns with a number for every class: what is found of it, of what is said to be it, and their ends."""
    options: dict[str, Any] = {"method": "wilson", "level": asked.level, "num_threads": asked.num_threads}
    found = uncertainty.interval(M, ["recall", "precision"], undefined="nan", on_failure="ignore", **options)
    columns: dict[str, np.ndarray] = {"support": M.sum(axis=1), "predicted": M.sum(axis=0)}
    for name, one in found.items():
        known = ~np.isnan(one.estimate)
        columns |= {name: one.estimate}
        columns |= {f"{name}_{end}": np.where(known, getattr(one, end), np.nan) for end in ("low", "high")}
    columns["f1"] = metrics.compute(M, "f1", undefined="nan", num_threads=asked.num_threads)
    columns["balanced"] = scaled.rows * (np.diagonal(M) + scaled.smoothing) * scaled.cols
    columns["taken_for"] = np.where(M.sum(axis=1) > np.diagonal(M), np.argmax(_off(M), axis=1), -1)
    return columns


def _off(M: np.ndarray) -> np.ndarray:
    """Return a copy without the diagonal."""
    out = M.copy()
    np.fill_diagonal(out, 0)
    return out


def _confusions(M: np.ndarray, scaled: Scaled, labels: Sequence[str], asked: Asked) -> list[dict[str, Any]]:
    """Return the confusions that are among the largest by count or when balanced, with their ranks."""
    off, bi = _off(M), _off(scaled.cells(M))
    by_count, by_share = (np.argsort(-S, axis=None, kind="stable")[:LARGEST] for S in (off, bi))
    rank = {int(k): place for place, k in enumerate(by_share.tolist(), 1)}
    wanted = [k for k in dict.fromkeys([*by_count.tolist(), *by_share.tolist()]) if off.flat[k]]
    rows, cols = np.unravel_index(np.array(wanted, np.int64), M.shape)
    low, high = _row_ends(off[rows, cols], M.sum(axis=1)[rows], asked)
    balanced = _balanced_ends(M, scaled, asked)
    places = {int(k): place for place, k in enumerate(by_count.tolist(), 1)}
    found = []
    for n, (k, i, j) in enumerate(zip(wanted, rows.tolist(), cols.tolist(), strict=True)):
        one: dict[str, Any] = {"true": labels[i], "predicted": labels[j], "count": off[i, j]}
        one |= {"row": off[i, j] / M[i].sum(), "low": low[n], "high": high[n], "balanced": bi[i, j]}
        one |= {f"balanced_{end}": S[i, j] for end, S in balanced.items()}
        found.append(one | {"rank": places.get(k), "rank_balanced": rank.get(k)})
    return found


def _row_ends(counts: np.ndarray, of: np.ndarray, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's intervals of shares: each is the recall of the first of two classes."""
    pairs = np.zeros((len(counts), 2, 2), np.int64)
    pairs[:, 0] = np.stack([counts, of - counts], axis=-1)
    options: dict[str, Any] = {"method": "wilson", "level": asked.level, "on_failure": "ignore"}
    found = uncertainty.interval(pairs, "recall", num_threads=asked.num_threads, **options)
    return found.low[:, 0], found.high[:, 0]


def _balanced_ends(M: np.ndarray, scaled: Scaled, asked: Asked) -> dict[str, np.ndarray]:
    """Return ends of all cells when balanced, where they are known: of few classes, scaled as they are."""
    if scaled.smoothing or len(M) > FEW:
        return {}
    options: dict[str, Any] = {"of": "bi", "method": "normal", "level": asked.level, "on_failure": "ignore"}
    found = uncertainty.interval(M, num_threads=asked.num_threads, **options)
    return {"low": np.maximum(found.low, 0.0), "high": np.minimum(found.high, 1.0)}
