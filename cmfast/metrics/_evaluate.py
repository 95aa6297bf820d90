"""What every function that evaluates metrics runs, once the names are known: of matrices, or of their sums."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cmfast._core import bad_values, dispatch, failures, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, OnFailure, Undefined
from cmfast._core.lazy import accept_dask_arrays
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import find

FAILED = "matrices not evaluated"
SUMS: tuple[str, ...] = ("d", "t", "p", "bands", "tops")


@accept_dask_arrays(M="CC")
def evaluate(
    M: Array,
    names: tuple[str, ...],
    undefined: Undefined,
    positive: int,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None = None,
) -> list[Any]:
    """Return the arrays of `names`, which are known."""
    check_options(undefined, positive, on_failure)
    num_threads = validate.num_threads(num_threads)
    if sparse.is_sparse(M):
        validate.matrices(square=True, M=M)
        sums = dict(zip(SUMS, sparse.sum_margins(M), strict=True))
        why = partial(sparse.explain_bad_cells, M)
        return evaluate_sums(sums, names, undefined, positive, on_failure, num_threads, labels, why) if names else []
    M = dispatch.adopt_one("M", M, "metrics_of_matrices")
    C, _ = validate.matrices(square=True, M=M)
    chosen = _plan.labels_of(labels, C)
    layout = _plan.plan(names, C, undefined, positive, chosen, asked="M")
    *found, status = dispatch.call("metrics_of_matrices", M, plan=layout.plan, num_threads=num_threads)
    failures.report(status, on_failure, failed=FAILED, why=partial(bad_values.explain_sum, M))
    return _placed(found, layout, chosen)


def evaluate_sums(
    sums: dict[str, Any],
    names: tuple[str, ...],
    undefined: Undefined,
    positive: int,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None = None,
    why: Callable[[tuple[int, ...]], str] | None = None,
) -> list[Any]:
    """Return the arrays of `names`, which are known, of sums by the names of their arguments.

    `why` says what is wrong with the sums at an index, which has no metrics.
    """
    check_options(undefined, positive, on_failure)
    num_threads = validate.num_threads(num_threads)
    adopted = dict(zip(sums, dispatch.adopt(optional=("bands", "tops"), **sums), strict=True))
    validate.real(**adopted)
    shape = validate.same_shape(**adopted)
    if not shape:
        validate.refuse("d", "of shape (..., C)", "shape ()")
    chosen = _plan.labels_of(labels, shape[-1])
    layout = _plan.plan(names, shape[-1], undefined, positive, chosen, asked="d, t and p")
    for name in names:
        for option in needs(name):
            if adopted[option] is None:
                validate.refuse(option, f"given for {name}", "None")
    *found, status = dispatch.call("metrics_of_sums", *adopted.values(), plan=layout.plan, num_threads=num_threads)
    failures.report(status, on_failure, failed="sums not evaluated", why=why or partial(_unlike_a_matrix, adopted))
    return _placed(found, layout, chosen)


@accept_dask_arrays(**dict.fromkeys(SUMS, "C"))
def of_sums(
    names: tuple[str, ...],
    undefined: Undefined,
    positive: int,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None,
    why: Callable[[tuple[int, ...]], str] | None = None,
    **sums: Array,
) -> list[Any]:
    """Return what :func:`evaluate_sums` does, also of Dask arrays."""
    return evaluate_sums(sums, names, undefined, positive, on_failure, num_threads, labels, why)


def _unlike_a_matrix(sums: dict[str, Any], index: tuple[int, ...]) -> str:
    """Say why the sums at `index` are those of no matrix."""
    one = {name: adapter(array).to_host(array)[index] for name, array in sums.items() if array is not None}
    if found := bad_values.describe_bad_value(**one):
        return found
    for name in ("t", "p"):
        above = np.flatnonzero(one["d"] > one[name])
        if above.size:
            k = int(above[0])
            return f"d[{k}] is {one['d'][k]}, above {name}[{k}], which is {one[name][k]}"
    totals = [one[name].sum() for name in ("t", "p")]
    return f"t adds up to {totals[0]}, p to {totals[1]}" if totals[0] != totals[1] else "no matrix has these sums"


def _placed(found: list[Any], layout: _plan.PlacedPlan, labels: tuple[int, ...] | None) -> list[Any]:
    """Return the results in the order of the names; of a metric per class those of `labels`."""
    if labels is not None:
        first = layout.plan.scalars
        chosen = list(labels)
        found = [
            part if place < first else adapter(part).evaluate(lambda part: part[..., chosen], part)
            for place, part in enumerate(found)
        ]
    return found if len(found) == 1 == len(layout.places) else [found[place] for place in layout.places]


def check_options(undefined: object, positive: object, on_failure: object) -> None:
    """Check what every function that evaluates metrics takes."""
    _plan.undefined_of(undefined)
    validate.on_failure(on_failure)
    if type(positive) is int and 0 <= positive <= 1:
        return
    if validate.count("positive", positive) > 1:
        validate.refuse("positive", "0 or 1", positive)


def needs(name: str) -> tuple[str, ...]:
    """Return which sums beyond diagonal and margins the metric `name` needs."""
    form = find(name)
    if form is None or not form.metric.ordered:
        return ()
    return ("bands", "tops") if form.metric.name == "gerrity" else ("bands",)
