"""Each competitor wrapped once, in its own best form and with its own threads, with our inputs and outputs."""

import contextlib
import warnings
from functools import cache

import numpy as np

from benchmarks import _numba_loops


def sklearn_confusion_matrix(y, p):
    """scikit-learn's ``confusion_matrix``."""
    from sklearn.metrics import confusion_matrix

    return confusion_matrix(y, p)


class NumpyBincount:
    """NumPy: ``bincount`` of one combined index, in the narrowest type that holds it and in arrays made before.

    Labels beyond `n` are counted in blocks of n; small blocks never leave the cache.
    """

    def __init__(self, n, C, dtype=np.intp):
        self.C = C
        self.combined = np.empty(n, np.promote_types(dtype, np.min_scalar_type(-C * C)))
        # What bincount takes without a copy.
        self.index = self.combined if self.combined.dtype == np.intp else np.empty(n, np.intp)

    def __call__(self, y, p):
        """Return the confusion matrix."""
        size = len(self.index)
        if len(y) <= size:
            return self._count(y, p).reshape(self.C, self.C)
        total = np.zeros(self.C**2, np.intp)
        for start in range(0, len(y), size):
            total += self._count(y[start : start + size], p[start : start + size])
        return total.reshape(self.C, self.C)

    def _count(self, y, p):
        combined, index = self.combined[: len(y)], self.index[: len(y)]
        np.multiply(y, self.C, out=combined)
        np.add(combined, p, out=combined)
        if index.dtype != combined.dtype:
            np.copyto(index, combined)
        return np.bincount(index, minlength=self.C**2)


def boost_counts(y, p, C):
    """boost-histogram: integer axes without bins for other values, and all threads."""
    import boost_histogram as bh

    axis = bh.axis.Integer(0, C, underflow=False, overflow=False)
    found = bh.Histogram(axis, axis, storage=bh.storage.Int64())
    return found.fill(y, p, threads=_numba_loops.CORES).view()


def fast_counts(y, p, C):
    """fast-histogram: bins of width one, of numbers that it takes as floats."""
    from fast_histogram import histogram2d

    return histogram2d(y, p, bins=C, range=((0, C), (0, C)))


def coded_counts(y, p, encode):
    """Return the labels in order and the confusion matrix, of codes and labels that `encode` returns for an array."""
    codes, labels = encode(np.concatenate([y, p]))
    C, order = len(labels), np.argsort(labels)
    M = np.bincount(codes[: len(y)] * C + codes[len(y) :], minlength=C * C).reshape(C, C)
    return labels[order], M[np.ix_(order, order)]


def pandas_codes(labels):
    """pandas: its hash table."""
    import pandas as pd

    return pd.factorize(labels)


def arrow_codes(labels):
    """Arrow: its hash table, of text after it is copied into Arrow's own."""
    import pyarrow as pa

    found = pa.array(labels).dictionary_encode()
    return found.indices.to_numpy(), found.dictionary.to_numpy(zero_copy_only=False)


def numpy_codes(labels):
    """NumPy: a sort."""
    return np.unique(labels, return_inverse=True)[::-1]


def polars_counts(y, p):
    """polars: a group-by of pairs; returns the labels in order and the confusion matrix."""
    import polars as pl

    given = {name: pl.Series(ids.tolist() if ids.dtype == object else ids) for name, ids in (("y", y), ("p", p))}
    table = pl.DataFrame(given).group_by("y", "p").len()
    rows, columns = (table[name].to_numpy() for name in given)
    labels, codes = np.unique(np.concatenate([rows, columns]), return_inverse=True)
    M = np.zeros((len(labels),) * 2, np.int64)
    M[codes[: len(rows)], codes[len(rows) :]] = table["len"].to_numpy()
    return labels, M


def numpy_sinkhorn(M, tol, max_iter=1_000_000):
    """NumPy, on the whole batch, updating factors only; stops when the worst matrix has converged."""
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


def blas_sinkhorn(M, tol, max_iter=1_000_000):
    """BLAS's products of a matrix and a vector, in place, one matrix at a time; each stops by itself."""
    out = np.empty_like(M)
    for m, scaled in zip(M, out, strict=True):
        rows, columns = m.sum(1), np.empty(m.shape[1])
        for _ in range(max_iter):
            x = 1 / rows
            y = 1 / np.dot(x, m, out=columns)
            np.dot(m, y, out=rows)
            if np.abs(x * rows - 1).sum() <= tol * len(m):
                break
        np.multiply(x[:, None] * m, y, out=scaled)
    return out


