"""Parallel products with the design matrix: each part of the records has its own sums, added in order."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu._core.vector import WIDTH
from cmfast.kernels.cpu.margins.records import category_rows, dense_rows, distances, sparse_rows
from cmfast.kernels.cpu.margins.records.category_rows import get_category_columns
from cmfast.kernels.cpu.margins.records.dense_rows import get_dense_matrix
from cmfast.kernels.cpu.margins.records.sparse_rows import SparseRows

NUMBERS_PER_PART = 1 << 16  # values of the design matrix in a part
MOST_RECORD_PARTS = 16
MOST_PART_COLUMNS = 64  # columns up to which each part forms its own Hessian
SECONDS = 1e-9  # time of a pass for each value


class DesignProducts:
    """Products with the design matrix. The partition depends on the rows alone, so results do not depend on threads."""

    def __init__(self, rows: SparseRows, K: int, num_threads: int | None) -> None:
        self.rows, self.K, self.num_threads = rows, K, num_threads
        n, self.matrix = len(rows.first) - 1, get_dense_matrix(rows, K)
        size = len(rows.columns) if self.matrix is None else len(rows.columns) // WIDTH
        parts = max(1, min(MOST_RECORD_PARTS, size // NUMBERS_PER_PART))
        self.bounds = list(pairwise(n * k // parts for k in range(parts + 1)))
        self.seconds = SECONDS * size
        self.codes = get_category_columns(rows)
        width = K if self.matrix is None else self.matrix.shape[1]
        self.sums, self.sizes, self.squared = (np.empty((parts, width)) for _ in range(3))
        self.products: np.ndarray | None = None
        self.count = 0  # of passes

    def _run(self, work: Callable[[int, int, int], object]) -> None:
        """Run a kernel over all parts of the records, in parallel."""
        pool.run_pieces(work, self.bounds, seconds=self.seconds, num_threads=self.num_threads)

    def find_extremes(self, alive: np.ndarray, least: np.ndarray, most: np.ndarray) -> None:
        """Write the least and the largest value of each column, and zero, among records that may have a weight."""
        if self.codes is None:
            sparse_rows.find_extremes(self.rows, alive, least, most)
        else:
            least[:], most[:] = 0.0, self._sum_by_category(self.codes, alive.astype(np.float64)) > 0.0

    def multiply(self, y: np.ndarray, z: np.ndarray) -> None:
        """Compute z = A y."""
        if self.matrix is not None:
            A, wide = self.matrix, np.zeros(self.matrix.shape[1])
            wide[: len(y)] = y
            self._run(lambda _, start, stop: dense_rows.multiply(A, wide, z, start, stop))
            return
        if self.codes is not None:
            self._run(lambda _, start, stop: category_rows.multiply(self.codes, y, z, start, stop))
            return
        self._run(lambda _, start, stop: sparse_rows.multiply(self.rows, y, z, start, stop))

    def compute_weights(self, code, q, bounds, z, x, h):
        """Compute the weights x and their derivatives h in z, in parallel."""
        self._run(lambda _, start, stop: distances.compute_weights(code, q, bounds, z, x, h, start, stop))
        self.count += 1

    def multiply_transposed(
        self, x: np.ndarray, sums: np.ndarray, sizes: np.ndarray, squares: np.ndarray | None = None
    ) -> None:
        """Compute sums = A'x and the sums of the magnitudes of its terms, and of the squares if `squares` is given."""
        A = self.matrix
        if A is not None:
            self._run(
                lambda k, start, stop: dense_rows.multiply_transposed(
                    A, x, self.sums[k], self.sizes[k], self.squared[k], start, stop
                )
            )
            for parts, out in ((self.sums, sums), (self.sizes, sizes), (self.squared, squares)):
                if out is not None:
                    out[:] = parts.sum(0)[: self.K]
            return
        if squares is not None:
            squares[:] = self.sum_squares(x)
        if self.codes is not None:
            sums[:] = self._sum_by_category(self.codes, x)
            sizes[:] = np.abs(sums)
            return
        self._run(
            lambda k, start, stop: sparse_rows.multiply_transposed(
                self.rows, x, self.sums[k], self.sizes[k], start, stop
            )
        )
        sums[:], sizes[:] = self.sums.sum(0), self.sizes.sum(0)

    def sum_squares(self, x: np.ndarray) -> np.ndarray:
        """Return the diagonal of A' diag(x) A."""
        if self.codes is not None:
            return self._sum_by_category(self.codes, x)
        self._run(lambda k, start, stop: sparse_rows.sum_squares(self.rows, x, self.sums[k], start, stop))
        found: np.ndarray = self.sums.sum(0)
        return found

    def _sum_by_category(self, codes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return A'x for rows of categories."""
        self._run(lambda k, start, stop: category_rows.multiply_transposed(codes, x, self.sums[k], start, stop))
        found: np.ndarray = self.sums.sum(0)
        return found

    def multiply_hessian(self, h: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return A' diag(h) A y; write A y to `z`."""
        if self.codes is None:
            self._run(
                lambda k, start, stop: sparse_rows.multiply_hessian(self.rows, h, y, z, self.sums[k], start, stop)
            )
        else:
            self._run(
                lambda k, start, stop: category_rows.multiply_hessian(self.codes, h, y, z, self.sums[k], start, stop)
            )
        self.count += 1
        found: np.ndarray = self.sums.sum(0)
        return found

    def form_hessian(self, h: np.ndarray) -> np.ndarray:
        """Return the lower triangle of the Hessian A' diag(h) A; the upper triangle is undefined."""
        self.count += 1
        parts, width = self.sums.shape
        if self.products is None:
            self.products = np.empty((parts if self.K <= MOST_PART_COLUMNS else 1, self.K, width))
        S, A = self.products, self.matrix
        if A is not None:
            self._run(lambda k, start, stop: dense_rows.form_hessian(A, h, S[k], start, stop))
            return np.ascontiguousarray(S.sum(0)[:, : self.K])
        if len(S) == 1:
            sparse_rows.form_hessian(self.rows, h, S[0], 0, len(h))
        else:
            self._run(lambda k, start, stop: sparse_rows.form_hessian(self.rows, h, S[k], start, stop))
        found: np.ndarray = S[0] if len(S) == 1 else S.sum(0)
        return found
