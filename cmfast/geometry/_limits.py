"""Capacity limits of cell counts, and the errors for exceeding them."""

from collections.abc import Iterator
from contextlib import contextmanager

from cmfast._core import validate

BEYOND_KEYS = "do not fit into 63 bits"  # end of the error of `kernels.shared.geometry_keys.require`
MOST_POINTS = 2**61 - 1  # integer weights (kernels.shared.geometry_weights) need two more bits than the counts
MOST_MATRIX_CLASSES = 2**30 - 1  # a larger confusion matrix could not be addressed
MOST_GROUPS = 2**62  # 63-bit keys need bits for the cells, too


@contextmanager
def explain_overflow(asked: str) -> Iterator[None]:
    """In this block, turn an overflow of 63-bit keys into an error that names the arguments `asked`."""
    try:
        yield
    except OverflowError as error:
        given = str(error.__cause__)  # the kernel's own error
        if not given.endswith(BEYOND_KEYS):
            raise
        validate.fail(f"{asked} ask for more cells than can be told apart: {given}", OverflowError)


def check_total(n_points: int, n_dropped: int) -> None:
    """Raise OverflowError for more than 2**61 - 1 points, beyond which sums of weights would not be exact."""
    for what, number in (("points", n_points), ("points left out", n_dropped)):
        if number > MOST_POINTS:
            validate.fail(f"{number} {what} are more than the 2**61 - 1 that CellCounts can hold", OverflowError)


@contextmanager
def explain_matrix_memory(n_classes: int) -> Iterator[None]:
    """In this block, turn a MemoryError into one that gives the size of the confusion matrix."""
    try:
        yield
    except MemoryError:
        size = f"{8 * n_classes * n_classes / 2**30:.0f} GiB"
        validate.fail(f"no memory for the confusion matrix of n_classes={n_classes}, {size}", MemoryError)