@cache
def _compile_jax_sweeps():
    """Return JAX's compiled sweeps of a batch, one matrix after the other."""
    import jax
    from jax import numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def scale(m, tol, max_iter):
        def sweep(state):
            _, _, rows, _, n = state
            x = 1 / rows
            y = 1 / (x @ m)
            rows = m @ y
            return x, y, rows, jnp.abs(x * rows - 1).sum(), n + 1

        def goes_on(state):
            return (state[3] > tol * len(m)) & (state[4] < max_iter)

        rows = m.sum(-1)
        x, y, *_ = jax.lax.while_loop(goes_on, sweep, (rows, rows, rows, jnp.inf, 0))
        return x[:, None] * m * y

    return jax.jit(lambda M, tol, max_iter: jax.lax.map(lambda m: scale(m, tol, max_iter), M))


def jax_sinkhorn(M, tol, max_iter=1_000_000):
    """JAX on the CPU, one matrix at a time in one compiled call, 1 to 1.5 times as fast as the whole batch together."""
    return np.asarray(_compile_jax_sweeps()(M, tol, max_iter))


@cache
def _compile_ott(tol, max_iter):
    """Return ott-jax's compiled solver of a batch."""
    import jax
    from ott.geometry.geometry import Geometry
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    jax.config.update("jax_enable_x64", True)
    # Of scalings: faster than its default in logarithms. Its error is the L1 norm of a margin that sums to one.
    solver = Sinkhorn(lse_mode=False, threshold=tol, max_iterations=max_iter)

    def scale(m):
        return solver(LinearProblem(Geometry(kernel_matrix=m, epsilon=1.0))).matrix * len(m)

    return jax.jit(jax.vmap(scale))


def ott_sinkhorn(M, tol, max_iter=1_000_000):
    """ott-jax's ``Sinkhorn`` under ``vmap``; it stops when the worst matrix is done."""
    return np.asarray(_compile_ott(tol, max_iter)(M))


