"""Matrices of scipy.sparse as the rows that kernels read, and what is wrong with them in words."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values


class CsrMatrix(NamedTuple):
    """The numbers of a matrix, row by row, each with its column; columns ascend, and none is there twice."""

    values: np.ndarray
    first: np.ndarray  # (rows + 1,) where each row begins
    columns: np.ndarray
    shape: tuple[int, ...]

    def bad(self, name: str) -> str:
        """Name the first number that is not finite; "" if there is none."""
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if not len(wrong):
            return ""
        line = np.zeros(self.shape[1])
        line[self.columns[wrong[0]]] = self.values[wrong[0]]
        return bad_values.describe_first(
            name, line, ~np.isfinite(line), (int(np.searchsorted(self.first, wrong[0], "right")) - 1,)
        )

    def used(self) -> np.ndarray:
        """Return which columns have a number that is not zero."""
        found: np.ndarray = np.bincount(self.columns[self.values != 0], minlength=self.shape[1]) > 0
        return found


def rows_of(matrix: Any) -> CsrMatrix:
    """Return the rows of a matrix, which stays as it is."""
    found = matrix.tocsr()
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()
    return CsrMatrix(found.data, found.indptr, found.indices, tuple(map(int, found.shape)))
