"""Resample confusion matrices by multinomial or row-wise multinomial draws: ``resample``."""

from functools import partial
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate, wording
from cmfast._core.annotations import Array, DeviceT, Integers, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast._core.usual_options import explain_options
from cmfast.uncertainty._invalid_counts import explain_invalid

Scheme: TypeAlias = Literal["multinomial", "row_multinomial", "expected_rounded"]


@overload
def resample(
    M: DeviceT,
    /,
    missed: DeviceT | None = ...,
    *,
    n_resamples: int = ...,
    scheme: Scheme = ...,
    n: int | None = ...,
    rng: "int | np.random.Generator" = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> DeviceT: ...
@overload
def resample(
    M: ArrayLike,
    /,
    missed: ArrayLike | None = ...,
    *,
    n_resamples: int = ...,
    scheme: Scheme = ...,
    n: int | None = ...,
    rng: "int | np.random.Generator" = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Integers: ...
@explain_options
def resample(
    M: Array,
    /,
    missed: Array | None = None,
    *,
    n_resamples: int = 1000,
    scheme: Scheme = "multinomial",
    n: int | None = None,
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = None,
    num_threads: int | None = None,
) -> Any:
    """Draw bootstrap resamples of confusion matrices.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts; or any shares of them if `n` is given.
    missed : array, shape (..., C), optional
        Samples of each class without a prediction, such as objects that a detector missed. They are drawn too, but left
        out of the result.
    n_resamples : int
        Number of replicates of each matrix.
    scheme : {"multinomial", "row_multinomial", "expected_rounded"}
        Random model (see Notes).
    n : int, optional
        Number of samples in each replicate; default: the total of `M` and `missed`. Not for "row_multinomial", which
        keeps the number of samples of every class.
    rng : int or numpy.random.Generator
        Seed of the random numbers.
    on_failure : {"warn", "raise", "ignore"}, optional
        What to do about matrices that cannot be drawn from; their resamples are 0.
        Default: as :func:`cmfast.config` says, first "warn".
    num_threads : int, optional
        Most threads to use; default: as :func:`cmfast.config` says, else what the process may use.

    Returns
    -------
    array of int64, shape (..., n_resamples, C, C)
        Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        Matrices that are not square or not real; `missed` of another shape; `n` together with "row_multinomial".

    Notes
    -----
    - "multinomial": all cells, as if the labelled samples were drawn with replacement.
    - "row_multinomial": each row separately, for class counts fixed by design.
    - "expected_rounded": only the class counts are random; a cell is its rounded expectation,
      ``round(round(N_i * found_i) * share_ij)``, half to even. This is the simulation of the source (Foucart). It
      lacks most of the variance of the other cells, and much of the rest is rounding; use it only for comparison with
      the source.

    Bad values: a matrix with a negative or not finite cell, or with fractions and no `n` (INVALID), or with no mass to
    draw `n` samples from (ZERO_LINE), gives zeros for that matrix alone and is reported as `on_failure` says.
    Synchronises the device unless `on_failure` is "ignore". Reproducible: random numbers are computed from the seed,
    the position in the batch, the replicate and the cell (counter-based generator), so the same `rng` gives the same
    matrices for any number of threads, any chunks of a Dask array and on every device, and replicate k does not depend
    on the number of replicates.

    References
    ----------
    Foucart, notebook 4.4.2.3, Normalized confusion matrix (the scheme "expected_rounded"). Salmon, Moraes, Dror and
    Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011 (Philox). Hoermann, The generation of binomial random
    variates, 1993 (BTRS).

    Examples
    --------
    >>> from cmfast import metrics, uncertainty
    >>> replicates = uncertainty.resample(
    ...     [[420, 15, 15], [10, 280, 10], [30, 20, 200]],
    ...     n_resamples=4000,
    ...     rng=1,
    ... )
    >>> replicates.shape
    (4000, 3, 3)
    >>> # sqrt(0.9 * 0.1 / 1000) is 0.0095
    >>> value = metrics.accuracy(replicates).std()
    >>> round(float(value), 3)
    0.01
    """
    validate.choice("scheme", scheme, get_args(Scheme))
    on_failure = validate.on_failure(on_failure)
    n_resamples = validate.count("n_resamples", n_resamples)
    num_threads = validate.num_threads(num_threads)
    if n is not None:
        n = validate.count("n", n)
        if scheme == "row_multinomial":
            validate.refuse("n", 'None with scheme="row_multinomial"', n)
    options: dict[str, Any] = {"n_resamples": n_resamples, "scheme": scheme, "n": n}
    seed = int(validate.generator(rng).integers(2**63))
    return _draw_matrices(M, missed, seed=seed, on_failure=on_failure, num_threads=num_threads, **options)


@accept_dask_arrays("numbers", M="CC", missed="C")
def _draw_matrices(
    M: Array,
    missed: Array | None,
    *,
    on_failure: OnFailure,
    num_threads: int | None,
    numbers: np.ndarray | None = None,
    **options: Any,
) -> Any:
    """Validate the arrays and draw the replicates; `numbers` are the stream numbers of the matrices."""
    M, missed = dispatch.adopt(optional=("missed",), M=M, missed=missed)
    validate.matrices(square=True, M=M)
    shape = dispatch.shape_of(M)[:-1]
    validate.real(missed=missed)
    if missed is not None and dispatch.shape_of(missed) != shape:
        of = dispatch.shape_of(missed)
        given = f"shape {of}" if of else "a number; the number of replicates is n_resamples="
        validate.refuse("missed", f"of shape {shape}, one entry per class", given)
    replicates, status = dispatch.call("resample", M, missed, numbers=numbers, num_threads=num_threads, **options)
    why = partial(explain_failure, M, missed, options["scheme"])
    failures.report(status, on_failure, failed="matrices not resampled", why=why)
    return replicates


def explain_failure(M: Array, missed: Array | None, scheme: Scheme, index: tuple[int, ...]) -> str:
    """Return a text that says why the matrix at `index` cannot be resampled, and what to pass instead."""
    size = "" if scheme == "row_multinomial" else f"{wording.option('n')}, the number of samples in a resample, or "
    return f"{explain_invalid(index, f'{size}the counts that they came from', M=M, missed=missed)}; its resamples are 0"
