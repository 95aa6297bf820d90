"""The thread pool: how much runs where, what happens in forks, exits and errors, and that no result depends on it."""

import os
import signal
import threading
import time
from itertools import pairwise

import pytest
from checks import assert_same_bits
from processes import ROOT, python

import cmfast
from cmfast.kernels.cpu._core import pool

LONG = 1.0  # seconds of estimated work: enough for the pool


def bounds(n):
    return [(k, k + 1) for k in range(n)]


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 1000, 12345])
@pytest.mark.parametrize("tile", [1, 8, 64])
@pytest.mark.parametrize("seconds", [0.0, 1e-4, 1e-3, 10.0])
def test_pieces_cover_everything_once_at_multiples_of_the_tile(n, tile, seconds):
    cut = pool.pieces(n, seconds, tile=tile)
    assert cut[0][0] == 0
    assert cut[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(cut))
    assert all(start % tile == 0 for start, _ in cut)
    assert all(start < stop for start, stop in cut) or n == 0
    assert len(cut) <= pool.MAX_PIECES
    assert len(cut) <= max(1, seconds / pool.PIECE_SECONDS)


@pytest.mark.parametrize("tile", [1, 8])
@pytest.mark.parametrize("seconds", [1e-5, 1e-3, 1e-2, 2e-2, 4e-2, 1.0])
def test_long_work_is_cut_further_only_into_pieces_that_pay(seconds, tile):
    n = 100_000
    cut, free = pool.pieces(n, seconds, tile=tile), pool.free_pieces(n, seconds, tile=tile)
    assert [a for a, _ in free[1:]] == [b for _, b in free[:-1]]
    assert (free[0][0], free[-1][1]) == (0, n)
    assert all(a % tile == 0 for a, _ in free)
    assert len(cut) <= len(free) <= pool.MOST_FREE_PIECES
    assert len(free) == len(cut) or seconds / len(free) >= pool.FREE_PIECE_SECONDS / 2
    assert len(free) <= pool.MAX_PIECES or len(free) % pool.MAX_PIECES == 0  # each of so many threads takes as many
    assert (len(free) > pool.MAX_PIECES) == (seconds > pool.MAX_PIECES * pool.FREE_PIECE_SECONDS)


@pytest.mark.parametrize("threads", [1, 2, 5, 8, None])
def test_every_piece_runs_once(threads):
    seen = []
    pool.run_pieces(lambda i, a, b: seen.append((i, a, b)), bounds(100), seconds=LONG, num_threads=threads)
    assert sorted(seen) == [(k, k, k + 1) for k in range(100)]


def test_no_pieces():
    reports = []
    pool.run_pieces(lambda *_: pytest.fail("ran"), [], seconds=LONG, progress=lambda *now: reports.append(now))
    assert reports == [(0, 0)]


@pytest.mark.parametrize("threads", [1, 2, 7, 20])
def test_as_many_threads_as_asked_for_even_beyond_the_processors(threads):
    meeting, seen = threading.Barrier(threads), set()  # nobody passes before all are there

    def run(*_):
        meeting.wait(timeout=60)
        seen.add(threading.get_ident())

    pool.run_pieces(run, bounds(threads), seconds=LONG, num_threads=threads)
    assert len(seen) == threads


def test_little_work_stays_in_the_caller():
    where = set()
    pool.run_pieces(
        lambda *_: where.add(threading.get_ident()), bounds(50), seconds=pool.INLINE_SECONDS / 2, num_threads=8
    )
    assert where == {threading.get_ident()}


def test_nested_call_runs_in_the_piece_that_made_it():
    threads = 4
    meeting = threading.Barrier(threads)
    wrong = []

    def outer(*_):
        meeting.wait(timeout=60)
        here = threading.get_ident()
        pool.run_pieces(
            lambda *_: wrong.append(1) if threading.get_ident() != here else None,
            bounds(9),
            seconds=LONG,
            num_threads=3,
        )

    pool.run_pieces(outer, bounds(threads), seconds=LONG, num_threads=threads)
    assert not wrong


@pytest.mark.parametrize("bad", [0, 37, 99])
@pytest.mark.parametrize("threads", [1, 3])
def test_exception_in_a_piece_reaches_the_caller_when_the_others_have_ended(bad, threads):
    running = []

    def work(i, *_):
        running.append(i)
        try:
            time.sleep(0.001)
            if i == bad:
                msg = f"piece {i}"
                raise ArithmeticError(msg)
        finally:
            running.remove(i)

    with pytest.raises(ArithmeticError, match=f"piece {bad}"):
        pool.run_pieces(work, bounds(100), seconds=LONG, num_threads=threads)
    assert running == []
    test_every_piece_runs_once(threads)  # and the pool is as good as new