def pot_sinkhorn(M, tol, max_iter=1_000_000):
    """POT's ``ot.sinkhorn``, one matrix at a time (cost = -log M, regularisation 1)."""
    import ot

    C = M.shape[-1]
    ones = np.ones(C)
    # Its test is the L2 norm of the column error: tol * sqrt(C) bounds the L1 norm over C by tol.
    options = {"numItermax": max_iter, "stopThr": tol * C**0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it did not converge; our check reports that
        return np.stack([ot.sinkhorn(ones, ones, -np.log(m), 1.0, **options) for m in M])


def pot_batch(M, tol, max_iter=20_000):
    """POT's batched Sinkhorn; it stops when the worst matrix is done."""
    import ot.batch

    ones = np.ones(M.shape[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ot.batch.bregman_projection_batch(M, ones, ones, max_iter=max_iter, tol=tol * M.shape[-1] ** 0.5)
    return np.asarray(result["T"])


def ipfn_ipf(M, tol, max_iter=100_000):
    """Run ``ipfn``, one matrix at a time, with its second stop rule (change of the error) switched off."""
    from ipfn import ipfn

    ones = np.ones(M.shape[-1])
    options = {"convergence_rate": tol, "max_iteration": max_iter, "rate_tolerance": 0.0}
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):  # it prints where it did not converge
        warnings.simplefilter("ignore")
        # A copy each: it changes its input in place.
        return np.stack([ipfn.ipfn(m.copy(), [ones, ones], [[0], [1]], **options).iteration() for m in M])


def ipfn_tables(M, targets, axes):
    """Run ``ipfn`` on tables, one at a time, until margins are met to 1e-9 or a thousand sweeps are over."""
    from ipfn import ipfn

    options = {"convergence_rate": 1e-9, "max_iteration": 1000, "rate_tolerance": 0.0}
    with warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        return np.stack(
            [
                ipfn.ipfn(m.copy(), [t[k] for t in targets], [list(of) for of in axes], **options).iteration()
                for k, m in enumerate(M)
            ]
        )


def humanleague_tables(M, targets, axes):
    """Run ``humanleague.ipf`` on tables, one at a time; it takes no tolerance."""
    import humanleague

    kept = [np.array(of) for of in axes]
    return np.stack([humanleague.ipf(m, kept, [t[k] for t in targets])[0] for k, m in enumerate(M)])


def highs_support(M, targets, axes):
    """HiGHS by SciPy: return the cells that can be positive in a table with these margins, None if no table exists.

    One linear program maximises all cells up to one, with the margins times any factor of at least one.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack, vstack

    found = []
    for k, table in enumerate(M):
        places = np.argwhere(table > 0)
        n = len(places)
        lines = []
        for of, target in zip(axes, targets, strict=True):
            rows = np.ravel_multi_index(places[:, of].T, target.shape[1:])
            lines.append(coo_array((np.ones(n), (rows, np.arange(n))), shape=(target[k].size, n)))
        asked = np.concatenate([target[k].ravel() for target in targets])
        cells, one = vstack(lines), coo_array((-np.ones(n), (np.arange(n), np.arange(n))), shape=(n, n))
        nothing = coo_array((len(asked), n))
        sums = hstack([cells, nothing, coo_array(-asked[:, None])])
        order = hstack([one, -one, coo_array((n, 1))])  # no cell is less than what it is counted as
        bounds = np.concatenate([np.tile([0, np.inf], (n, 1)), np.tile([0, 1], (n, 1)), [[1, np.inf]]])
        cost = np.concatenate([np.zeros(n), -np.ones(n), [0]])
        result = linprog(cost, order.tocsr(), np.zeros(n), sums.tocsr(), np.zeros(len(asked)), bounds, method="highs")
        dead = None
        if result.status == 0:
            dead = np.zeros(table.shape, bool)
            dead[tuple(places.T)] = result.x[n:-1] < 0.5
        found.append(dead)
    return found


def ipfn_rake(codes, q, totals):
    """``ipfn`` on the table of all combinations of categories, and back to the records."""
    shape = tuple(map(len, totals))
    keys = np.ravel_multi_index(tuple(codes), shape)
    table = np.bincount(keys, q, int(np.prod(shape)))
    scaled = ipfn_tables(table.reshape(1, *shape), [t[None] for t in totals], [(k,) for k in range(len(shape))])
    return q * (scaled.ravel() / np.where(table > 0, table, 1))[keys]


def numpy_rake(codes, q, totals, most=2000):
    """NumPy: a ``bincount`` per attribute, until the totals are met to 1e-9."""
    w = q.copy()
    for _ in range(most):
        worst = 0.0
        for code, target in zip(codes, totals, strict=True):
            sums = np.bincount(code, w, len(target))
            worst = max(worst, np.abs(sums - target).sum() / target.sum())
            w *= (target / sums)[code]
        if worst <= 1e-9:
            break
    return w


def numpy_shares(M, axes):
    """NumPy: divide the whole batch by its sums along `axes`."""
    return M / M.sum(axes, keepdims=True)


def numpy_weights(M, axes):
    """NumPy: one over the sum along `axes`, for every cell."""
    return np.broadcast_to(1 / M.sum(axes, keepdims=True), M.shape).copy()


def sklearn_shares_of_rows(M):
    """scikit-learn's ``normalize`` of all rows of the batch."""
    from sklearn.preprocessing import normalize

    return normalize(M.reshape(-1, M.shape[-1]), norm="l1").reshape(M.shape)


def numpy_overlap(S, T):
    """NumPy, on the whole batch."""
    return np.minimum(numpy_shares(S, (-2, -1)), numpy_shares(T, (-2, -1))).sum((-2, -1))


def numpy_l1_distance(S, T):
    """NumPy, on the whole batch."""
    return np.abs(numpy_shares(S, (-2, -1)) - numpy_shares(T, (-2, -1))).sum((-2, -1))


def numpy_kl_divergence(P, Q):
    """NumPy, on the whole batch; every cell positive."""
    p, q = numpy_shares(P, (-2, -1)), numpy_shares(Q, (-2, -1))
    return (p * np.log(p / q)).sum((-2, -1))


def scipy_kl_divergence(P, Q):
    """SciPy's ``rel_entr`` of the shares, on the whole batch."""
    from scipy.special import rel_entr

    return rel_entr(numpy_shares(P, (-2, -1)), numpy_shares(Q, (-2, -1))).sum((-2, -1))


def scipy_support(M):
    """SciPy, all matrices as blocks of one graph: a matching of rows and columns, its strongly connected components.

    Returns which matrices have a matching, and the cells that are in none (all False without one).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    B, C, _ = M.shape
    positive = M > 0
    matrix, i, j = np.nonzero(positive)
    row, column = matrix * C + i, matrix * C + j
    ones, shape = np.ones(len(row), np.int8), (B * C, B * C)
    matched = maximum_bipartite_matching(csr_array((ones, (row, column)), shape=shape), perm_type="column")
    has = (matched >= 0).reshape(B, C).all(1)
    partner = np.zeros(B * C, np.intp)  # the row that a column is matched to
    partner[matched[matched >= 0]] = np.flatnonzero(matched >= 0)
    _, group = connected_components(csr_array((ones, (row, partner[column])), shape=shape), connection="strong")
    dead = np.zeros(M.shape, bool)
    dead[matrix, i, j] = has[matrix] & (group[row] != group[partner[column]])
    return has, dead


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
    return _polars_matrix(frame, key, C)


def keyed_polars_gcm(X, y, p, origin, inverse, C):
    """Two group-bys and a join by polars, of keys that a Numba loop on all cores packs; one weighting."""
    import polars as pl

    return _polars_matrix(
        pl.DataFrame({"cell": _numba_loops.pack_cells(X, origin, inverse), "y": y, "p": p}), ["cell"], C
    )


def _polars_matrix(frame, key, C):
    """Return the geometric matrix of points whose cells are given by the columns `key`."""
    import polars as pl

    truth = frame.lazy().group_by([*key, "y"]).agg(pl.len().alias("a"))
    predicted = frame.lazy().group_by([*key, "p"]).agg(pl.len().alias("b"))
    pairs = truth.join(predicted, on=key).group_by(["y", "p"]).agg(pl.min_horizontal("a", "b").sum().alias("n"))
    table = pairs.collect()
    out = np.zeros((C, C))
    out[table["y"].to_numpy(), table["p"].to_numpy()] = table["n"].to_numpy()
    return out


def scipy_gcm(X, y, p, origin, inverse, C):
    """SciPy: unique packed cells, two sparse (C, cells) histograms, ``minimum`` per pair of classes; one weighting."""
    import scipy.sparse as sp

    _, counts, cell = numpy_unique_keys(X, origin, inverse)
    ones = np.ones(len(y), np.int64)
    shape = (C, len(counts))
    truth = sp.coo_array((ones, (y, cell)), shape=shape).tocsr()
    predicted = sp.coo_array((ones, (p, cell)), shape=shape).tocsr()
    return np.array([[truth[[i]].minimum(predicted[[j]]).sum() for j in range(C)] for i in range(C)], float)


def numpy_unique_keys(X, origin, inverse):
    """NumPy: ``unique`` of keys that a Numba loop packs; returns the keys, their counts, the cell of every point."""
    keys, cell, counts = np.unique(_numba_loops.pack_cells(X, origin, inverse), return_inverse=True, return_counts=True)
    return keys, counts, cell


def polars_weighted_cells(X, w, origin, inverse):
    """polars: a group-by of one integer key; returns the keys and their sums of weights."""
    import polars as pl

    bits = 63 // X.shape[1]
    frame = pl.DataFrame({f"x{k}": x for k, x in enumerate(X.T)} | {"w": w})
    cell = [((pl.col(f"x{k}").cast(pl.Float64) - origin[k]) * inverse[k]).floor() for k in range(X.shape[1])]
    key = sum((c.cast(pl.Int64) * (1 << (bits * k)) for k, c in enumerate(cell)), pl.lit(0))
    found = frame.lazy().select(key.alias("cell"), "w").group_by("cell").agg(pl.col("w").sum()).collect()
    return found["cell"].to_numpy(), found["w"].to_numpy()


def pack_cell_indices(cells):
    """Pack each row of nonnegative cell indices into one integer."""
    return cells.astype(np.int64) @ (1 << (63 // cells.shape[1] * np.arange(cells.shape[1])))


def numpy_weighted_cells(X, w, origin, inverse):
    """NumPy: one integer key per point, sorted, and segment sums of the weights."""
    key = pack_cell_indices(np.floor((X - origin) * inverse))
    order = np.argsort(key)
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return key[starts], np.add.reduceat(w[order], starts)


def sklearn_pca(X, m):
    """scikit-learn's PCA by the covariance: the axes, and their shares of the variance."""
    from sklearn.decomposition import PCA

    fitted = PCA(m, svd_solver="covariance_eigh").fit(X)
    return fitted.components_, fitted.explained_variance_ratio_


def blas_pca(X, m):
    """BLAS: products of centred blocks in the type of X, summed in float64; SciPy: the largest eigenvalues alone."""
    from scipy.linalg import eigh

    size, n = 4096, X.shape[1]
    ones = np.ones(size, X.dtype)
    blocks = [X[start : start + size] for start in range(0, len(X), size)]
    mean = sum((ones[: len(block)] @ block).astype(float) for block in blocks) / len(X)
    low, covariance = mean.astype(X.dtype), np.zeros((n, n))
    for block in blocks:
        centred = block - low
        covariance += centred.T @ centred
    values, axes = eigh(covariance, subset_by_index=(n - m, n - 1))
    return axes.T[::-1], values[::-1] / covariance.trace()
