"""Scaling by the CUDA kernels: what zeros allow, cells of any size, batches in pieces."""

import re
import threading

import device
import numpy as np
import pytest
from checks import assert_same_bits

import cmfast
from cmfast.kernels.cuda._core import module
from cmfast.kernels.cuda.scaling import group, launch, team
from cmfast.kernels.shared import scaling
from cmfast.kernels.shared.scaling import MOST_ELIMINATED_COLUMNS

LAST_BITS = 1e-322  # of subnormal numbers, which have few

pytestmark = [pytest.mark.cuda_host, *device.marks]


def both(M, *targets, tol=1e-13, **options):
    """Return what the CPU and what the CUDA kernels make of one call."""
    options["tol"] = tol  # so small that all digits are right, whatever start and order of sums
    there = [device.asarray(a) for a in (M, *targets)]
    return cmfast.ipf(M, *targets, on_failure="ignore", **options), cmfast.ipf(*there, on_failure="ignore", **options)


def assert_agree(on_cpu, on_cuda, rtol, *, factors=True):
    """Assert that both have the same statuses, and the same cells and factors where there are any.

    Factors of a matrix that falls into blocks are unique within each block only.
    """
    on_cuda = [part.get() for part in on_cuda]
    np.testing.assert_array_equal(on_cuda[5], on_cpu.status)
    for one, other in zip(on_cpu[: 3 if factors else 1], on_cuda[: 3 if factors else 1], strict=True):
        np.testing.assert_allclose(other, one, rtol=rtol, atol=LAST_BITS)


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