def test_after_an_exception_no_further_piece_starts():
    started = []

    def work(i, *_):
        started.append(i)
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        pool.run_pieces(work, bounds(1000), seconds=LONG, num_threads=2)
    assert len(started) <= 2


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to itself")
@pytest.mark.parametrize("threads", [1, 3])
def test_keyboard_interrupt(threads):
    done = []

    def work(i, *_):
        time.sleep(0.002)
        done.append(i)
        if len(done) == 5:
            signal.raise_signal(signal.SIGINT)

    found = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.run_pieces(work, bounds(500), seconds=LONG, num_threads=threads)
    finally:
        signal.signal(signal.SIGINT, found)
    after = len(done)
    time.sleep(0.05)
    assert len(done) == after < 500
    test_every_piece_runs_once(threads)


def until_given_up(limit=60):
    """Work on as a kernel does that comes back now and then."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        pool.checkpoint()
        time.sleep(0.001)
    pytest.fail("nobody ended this piece")


@pytest.mark.parametrize("nested", [False, True])
def test_a_piece_ends_at_its_next_checkpoint_when_another_one_fails(nested):
    meeting = threading.Barrier(2)
    ended = []

    def work(i, *_):
        meeting.wait(timeout=60)
        if i == 0:
            raise ArithmeticError
        try:
            if nested:
                pool.run_pieces(lambda *_: until_given_up(), bounds(3), seconds=LONG)
            else:
                until_given_up()
        finally:
            ended.append(i)

    with pytest.raises(ArithmeticError):
        pool.run_pieces(work, bounds(2), seconds=LONG, num_threads=2)
    assert ended == [1]
    test_every_piece_runs_once(2)
    pool.checkpoint()  # not inside: nothing to end


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to itself")
def test_an_interrupt_while_the_caller_waits_for_the_last_piece():
    meeting = threading.Barrier(2)
    ended = []

    def work(*_):
        meeting.wait(timeout=60)
        if threading.current_thread() is threading.main_thread():
            return
        time.sleep(0.1)  # the caller waits by now
        signal.raise_signal(signal.SIGINT)
        try:
            until_given_up()
        finally:
            ended.append(True)

    found = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.run_pieces(work, bounds(2), seconds=LONG, num_threads=2)
    finally:
        signal.signal(signal.SIGINT, found)
    assert ended == [True]
    test_every_piece_runs_once(2)


@pytest.mark.parametrize(("n", "tile", "seconds"), [(1000, 8, 20.0), (7, 8, 20.0), (100_000, 1, 0.01), (64, 1, 1000.0)])
def test_a_long_piece_comes_back_to_python(n, tile, seconds):
    ranges = []
    pool.run(lambda *where: ranges.append(where), (), n, seconds=seconds, tile=tile, num_threads=1)
    ranges.sort()
    assert ranges[0][0] == 0
    assert ranges[-1][1] == n
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert all(start % tile == 0 for start, _ in ranges)
    assert all(b - a <= max(tile, n * pool.MOMENT_SECONDS / seconds) for a, b in ranges)
    assert len(ranges) <= max(pool.MAX_PIECES, 2 * seconds / pool.MOMENT_SECONDS)


def test_progress_comes_from_the_caller_never_falls_and_ends_full():
    reports, where = [], set()

    def report(done, total):
        reports.append((done, total))
        where.add(threading.get_ident())

    pool.run_pieces(lambda *_: time.sleep(0.02), bounds(40), seconds=LONG, num_threads=3, progress=report)
    assert where == {threading.get_ident()}
    assert reports[-1] == (40, 40)
    assert len(reports) > 2
    assert all(a[0] <= b[0] for a, b in pairwise(reports))
    assert {total for _, total in reports} == {40}


def test_progress_that_raises_stops_the_work():
    def report(done, total):
        msg = "stop"
        raise ArithmeticError(msg)

    started = []
    with pytest.raises(ArithmeticError, match="stop"):
        pool.run_pieces(lambda i, *_: started.append(i), bounds(100), seconds=LONG, num_threads=1, progress=report)
    assert len(started) == 1


def samples(rng, n=400_000):
    return rng.integers(0, 6, n), rng.integers(0, 6, n)


def test_eight_threads_at_once(rng):
    t, p = samples(rng)
    S = rng.random((20_000, 4, 4))
    want = cmfast.confusion_matrix(t, p, n_classes=6), cmfast.overlap(S, S[::-1])
    wrong, start = [], threading.Barrier(8)

    def caller():
        start.wait()
        for _ in range(3):
            try:
                assert_same_bits(want[0], cmfast.confusion_matrix(t, p, n_classes=6, num_threads=4))
                assert_same_bits(want[1], cmfast.overlap(S, S[::-1], num_threads=4))
            except BaseException as error:  # noqa: BLE001  # handed to the main thread
                wrong.append(error)

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert wrong == []


COUNT = """
import numpy as np, cmfast
y = np.random.default_rng(0).integers(0, 3, 2_000_000)
def count(_=None):
    return int(np.trace(cmfast.confusion_matrix(y, y, n_classes=3, num_threads=4)))
