"""Sparse design matrices as CSR arrays for kernels, with messages about invalid values."""

from typing import Any, NamedTuple

import numpy as np

from cmfast._core import bad_values


class CsrMatrix(NamedTuple):
    """A CSR matrix with ascending columns and without duplicates."""

    values: np.ndarray
    first: np.ndarray  # (rows + 1,) start of each row
    columns: np.ndarray
    shape: tuple[int, ...]

    def bad(self, name: str) -> str:
        """Return a text that names the first value that is not finite, or an empty text."""
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if not len(wrong):
            return ""
        line = np.zeros(self.shape[1])
        line[self.columns[wrong[0]]] = self.values[wrong[0]]
        return bad_values.describe_first(
            name, line, ~np.isfinite(line), (int(np.searchsorted(self.first, wrong[0], "right")) - 1,)
        )

    def used(self) -> np.ndarray:
        """Return a mask of the columns with a nonzero value."""
        found: np.ndarray = np.bincount(self.columns[self.values != 0], minlength=self.shape[1]) > 0
        return found


def read_csr(matrix: Any) -> CsrMatrix:
    """Return a scipy.sparse matrix as a CsrMatrix, without changing it."""
    found = matrix.tocsr()
    if not found.has_canonical_format:
        found = found.copy()
        found.sum_duplicates()
    return CsrMatrix(found.data, found.indptr, found.indices, tuple(map(int, found.shape)))