@pytest.mark.parametrize(
    ("size", "span"),
    [(size, span) for size in (3, 6) for span in (12, 40, 70, 140)]
    + [(34, 12)]
    + [pytest.param(34, span, marks=pytest.mark.slow) for span in (40, 70, 140)],
)
def test_far_cells_around_classes_that_are_dropped(span, size):
    """They go the way of the matrix without these classes."""
    rng = np.random.default_rng([span, size])
    n = 9 if size < 34 else 1  # on the host a team's step takes long
    M = 10.0 ** rng.uniform(-span, span, (n, size, size))
    keep = np.delete(np.arange(size + 2), [0, size // 2])
    around = np.zeros((n, size + 2, size + 2))
    around[:, keep[:, None], keep] = M
    (alone, alone_there), (on_cpu, on_cuda) = both(M), both(around, empty="drop")
    assert (alone.status == 0).all()
    assert_agree(on_cpu, on_cuda, 1e-9)
    assert_agree(alone, alone_there, 1e-9)
    for part, of_part in ((on_cpu, alone), ([a.get() for a in on_cuda], [a.get() for a in alone_there])):
        np.testing.assert_array_equal(part[5], of_part[5])
        np.testing.assert_allclose(part[0][:, keep[:, None], keep], of_part[0], rtol=1e-9)
        assert part[0].sum() == pytest.approx(n * size)


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_pieces_neighbours_and_schedules_change_no_bit(monkeypatch, solver):
    M = patterns((4, 4))
    M[7, 0, 0] = np.nan
    there = device.asarray(M)
    options = {"on_failure": "ignore", "solver": solver, "max_iter": 60}
    want = cmfast.ipf(there, **options)
    monkeypatch.setattr(team, "TEAMS", 7)
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(tuple(cmfast.ipf(there, **options)), tuple(want))
    alone = cmfast.ipf(there[31:32], **options)
    assert_same_bits(tuple(part.get()[0] for part in alone), tuple(part.get()[31] for part in want))
    assert_same_bits(tuple(cmfast.ras(there, **options))[1:], tuple(want)[1:])


@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_a_queue_says_which_are_solved(monkeypatch, solver):
    def solve(problem, queue, length):
        queue = device.asarray(np.array(queue))
        team.solve(problem, queue, device.asarray(np.array([length], np.uint64)))

    M = patterns((4, 5))
    targets = M.sum(2) * 2.0, M.sum(1) * 2.0
    monkeypatch.setattr(launch.group, "takes", lambda problem: False)
    want = both(M, *targets, solver=solver)[1]
    queue = np.random.default_rng(0).permutation(120)
    problems = []
    monkeypatch.setattr(launch.team, "solve", problems.append)
    got = both(M, *targets, solver=solver)[1]
    monkeypatch.undo()  # from here on nothing but the queue decides
    (problem,) = problems
    solve(problem, queue, 0)
    solve(problem, np.concatenate([queue[:50], queue[:70]]), 50)
    solve(problem, np.concatenate([queue[50:], queue[:50]]), 70)
    assert_same_bits(tuple(got), tuple(want))


def handed_on(monkeypatch, M, *targets, **options):
    """Return the result, and which matrices were left to the kernel that takes all."""
    queues = []

    def solve(problem, queue, length):
        queues.append(sorted(queue.get()[: int(length.get()[0])].tolist()))
        scaling_team_solve(problem, queue, length)

    scaling_team_solve = team.solve
    monkeypatch.setattr(team, "solve", solve)
    monkeypatch.setattr(team, "is_loaded", lambda problem: True)  # else it is not called where nothing is left
    got = cmfast.ipf(*map(device.asarray, (M, *targets)), on_failure="ignore", **options)
    monkeypatch.undo()
    (queue,) = queues
    return got, queue


@pytest.mark.parametrize("size", [4, 6])
def test_only_what_is_hard_is_handed_on(monkeypatch, size):
    """By the kernel that gives each matrix a thread, and by that which gives it some lanes."""
    rng = np.random.default_rng(0)
    M = rng.random((70, size, size)) + 0.1 + 4 * np.eye(size)
    M[3, 1, 2] = M[60] = 0.0
    M[7, 0, 0], M[8, 1, 1], M[9, 2, 2] = np.nan, -1.0, np.inf
    M[20:22] = (M[20:22] * np.eye(size))[:, ::-1]  # zeros, and nothing on the diagonal
    M[30] *= 10.0 ** rng.uniform(-40, 40, (size, size))
    M[40] = M[40, ::-1]  # the largest cells beside the diagonal
    got, queue = handed_on(monkeypatch, M)
    assert queue == [7, 8, 9, 20, 21, 30, 60]
    on_cpu = cmfast.ipf(M, on_failure="ignore")
    assert_agree(on_cpu, got, 1e-7)
    got, queue = handed_on(monkeypatch, M, max_iter=2)
    assert queue == list(range(70))
    assert handed_on(monkeypatch, M[:5])[1] == []


@pytest.mark.parametrize(("size", "slow"), [(33, []), (66, [5])])
def test_blocks_leave_hard_zeros_cells_far_apart_and_slow_sweeps(monkeypatch, size, slow):
    rng = np.random.default_rng(0)
    M = rng.random((8, size, size)) + 0.1
    M[1, 1, 1] = M[2] = 0.0  # of which the second has nothing to solve
    M[3, 0, 0] = np.nan
    M[4] = 10.0 ** rng.uniform(-40, 40, (size, size))
    M[5] = confusions(rng, size)
    M[6] *= np.exp(rng.normal(size=size))
    got, queue = handed_on(monkeypatch, M)
    assert queue == [1, 4, *slow]
    assert_agree(cmfast.ipf(M, on_failure="ignore"), got, 1e-7)
    assert handed_on(monkeypatch, M[1:2], smoothing=0.5)[1] == []
    rows = M[6].sum(1)
    assert handed_on(monkeypatch, M[1:2], np.ones(size), np.ones(size))[1] == [0]
    M[6, 1, 2] = 0.0
    assert handed_on(monkeypatch, M[6:7], rows, rows)[1] == []
    assert handed_on(monkeypatch, M[6:7], rows, rows[::-1])[1] == [0]
    assert handed_on(monkeypatch, M[6:7, :, :-1], np.ones(size), np.full(size - 1, size / (size - 1)))[1] == [0]
    start = device.asarray(got.row_scale.get()[6:]), device.asarray(got.col_scale.get()[6:])
    again, queue = handed_on(monkeypatch, M[6:], start=start)
    assert queue == []
    assert (again.n_iter.get() < got.n_iter.get()[6:]).all()


def blocks_of_classes(rng, size, parts, ties):
    """Return a matrix of some blocks, dominated by the diagonal, of which later ones have cells beside earlier ones."""
    part = np.sort(rng.integers(0, parts, size))
    tied = (part[:, None] > part) & (rng.random((size, size)) < ties)
    M = rng.random((size, size)) * ((part[:, None] == part) | tied)
    order = rng.permutation(size)
    return (M + size * np.eye(size))[np.ix_(order, order)]


@pytest.mark.parametrize("size", [33, 64, 65, 90])
@pytest.mark.parametrize("targets", [False, True])
def test_blocks_see_what_zeros_allow_where_the_diagonal_has_none(monkeypatch, size, targets):
    """One component, several of them, cells that die, classes that are dropped."""
    rng = np.random.default_rng(size)
    shapes = (1, 0.0), (4, 0.0), (4, 0.1), (size, 0.2), (2, 1e-3)
    M = np.stack([blocks_of_classes(rng, size, *shape) for shape in shapes])
    M = np.concatenate([M, M * (rng.random(M.shape) < 0.3) + np.eye(size)])
    M[2, 5] = M[2, :, 5] = 0.0
    lines = rng.uniform(1, 2, (10, size)) * (M.sum(1) > 0.0)
    given = (lines, lines) if targets else ()
    options = {} if targets else {"empty": "drop"}
    got, queue = handed_on(monkeypatch, M, *given, **options)
    assert len(queue) <= (5 if size > 64 else 0)  # sweeps that are no use are another reason
    on_cpu = cmfast.ipf(M, *given, on_failure="ignore", **options)
    assert {*on_cpu.status.tolist()} == {cmfast.Status.CONVERGED, cmfast.Status.LIMIT_ONLY}
    assert_agree(on_cpu, got, 1e-7, factors=size > scaling.SHORT)


@pytest.mark.parametrize("size", range(1, 33))
def test_any_number_of_classes_up_to_a_warp(monkeypatch, size):
    rng = np.random.default_rng(size)
    M = rng.integers(0, 30, (9, size, size)) + (5.0 + 30 * np.array([0, 1, 2]).repeat(3)[:, None, None]) * np.eye(size)
    M[4, :, 0] = M[4, 0] = 0.0
    M[5] += rng.random((size, size))
    M[5] = M[5, rng.permutation(size)]
    options = {"empty": "drop", "tol": 1e-13}
    on_cpu = cmfast.ipf(M, on_failure="ignore", **options)
    got, queue = handed_on(monkeypatch, M, **options)
    assert queue == []
    assert (on_cpu.status % 2 == 0).all()
    assert_agree(on_cpu, got, 1e-10)
    np.testing.assert_array_equal(got.smoothing.get(), on_cpu.smoothing)
    assert (got.residual.get() <= 1e-13).all()


@pytest.mark.parametrize("shape", [(2, 3), (4, 1), (3, 4), (2, 9), (9, 2), (17, 30), (30, 17), (1, 32), (32, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_oblong_matrices_up_to_a_warp(monkeypatch, shape, dtype):
    rng = np.random.default_rng(shape)
    M = rng.random((5, *shape)).astype(dtype)
    targets = (rng.integers(1, 9, shape[0]) * float(shape[1]), np.full(shape[1], 1.0))
    targets[1][:] = targets[0].sum() / shape[1]
    options = {"tol": 1e-13, "smoothing": 0.25}
    got, queue = handed_on(monkeypatch, M, *targets, **options)
    assert queue == []
    assert_agree(cmfast.ipf(M, *targets, **options), got, 1e-10)
    assert (got.smoothing.get() == 0.25).all()


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 3), (5, 5), (4, 7), (7, 4)])
@pytest.mark.parametrize("given", ["rows", "columns", "both", "unusable"])
def test_a_start_given_saves_steps(monkeypatch, shape, given):
    rng = np.random.default_rng(shape)
    M = rng.random((6, *shape)) ** 8 + 1e-3
    targets = (rng.integers(1, 5, shape[0]) * 7.0, np.full(shape[1], 1.0))
    targets[1][:] = targets[0].sum() / shape[1]
    cold = cmfast.ipf(M, *targets, tol=1e-13)
    row, col = {
        "rows": (cold.row_scale, -cold.col_scale),
        "columns": (cold.row_scale * np.nan, cold.col_scale),
        "both": (cold.row_scale, cold.col_scale),
        "unusable": (cold.row_scale * 0.0, cold.col_scale * np.inf),
    }[given]
    start = (device.asarray(row), device.asarray(col))
    without = handed_on(monkeypatch, M, *targets, tol=1e-13)[0].n_iter.get()
    got, queue = handed_on(monkeypatch, M, *targets, tol=1e-13, start=start)
    assert queue == []
    assert_agree(cold, got, 1e-10)
    assert (got.n_iter.get() < without).all() if given != "unusable" else (got.n_iter.get() == without).all()


@pytest.mark.parametrize("C", [2, 3, 4, 10, 16, 32])
def test_no_bit_depends_on_neighbours_or_schedules(C):
    rng = np.random.default_rng(C)
    M = rng.integers(1, 9, (23, C, C)) * np.where(rng.random((23, C, C)) < 0.1, 1e-6, 1.0)
    M[5, 0, 0] = np.nan
    there = device.asarray(M)
    want = cmfast.ipf(there, on_failure="ignore")
    for seed in (1, 2):
        with device.schedule(seed):
            assert_same_bits(tuple(cmfast.ipf(there, on_failure="ignore")), tuple(want))
    for first in (4, 11):
        alone = cmfast.ipf(there[first:], on_failure="ignore")
        assert_same_bits(tuple(part.get() for part in alone), tuple(part.get()[first:] for part in want))
    assert_same_bits(tuple(cmfast.ras(there, on_failure="ignore"))[1:], tuple(want)[1:])


def test_what_lanes_share_meets_no_bank_twice_and_fits():
    (table,) = re.findall(r"#define CM_LANE_SIZES (.*)", module.assemble_source("scaling/group"))
    for width in group.WIDTHS:
        even, pitch, used, step = sizes = group._SIZES[width]
        assert table.strip("{}").split("}, {")[width] == ", ".join(map(str, sizes))
        assert width <= even <= pitch
        assert (even % 2, pitch % 4, step % 16) == (0, 2, even % 16)
        assert used + 15 >= step >= used >= 2 * width * pitch + 4 * width
        threads, shared = group._choose_block(width)
        assert shared == threads // 32 * (32 // width) * step * 8 <= group.SHARED


def test_nothing_waits_where_failures_are_ignored():
    there = device.asarray(patterns((3, 3)))
    before = cmfast.ipf(there, on_failure="ignore")  # compiles
    with device.waits(0):
        found = cmfast.ipf(there, on_failure="ignore")
    assert device.host(found.status).tolist() == device.host(before.status).tolist()


@pytest.fixture
def cold(monkeypatch):
    """Compile the kernel for what is left anew, but not before the event that is returned is set."""
    device.settle()
    may, load = threading.Event(), module._load
    monkeypatch.setattr(module, "_load", lambda *key: (may.wait(60), load(*key)))
    monkeypatch.setattr(module, "_loads", {})
    yield may
    may.set()
    device.settle()


@pytest.mark.parametrize("C", [4, 40, 70])
def test_easy_matrices_do_not_wait_for_the_compiler(cold, C):
    M = np.random.default_rng(0).random((5, C, C)) + 0.1
    got = cmfast.bi_normalize(device.asarray(M))
    assert not cold.is_set()
    np.testing.assert_allclose(device.host(got), cmfast.bi_normalize(M), rtol=1e-7)
    cold.set()
    with device.waits(0):  # the kernel is there, so nobody asks how many matrices need it
        cmfast.bi_normalize(device.asarray(M), on_failure="ignore")


def test_matrices_that_are_left_wait_for_the_compiler(cold):
    M = patterns((4, 4))
    threading.Timer(0.2, cold.set).start()
    on_cpu, on_cuda = both(M, empty="drop")
    assert cold.is_set()
    assert_agree(on_cpu, on_cuda, 1e-9)


def test_what_a_thread_cannot_compile_is_raised_where_it_is_launched(monkeypatch):
    device.settle()
    monkeypatch.setattr(module, "_loads", {})

    def broken(topic, expression):
        if topic == "scaling/team":
            msg = "no compiler"
            raise RuntimeError(msg)
        return honest(topic, expression)

    honest = module.make_translation_unit
    monkeypatch.setattr(module, "make_translation_unit", broken)
    module._load_function.cache_clear()
    with pytest.raises(RuntimeError, match="no compiler"):
        cmfast.ipf(device.asarray(patterns((4, 4))), on_failure="ignore")


def test_progress_goes_by_pieces(monkeypatch):
    monkeypatch.setattr(launch, "PROGRESS_MATRICES", 50)
    seen = []
    cmfast.bi_normalize(device.asarray(patterns((3, 3)) + 1.0), progress=lambda *done: seen.append(done))
    assert seen == [(50, 120), (100, 120), (120, 120)]


def confusions(rng, C):
    """Return what a good classifier of classes of unequal sizes leaves."""
    return (0.01 / C * rng.random((C, C)) + 0.99 * np.eye(C)) * np.exp(rng.normal(size=(C, 1))) + 1e-6


def superclasses(rng, C):
    """Return two blocks of classes that are hardly ever confused with each other."""
    far = np.arange(C)[:, None] // (C // 2) != np.arange(C) // (C // 2)
    return np.where(far, 1e-6, rng.random((C, C)) + 0.1)


def chains(rng, C):
    """Return classes that are confused with the next ones only, or nearly so."""
    return np.eye(C) + 0.3 * np.eye(C, k=1) + 0.2 * np.eye(C, k=-1) + 1e-9 * rng.random((C, C))


def some_zeros(rng, C):
    """Return a matrix that is zero in most places but the diagonal."""
    return rng.random((C, C)) * (rng.random((C, C)) < 0.2) + np.eye(C)


def triangles(rng, C):
    """Return a matrix of which nothing but the diagonal lives."""
    return np.triu(rng.random((C, C)) + 0.01)


def of_any_size(rng, C):
    """Return cells of all the orders of magnitude that squares of them allow."""
    return 10.0 ** rng.uniform(-140, 140, (C, C))


@pytest.fixture
def team_alone(monkeypatch):
    """Keep easy matrices from the kernels that would take them first."""
    monkeypatch.setattr(launch, "_choose_first_kernel", lambda problem: None)


@pytest.mark.usefixtures("team_alone")
@pytest.mark.parametrize(
    ("family", "C"),
    [
        pytest.param(family, C, marks=[pytest.mark.slow] if family is of_any_size and C > 65 else [])
        for family in (confusions, superclasses, chains, some_zeros, triangles, of_any_size)
        for C in (31, 32, 33, 64, 65, 129, 200)
    ],
)
def test_warps_and_blocks_do_what_the_cpu_does(family, C):
    tol = 1e-13 if family is of_any_size else 1e-12  # the CPU's own tests say why
    on_cpu, on_cuda = both(family(np.random.default_rng(C), C), tol=tol)
    assert on_cpu.status == (2 if family is triangles else 0)
    # The CPU sweeps matrices of 17 to 64 classes more often before Newton's method, or only, and may let rows take half
    # of what columns miss.
    most = scaling.MOST_PAIRED_SWEEPS if scaling.MANY_COLUMNS <= C <= scaling.SHORT else 0
    assert on_cuda.n_iter.get() - on_cpu.n_iter in range(-most, 2)
    # Beyond 128 columns steps are by conjugate gradients, whose sums cancel: couplings of 1e-6 have fewer digits. Cells
    # of any size end up to 1e-132 small, where iterates that differ are apart by 1.4e-11.
    assert_agree(on_cpu, on_cuda, 2e-11 if C <= MOST_ELIMINATED_COLUMNS else 1e-10)


@pytest.mark.parametrize("shape", [(31, 40), (33, 32), (64, 90), (200, 129), (129, 200), (600, 4), (3, 6000)])
@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_rectangles_do_what_the_cpu_does(shape, solver):
    rng = np.random.default_rng(shape)
    M = np.exp(3 * rng.normal(size=(2, *shape)))
    M[1] *= rng.random(shape) < 0.7
    targets = M[1] * rng.random(shape)  # so that they can be met
    targets[2] = targets[:, 1] = 0.0
    on_cpu, on_cuda = both(M, targets.sum(1), targets.sum(0), solver=solver, tol=1e-10)
    assert on_cpu.status.tolist() == [0, 0]
    more = (
        on_cuda.n_iter.get() - on_cpu.n_iter
    )  # the CPU lets rows take half of what columns miss instead of a last step
    assert ((more == 0) | (more == 1)).all()
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.parametrize("C", [70, 129, 300])
@pytest.mark.parametrize("eps", [0.0, 1e-9, 1e-12])
def test_zeros_and_tiny_cells_of_many_classes_are_swept(C, eps):
    rng = np.random.default_rng(C)
    M = rng.poisson(60 * (np.eye(C) * 0.6 + rng.gamma(0.5, size=(C, C)) / C)) + np.eye(C) + eps
    on_cpu, on_cuda = both(M)
    assert on_cpu.status == on_cuda.status.get() == 0
    assert on_cuda.n_iter.get() == on_cpu.n_iter < 40  # Newton's method would take more
    assert_agree(on_cpu, on_cuda, 1e-11)


@pytest.mark.parametrize("C", [30, 70])
def test_plain_sweeps_are_those_of_the_input(C):
    rng = np.random.default_rng(C)
    M = np.stack([of_any_size(rng, C), rng.random((C, C)), confusions(rng, C)])
    M[1, : C // 2 + 1, : C // 2 + 1] = 0.0  # which no number of sweeps makes fit
    on_cpu, on_cuda = both(M, solver="sinkhorn", max_iter=200)
    assert on_cpu.status.tolist() == on_cuda.status.get().tolist() == [1, 1, 1]
    assert on_cuda.n_iter.get().tolist() == [200, 200, 200]
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.5}, {"smoothing": "pseudo-bayes"}], ids=str)
@pytest.mark.parametrize("C", [50, 90])
def test_smoothing_and_float32_in_blocks(C, options):
    M = np.floor(superclasses(np.random.default_rng(C), C) * 9).astype(np.float32) + (0 if options else 1)
    on_cpu, on_cuda = both(M, **options)
    assert on_cuda.matrix.dtype == np.float32
    assert_agree(on_cpu, on_cuda, 1e-6)