"""


def run(code, **environment):
    return python("-W", "ignore", "-c", COUNT + code, cwd=ROOT, **environment).split()


@pytest.mark.processes
def test_eight_threads_compile_at_once(tmp_path):
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(*set(pool.map(count, range(8))))
"""
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == ["2000000"]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_fork():
    code = """
import multiprocessing, os
print(count())  # the pool has threads now, which the children will not have
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(*pool.map(count, range(4)))
child = os.fork()
if child == 0:
    os._exit(0 if count() == 2_000_000 else 1)
print(os.waitpid(child, 0)[1], count())
"""
    assert run(code) == ["2000000"] * 5 + ["0", "2000000"]


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_while_other_threads_count():
    code = """
import os, threading
stop = threading.Event()
def busy():
    while not stop.is_set():
        count()
count()
others = [threading.Thread(target=busy) for _ in range(3)]
for thread in others: thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if count() == 2_000_000 else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
for thread in others: thread.join()
"""
    assert run(code) == ["0"] * 20


@pytest.mark.torch
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_torch_data_loader_worker_after_the_parent_has_used_the_pool():
    code = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, _):
        return count()
print(count())
loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2, multiprocessing_context="fork")
print(*torch.cat(list(loader)).tolist())
"""
    assert run(code) == ["2000000"] * 5


@pytest.mark.processes
def test_call_at_exit():
    assert run("import atexit\ncount()\natexit.register(lambda: print(count()))") == ["2000000"]


@pytest.mark.processes
def test_call_in_a_daemon_thread_does_not_hold_the_exit():
    code = """
import threading
count()
def forever():
    while True:
        count()
threading.Thread(target=forever, daemon=True).start()
print("end")
"""
    assert run(code) == ["end"]


@pytest.fixture
def sixteen(monkeypatch):
    """Make this a machine of sixteen processors without any limit."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(pool, "_cached_cpu_quota", lambda: None)
    for name in ("CMFAST_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def test_cpu_count_is_the_affinity(sixteen):
    assert pool.cpu_count() == 16


def test_cpu_count_keeps_the_quota(sixteen, monkeypatch):
    monkeypatch.setattr(pool, "_cached_cpu_quota", lambda: 3)
    assert pool.cpu_count() == 3


@pytest.mark.parametrize("name", ["CMFAST_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize(
    ("value", "want"), [("4", 4), ("4,2", 4), (" 2 ", 2), ("99", 16), ("0", 16), ("-1", 16), ("", 16), ("²", 16)]
)
def test_cpu_count_keeps_the_environment(sixteen, monkeypatch, name, value, want):
    monkeypatch.setenv(name, value)
    assert pool.cpu_count() == want


@pytest.fixture
def groups(tmp_path):
    """Return a function that writes control-group files and returns the quota that they mean."""

    def write(process, files):
        (tmp_path / "cgroup").write_text(process)
        for name, text in files.items():
            path = tmp_path / "mount" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return pool.read_cpu_quota(tmp_path / "cgroup", tmp_path / "mount")

    return write


def test_quota_version_2_container(groups):
    assert groups("0::/\n", {"cpu.max": "250000 100000\n"}) == 2


def test_quota_less_than_one_processor_is_one(groups):
    assert groups("0::/\n", {"cpu.max": "50000 100000\n"}) == 1


def test_quota_no_limit(groups):
    assert groups("0::/\n", {"cpu.max": "max 100000\n"}) is None


def test_quota_nested_groups_have_the_least_of_all(groups):
    files = {"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "max 100000\n", "a/b/c/cpu.max": "800000 100000\n"}
    assert groups("0::/a/b/c\n", files) == 4


def test_quota_version_1(groups):
    files = {"cpu/x/cpu.cfs_quota_us": "300000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}
    assert groups("3:memory:/y\n2:cpu,cpuacct:/x\n0::/\n", files) == 3


def test_quota_version_1_without_limit(groups):
    files = {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert groups("2:cpu:/\n", files) is None


def test_quota_path_of_the_host_seen_from_a_container(groups):
    files = {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert groups("2:cpu:/docker/0123\n", files) == 2


def test_quota_no_control_groups(tmp_path):
    assert pool.read_cpu_quota(tmp_path / "none", tmp_path) is None
