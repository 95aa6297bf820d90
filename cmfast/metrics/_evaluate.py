"""Evaluate metrics whose names have been resolved, from matrices or from their diagonals and margins."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cmfast._core import bad_values, dispatch, failures, sparse, validate
from cmfast._core.adapters import adapter
from cmfast._core.annotations import Array, FailurePolicy, Label, OnFailure, Undefined
from cmfast._core.lazy import accept_dask_arrays
from cmfast.metrics import _plan
from cmfast.metrics._catalogue import find_form
from cmfast.metrics._outputs import Labelled, adopt_outputs

FAILED = "matrices not evaluated"
SUMS: tuple[str, ...] = ("d", "t", "p", "bands", "tops")


@accept_dask_arrays(M="CC")
def evaluate(
    M: Array,
    names: tuple[str, ...],
    undefined: Undefined,
    pos_label: Label | None,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None = None,
    out: Labelled | None = None,
) -> list[Any]:
    """Return the arrays of the known metric names `names` for dense, sparse or lazy matrices; those of `out` if given.

    Lazy matrices have no `out`.
    """
    on_failure = check_options(undefined, on_failure)
    num_threads = validate.num_threads(num_threads)
    if (take := getattr(type(M), "_take_for", None)) is not None:  # labelled counts know their positive class
        M, positive, _ = take(M, names, pos_label)
    else:
        positive = find_positive(pos_label)
    if sparse.is_sparse(M):
        if out is not None:
            validate.refuse("out", "None for a sparse matrix", f"out with M a {type(M).__name__}", TypeError)
        validate.matrices(square=True, M=M)
        sums = dict(zip(SUMS, sparse.sum_margins(M), strict=True))
        why = partial(sparse.explain_bad_cells, M)
        return evaluate_sums(sums, names, undefined, positive, on_failure, num_threads, labels, why) if names else []
    M = dispatch.adopt_one("M", M, "metrics_of_matrices" if out is None else None)
    C, _ = validate.matrices(square=True, M=M)
    chosen = _plan.validate_class_ids(labels, C)
    layout = _plan.make_plan(names, C, undefined, positive, chosen, argument="M")
    outputs, options = None, dict[str, Any](plan=layout.plan, num_threads=num_threads)
    if out is not None:
        shapes = _list_shapes(names, M.shape[:-2], C if chosen is None else len(chosen))
        outputs = adopt_outputs(out, M, shapes, layout)
    memory = outputs.list_memory(layout) if outputs is not None and chosen is None else None
    if memory:
        options["into"] = memory
    *found, status = dispatch.call("metrics_of_matrices", M, **options)
    failures.report(status, on_failure, failed=FAILED, why=partial(bad_values.explain_sum, M))
    found = _order_results(memory or found, layout, chosen)
    return found if outputs is None else outputs.fill(found)


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
    """Return the arrays of the known metric names `names`, computed from diagonals, margins and distance sums.

    `sums` maps the argument names ``d``, ``t``, ``p``, ``bands``, ``tops`` to arrays. `why` explains the invalid sums
    at an index.

    `why` says what is wrong with the sums at an index, which has no metrics.
    """
    on_failure = check_options(undefined, on_failure)
    num_threads = validate.num_threads(num_threads)
    adopted = dict(zip(sums, dispatch.adopt(optional=("bands", "tops"), **sums), strict=True))
    validate.real(**adopted)
    shape = validate.same_shape(**adopted)
    if not shape:
        validate.refuse("d", "of shape (..., C)", "shape ()")
    chosen = _plan.validate_class_ids(labels, shape[-1])
    layout = _plan.make_plan(names, shape[-1], undefined, positive, chosen, argument="d, t and p")
    for name in names:
        for option in get_ordered_sums(name):
            if adopted[option] is None:
                validate.refuse(option, f"given for {name}", "None")
    *found, status = dispatch.call("metrics_of_sums", *adopted.values(), plan=layout.plan, num_threads=num_threads)
    failures.report(status, on_failure, failed="sums not evaluated", why=why or partial(_explain_invalid_sums, adopted))
    return _order_results(found, layout, chosen)


@accept_dask_arrays(**dict.fromkeys(SUMS, "C"))
def evaluate_lazy_sums(
    names: tuple[str, ...],
    undefined: Undefined,
    positive: int,
    on_failure: OnFailure,
    num_threads: int | None,
    labels: Sequence[int] | None,
    why: Callable[[tuple[int, ...]], str] | None = None,
    **sums: Array,
) -> list[Any]:
    """Return the arrays of the known metric names `names` from sums that may be Dask arrays."""
    return evaluate_sums(sums, names, undefined, positive, on_failure, num_threads, labels, why)


def _explain_invalid_sums(sums: dict[str, Any], index: tuple[int, ...]) -> str:
    """Return a text that says why no matrix has the diagonal and margins at `index`."""
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


def _order_results(found: list[Any], layout: _plan.IndexedPlan, labels: tuple[int, ...] | None) -> list[Any]:
    """Return the results in the order of the requested names; per-class results are restricted to `labels`."""
    if labels is not None:
        first = layout.plan.scalars
        chosen = list(labels)
        found = [
            part if place < first else adapter(part).evaluate(lambda part: part[..., chosen], part)
            for place, part in enumerate(found)
        ]
    return found if len(found) == 1 == len(layout.positions) else [found[place] for place in layout.positions]


def _list_shapes(names: tuple[str, ...], batch: tuple[int, ...], n_classes: int) -> list[tuple[int, ...]]:
    """Return the shape of each metric of a batch: one value per matrix, or one per class."""
    per_class = [form is not None and form.per_class for form in map(find_form, names)]
    return [(*batch, n_classes) if each else tuple(batch) for each in per_class]


def check_options(undefined: object, on_failure: OnFailure) -> FailurePolicy:
    """Validate the options `undefined` and `on_failure`; return the latter."""
    _plan.check_undefined(undefined)
    return validate.on_failure(on_failure)


def find_positive(pos_label: Any) -> int:
    """Return the position of the positive class of a matrix without labels: `pos_label` is 0 or 1, by default 1."""
    if pos_label is None:
        return 1
    place = validate.count("pos_label", pos_label)
    if place > 1:
        validate.refuse("pos_label", "0 or 1, as matrices have no labels", validate.format_value(pos_label))
    return place


def get_ordered_sums(name: str) -> tuple[str, ...]:
    """Return which of the sums ``bands`` and ``tops`` the metric `name` of ordered classes needs."""
    form = find_form(name)
    if form is None or not form.metric.ordered:
        return ()
    return ("bands", "tops") if form.metric.name == "gerrity" else ("bands",)
