"""Matrices of 8 to 64 classes without dominant cells: a few sweeps scale them in the tile that holds others, too."""

import numpy as np
import pytest
from cases.scaling import confusion
from checks import assert_same_bits

import cmfast
from cmfast import Status

OPTIONS = {"on_failure": "ignore"}
FIELDS = "matrix", "row_scale", "col_scale", "residual", "n_iter", "status", "smoothing", "line_error"
SIZES = (7, 8, 11, 16, 17, 24, 35, 48)


def make_blocks(rng, C, coupling):
    """Return two blocks of flat cells, joined by cells of about `coupling`: sweeps solve each block, not their sums."""
    M = rng.uniform(0.5, 1.5, (C, C))
    half = C // 2
    M[:half, half:] *= coupling
    M[half:, :half] *= coupling * rng.uniform(0.1, 10.0)
    return M


def make_flat(rng, C):
    """Return matrices whose rows have no dominant cell, and those that nearly have one."""
    random = [rng.random((C, C)) + 1e-9, rng.exponential(size=(C, C)), rng.uniform(0.9, 1.1, (C, C)), np.ones((C, C))]
    counts = [rng.poisson(mean, (C, C)) + 1.0 for mean in (2, 20)]
    accurate = [confusion(rng, C, accuracy) + 1.0 for accuracy in (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55)]
    scaled = [rng.random((C, C)) * 10.0 ** rng.uniform(-6, 6, (C, 1)) * 10.0 ** rng.uniform(-3, 3, C)]
    return random + counts + accurate + scaled


def make_batch(C):
    """Return flat matrices among blocks that are hard to sweep, accurate ones, ones with zeros, and bad ones."""
    rng = np.random.default_rng(C)
    blocks = [make_blocks(rng, C, coupling) for coupling in (0.1, 1e-3, 1e-6, 1e-9)]
    accurate = [confusion(rng, C, a) + 1e-6 for a in (0.9, 0.999)] + [confusion(rng, C, 0.8)[rng.permutation(C)] + 1e-6]
    zeros = [rng.poisson(mean, (C, C)).astype(float) for mean in (1, 3, 9)] + [np.triu(rng.random((C, C)))]
    gaps = np.ones((C, C))
    gaps[: C // 2, C // 2 :] = 0.0  # no scaling: half of the rows have too few columns
    bad = [np.full((C, C), np.nan), -np.ones((C, C)), np.zeros((C, C)), gaps]
    wide = [10.0 ** rng.uniform(-9, 9, (C, C)), np.full((C, C), 1e200), np.full((C, C), 1e-200)]
    M = make_flat(rng, C) + blocks + accurate + zeros + bad + wide
    return np.array(M)[rng.permutation(len(M))]


def make_sums(rng, n, C):
    rows, cols = rng.uniform(1.0, 3.0, (2, n, C))
    return rows, cols * (rows.sum(1) / cols.sum(1))[:, None]


def sweep_until_still(M, rows, cols):
    """Return scaled matrices by plain Sinkhorn sweeps in long double."""
    P = M.astype(np.longdouble)
    for _ in range(400):
        P *= (rows / P.sum(-1))[..., None]
        P *= (cols / P.sum(-2))[..., None, :]
    return P


def fields(result):
    return tuple(np.asarray(getattr(result, name)) for name in FIELDS)


def take(whole, b):
    return tuple(np.asarray(a[b]) for a in whole)


@pytest.mark.parametrize("C", SIZES)
@pytest.mark.parametrize("given", [False, True])
def test_flat_matrices_are_those_of_plain_sweeps(C, given, rng):
    M = np.array([one for k in range(3) for one in make_flat(rng, C)])
    rows, cols = make_sums(rng, len(M), C) if given else np.ones((2, len(M), C))
    want = sweep_until_still(M, rows, cols)
    for tol, rtol in ((1e-6, 1e-3), (1e-9, 1e-5), (1e-14, 1e-11)):
        found = cmfast.ipf(M, rows, cols, tol=tol) if given else cmfast.ipf(M, tol=tol)
        assert (found.status == Status.CONVERGED).all()
        np.testing.assert_allclose(found.matrix, want.astype(float), rtol=rtol)
        missed = abs(found.matrix.sum(-1) - rows).sum(-1) + abs(found.matrix.sum(-2) - cols).sum(-1)
        assert (missed / rows.sum(1) <= tol + 1e-14).all()


@pytest.mark.parametrize("C", SIZES)
@pytest.mark.parametrize("given", [False, True])
def test_neighbours_order_and_threads_change_no_bit(C, given, rng):
    M = make_batch(C)
    sums = make_sums(rng, len(M), C) if given else ()
    whole = fields(cmfast.ipf(M, *sums, num_threads=1, **OPTIONS))
    for b, one in enumerate(M):
        alone = cmfast.ipf(one, *(lines[b] for lines in sums), **OPTIONS)
        assert_same_bits(take(whole, b), fields(alone))
    order = np.random.default_rng(1).permutation(4 * len(M)) % len(M)
    again = cmfast.ipf(M[order], *(lines[order] for lines in sums), num_threads=2, **OPTIONS)
    assert_same_bits(take(whole, order), fields(again))


@pytest.mark.parametrize("C", [8, 16, 24])
@pytest.mark.parametrize("options", [{"smoothing": 0.5}, {"empty": "drop"}, {"max_iter": 9}])
def test_options_change_no_neighbour(C, options):
    M = make_batch(C)
    M[::5, 3] = 0.0
    M[::5, :, 3] = 0.0
    whole = fields(cmfast.ipf(M, **options, **OPTIONS))
    for b, one in enumerate(M):
        assert_same_bits(take(whole, b), fields(cmfast.ipf(one, **options, **OPTIONS)))


@pytest.mark.parametrize("C", [8, 12, 16, 24, 34, 48])
@pytest.mark.parametrize("given", [False, True])
def test_blocks_that_are_weakly_joined_have_their_small_cells(C, given, rng):
    """Their sums fit long before the cells that join the blocks do."""
    M = np.array([make_blocks(rng, C, coupling) for coupling in (1e-2, 1e-4, 1e-6, 1e-8) for _ in range(3)])
    sums = make_sums(rng, len(M), C) if given else ()
    if given:
        for lines in sums:  # each block has the same sums of rows and of columns, up to what joins them
            lines[:, : C // 2] *= 0.5 * C / lines[:, : C // 2].sum(1, keepdims=True)
            lines[:, C // 2 :] *= 0.5 * C / lines[:, C // 2 :].sum(1, keepdims=True)
    found, closer = (cmfast.ipf(M, *sums, tol=tol, **OPTIONS) for tol in (1e-9, 1e-14))
    good = found.status == Status.CONVERGED
    np.testing.assert_allclose(found.matrix[good], closer.matrix[good], rtol=2e-3)
    assert good.sum() >= 6


@pytest.mark.parametrize("C", [8, 16, 24, 48])
def test_few_passes_are_enough(C, rng):
    M = rng.uniform(0.5, 1.5, (20, C, C))
    assert (cmfast.ipf(M).n_iter <= 8).all()
    assert (cmfast.ipf(M, *make_sums(rng, 20, C)).n_iter <= 8).all()