def test_more_columns_than_elimination_has_room_for():
    on_cpu, on_cuda = both(superclasses(np.random.default_rng(1), 1030))
    assert on_cpu.status == 0
    assert on_cuda.n_iter.get() - on_cpu.n_iter in (0, 1)  # the CPU may let rows take half of what columns miss
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.slow
def test_elimination_rescues_conjugate_gradients():
    rng = np.random.default_rng(3)
    C = MOST_ELIMINATED_COLUMNS + 1
    M = chains(rng, C)
    M[0, -1] = 1e-7
    on_cpu, on_cuda = both(M[:, rng.permutation(C)] * np.exp(4 * rng.normal(size=C)), tol=1e-13)
    assert on_cpu.status == 0
    assert_agree(on_cpu, on_cuda, 1e-9)


@pytest.mark.usefixtures("team_alone")
@pytest.mark.parametrize("C", [20, 50, 140])
def test_where_a_matrix_lies_changes_no_bit(monkeypatch, C):
    M = device.asarray(superclasses(np.random.default_rng(C), C))
    want = cmfast.ipf(M)
    for held in (8 << 10, 40 << 10, 64 << 10, 150 << 10):
        monkeypatch.setattr(team, "most_shared", lambda device, held=held: held)
        monkeypatch.setattr(team, "SHARED", min(held, 48 << 10))
        assert_same_bits(tuple(cmfast.ipf(M)), tuple(want))


