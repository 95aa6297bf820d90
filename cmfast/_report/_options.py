"""Validated options of a report, and the scaling factors that several sections share."""

from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_RESAMPLED_CLASSES = 50  # most classes for bootstrap intervals and for the derivative of the scaling
MOST_LISTED_CONFUSIONS = 20  # confusions listed in a table


@dataclass(frozen=True)
class ReportOptions:
    """Validated options of a report."""

    confidence_level: float
    smoothing: float | None
    n_resamples: int
    seed: int
    num_threads: int | None

    @property
    def z(self) -> float:
        """Half width of an interval in standard errors: the normal quantile of the level."""
        from scipy.special import ndtri

        return float(ndtri((1 + self.confidence_level) / 2))


@dataclass(frozen=True)
class ScalingFactors:
    """Row and column factors that bi-normalise a matrix."""

    rows: np.ndarray
    cols: np.ndarray
    smoothing: float
    """Amount added to every cell before scaling; 0 if the matrix can be scaled unchanged."""
    why: str
    settled: bool = True
    """Whether the scaling converged; otherwise balanced values are approximate, and the page says so."""

    def cells(self, M: np.ndarray) -> np.ndarray:
        """Return the bi-normalised matrix."""
        return np.asarray(self.rows[:, None] * (M + self.smoothing) * self.cols)

    def scale_counts(self, i: Any, j: Any, counts: Any) -> Any:
        """Return bi-normalised cells by their indices and counts."""
        return self.rows[i] * (counts + self.smoothing) * self.cols[j]
