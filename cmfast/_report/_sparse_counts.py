"""Confusion counts as a sorted list of nonempty cells, for reports on thousands of classes."""

from typing import Any, NamedTuple

import numpy as np


class SparseCounts(NamedTuple):
    """Nonempty cells in row-major order, without duplicates."""

    rows: np.ndarray
    cols: np.ndarray
    counts: np.ndarray
    """Shape (k,), of int64."""
    n_classes: int

    def get_count(self, i: int, j: int) -> int:
        """Return the count of cell (i, j)."""
        low, high = np.searchsorted(self.rows, (i, i + 1))
        k = low + int(np.searchsorted(self.cols[low:high], j))
        return int(self.counts[k]) if k < high and self.cols[k] == j else 0

    def sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the diagonal, the row sums and the column sums."""
        out = np.zeros((3, self.n_classes), np.int64)
        on = self.rows == self.cols
        out[0, self.rows[on]] = self.counts[on]
        np.add.at(out[1], self.rows, self.counts)
        np.add.at(out[2], self.cols, self.counts)
        return out[0], out[1], out[2]

    def make_csr(self) -> Any:
        """Return the counts as a SciPy CSR array."""
        from scipy.sparse import csr_array

        shape = (self.n_classes, self.n_classes)
        return csr_array((self.counts, (self.rows, self.cols)), shape=shape)

    def select_dense(self, classes: np.ndarray) -> np.ndarray:
        """Return the dense matrix of the given classes, in their order."""
        place = np.full(self.n_classes, -1)
        place[classes] = np.arange(len(classes))
        i, j = place[self.rows], place[self.cols]
        inside = (i >= 0) & (j >= 0)
        M = np.zeros((len(classes), len(classes)), np.int64)
        M[i[inside], j[inside]] = self.counts[inside]
        return M


def list_cells(M: np.ndarray) -> SparseCounts:
    """Return the nonempty cells of a dense matrix."""
    rows, cols = np.nonzero(M)
    return SparseCounts(rows, cols, M[rows, cols], len(M))


def sum_keys(keys: np.ndarray, counts: np.ndarray, n_classes: int) -> SparseCounts:
    """Return the cells of keys ``row * C + column``, adding up the counts of repeated keys."""
    found, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, place.reshape(-1), counts)
    rows, cols = np.divmod(found, max(n_classes, 1))
    return SparseCounts(rows, cols, sums, n_classes)