def large_ones():
    """Yield large matrices, with targets, and what is asked besides: every way that one may go."""
    rng = np.random.default_rng(0)
    yield "quick", rng.random((66, 70)) + 0.1, {}
    yield "diagonal", superclasses(rng, 140), {}
    yield "plain", rng.random((70, 66)) + 0.1, {"solver": "sinkhorn"}
    yield "smoothed", rng.random((66, 66)) * (rng.random((66, 66)) < 0.2), {"smoothing": "pseudo-bayes"}
    yield "dropped", np.pad(rng.random((66, 66)), 1), {"empty": "drop"}
    yield "long", rng.random((5000, 4)) + 0.1, {}
    yield "bad", np.where(np.eye(66) > 0, -1.0, 1.0), {}
    holes = rng.random((90, 70)) * (rng.random((90, 70)) < 0.2) + np.eye(90, 70)
    yield "zeros", holes, {"targets": holes * rng.random((90, 70))}
    yield "far", 10.0 ** rng.uniform(-140, 140, (70, 66)), {"max_iter": 20}
    yield "far and square", 10.0 ** rng.uniform(-140, 140, (66, 66)), {"max_iter": 5}


@pytest.mark.parametrize(
    ("M", "asked"),
    [
        pytest.param(*rest, id=name, marks=[pytest.mark.slow] if name == "far and square" else [])
        for name, *rest in large_ones()
    ],
)
def test_blocks_that_share_a_matrix_change_no_bit(monkeypatch, M, asked):
    """Nor does it matter how many come in time, and in which order."""
    options = {"on_failure": "ignore", "tol": 1e-12} | asked
    T = options.pop("targets", None)
    R, C = M.shape
    lines = (np.full(R, 1.0 * C), np.full(C, 1.0 * R)) if T is None else (T.sum(1), T.sum(0))
    lines = () if T is None and R == C else tuple(map(device.asarray, lines))
    there = device.asarray(M)
    assert M.size < team.SHARED_MATRIX_CELLS
    want = tuple(cmfast.ipf(there, *lines, **options))
    monkeypatch.setattr(team, "SHARED_MATRIX_CELLS", 1)
    for blocks, seed in ((2, 0), (3, 1), (7, 2)):
        monkeypatch.setattr(team, "processors", lambda device, blocks=blocks: blocks)
        with device.schedule(seed):
            assert_same_bits(tuple(cmfast.ipf(there, *lines, **options)), want)


