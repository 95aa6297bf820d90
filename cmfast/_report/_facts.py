"""What a report says of one model: counts, scaling, metrics, classes and confusions, each with its interval."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmfast import uncertainty
from cmfast._core import caller, failures
from cmfast._core.markup import balance_controls
from cmfast._report import _cells, _classes, _confusions
from cmfast._report._asked import MOST_RESAMPLED_CLASSES, Asked, Scaled
from cmfast.kernels.status import Status
from cmfast.scaling import ras

WHOLE = ("accuracy", "balanced_accuracy", "precision_macro", "f1_macro", "mcc", "kappa")


@dataclass
class Notes:
    """What functions warned of, once each: the page says it where it says what they found."""

    found: list[str] = field(default_factory=list)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the warnings of a block."""
        with failures.collect_warnings() as texts:
            yield
        for named in texts:
            text = named.removeprefix(f"{caller.name()}: ")
            if text not in self.found:
                self.found.append(text)


@dataclass(frozen=True)
class Model:
    """One model on all samples."""

    name: str
    M: np.ndarray
    """Of many classes the part that the page shows."""
    scaled: Scaled
    """Of all classes."""
    facts: dict[str, Any]


def named(label: object) -> str:
    """Return what a label is called on the page: one line that every encoding can write, its bidi controls balanced."""
    text = " ".join(str(label).split())
    written = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return balance_controls(written) or "(empty)"


def model(name: str, M: np.ndarray, labels: Sequence[str], asked: Asked) -> Model:
    """Return everything that is said of one matrix."""
    scaled, notes = scaling(M, asked), Notes()
    with notes.taken():
        whole = of_whole(M, asked)
    classes = _classes.describe_classes(M, _cells.of_matrix(M), scaled, asked)
    found: dict[str, Any] = {"name": name, "right": int(np.trace(M)), "metrics": whole, "classes": classes}
    found |= {"smoothing": scaled.smoothing, "asked": asked.smoothing is not None, "status": scaled.why}
    found["settled"] = scaled.settled
    found |= _confusions.of_matrix(M, scaled, labels, asked)
    found["notes"] = notes.found
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
    return Scaled(found.row_scale, found.col_scale, smoothing, why, settled=_has_factors(found))


def _has_factors(found: Any) -> bool:
    factors = np.concatenate([found.row_scale, found.col_scale])
    return int(found.status) == Status.CONVERGED and bool(np.isfinite(factors).all())


def of_whole(M: np.ndarray, asked: Asked) -> dict[str, dict[str, Any]]:
    """Return metrics of matrices, shape (..., C, C), with their intervals."""
    few = M.shape[-1] <= MOST_RESAMPLED_CLASSES and M.ndim == 2
    options: dict[str, Any] = {"method": "bca" if few else "normal", "level": asked.level}
    options |= {"n_replicates": asked.n_replicates, "rng": asked.seed, "num_threads": asked.num_threads}
    found = uncertainty.interval(M, list(WHOLE), **options)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}
