"""One failure in a batch is put into words, whatever it is; its neighbours keep the bits that they have alone."""

import itertools
import warnings

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take the arrays of cuda_host
import pytest
from checks import assert_same_bits, host

import cmfast

NAN, INF = np.nan, np.inf

# What may be wrong with a square matrix, or only strange.
SQUARE = {
    "zeros": np.zeros((3, 3)),
    "one cell": np.diag([0.0, 5.0, 0.0]),
    "one cell beside the diagonal": 5.0 * np.eye(3, k=1) * np.eye(3)[0][:, None],
    "diagonal": np.diag([1.0, 2.0, 3.0]),
    "row": np.array([[1.0, 2.0, 3.0], [0, 0, 0], [1, 1, 1]]),
    "column": np.array([[1.0, 0.0, 3.0], [1, 0, 2], [1, 0, 1]]),
    "unused class": np.array([[1.0, 0.0, 3.0], [0, 0, 0], [2, 0, 1]]),
    "unused class and a row": np.array([[0.0, 0.0, 0.0], [0, 1, 1], [0, 0, 0]]),
    "limit": np.triu(np.ones((3, 3))),
    "infeasible": np.array([[8.0, 1.0, 1.0], [5, 0, 0], [9, 0, 0]]),
    "NaN": np.array([[1.0, 2.0, 3.0], [4, NAN, 6], [7, 8, 9]]),
    "infinite": np.array([[1.0, 2.0, 3.0], [4, INF, 6], [7, 8, 9]]),
    "negative": np.array([[1.0, 2.0, 3.0], [4, -1, 6], [7, 8, 9]]),
    "all NaN": np.full((3, 3), NAN),
    "huge": np.array([[1e308, 1e308, 1.0], [1, 1e308, 1e308], [1e308, 1, 1e308]]),
    "tiny": np.array([[5e-324, 1e-310, 5e-324], [1e-310, 5e-324, 0], [1e-323, 1e-323, 1e-323]]),
    "far": np.array([[1e300, 1e-300, 1e-300], [1, 1e-300, 1e300], [1e-300, 1e300, 1]]),
    "far and unused": np.array([[1e300, 0, 1e-300], [0, 0, 0], [1e-300, 0, 1e-300]]),
    "slow": np.array([[1.0, 1e-12, 0], [1, 1, 1], [0, 1e-9, 1]]),
    "rank one": np.outer([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
}
OF_ONE = {
    "zero": np.zeros((1, 1)),
    "NaN": np.full((1, 1), NAN),
    "infinite": np.full((1, 1), INF),
    "tiny": np.full((1, 1), 5e-324),
}
TALL = {
    "zeros": np.zeros((3, 2)),
    "row": np.array([[1.0, 2.0], [0, 0], [3, 1]]),
    "column": np.array([[1.0, 0.0], [2, 0], [3, 0]]),
    "infeasible": np.array([[1.0, 0.0], [1, 0], [1, 1]]),
    "NaN": np.array([[1.0, 2.0], [NAN, 1], [3, 1]]),
    "far": np.array([[1e300, 1e-300], [1, 1], [1e-300, 1e-300]]),
    "fine": np.ones((3, 2)),
}
# Row and column targets of such matrices.
TARGETS = {
    "fine": ([2.0, 2.0, 2.0], [3.0, 3.0, 3.0]),
    "zero": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    "some zero": ([0.0, 4.0, 2.0], [3.0, 3.0, 0.0]),
    "totals": ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]),
    "NaN": ([1.0, NAN, 3.0], [1.0, 2.0, 4.0]),
    "negative": ([1.0, -1.0, 3.0], [1.0, 1.0, 1.0]),
    "infinite": ([1.0, INF, 3.0], [1.0, INF, 4.0]),
    "huge": ([1e308, 1e308, 1e308], [1e308, 1e308, 1e308]),
    "tiny": ([5e-324, 0.0, 0.0], [5e-324, 0.0, 0.0]),
}
SMOOTHING = [None, 0.5, 1e308, "pseudo-bayes"]
SOLVERS = [("auto", None), ("newton", 1), ("sinkhorn", 3)]
LIBRARIES = [
    "numpy",
    pytest.param(
        "cuda_host",
        marks=[
            pytest.mark.cuda_host,
            pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing())),
        ],
    ),
]


def made(library, *arrays):
    return [cuda_host.asarray(a) if library == "cuda_host" else a for a in arrays]


