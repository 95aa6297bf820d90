"""What the caller of a report chose, and the scaling that several of its sections share."""

from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_RESAMPLED_CLASSES = 50  # classes up to which intervals are drawn, and the derivative of the scaling is taken
LARGEST = 20  # confusions that are listed


@dataclass(frozen=True)
class Asked:
    """What the caller chose, checked."""

    level: float
    smoothing: float | None
    n_replicates: int
    seed: int
    num_threads: int | None

    @property
    def z(self) -> float:
        """The quantile of the normal distribution that both ends of an interval are away, in standard errors."""
        from scipy.special import ndtri

        return float(ndtri((1 + self.level) / 2))


@dataclass(frozen=True)
class Scaled:
    """Factors of the rows and columns of a matrix whose lines then all add up to one."""

    rows: np.ndarray
    cols: np.ndarray
    smoothing: float
    """Added to every cell beforehand; 0 where the matrix can be scaled as it is."""
    why: str
    settled: bool = True
    """Whether rows and columns add up to one; else balanced numbers are approximate, and the page says so."""

    def cells(self, M: np.ndarray) -> np.ndarray:
        """Return the bi-normalised matrix."""
        return np.asarray(self.rows[:, None] * (M + self.smoothing) * self.cols)

    def at(self, i: Any, j: Any, counts: Any) -> Any:
        """Return bi-normalised cells by their positions and counts."""
        return self.rows[i] * (counts + self.smoothing) * self.cols[j]
