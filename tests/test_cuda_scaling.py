"""Scaling by the CUDA kernels, run on the host: what zeros allow, cells of any size, batches in pieces."""

import cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take these arrays
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cuda import scaling, scaling_team

pytestmark = pytest.mark.skipif(cuda_host.missing() is not None, reason=str(cuda_host.missing()))


def both(M, *targets, **options):
    """Return what the CPU and what the CUDA kernels make of one call."""
    there = [cuda_host.asarray(a) for a in (M, *targets)]
    return cmfast.ipf(M, *targets, on_failure="ignore", **options), cmfast.ipf(*there, on_failure="ignore", **options)


def assert_agree(on_cpu, on_cuda, rtol):
    """Assert that both have the same statuses, and the same cells and factors where there are any."""
    on_cuda = [part.get() for part in on_cuda]
    np.testing.assert_array_equal(on_cuda[5], on_cpu.status)
    for one, other in zip(on_cpu[:3], on_cuda[:3], strict=True):
        np.testing.assert_allclose(other, one, rtol=rtol)


def patterns(shape, n=120):
    """Return matrices with zeros in all sorts of places, from nearly none to nearly everywhere."""
    rng = np.random.default_rng(shape)
    return rng.integers(1, 20, (n, *shape)) * (rng.random((n, *shape)) < rng.uniform(0.3, 0.95, (n, 1, 1))) * 1.0


@pytest.mark.parametrize("C", [2, 3, 5, 8])
@pytest.mark.parametrize("empty", ["nan", "drop"])
def test_zeros_decide_the_same(C, empty):
    on_cpu, on_cuda = both(patterns((C, C)), empty=empty)
    assert {0, 2} < {int(code) for code in on_cpu.status}
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (6, 6)])
@pytest.mark.parametrize("divisor", [1.0, 7.0], ids=["whole", "fractional"])
def test_zeros_decide_the_same_for_targets(shape, divisor):
    M = patterns(shape)
    T = np.roll(M, 1, 0)
    T[::2] = (M * (T > 0))[::2]  # these can be met
    on_cpu, on_cuda = both(M, T.sum(2) / divisor, T.sum(1) / divisor)
    assert {0, 2, 3} <= {int(code) for code in on_cpu.status}
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.parametrize("span", [5, 40, 140])
@pytest.mark.parametrize("shape", [(4, 4), (9, 9), (4, 7)])
def test_cells_of_any_size(shape, span):
    rng = np.random.default_rng(span)
    M = 10.0 ** rng.uniform(-span, span, (30, *shape))
    targets = () if shape[0] == shape[1] else (np.full(4, 7.0), np.full(7, 4.0))
    on_cpu, on_cuda = both(M, *targets, tol=1e-13)
    assert (on_cpu.status == 0).all()
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_pieces_neighbours_and_schedules_change_no_bit(monkeypatch, solver):
    M = patterns((4, 4))
    M[7, 0, 0] = np.nan
    there = cuda_host.asarray(M)
    options = {"on_failure": "ignore", "solver": solver, "max_iter": 60}
    want = cmfast.ipf(there, **options)
    monkeypatch.setattr(scaling_team, "SCRATCH", 8 * 200 * 7)
    for seed in (1, 2):
        with cuda_host.schedule(seed):
            assert_same_bits(tuple(cmfast.ipf(there, **options)), tuple(want))
    alone = cmfast.ipf(there[31:32], **options)
    assert_same_bits(tuple(part.get()[0] for part in alone), tuple(part.get()[31] for part in want))
    assert_same_bits(tuple(cmfast.ras(there, **options))[1:], tuple(want)[1:])


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_a_queue_says_which_are_solved(monkeypatch, solver):
    def solve(problem, queue, length):
        queue = cuda_host.asarray(np.array(queue))
        scaling_team.solve(problem, queue, cuda_host.asarray(np.array([length])))

    M = patterns((4, 5))
    targets = M.sum(2) * 2.0, M.sum(1) * 2.0
    want = both(M, *targets, solver=solver)[1]
    queue = np.random.default_rng(0).permutation(120)
    problems = []
    monkeypatch.setattr(scaling.scaling_team, "solve", problems.append)
    got = both(M, *targets, solver=solver)[1]
    monkeypatch.undo()
    (problem,) = problems
    solve(problem, queue, 0)
    solve(problem, np.concatenate([queue[:50], queue[:70]]), 50)
    solve(problem, np.concatenate([queue[50:], queue[:50]]), 70)
    assert_same_bits(tuple(got), tuple(want))


def test_nothing_waits_where_failures_are_ignored():
    there = cuda_host.asarray(patterns((3, 3)))
    before = cuda_host.synchronisations()
    cmfast.ipf(there, on_failure="ignore")
    assert cuda_host.synchronisations() == before


def test_progress_goes_by_pieces(monkeypatch):
    monkeypatch.setattr(scaling, "PIECE", 50)
    seen = []
    cmfast.bi_normalize(cuda_host.asarray(patterns((3, 3)) + 1.0), progress=lambda *done: seen.append(done))
    assert seen == [(50, 120), (100, 120), (120, 120)]


@pytest.mark.parametrize("shape", [(65, 65), (70, 80), (130, 66)])
def test_many_classes(shape):
    rng = np.random.default_rng(shape)
    R, C = shape
    M = rng.random((4, R, C)) * (rng.random((4, R, C)) < 0.5)
    M[1, : R // 2 + 1, : C // 2 + 1] = 0.0  # more than half of the rows reach less than half of the columns
    M[2, : R // 2, : C // 2 + 1] = 0.0  # just enough where rows are as many as columns
    M[3] += 1e-3
    targets = () if R == C else (np.full(R, 1.0 * C), np.full(C, 1.0 * R))
    on_cpu, on_cuda = both(M, *targets, tol=1e-12)
    assert on_cpu.status.tolist() == [0, 3, 2 if R == C else 3, 0]
    assert_agree(on_cpu, on_cuda, 1e-9)


def test_huge_matrices_are_refused():
    with pytest.raises(NotImplementedError, match="no cuda kernel for matrices of 3000 x 3000: at most 4194304 cells"):
        cmfast.ipf(cuda_host.asarray(np.ones((3000, 3000))))


def test_a_failure_is_explained_as_on_the_cpu():
    M = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    with pytest.raises(cmfast.FailureError) as on_cpu:
        cmfast.ipf(M, on_failure="raise")
    with pytest.raises(cmfast.FailureError) as on_cuda:
        cmfast.ipf(cuda_host.asarray(M), on_failure="raise")
    assert str(on_cuda.value) == str(on_cpu.value)
