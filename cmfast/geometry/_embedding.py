"""What the functions on embedded points share: checked arguments, principal axes, cells, weightings."""

from typing import Any, NamedTuple

from cmfast._core import dispatch, failures, validate
from cmfast._core.annotations import Array, Method, OnFailure
from cmfast.geometry._cells import CellCounts
from cmfast.geometry._grid import Grid, as_grid
from cmfast.geometry._projection import projected
from cmfast.geometry._weights import tables

Weights = Method | Array | list[Method | Array]
RULES = ("scott", "freedman_diaconis")


class Embedded(NamedTuple):
    """Points on their axes, with their classes and cells."""

    X: Array
    y_true: Array
    y_pred: Array
    grid: Grid


def embedded(
    X: Array,
    y_true: Array,
    y_pred: Array,
    n_components: int | None,
    grid: Grid | str,
    num_threads: int | None,
) -> Embedded:
    """Check the points, project them and choose their cells."""
    if not isinstance(grid, Grid):
        validate.choice("grid", grid, RULES, "a cmfast.Grid or ")
    if n_components is not None:
        n_components = validate.count("n_components", n_components, least=1)
    validate.columns(y_true=y_true, y_pred=y_pred)
    X, y_true, y_pred = dispatch.adopt(X=X, y_true=y_true, y_pred=y_pred)
    n, m = validate.points(X=X)
    validate.integer(y_true=y_true, y_pred=y_pred)
    validate.per_point(n, y_true=y_true, y_pred=y_pred)
    if isinstance(grid, Grid):
        as_grid(grid, m if n_components is None else min(n_components, m))
    quiet: dict[str, Any] = {"on_failure": "ignore", "num_threads": num_threads}
    if n_components is not None:
        X = projected(X, min(n_components, m), keep_all=isinstance(grid, Grid), num_threads=num_threads)
    return Embedded(X, y_true, y_pred, grid if isinstance(grid, Grid) else getattr(Grid, grid)(X, **quiet))


def weighted(
    cells: CellCounts,
    weights: Any,
    smoothing: Any,
    on_failure: OnFailure,
    num_threads: int | None,
    *,
    bounded: bool = True,
) -> tuple[tuple[Any, ...], list[Any], list[str]]:
    """Return all that the kernel of `gcm` does, the tables of weights and their names.

    The normalised matrices and the upper bounds are there if `bounded`.
    """
    M = cells._matrix()
    found, names = tables(M, weights, smoothing)
    options: dict[str, Any] = {"bounded": bounded, "num_threads": num_threads}
    out = dispatch.call("gcm", cells._keys, cells.counts, M, *found, **options)
    status = dispatch.to_host(out[-1])

    def describe(index: tuple[int, ...]) -> str:
        if names[index[0]] != "bi":
            return f"{names[index[0]]}: a weight that is used is negative, not finite or too large"
        hint = "smoothing= makes them exist" if smoothing is None else f"with smoothing={smoothing!r}"
        return f"the weights 'bi' do not exist for this confusion matrix, or were not found; {hint}"

    failures.report(status, on_failure, failed="weightings not computed", describe=describe)
    return out, found, names
