"""When matrix scaling stops; the same for every target."""

FLOOR = 2e-15  # rounding: the smallest residual that can be promised
LINES = 32  # of the longer side up to which it is; what sums round grows with their length


def rounding(R: int, C: int) -> float:
    """Return a residual that nothing can be demanded below, for matrices of R rows and C columns."""
    return FLOOR * max(1.0, max(R, C) / LINES)


def goals(tol: float, R: int, C: int) -> tuple[float, float, float]:
    """Return where the iteration stops, where it does if it no longer moves, and what is CONVERGED.

    The first two are for residuals that a solver measures on the way, without the columns or without the diagonal; the
    third is for that of what is returned, measured again. They are so far apart that rounding never turns "just
    converged" into "not quite" while passes are left.
    """
    half = 0.5 * rounding(R, C)
    return tol - min(half, 0.5 * tol), half, max(tol, 2.0 * half)
