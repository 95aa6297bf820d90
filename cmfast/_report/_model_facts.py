"""Facts about one model: counts, scaling, metrics, classes and confusions, with intervals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmfast import uncertainty
from cmfast._core import caller, failures
from cmfast._core.markup import balance_controls
from cmfast._report import _class_facts, _confusions, _sparse_counts
from cmfast._report._options import MOST_RESAMPLED_CLASSES, ReportOptions, ScalingFactors
from cmfast.kernels.status import Status
from cmfast.scaling import ras

WHOLE = ("accuracy", "balanced_accuracy", "precision_macro", "f1_macro", "mcc", "kappa")


@dataclass
class Notes:
    """Collected warnings of a section, without duplicates, to show on the page."""

    found: list[str] = field(default_factory=list)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the warnings of a block."""
        with failures.collect_warnings() as texts:
            yield
        for warning in texts:
            text = warning.removeprefix(f"{caller.name()}: ")
            if text not in self.found:
                self.found.append(text)


@dataclass(frozen=True)
class Model:
    """Facts of one model on all samples."""

    name: str
    M: np.ndarray
    """Dense matrix; with many classes, that of the classes on the page."""
    scaled: ScalingFactors
    """Factors of all classes."""
    facts: dict[str, Any]


def name_label(label: object) -> str:
    """Return a label as one line of valid Unicode with balanced bidi controls."""
    text = " ".join(str(label).split())
    written = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return balance_controls(written) or "(empty)"


def describe_model(name: str, M: np.ndarray, labels: Sequence[str], request: ReportOptions) -> Model:
    """Return all facts of one dense matrix."""
    scaled, notes = scale_matrix(M, request), Notes()
    with notes.collect():
        whole = compute_overall_metrics(M, request)
    classes = _class_facts.describe_classes(M, _sparse_counts.list_cells(M), scaled, request)
    found: dict[str, Any] = {"name": name, "right": int(np.trace(M)), "metrics": whole, "classes": classes}
    found |= {"smoothing": scaled.smoothing, "asked": request.smoothing is not None, "status": scaled.why}
    found["settled"] = scaled.settled
    found |= _confusions.describe_confusions(M, scaled, labels, request)
    found["notes"] = notes.found
    return Model(name, M, scaled, found)


def scale_matrix(M: np.ndarray, request: ReportOptions) -> ScalingFactors:
    """Return bi-normalisation factors; if zeros allow none, 1 / C is added to every cell."""
    given = request.smoothing
    options: dict[str, Any] = {"on_failure": "ignore", "num_threads": request.num_threads}
    found = ras(M, smoothing=given, **options)
    smoothing, why = given or 0.0, Status(int(found.status)).name
    if given is None and not _has_factors(found):
        smoothing = 1.0 / len(M)
        found = ras(M, smoothing=smoothing, **options)
    return ScalingFactors(found.row_scale, found.col_scale, smoothing, why, settled=_has_factors(found))


def _has_factors(found: Any) -> bool:
    """Return whether the scaling converged with finite factors."""
    factors = np.concatenate([found.row_scale, found.col_scale])
    return int(found.status) == Status.CONVERGED and bool(np.isfinite(factors).all())


def compute_overall_metrics(M: np.ndarray, request: ReportOptions) -> dict[str, dict[str, Any]]:
    """Return metrics of matrices, shape (..., C, C), with their intervals."""
    few = M.shape[-1] <= MOST_RESAMPLED_CLASSES and M.ndim == 2
    options: dict[str, Any] = {"method": "bca" if few else "normal", "confidence_level": request.confidence_level}
    options |= {"n_resamples": request.n_resamples, "rng": request.seed, "num_threads": request.num_threads}
    found = uncertainty.interval(M, list(WHOLE), **options)
    return {name: {"estimate": one.estimate, "low": one.low, "high": one.high} for name, one in found.items()}
