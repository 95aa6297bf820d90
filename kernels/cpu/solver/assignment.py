"""Assignment of largest sum by shortest augmenting paths (Kuhn 1955; Jonker and Volgenant 1987)."""

import numpy as np

from cmfast.kernels.cpu._core.jit import jit


def _augment_rows(A, row_price, col_price, row_of, start, stop):
    """Assign columns, at least as many, to the rows from `start` to before `stop` by shortest augmenting paths.

    Return False where that fails. `row_of` is the row of each column, from 1 on; 0 without one.
    """
    n = A.shape[1]
    before = np.zeros(n + 1, np.int64)
    for i in range(start + 1, stop + 1):
        row_of[0] = i
        here = 0
        slack = np.full(n + 1, np.inf)
        seen = np.zeros(n + 1, np.bool_)
        while row_of[here] != 0:
            seen[here] = True
            row, least, following = row_of[here], np.inf, 0
            for j in range(1, n + 1):
                if not seen[j]:
                    gap = -A[row - 1, j - 1] - row_price[row] - col_price[j]
                    if gap < slack[j]:
                        slack[j] = gap
                        before[j] = here
                    if slack[j] < least:
                        least = slack[j]
                        following = j
            if following == 0:
                return False
            for j in range(n + 1):
                if seen[j]:
                    row_price[row_of[j]] += least
                    col_price[j] -= least
                else:
                    slack[j] -= least
            here = following
        while here != 0:
            row_of[here] = row_of[before[here]]
            here = before[here]
    return True


assign_rows, assign_rows_inline = jit()(_augment_rows), jit(inner=True)(_augment_rows)
