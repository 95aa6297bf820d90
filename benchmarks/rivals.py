"""Each competitor wrapped once, in its own best form and with its own threads, with our inputs and outputs."""

import warnings

import numpy as np


def sklearn_confusion_matrix(y, p):
    """scikit-learn's ``confusion_matrix``."""
    from sklearn.metrics import confusion_matrix

    return confusion_matrix(y, p)


def numpy_bincount(y, p, C):
    """NumPy: one combined index, one bincount."""
    return np.bincount(y * C + p, minlength=C * C).reshape(C, C)


def numpy_sinkhorn(M, tol, max_iter=1_000_000):
    """NumPy, the whole batch at once, factors only until the end; stops when the worst matrix is done."""
    C = M.shape[-1]
    y = np.ones((len(M), C, 1))
    s = M @ y
    for _ in range(max_iter):
        x = 1 / s
        y = 1 / (M.transpose(0, 2, 1) @ x)
        s = M @ y  # what the next row step needs; the columns are exact, so the rows are all that is left
        if np.abs(x * s - 1).sum((1, 2)).max() <= tol * C:
            break
    return x * M * y.transpose(0, 2, 1)


def pot_sinkhorn(M, tol):
    """POT's ``ot.sinkhorn``, one matrix at a time (cost = -log M, regularisation 1)."""
    import ot

    C = M.shape[-1]
    ones = np.ones(C)
    # Its test is the L2 norm of the column error: tol * sqrt(C) bounds the L1 norm over C by tol.
    options = {"numItermax": 1_000_000, "stopThr": tol * C**0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it did not converge; our check reports that
        return np.stack([ot.sinkhorn(ones, ones, -np.log(m), 1.0, **options) for m in M])


def ipfn_ipf(M, tol, max_iter=100_000):
    """Run ``ipfn``, one matrix at a time, with its second stop rule (change of the error) switched off."""
    from ipfn import ipfn

    ones = np.ones(M.shape[-1])
    options = {"convergence_rate": tol, "max_iteration": max_iter, "rate_tolerance": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A copy each: it changes its input in place.
        return np.stack([ipfn.ipfn(m.copy(), [ones, ones], [[0], [1]], **options).iteration() for m in M])


def polars_gcm(X, y, p, origin, inverse, C, *, packed):
    """polars: two group-bys and a join, one weighting; `packed` uses one integer key instead of m columns."""
    import polars as pl

    m = X.shape[1]
    axes = [f"x{k}" for k in range(m)]
    cell = [((pl.col(x).cast(pl.Float64) - origin[k]) * inverse[k]).floor().cast(pl.Int64) for k, x in enumerate(axes)]
    frame = pl.DataFrame(dict(zip(axes, X.T, strict=True)) | {"y": y, "p": p})
    if packed:
        bits = 63 // m
        frame = frame.select(
            sum((c * (1 << (bits * k)) for k, c in enumerate(cell)), pl.lit(0)).alias("cell"), "y", "p"
        )
        key = ["cell"]
    else:
        frame = frame.select(*(c.cast(pl.Int32) for c in cell), "y", "p")
        key = axes
    truth = frame.lazy().group_by([*key, "y"]).agg(pl.len().alias("a"))
    predicted = frame.lazy().group_by([*key, "p"]).agg(pl.len().alias("b"))
    pairs = truth.join(predicted, on=key).group_by(["y", "p"]).agg(pl.min_horizontal("a", "b").sum().alias("n"))
    table = pairs.collect()
    out = np.zeros((C, C))
    out[table["y"].to_numpy(), table["p"].to_numpy()] = table["n"].to_numpy()
    return out


def scipy_gcm(X, y, p, origin, inverse, C):
    """SciPy: unique cells, two sparse (C, cells) histograms, ``minimum`` per pair of classes; one weighting."""
    import scipy.sparse as sp

    _, counts, cell = numpy_unique_cells(X, origin, inverse)
    ones = np.ones(len(y), np.int64)
    shape = (C, len(counts))
    truth = sp.coo_array((ones, (y, cell)), shape=shape).tocsr()
    predicted = sp.coo_array((ones, (p, cell)), shape=shape).tocsr()
    return np.array([[truth[[i]].minimum(predicted[[j]]).sum() for j in range(C)] for i in range(C)], float)


def numpy_unique_cells(X, origin, inverse):
    """NumPy: ``unique`` over rows of cell indices; returns the cells, their counts, the cell of every point."""
    index = np.floor((X.astype(np.float64) - origin) * inverse).astype(np.int64)
    cells, cell, counts = np.unique(index, axis=0, return_inverse=True, return_counts=True)
    return cells, counts, cell.ravel()