def test_crews_take_one_matrix_after_another(monkeypatch):
    M = device.asarray(np.random.default_rng(1).random((3, 66, 66)) + 0.1)
    want = tuple(cmfast.ipf(M, on_failure="ignore"))
    monkeypatch.setattr(team, "SHARED_MATRIX_CELLS", 1)
    monkeypatch.setattr(team, "processors", lambda device: 9)
    for scratch in (team.LARGE_SCRATCH_BYTES, 1):  # of as many crews, of one
        monkeypatch.setattr(team, "LARGE_SCRATCH_BYTES", scratch)
        assert_same_bits(tuple(cmfast.ipf(M, on_failure="ignore")), want)


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


def test_a_failure_is_explained_as_on_the_cpu():
    M = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    with pytest.raises(cmfast.FailureError) as on_cpu:
        cmfast.ipf(M, on_failure="raise")
    with pytest.raises(cmfast.FailureError) as on_cuda:
        cmfast.ipf(device.asarray(M), on_failure="raise")
    assert str(on_cuda.value) == str(on_cpu.value)


@pytest.mark.parametrize("C", [3, 40, 70])
def test_cells_are_judged_before_smoothing_and_with_their_sign(C):
    M = np.ones((4, C, C), np.float32)
    M[1, 0, 1], M[2, 1, 0], M[3, 0, 0] = -0.25, -1e-45, 1e-45
    for options in ({"smoothing": 0.5}, {"smoothing": "pseudo-bayes"}, {}):
        on_cpu, on_cuda = both(M, tol=1e-9, **options)
        assert on_cpu.status.tolist() == on_cuda.status.get().tolist() == [0, 5, 5, 0]


