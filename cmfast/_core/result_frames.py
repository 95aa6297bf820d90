"""Turn results into data frames of pandas."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from cmfast._core import sparse
from cmfast._core.adapters import adapter
from cmfast._core.libraries import load_pandas


def make_frame(columns: Mapping[str, Any], axes: Sequence[str] = ()) -> Any:
    """Return a DataFrame with a row per entry of arrays of one shape, after columns of the entry's indices.

    `axes` names the last axes; the axes before them are the batch.
    """
    pd = load_pandas()
    host = {name: copy_to_host(x) for name, x in columns.items()}
    shape = np.broadcast_shapes(*(x.shape for x in host.values()))
    names = [*_name_batch(len(shape) - len(axes)), *axes]
    indices = np.indices(shape).reshape(len(shape), prod(shape))
    frame = dict(zip(names, indices, strict=True))
    return pd.DataFrame(frame | {name: np.broadcast_to(x, shape).ravel() for name, x in host.items()})


def make_matrix_frame(
    matrix: Any,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    *,
    axes: tuple[str, str] = ("true", "predicted"),
    groups: Sequence[Any] | None = None,
) -> Any:
    """Return a DataFrame of a matrix, or of the matrices of a batch below each other, with named rows and columns.

    `classes` names the rows, and without `columns` these, too. `groups` names the matrices of a batch of one axis;
    default: their indices.
    """
    pd = load_pandas()
    M = matrix.toarray() if sparse.is_sparse(matrix) else copy_to_host(matrix)
    *batch, R, C = M.shape
    given = ((classes, R), (classes if columns is None else columns, C))
    rows, cols = (range(n) if names is None else list(names) for names, n in given)
    index: Any = pd.Index(rows, name=axes[0])
    if batch:
        levels: list[Any] = [*map(range, batch), rows] if groups is None else [list(groups), rows]
        names = _name_batch(len(batch)) if groups is None else ["group"]
        index = pd.MultiIndex.from_product(levels, names=[*names, axes[0]])
    return pd.DataFrame(M.reshape(-1, C), index=index, columns=pd.Index(cols, name=axes[1]))


def split_table(matrix: Any) -> dict[str, np.ndarray]:
    """Return the four cells of 2x2 matrices, class 1 being the positive one, by their usual names."""
    M = copy_to_host(matrix)
    return {name: M[..., k // 2, k % 2] for k, name in enumerate(("tn", "fp", "fn", "tp"))}


def copy_to_host(x: Any) -> np.ndarray:
    """Return an array, or a number, as a NumPy array; raise TypeError for a lazy one."""
    return np.asarray(adapter(x).to_host(x))


def _name_batch(n: int) -> list[str]:
    """Return the names of `n` batch axes."""
    return ["batch"] if n == 1 else [f"batch_{k}" for k in range(n)]