def called(call, *args, **options):
    """Return what the call gives and the texts of its warnings; nothing else may be warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **options)
    assert all(issubclass(w.category, cmfast.FailureWarning) for w in caught), caught
    return result, [str(w.message) for w in caught]


def assert_a_sentence(text, name, status, *, of=None):
    """Assert that the warning names function, status and element, and then says something."""
    place = "" if of is None else rf" (element 1 of {of})"
    start = f"{name}: {cmfast.Status(int(status)).name}{place}: "
    assert text.startswith(start), text
    words = text.removeprefix(start)
    assert len(words.split()) > 2, text
    assert "np.float64" not in words, text


def parts_of(result):
    return tuple(np.asarray(host(part)) for part in result if part is not None)


def probe(function, library, odd, good, *targets, **options):
    """Call with `odd` alone and between two good ones; compare what is said and every bit of all three."""
    batch = [odd_target if len(odd_target) == 0 else np.stack([fine, odd_target, fine]) for fine, odd_target in targets]
    alone, said_alone = called(function, *made(library, odd, *(target for _, target in targets)), **options)
    single = int(host(alone.status))
    three, said = called(function, *made(library, np.stack([good, odd, good]), *batch), **options)
    fine, _ = called(function, *made(library, good, *(target for target, _ in targets)), **options)
    for k, want in enumerate((fine, alone, fine)):
        assert_same_bits(tuple(np.asarray(part[k]) for part in parts_of(three)), parts_of(want))
    assert len(said_alone) == (single != 0)
    if single:
        assert_a_sentence(said_alone[0], function.__name__, single)
    if single and not host(fine.status):
        assert_a_sentence(said[0], function.__name__, single, of=3)
    return single


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("smoothing", SMOOTHING, ids=str)
def test_a_matrix_without_answer_is_explained_and_leaves_its_neighbours(library, dtype, smoothing):
    found = set()
    for function, (solver, max_iter), empty in itertools.product((cmfast.ipf, cmfast.ras), SOLVERS, ("nan", "drop")):
        options = {"smoothing": smoothing, "solver": solver, "max_iter": max_iter, "empty": empty}
        if function is cmfast.ras and solver != "auto":
            continue
        for matrices in (SQUARE, OF_ONE):
            for odd in matrices.values():
                good = np.arange(1.0, odd.size + 1).reshape(odd.shape) + 9 * np.eye(len(odd))
                with np.errstate(over="ignore"):
                    pair = odd.astype(dtype), good.astype(dtype)
                status = probe(function, library, *pair, **options)
                found.add(cmfast.Status(status).name)
    assert {"INVALID", "MAX_ITER"} <= found
    if smoothing is None:
        assert {"ZERO_LINE", "INFEASIBLE", "LIMIT_ONLY"} <= found


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("smoothing", [None, "pseudo-bayes"], ids=str)
def test_targets_without_answer_are_explained_and_leave_their_neighbours(library, smoothing):
    found = set()
    matrices = [*SQUARE.values(), *TALL.values()] if library == "numpy" else TALL.values()
    for (solver, max_iter), (u, v) in itertools.product(SOLVERS, TARGETS.values()):
        options = {"smoothing": smoothing, "solver": solver, "max_iter": max_iter}
        for odd in matrices:
            good = np.arange(1.0, odd.size + 1).reshape(odd.shape)
            C = odd.shape[1]
            fine = (np.full(3, float(C)), np.full(C, 3.0))
            pairs = [(fine[0], np.array(u)), (fine[1], np.array(v[:C]))]
            found.add(cmfast.Status(probe(cmfast.ipf, library, odd, good, *pairs, **options)).name)
    assert {"TOTALS", "INVALID", "RANGE", "MAX_ITER", "CONVERGED"} <= found


@pytest.mark.parametrize("smoothing", SMOOTHING, ids=str)
@pytest.mark.parametrize("empty", ["nan", "drop"])
def test_the_functions_that_scale_on_the_way_explain_as_well(smoothing, empty):
    options = {"smoothing": smoothing, "empty": empty}
    for odd in SQUARE.values():
        good = np.arange(1.0, 10).reshape(3, 3)
        M = np.stack([good, odd, good])
        for function, args in (
            (cmfast.bi_normalize, ()),
            (cmfast.normalize, ("bi",)),
            (cmfast.importance_weights, ("bi",)),
        ):
            three, said = called(function, M, *args, **options)
            fine, _ = called(function, good, *args, **options)
            assert_same_bits(three[0], fine)
            assert_same_bits(three[2], fine)
            assert all(text.startswith(f"{function.__name__}: ") for text in said)


def test_no_classes_at_all():
    for smoothing, empty in itertools.product(SMOOTHING, ("nan", "drop")):
        result, said = called(cmfast.ipf, np.empty((2, 0, 0)), smoothing=smoothing, empty=empty)
        assert result.matrix.shape == (2, 0, 0)
        assert not said or said[0].startswith("ipf: ")


def test_a_matrix_of_zeros_under_the_rule_that_divides_by_their_sum():
    with pytest.warns(cmfast.FailureWarning) as caught:
        result = cmfast.ipf(np.stack([np.zeros((2, 2)), np.ones((2, 2))]), smoothing="pseudo-bayes")
    said = "ipf: ZERO_LINE (element 0 of 2): row 0 is empty but its target is 1; "
    assert str(caught[0].message) == said + 'pass empty="drop" or smoothing= a number'
    assert np.isnan(result.matrix[0]).all()
    np.testing.assert_allclose(result.matrix[1], 0.5, rtol=1e-9)
    grid = cmfast.Grid(np.zeros(1), np.ones(1))
    none = np.empty(0, np.int64)
    cells = cmfast.cell_counts(np.empty((0, 1)), none, none, grid=grid, n_classes=2)
    assert not cmfast.gcm(cells, "bi", smoothing="pseudo-bayes").any()


def test_a_class_that_was_dropped_is_not_named():
    with pytest.warns(
        cmfast.FailureWarning, match="ZERO_LINE: row 2 is empty but its target is 1; leave class 2 out or pass"
    ):
        cmfast.ipf([[0, 0, 0], [0, 1, 1], [0, 0, 0]], empty="drop")


def test_cells_that_float32_cannot_hold_are_not_called_dead():
    M = np.array([[1e30, 1, 0], [1, 1e30, 0], [1, 1, 1]], np.float32)
    with pytest.warns(cmfast.FailureWarning, match="LIMIT_ONLY: no scaling exists, and the limit sets 2 positive"):
        cmfast.ipf(M)


def test_the_smallest_tolerance_that_there_is():
    with pytest.warns(cmfast.FailureWarning, match="MAX_ITER: not converged after 1 passes: residual .* sweeps left"):
        cmfast.ipf([[1, 1e-9], [1e-3, 1]], solver="sinkhorn", max_iter=1, tol=5e-324)