@pytest.mark.parametrize("shape", [(4, 4), (4, 6), (6, 4), (32, 32), (40, 40), (70, 66)])
def test_the_residual_is_that_of_the_result(shape):
    rng = np.random.default_rng(shape)
    M, (R, C) = np.exp(rng.normal(size=(8, *shape))), shape
    targets = np.full(R, float(C)), np.full(C, float(R))
    got = cmfast.ipf(*map(device.asarray, (M, *targets)), tol=1e-2)
    P, residual = got.matrix.get(), got.residual.get()
    missed = abs(P.sum(2) - C).sum(1) + abs(P.sum(1) - R).sum(1)
    np.testing.assert_allclose(residual, missed / (R * C), rtol=1e-6, atol=1e-14)
    assert residual.max() > 1e-12


@pytest.mark.parametrize("C", [2, 40, 70])
def test_factors_out_of_range_are_reported(C):
    M = np.full((2, C, C), 1.0)
    M[1] = 5e-324
    on_cpu, on_cuda = both(M)
    assert on_cpu.status.tolist() == on_cuda.status.get().tolist() == [0, 7]
    assert np.isnan(on_cuda.matrix.get()[1]).all()


@pytest.mark.parametrize("coupling", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize(("C", "n"), [(4, 60), (10, 60), (33, 3), (70, 1)])
def test_cells_below_the_tolerance_are_right_too(C, n, coupling):
    """The residual does not see them: what says so is the last step."""
    rng = np.random.default_rng(5)
    far = np.arange(C)[:, None] // (C // 2) != np.arange(C) // (C // 2)
    M = np.where(far, coupling * np.exp(3 * rng.normal(size=(n, C, C))), rng.random((n, C, C)) + 0.1)
    M *= np.exp(rng.normal(size=(n, C, 1)))
    got = cmfast.ipf(device.asarray(M), tol=1e-9).matrix.get()
    np.testing.assert_allclose(got, cmfast.ipf(M, tol=1e-13).matrix, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (40, 33), (33, 40)])
def test_totals_that_differ_by_rounding_become_that_of_the_rows(shape):
    M, (R, C) = np.random.default_rng(shape).random((2, *shape)) + 0.1, shape
    targets = np.full(R, float(C)), np.full(C, R * (1 + 5e-10))
    got = cmfast.ipf(*map(device.asarray, (M, *targets)), tol=1e-13).matrix.get()
    np.testing.assert_allclose(got.sum(2), C, rtol=1e-12)
    np.testing.assert_allclose(got.sum(1), R, rtol=1e-12)
