"""How much cells can hold, and what is said of more."""

from collections.abc import Iterator
from contextlib import contextmanager

from cmfast._core import validate

BEYOND_KEYS = "do not fit into 63 bits"  # how `kernels.shared.geometry_keys.require` ends
MOST_POINTS = 2**61 - 1  # weights as integers (kernels.shared.geometry_weights) need two bits above the counts
MOST_MATRIX_CLASSES = 2**30 - 1  # the confusion matrix of more could not even be addressed
MOST_GROUPS = 2**62  # more leave no room for the cells in keys of 63 bits


@contextmanager
def explain_overflow(asked: str) -> Iterator[None]:
    """Say which arguments, `asked`, have more cells and classes than keys can tell apart."""
    try:
        yield
    except OverflowError as error:
        given = str(error.__cause__)  # what the kernel said
        if not given.endswith(BEYOND_KEYS):
            raise
        validate.fail(f"{asked} ask for more cells than can be told apart: {given}", OverflowError)


def check_total(n_points: int, n_dropped: int) -> None:
    """Refuse what would not stay exact: every sum of counts is at most the number of points."""
    for what, number in (("points", n_points), ("points left out", n_dropped)):
        if number > MOST_POINTS:
            validate.fail(f"{number} {what} are more than the 2**61 - 1 that CellCounts can hold", OverflowError)


@contextmanager
def explain_matrix_memory(n_classes: int) -> Iterator[None]:
    """Say how large the confusion matrix would be where there is no memory for it."""
    try:
        yield
    except MemoryError:
        size = f"{8 * n_classes * n_classes / 2**30:.0f} GiB"
        validate.fail(f"no memory for the confusion matrix of n_classes={n_classes}, {size}", MemoryError)
