"""Invariance of section 3.1, measured: two test sets of one network with different label distributions."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cmfast
from cmfast._reproduce import _paired_intervals as paired
from cmfast._reproduce.normalization.data import draw_imbalanced
from cmfast._reproduce.normalization.training import Answers, NormalizationSettings

PERMUTATIONS = 20  # random reassignments of both test sets within each class


@dataclass
class TestSets:
    """Overlaps of pairs of test sets of one network; each list has an entry per repetition."""

    __test__ = False  # no class of tests

    settings: NormalizationSettings
    lost: list[list[float]] = field(default_factory=list)
    """Overlap of row-normalised matrices lost beyond chance (mean of permuted test sets minus observed), by level."""
    gained: list[list[float]] = field(default_factory=list)
    """Overlap of row-normalised matrices minus that of matrices divided by their totals, by level."""

    def add(self, answers: Answers, repetition: int, n_classes: int) -> None:
        """Draw two test sets at every level from balanced predictions, and compare their matrices."""
        rng = np.random.default_rng([self.settings.seed, repetition, PERMUTATIONS])
        lost, gained = [], []
        for alpha in self.settings.levels:
            sides = self._draw(answers.y, alpha, n_classes, rng)
            M = count_answers(answers, sides[None], n_classes)[0]
            dealt = count_answers(answers, permute_sides(answers.y, sides, rng), n_classes)
            by_row = float(_compute_overlap(M, "row"))
            lost.append(float(_compute_overlap(dealt, "row").mean()) - by_row)
            gained.append(by_row - float(_compute_overlap(M, "all")))
        self.lost.append(lost)
        self.gained.append(gained)

    def _draw(self, y: np.ndarray, alpha: float, n_classes: int, rng: np.random.Generator) -> np.ndarray:
        """Return for every prediction the test set it is drawn into: 0, 1, or -1 for none."""
        order = rng.permutation(len(y))
        order = order[np.argsort(y[order], kind="stable")]
        half = np.empty(len(y), int)
        half[order] = np.arange(len(y)) % 2
        sides = np.full(len(y), -1)
        for side in (0, 1):
            rows = np.flatnonzero(half == side)
            sides[rows[draw_imbalanced(y[rows], rng, alpha=alpha, kept=self.settings.kept, n_classes=n_classes)]] = side
        return sides

    def compare(self, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """Return the intervals of the lost and the gained overlap, by data set and level."""
        shape = (len(names), self.settings.repeats, len(self.settings.levels))
        out: dict[str, dict[str, Any]] = {}
        for key in ("lost", "gained"):
            values = np.reshape(getattr(self, key), shape)
            out[key] = {
                f"{name} at {alpha:g}": paired.compute_interval(values[d, :, k], self.settings.interval)
                for d, name in enumerate(names)
                for k, alpha in enumerate(self.settings.levels)
            }
        return out


def permute_sides(y: np.ndarray, sides: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return random reassignments of the two test sets within classes, (PERMUTATIONS, answers)."""
    out = np.tile(sides, (PERMUTATIONS, 1))
    for c in np.unique(y):
        rows = np.flatnonzero((y == c) & (sides >= 0))
        out[:, rows] = rng.permuted(np.tile(sides[rows], (PERMUTATIONS, 1)), axis=1)
    return out


def count_answers(answers: Answers, sides: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the confusion matrices of both test sets, (permutations, 2, C, C)."""
    cell = answers.y * n_classes + answers.predicted
    out = [[np.bincount(cell[row == side], minlength=n_classes**2) for side in (0, 1)] for row in sides]
    return np.array(out).reshape(len(sides), 2, n_classes, n_classes)


def _compute_overlap(M: np.ndarray, method: Any) -> np.ndarray:
    """Return the overlap of the normalised matrices of both test sets, of (..., 2, C, C)."""
    first, second = np.moveaxis(cmfast.normalize(M, method), -3, 0)
    found: np.ndarray = cmfast.overlap(first, second)
    return found
