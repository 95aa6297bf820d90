"""Pixels between blocks alone (trans-only), and pixels given chunk by chunk."""

import itertools

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import Status

RNG = np.random.default_rng(11)
N, CUTS = 30, [0, 12, 20, 30]
ROWS, COLUMNS = np.triu_indices(N)
COUNTS = RNG.integers(1, 60, len(ROWS))
BLOCK = [0] * 12 + [1] * 8 + [2] * 10
TRANS = [BLOCK[i] != BLOCK[j] for i, j in zip(ROWS, COLUMNS, strict=True)]
OPTIONS = {"symmetric": "upper", "mad_max": 5, "min_nnz": 3, "mad_blocks": CUTS}


def test_rows_between_blocks_have_their_sums():
    result = cmfast.balance((ROWS, COLUMNS, COUNTS, N), symmetric="upper", trans_blocks=CUTS)
    assert result.status == Status.CONVERGED
    dense = np.zeros((N, N))
    dense[ROWS, COLUMNS] = dense[COLUMNS, ROWS] = COUNTS
    for low, high in itertools.pairwise(CUTS):
        dense[low:high, low:high] = 0
    np.testing.assert_allclose(result.weights * (dense @ result.weights), 1, rtol=1e-8)


@pytest.mark.parametrize("form", ["pixels", "dense", "both sides", "chunks", "torch"])
def test_weights_are_those_of_the_other_pixels_alone(form):
    want = cmfast.balance((ROWS[TRANS], COLUMNS[TRANS], COUNTS[TRANS], N), **OPTIONS)
    A, options = (ROWS, COLUMNS, COUNTS, N), OPTIONS
    dense = np.zeros((N, N), np.int64)
    dense[ROWS, COLUMNS] = dense[COLUMNS, ROWS] = COUNTS
    if form in ("dense", "both sides"):
        A, options = dense, {**OPTIONS, "symmetric": False}
    if form == "both sides":
        A = (*np.nonzero(dense), dense[np.nonzero(dense)], N)
    if form == "chunks":
        A = (((ROWS[k : k + 50], COLUMNS[k : k + 50], COUNTS[k : k + 50]) for k in range(0, len(ROWS), 50)), N)
    if form == "torch":
        A = (*map(torch.asarray, (ROWS, COLUMNS, COUNTS)), N)
    found = cmfast.balance(A, trans_blocks=CUTS, **options)
    assert_same_bits(np.asarray(found.weights), want.weights)
    assert np.asarray(found.reason).tolist() == want.reason.tolist()


def test_chunks_are_the_pixels_in_order():
    want = cmfast.balance((ROWS, COLUMNS, COUNTS, N), **OPTIONS, ignore_diags=2, blocks=CUTS)
    chunks = [(ROWS[k::7].astype(np.int32), COLUMNS[k::7].tolist(), COUNTS[k::7]) for k in range(7)]
    found = cmfast.balance((iter(chunks), N), **OPTIONS, ignore_diags=2, blocks=CUTS)
    np.testing.assert_allclose(found.weights, want.weights, rtol=1e-9)
    empty = cmfast.balance(([], 3), on_failure="ignore")
    assert empty.status == Status.ZERO_LINE
    assert cmfast.balance(([([], [], []), (ROWS, COLUMNS, COUNTS)], N), symmetric="upper").status == Status.CONVERGED


def test_invalid_bins_stay_invalid():
    for rows in ([0, 1, -1], [0, 1, 4]):
        with pytest.warns(cmfast.FailureWarning, match="INVALID"):
            cmfast.balance((rows, [2, 3, 2], [1, 2, 3], 4), symmetric="upper", trans_blocks=[0, 2, 4])
    none = cmfast.balance(([], [], [], 0), trans_blocks=[0, 0], on_failure="ignore")
    assert none.weights.shape == (0,)


def test_refusals():
    pixels = (ROWS, COLUMNS, COUNTS, N)
    with pytest.raises(ValueError, match="trans_blocks must be None with blocks"):
        cmfast.balance(pixels, blocks=CUTS, trans_blocks=CUTS)
    with pytest.raises(ValueError, match="trans_blocks must be offsets that begin with 0"):
        cmfast.balance(pixels, trans_blocks=[0, 3])
    with pytest.raises(TypeError, match=r"chunk 1 of A must be a tuple \(rows, columns, values\)"):
        cmfast.balance(([pixels[:3], 5], N))
    with pytest.raises(ValueError, match=r"chunk 0 of A must be of three arrays of shape \(pixels,\)"):
        cmfast.balance(([([0, 1], [1], [1.0])], N))
    with pytest.raises(TypeError, match="rows of chunk 0 of A must be"):
        cmfast.balance(([([0.5], [1], [1.0])], N))
    with pytest.raises(TypeError, match=r"A must be a scipy\.sparse matrix"):
        cmfast.balance((3, N))
