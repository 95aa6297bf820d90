"""Draws of confusion matrices: ``resample``."""

from functools import partial
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from cmfast._core import dispatch, failures, validate, wording
from cmfast._core.annotations import Array, DeviceT, Integers, OnFailure
from cmfast._core.lazy import accept_dask_arrays
from cmfast.uncertainty._unfit import unfit

Scheme: TypeAlias = Literal["multinomial", "row_multinomial", "expected_rounded"]


@overload
def resample(
    M: DeviceT,
    /,
    missed: DeviceT | None = ...,
    *,
    n_replicates: int = ...,
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
    n_replicates: int = ...,
    scheme: Scheme = ...,
    n: int | None = ...,
    rng: "int | np.random.Generator" = ...,
    on_failure: OnFailure = ...,
    num_threads: int | None = ...,
) -> Integers: ...
def resample(
    M: Array,
    /,
    missed: Array | None = None,
    *,
    n_replicates: int = 1000,
    scheme: Scheme = "multinomial",
    n: int | None = None,
    rng: "int | np.random.Generator" = 0,
    on_failure: OnFailure = "warn",
    num_threads: int | None = None,
) -> Any:
    """Draw confusion matrices that other samples of the same kind would have given.

    Parameters
    ----------
    M : array, shape (..., C, C)
        Counts; or any shares of them if `n` is given.
    missed : array, shape (..., C), optional
        Samples of each class that got no prediction: what a detector did not find. They take part in the draw and are
        left out of the result.
    n_replicates : int
        Matrices to draw for each one.
    scheme : {"multinomial", "row_multinomial", "expected_rounded"}
        What is random (see Notes).
    n : int, optional
        Samples in each replicate; default: as many as `M` and `missed` hold. Not for "row_multinomial", which keeps
        the number of samples of every class.
    rng : int or numpy.random.Generator
        Seed of the draws.
    on_failure : {"warn", "raise", "ignore"}
        What to do about matrices that cannot be drawn from; their replicates are 0.
    num_threads : int, optional
        Most threads to use; default: what the process may use.

    Returns
    -------
    array of int64, shape (..., n_replicates, C, C)
        Library and device of `M`.

    Raises
    ------
    TypeError, ValueError
        Matrices that are not square or not real; `missed` of another shape; `n` together with "row_multinomial".

    Notes
    -----
    - "multinomial": all cells, as if the labelled samples were drawn again with replacement.
    - "row_multinomial": each row for itself, for class counts that are fixed by design.
    - "expected_rounded": only the class counts are random; a cell is its rounded expectation,
      ``round(round(N_i * found_i) * share_ij)``, half to even. This is what the source simulates. Most of the spread
      of the other cells is missing, and on normalised matrices much of what is left comes from the rounding; use it
      for comparison with the source alone.

    Bad values: a matrix with a negative or not finite cell, or with fractions and no `n` (INVALID), or with no mass to
    draw `n` samples from (ZERO_LINE), gives zeros there and nowhere else, and is reported as `on_failure` says.
    Synchronises the device unless `on_failure` is "ignore". Reproducible: random numbers are made of the seed, the
    place in the batch, the number of the replicate and the cell, so the same `rng` gives the same matrices for any
    number of threads, any chunks of a Dask array and on every device, and replicate k is the same however many are
    drawn.

    References
    ----------
    Foucart, notebook 4.4.2.3, Normalized confusion matrix (the scheme "expected_rounded"). Salmon, Moraes, Dror and
    Shaw, Parallel random numbers: as easy as 1, 2, 3, 2011 (Philox). Hoermann, The generation of binomial random
    variates, 1993 (BTRS).

    Examples
    --------
    >>> from cmfast import metrics, uncertainty
    >>> replicates = uncertainty.resample([[420, 15, 15], [10, 280, 10], [30, 20, 200]], n_replicates=4000, rng=1)
    >>> replicates.shape
    (4000, 3, 3)
    >>> round(float(metrics.accuracy(replicates).std()), 3)  # sqrt(0.9 * 0.1 / 1000) is 0.0095
    0.01
    """
    validate.choice("scheme", scheme, get_args(Scheme))
    validate.on_failure(on_failure)
    n_replicates = validate.count("n_replicates", n_replicates)
    num_threads = validate.num_threads(num_threads)
    if n is not None:
        n = validate.count("n", n)
        if scheme == "row_multinomial":
            validate.refuse("n", 'None with scheme="row_multinomial"', n)
    options: dict[str, Any] = {"n_replicates": n_replicates, "scheme": scheme, "n": n}
    seed = int(validate.generator(rng).integers(2**63))
    return _resampled(M, missed, seed=seed, on_failure=on_failure, num_threads=num_threads, **options)


@accept_dask_arrays("numbers", M="CC", missed="C")
def _resampled(
    M: Array,
    missed: Array | None,
    *,
    on_failure: OnFailure,
    num_threads: int | None,
    numbers: np.ndarray | None = None,
    **options: Any,
) -> Any:
    M, missed = dispatch.adopt(optional=("missed",), M=M, missed=missed)
    validate.matrices(square=True, M=M)
    shape = dispatch.shape_of(M)[:-1]
    validate.real(missed=missed)
    if missed is not None and dispatch.shape_of(missed) != shape:
        validate.refuse("missed", f"of shape {shape}, one entry per class", f"shape {dispatch.shape_of(missed)}")
    replicates, status = dispatch.call("resample", M, missed, numbers=numbers, num_threads=num_threads, **options)
    why = partial(why_not, M, missed, options["scheme"])
    failures.report(status, on_failure, failed="matrices not resampled", why=why)
    return replicates


def why_not(M: Array, missed: Array | None, scheme: Scheme, index: tuple[int, ...]) -> str:
    """Say why nothing was drawn from the matrix at `index`, and what helps."""
    size = "" if scheme == "row_multinomial" else f"{wording.option('n')}, the number of samples in a replicate, or "
    return f"{unfit(index, f'{size}the counts that they came from', M=M, missed=missed)}; its replicates are 0"
