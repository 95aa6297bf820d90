"""Explain why a block of a symmetric matrix was not balanced; computed on the host, for that block alone."""

from typing import Any

import numpy as np

from cmfast._core import bad_values, wording
from cmfast._core.adapters import adapter
from cmfast.balancing._result import MEANING, BalanceResult
from cmfast.kernels.status import Status

MOST_NAMED_BINS = 4  # most bins listed in a message


def explain_unbalanced(
    index: tuple[int, ...], arrays: dict[str, Any], n: int, blocks: list[int] | None, upper: bool, found: Any
) -> str:
    """Return the reason why the block at `index` has no weights, with advice."""
    result: BalanceResult[Any] = found
    codes, proof = (adapter(a).to_host(a) for a in (result.status, result.proof))
    status = Status(int(codes[index]))
    low, high = (0, n) if blocks is None else (blocks[index[0]], blocks[index[0] + 1])
    marks = np.asarray(proof[low:high])
    advice = f"leave out bins with too few partners, by {wording.any_option('min_nnz', 'keep')}"
    if status is Status.INVALID:
        return _explain_invalid(
            {name: None if a is None else adapter(a).to_host(a) for name, a in arrays.items()}, n, upper
        )
    if status is Status.INFEASIBLE:
        sums = arrays["sums"]
        s = np.broadcast_to(1.0 if sums is None else adapter(sums).to_host(sums), n)[low:high]
        rows, others = marks % 2 == 1, marks >= 2
        wanted, there = f"{s[rows].sum():.12g}", f"{s[others].sum():.12g}"
        return (
            f"{_name_bins(rows, low)} must sum to {wanted} but have pixels only with {_name_bins(others, low)}, "
            f"which sum to {there}; {advice}"
        )
    if status is Status.LIMIT_ONLY:
        dead = f"pixels of {_name_bins(marks == 1, low)} would have to be zero"
        return f"no weights exist: {dead}; {advice}, or compute the limit by ipf"
    if status in (Status.MAX_ITER, Status.UNDETERMINED):
        worst, n_iter = (adapter(a).to_host(a)[index] for a in (result.worst_row, result.n_iter))
        if status is Status.MAX_ITER:
            return f"not converged after {int(n_iter)} passes: a sum is off by {float(worst):.1e} of itself"
        return f"sums are accurate to {float(worst):.1e}, but that does not determine all weights"
    return MEANING[status]


def _name_bins(marked: np.ndarray, start: int) -> str:
    """Return a text that lists the first marked bins."""
    bins = start + np.flatnonzero(marked)
    if len(bins) == 1:
        return f"bin {bins[0]}"
    more = f" and {len(bins) - MOST_NAMED_BINS} more" if len(bins) > MOST_NAMED_BINS else ""
    return f"bins {', '.join(map(str, bins[:MOST_NAMED_BINS].tolist()))}{more}"


def _explain_invalid(arrays: dict[str, Any], n: int, upper: bool) -> str:
    """Return a text that names the first invalid value, sum or pixel."""
    rows, columns = arrays["rows"], arrays["columns"]
    said = bad_values.describe_bad_value(values=arrays["values"], sums=arrays["sums"])
    if said:
        return said
    sums = arrays["sums"]
    if sums is not None and not (sums > 0).all():
        return "a sum is zero"
    for name, place in (("row", rows), ("column", columns)):
        wrong = np.flatnonzero((place < 0) | (place >= n))
        if len(wrong):
            return f"pixel {wrong[0]} is in {name} {place[wrong[0]]}, of {n}"
    wrong = np.flatnonzero(rows > columns)
    if upper and len(wrong):
        k = wrong[0]
        return f'pixel {k} is below the diagonal, in row {rows[k]}, column {columns[k]}, with symmetric="upper"'
    return 'the matrix is not symmetric; pass one half with symmetric="upper", or use ipf for any matrix'
