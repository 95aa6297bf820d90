"""Matrices to resample."""

import numpy as np

from cases._case import Case


def _cases():
    rng = np.random.default_rng(33)
    counts = rng.integers(0, 40, (6, 3, 3))
    missed = rng.integers(0, 9, (6, 3))
    bad = counts.astype(float)
    bad[0, 0, 0], bad[3, 1, 1], bad[5, 2, 2] = np.nan, -1.0, np.inf
    halves = counts.astype(float)
    halves[2, 1, 0] = 0.5
    empty = counts.copy()
    empty[4] = 0
    gaps = counts.copy()
    gaps[1, 1] = 0
    for scheme in ("multinomial", "row_multinomial", "expected_rounded"):
        few = {"n_replicates": 5, "scheme": scheme, "rng": 4}
        yield Case(f"{scheme}-bad-first-middle-last", (bad,), few, fails=True)
        yield Case(f"{scheme}-fractions", (halves,), few, fails=True)
        yield Case(f"{scheme}-no-samples", (empty,), few)
        yield Case(f"{scheme}-empty-class", (gaps,), few)
        yield Case(f"{scheme}-batch-of-none", (counts[:0],), few)
        yield Case(f"{scheme}-0x0", (counts[:2, :0, :0],), few)
        yield Case(f"{scheme}-1x1", (counts[:2, :1, :1],), few)
        yield Case(f"{scheme}-single", (counts[0],), few)
        yield Case(f"{scheme}-no-replicates", (counts,), {**few, "n_replicates": 0})
        yield Case(f"{scheme}-missed", (counts, missed), few)
        yield Case(f"{scheme}-float32", (counts.astype(np.float32), missed.astype(np.float32)), few)
        yield Case(f"{scheme}-two-axes", (counts.reshape(2, 3, 3, 3), missed.reshape(2, 3, 3)), few)
        if scheme != "row_multinomial":
            yield Case(f"{scheme}-n", (halves, missed), {**few, "n": 1000})
            yield Case(f"{scheme}-n-without-mass", (empty,), {**few, "n": 7}, fails=True)
            yield Case(f"{scheme}-shares", (rng.random((2, 4, 4)),), {**few, "n": 50})


CASES = {"resample": list(_cases())}
