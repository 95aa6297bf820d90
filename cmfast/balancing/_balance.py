"""Balance a symmetric sparse matrix: one weight per bin such that all rows have given sums."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from cmfast._core import dispatch, failures, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure, Progress
from cmfast._core.progress import make_reporter
from cmfast._core.usual_options import explain_options
from cmfast.balancing import _explain_failure
from cmfast.balancing._result import BalanceResult

Symmetric = Literal[False, "upper"]
MOST_MATRIX_BINS = 2**31 - 1
PARTS = ("rows", "columns", "values")
ACCEPTED_MATRICES = "a scipy.sparse matrix, an array of shape (n, n), (rows, columns, values, n) or (chunks, n)"


@explain_options
def balance(
    A: Any,
    /,
    sums: Array = None,
    *,
    symmetric: Symmetric = False,
    keep: Array = None,
    blocks: Sequence[int] | None = None,
    trans_blocks: Sequence[int] | None = None,
    mad_blocks: Sequence[int] | None = None,
    ignore_diags: int = 0,
    min_nnz: int = 0,
    min_count: float = 0.0,
    mad_max: float | None = None,
    tol: float = 1e-9,
    max_iter: int | None = None,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
    progress: Progress = None,
) -> BalanceResult[Any]:
    r"""Compute bin weights that balance a symmetric sparse matrix: every row gets its sum.

    The weights x satisfy :math:`x_i \sum_j a_{ij} x_j = s_i`: balancing of contact maps, as by ICE or Knight-Ruiz.
    Newton's method on the logarithms of the weights, with conjugate gradients; every pixel is stored and read once.

    Parameters
    ----------
    A : scipy.sparse matrix or array, array of shape (n, n), (rows, columns, values, n), or (chunks, n)
        Nonnegative. Duplicate pixels are added up, explicit zeros are ignored. `chunks` yields tuples
        ``(rows, columns, values)`` of pixels on the host, such as parts of a file; those to ignore are not kept.
    sums : float or array, shape (n,), optional
        Wanted row sums, positive; default: one.
    symmetric : {False, "upper"}
        False: pixels on both sides of the diagonal are given and must agree. "upper": each pixel is given once, none
        below the diagonal, as in contact map files.
    keep : array of bool, shape (n,), optional
        True for bins to keep, such as `kept` of a result; the others are left out.
    blocks : sequence of int, optional
        Offsets of diagonal blocks, from 0 to n, such as chromosome offsets. Each block is balanced separately, with its
        own status; pixels between blocks are ignored.
    trans_blocks : sequence of int, optional
        Offsets of diagonal blocks, such as chromosome offsets, whose own pixels are ignored: only pixels between blocks
        count. Not together with `blocks`.
    mad_blocks : sequence of int, optional
        Offsets of blocks whose sums are divided by their median before `mad_max` applies; default: `blocks`.
    ignore_diags : int
        Number of diagonals to ignore: 1 for the main diagonal, 2 for its neighbours too.
    min_nnz : int
        Bins with fewer pixels are left out.
    min_count : float
        Bins whose pixels add up to less are left out.
    mad_max : positive float, optional
        Bins are left out whose log sum is more than this many median absolute deviations below the median.
    tol : float
        Absolute bound of `BalanceResult.residual` and of `BalanceResult.worst_row`; at least the rounding
        error, 2e-15, or that times the most pixels of a bin over 32.
    max_iter : int, optional
        Most passes over the pixels; default: 200 Newton steps. A step in progress is always finished.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about blocks that cannot be balanced (see Notes).
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.
    progress : bool or callable, optional
        True shows a bar on stderr; a callable gets ``(done, total)`` in blocks.

    Returns
    -------
    BalanceResult
        Arrays in the library of `A`.

    Raises
    ------
    TypeError, ValueError
        Arrays of two libraries or devices, or not real; shapes that do not agree; a wrong option.

    See Also
    --------
    ras : Row and column factors of matrices that are not symmetric.

    Notes
    -----
    Bins are filtered in the order and by the rules of cooler: `min_nnz`, `min_count`, `mad_max`, `keep`, on sums of all
    pixels except those of `ignore_diags`, between `blocks` and within `trans_blocks` (these count in the filters of
    cooler, whose `trans_only` also weights bins by chromosome). Then bins without pixels are left out. Diagonal pixels
    count once.

    Bad values: a block that cannot be balanced gets NaN and a code in `status`, is reported as `on_failure` says, and
    does not affect others. INVALID, for all blocks: a value that is NaN, infinite or negative, a sum that is not
    positive, a bin out of range, a matrix that is not symmetric. ZERO_LINE: no bin is left. INFEASIBLE: no matrix with
    this pattern has these sums; `proof` is the certificate. LIMIT_ONLY: every such matrix has zeros at some pixels, for
    example of a bin with a single partner. RANGE: weights beyond float64. MAX_ITER keeps the last weights. UNDETERMINED
    keeps weights with accurate sums, but rounding the sums may change a pixel by more than 1e-4 of its value. CONVERGED
    means that all sums were recomputed with the returned weights, that the last step changed no pixel by more than
    1e-3, and that no pixel has to vanish.

    Synchronises a device: pixels are copied to the host once, which filters bins, sorts and packs the rest. Passes over
    pixels and conjugate gradients run on the device; the host waits for one scalar of each, and takes every Newton
    step. If zeros might prevent a solution, the host decides that. Reproducible: same input, same bits, for any
    `num_threads`, and on any device of one kind.

    References
    ----------
    Imakaev et al., Iterative correction of Hi-C data reveals hallmarks of chromosome organization, 2012. Knight and
    Ruiz, A fast algorithm for matrix balancing, 2013.

    Examples
    --------
    >>> import cmfast
    >>> rows, columns, counts = (
    ...     [0, 0, 0, 1, 1, 2],
    ...     [1, 2, 3, 2, 3, 3],
    ...     [40, 20, 5, 30, 10, 25],
    ... )
    >>> result = cmfast.balance((rows, columns, counts, 5), symmetric="upper")
    >>> result.weights.round(4)
    array([0.1536, 0.0887, 0.0793, 0.2748,    nan])
    >>> (
    ...     cmfast.Status(result.status),
    ...     result.reason,
    ...     bool(result.worst_row <= 1e-9),
    ... )
    (<Status.CONVERGED: 0>, array([0, 0, 0, 0, 5], dtype=int8), True)
    """
    on_failure = validate.on_failure(on_failure)
    validate.progress(progress)
    num_threads = validate.num_threads(num_threads)
    if symmetric is not False:
        validate.choice("symmetric", symmetric, ("upper",), "False, for pixels on both sides of the diagonal, or ")
    tol = validate.tolerance(tol)
    max_iter = validate.max_iter(max_iter)
    options: dict[str, Any] = {
        "upper": symmetric == "upper",
        "ignore_diags": min(validate.count("ignore_diags", ignore_diags, least=0, most=None), MOST_MATRIX_BINS),
        "min_nnz": min(validate.count("min_nnz", min_nnz, least=0, most=None), validate.EXACT_FLOAT64),
        "min_count": validate.nonnegative("min_count", min_count),
        "mad_max": None if mad_max is None else validate.positive("mad_max", mad_max),
        "tol": tol,
        "max_iter": max_iter,
        "judge": _decide_support,
    }
    if blocks is not None and trans_blocks is not None:
        validate.refuse("trans_blocks", "None with blocks, between which no pixels count", "offsets")
    arrays, n = _adopt_pixels(A, sums, keep, trans_blocks)
    options |= {
        "n": n,
        "blocks": _validate_offsets("blocks", blocks, n),
        "mad_blocks": _validate_offsets("mad_blocks", mad_blocks, n),
    }
    report = make_reporter(progress, "blocks")
    out = dispatch.call("balance", *arrays.values(), **options, num_threads=num_threads, progress=report)
    result: BalanceResult[Any] = BalanceResult(*out)

    def describe(index: tuple[int, ...]) -> str:
        """Return the reason why the matrix at `index` was not balanced."""
        return _explain_failure.explain_unbalanced(index, arrays, n, options["blocks"], options["upper"], result)

    failures.report(result.status, on_failure, failed="blocks not balanced", describe=describe)
    return result


def _adopt_pixels(A: Any, sums: Any, keep: Any, trans_blocks: Any) -> tuple[dict[str, Any], int]:
    """Validate the arguments; return the arrays in one library without ignored pixels, and the number of bins."""
    if sparse.is_sparse(A):
        if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
            validate.refuse("A", "square, of shape (n, n)", f"shape {tuple(A.shape)}")
        cells = A.tocoo()
        rows, columns, values, n = cells.row, cells.col, cells.data, int(A.shape[0])
    elif isinstance(A, tuple) and len(A) == 4:
        rows, columns, values, n = A
        n = validate.count("n of A", n, least=0, most=MOST_MATRIX_BINS)
    elif isinstance(A, tuple) and len(A) == 2 and isinstance(A[0], Iterable) and not hasattr(A[0], "shape"):
        n = validate.count("n of A", A[1], least=0, most=MOST_MATRIX_BINS)
        rows, columns, values = _join_chunks(A[0], _number_blocks(trans_blocks, n))
    elif hasattr(A, "shape") or isinstance(A, list):
        rows, columns, values, n = _list_pixels(A)
    else:
        validate.refuse("A", ACCEPTED_MATRICES, type(A).__name__, TypeError)
    names, optional = ("rows", "columns", "values", "sums", "keep"), ("sums", "keep")
    one = float(sums) if type(sums) in (int, float) else None  # one sum for all rows
    given = (
        validate.type_empty_labels(rows),
        validate.type_empty_labels(columns),
        values,
        sums if one is None else None,
        keep,
    )
    adopted = dispatch.adopt(optional=optional, **dict(zip(names, given, strict=True)))
    arrays = dict(zip(names, adopted, strict=True))
    if one is not None:
        arrays["sums"] = adapter(arrays["values"]).send(np.full(n, one), arrays["values"])
    _check_arrays(arrays, n)
    of_bin = _number_blocks(trans_blocks, n)
    if of_bin is not None:
        bare = [adapter(x).unwrap(x) for x in adopted[:3]]
        sent = adapter(bare[2]).send(of_bin, bare[2])
        arrays |= dict(zip(names, adapter(bare[2]).evaluate(_select_trans, *bare, sent), strict=False))
    return arrays, n


def _number_blocks(offsets: Any, n: int) -> np.ndarray | None:
    """Return the number of the block of each bin; None without offsets, or bins."""
    found = _validate_offsets("trans_blocks", offsets, n)
    return None if found is None or not n else np.repeat(np.arange(len(found) - 1), np.diff(found))


def _select_trans(rows: Any, columns: Any, values: Any, of_bin: Any) -> tuple[Any, Any, Any]:
    """Return the pixels between two blocks, and those with an invalid bin, which are reported later."""
    i, j = (adapter(x).cast(x, np.int64) for x in (rows, columns))
    is_valid = (i >= 0) & (i < len(of_bin)) & (j >= 0) & (j < len(of_bin))
    counts = ~is_valid | (of_bin[i * is_valid] != of_bin[j * is_valid])
    return rows[counts], columns[counts], values[counts]


def _join_chunks(chunks: Iterable[Any], of_bin: np.ndarray | None) -> tuple[Any, Any, Any]:
    """Return the pixels of all chunks, without those within a block; in order."""
    parts: list[tuple[Any, ...]] = []
    for k, chunk in enumerate(chunks):
        name = f"chunk {k} of A"
        if not isinstance(chunk, tuple | list) or len(chunk) != 3:
            validate.refuse(name, "a tuple (rows, columns, values)", type(chunk).__name__, TypeError)
        given = (validate.type_empty_labels(x) for x in chunk[:2])
        pixels = dispatch.adopt(**dict(zip((f"{part} of {name}" for part in PARTS), (*given, chunk[2]), strict=True)))
        if not all(adapter(x).is_on_host(x) for x in pixels):
            validate.refuse(name, "on the host", f"on {adapter(pixels[0]).device(pixels[0])}", TypeError)
        rows, columns, values = (adapter(x).to_host(x) for x in pixels)
        validate.integer(**{f"{PARTS[0]} of {name}": rows, f"{PARTS[1]} of {name}": columns})
        validate.real(**{f"{PARTS[2]} of {name}": values})
        if rows.ndim != 1 or not rows.shape == columns.shape == values.shape:
            shapes = ", ".join(str(x.shape) for x in (rows, columns, values))
            validate.refuse(name, "of three arrays of shape (pixels,)", f"shapes {shapes}")
        parts.append((rows, columns, values) if of_bin is None else _select_trans(rows, columns, values, of_bin))
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, columns, values


def _list_pixels(A: Array) -> tuple[Any, Any, Any, int]:
    """Return rows, columns and values of the cells of a dense matrix that are not zero, in its library; its size."""
    A = dispatch.adopt_one("A", A)
    validate.real(A=A)
    shape = dispatch.shape_of(A)
    if len(shape) != 2 or shape[0] != shape[1]:
        validate.refuse("A", ACCEPTED_MATRICES, f"shape {shape}")
    cells = adapter(A).to_host(A)
    rows, columns = np.nonzero(cells)  # NaN is not zero
    return (*(adapter(A).send(x, A) for x in (rows, columns, cells[rows, columns])), shape[0])


def _decide_support(*pixels: Any) -> Any:
    """Decide which pixels the zeros of a matrix allow, by kernels on the host that only few calls need."""
    from cmfast.kernels.cpu.balancing import launch

    return launch.classify_zeros(*pixels)


def _check_arrays(arrays: dict[str, Any], n: int) -> None:
    """Check dtypes and shapes of the arrays."""
    rows, columns, values, sums, keep = arrays.values()
    validate.integer(rows=rows, columns=columns)
    validate.real(values=values, sums=sums)
    shapes = {name: dispatch.shape_of(array) for name, array in arrays.items() if array is not None}
    for name in ("rows", "columns", "values"):
        if len(shapes[name]) != 1 or shapes[name] != shapes["rows"]:
            validate.refuse(name, "of shape (pixels,), the same for rows, columns and values", f"shape {shapes[name]}")
    for name in ("sums", "keep"):
        if shapes.get(name, (n,)) != (n,):
            validate.refuse(name, f"of shape ({n},), one entry per bin", f"shape {shapes[name]}")
    if keep is not None and adapter(keep).dtype(keep).kind != "b":
        validate.refuse("keep", "an array of bool", f"dtype {adapter(keep).dtype(keep)}", TypeError)


def _validate_offsets(name: str, given: Any, n: int) -> list[int] | None:
    """Return the block offsets as integers from 0 to n, or None."""
    if given is None:
        return None
    wanted = f"offsets that begin with 0, do not fall, and end with n = {n}"
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        validate.refuse(name, wanted, type(given).__name__, TypeError)
    if found.dtype.kind not in "iu":
        validate.refuse(name, wanted, validate.format_value(given), TypeError)
    if found.ndim != 1 or len(found) < 2 or found[0] != 0 or found[-1] != n or (found[1:] < found[:-1]).any():
        validate.refuse(name, wanted, validate.format_value(given))
    return [int(k) for k in found]
