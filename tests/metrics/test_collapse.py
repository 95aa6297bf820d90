"""Classes put together: sums of rows and columns, exact, on every library."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from optional import torch

import cmfast
from cmfast import metrics

GROUPS = ["b", "a", "b", "c", "a"]
CODES = [0, 1, 0, 2, 1]  # in the order in which names first occur


def slowly(M):
    out = np.zeros((3, 3), object)
    for i, j in itertools.product(range(5), repeat=2):
        out[CODES[i], CODES[j]] += M[i][j].item()
    return out.tolist()


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, lambda M: M.tolist()], ids=["numpy", "torch", "list"])
def test_sums_are_exact_and_batched(make, rng):
    M = rng.integers(0, 2**55, (2, 3, 5, 5))
    found = metrics.collapse(make(M), GROUPS)
    assert found.groups == ("b", "a", "c")
    assert isinstance(found.matrix, torch.Tensor if make is torch.tensor else np.ndarray)
    assert found.matrix.shape == (2, 3, 3, 3)
    assert found.matrix.dtype in (np.int64, torch.int64)
    for place in np.ndindex(2, 3):
        assert found.matrix[place].tolist() == slowly(M[place])


def test_fractions_are_added_in_double_precision(rng):
    M = rng.random((4, 5, 5))
    got = metrics.collapse(M, np.array(GROUPS)).matrix
    np.testing.assert_allclose(got, [slowly(one) for one in M], rtol=1e-14)
    assert metrics.collapse(M.astype(np.float32), GROUPS).matrix.dtype == np.float64


def test_sparse_stays_sparse(rng):
    M = rng.integers(0, 3, (5, 5))
    found = metrics.collapse(scipy.sparse.csr_array(M), GROUPS)
    assert scipy.sparse.issparse(found.matrix)
    assert found.matrix.toarray().tolist() == slowly(M)
    assert found.explain() == metrics.collapse(M, GROUPS).explain()


def test_any_names_and_none_at_all():
    M = np.arange(9).reshape(3, 3)
    assert metrics.collapse(M, [("a", 1), 2, ("a", 1)]).groups == (("a", 1), 2)
    assert metrics.collapse(M, range(3)).matrix.tolist() == M.tolist()
    assert metrics.collapse(np.empty((0, 0)), []).matrix.shape == (0, 0)
    assert metrics.collapse(np.empty((0, 3, 3)), ["x", "y", "z"]).matrix.shape == (0, 3, 3)
    assert metrics.collapse([[1, 1], [1, 3]], ["a", "a"]).matrix.tolist() == [[6]]


def test_a_dict_gives_the_group_of_each_class():
    counts = cmfast.ConfusionCounts.from_labels(["cat", "dog", "owl"], ["cat", "owl", "owl"])
    found = metrics.collapse(counts, {"owl": "bird", "dog": "pet", "cat": "pet"})
    assert found.groups == ("pet", "bird")
    assert found.matrix.tolist() == [[1, 1], [0, 1]]
    assert metrics.collapse(counts.to_pandas(), {"owl": 0, "dog": 1, "cat": 1}).matrix.tolist() == [[1, 1], [0, 1]]
    assert metrics.collapse(counts.matrix, {2: "bird", 1: "pet", 0: "pet"}).matrix.tolist() == [[1, 1], [0, 1]]
    with pytest.raises(ValueError, match="a group for every class, as for 'dog'"):
        metrics.collapse(counts, {"cat": "pet", "owl": "bird"})
    with pytest.raises(ValueError, match="got the key 'Owl'"):
        metrics.collapse(counts, {"cat": "pet", "dog": "pet", "owl": "bird", "Owl": "bird"})


def test_a_bad_matrix_is_reported_and_alone():
    M = np.ones((3, 2, 2))
    M[1, 0, 0] = np.nan
    with pytest.warns(cmfast.FailureWarning, match=r"metrics.collapse: 1 of 3 matrices not collapsed \(first: 1\)"):
        found = metrics.collapse(M, ["a", "a"]).matrix
    assert np.isnan(found[:, 0, 0]).tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"metrics.collapse: groups must be a sequence of 2 names, got 3"):
        metrics.collapse(M, ["a", "b", "c"])


def test_it_is_said_in_words():
    found = metrics.collapse([[6, 2], [0, 2]], ["a", "b"])
    assert repr(found) == "<Collapsed: of 2 x 2, groups ['a', 'b']>"
    assert found.explain() == "0.8 of everything stays within its group"
    assert metrics.collapse([[[6, 2], [0, 2]]], ["a", "b"]).explain() == "1 matrices of 2 groups"
    assert metrics.collapse([[0]], ["a"]).explain() == "the matrix is empty"
