"""Updates from several threads: every object that can be updated keeps all of them, and is never half updated."""

import ast
import copy
import faulthandler
import inspect
import os
import pickle
import re
import sys
import textwrap
import threading
import warnings
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest
import torch
from processes import ROOT, python

import cmfast
from cmfast._core import locking

pytestmark = pytest.mark.exhaustive

THREADS, UPDATES = 8, 100
SPACES = ("cmfast", "cmfast.conformal", "cmfast.contingency", "cmfast.metrics", "cmfast.uncertainty", "cmfast.display")
SPACES += ("cmfast.results", "cmfast.nn", "cmfast.compat.sklearn", "cmfast.compat.torchmetrics")
PLOTS = {"plot"}  # of pictures: each is drawn by one thread, as everything of matplotlib's is


@contextmanager
def switching():
    """Let threads take turns a thousand times as often as they do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(step, updates=UPDATES):
    """Call `step` with the number of a thread, and of its update, from all threads at once."""
    failed = []
    ready = threading.Barrier(THREADS)

    def work(k):
        try:
            ready.wait()
            for i in range(updates):
                step(k, i)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    with switching():
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not failed, failed[:3]


IDS = np.arange(4)
TEXT = np.array(["a", "b", "c"])
GRID = cmfast.Grid([0.0], [1.0])
PART = cmfast.ConfusionCounts.from_labels([0], [1])
CELLS = cmfast.cell_counts([[0.5]], [0], [1], grid=GRID, n_classes=4)
POINTS = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 7.0]])


def counted(counts):
    return counts.n_samples


def added(counts):
    counts += PART


def of_pca():
    return cmfast.PcaAccumulator()


def other_pca():
    return cmfast.PcaAccumulator().update(POINTS)


OTHER = other_pca()

# What is made; what each thread does with it; how many samples that adds; how many the object has.
UPDATED = {
    "ConfusionCounts, ids": (
        lambda: cmfast.ConfusionCounts(n_classes=4), lambda c, k, i: c.update(IDS, IDS[::-1]), 4, counted),
    "ConfusionCounts, found": (
        cmfast.ConfusionCounts, lambda c, k, i: c.update(IDS + k, IDS + k), 4, counted),
    "ConfusionCounts, text": (
        cmfast.ConfusionCounts, lambda c, k, i: c.update(TEXT, np.roll(TEXT, k)), 3, counted),
    "ConfusionCounts, groups": (
        cmfast.ConfusionCounts, lambda c, k, i: c.update(IDS, IDS, groups=IDS + k), 4, counted),
    "ConfusionCounts, tensors": (
        lambda: cmfast.ConfusionCounts(n_classes=4),
        lambda c, k, i: c.update(torch.tensor([0, 1]), torch.tensor([1, 1])), 2, counted),
    "ConfusionCounts, +=": (
        cmfast.ConfusionCounts, lambda c, k, i: added(c), 1, counted),
    "CellAccumulator, update": (
        lambda: cmfast.CellAccumulator(GRID, 4),
        lambda c, k, i: c.update([[0.5], [k + 0.5]], [0, 1], [1, 2]), 2, lambda c: c.counts().n_points),
    "CellAccumulator, add": (
        lambda: cmfast.CellAccumulator(GRID, 4), lambda c, k, i: c.add(CELLS), 1, lambda c: c.counts().n_points),
    "PcaAccumulator, update": (of_pca, lambda c, k, i: c.update(POINTS), 3, lambda c: c.n_points),
    "PcaAccumulator, add": (of_pca, lambda c, k, i: c.add(OTHER), 3, lambda c: c.n_points),
}  # fmt: skip
CLASSES = {"ConfusionCounts", "CellAccumulator", "PcaAccumulator"}


@pytest.mark.parametrize("kind", UPDATED)
def test_no_update_is_lost(kind):
    make, step, n, total = UPDATED[kind]
    one = make()
    step(one, 0, 0)  # compiles
    one = make()
    in_threads(lambda k, i: step(one, k, i))
    assert total(one) == THREADS * UPDATES * n


def test_without_the_lock_updates_are_lost(monkeypatch):
    class Unlocked:
        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    def lost():
        counts = cmfast.ConfusionCounts()
        counts._guard.lock = Unlocked()
        in_threads(lambda k, i: counts.update(IDS + k, IDS + k))
        return counts.n_samples < THREADS * UPDATES * 4

    assert any(lost() for _ in range(5))  # or the tests above could not fail


def torch_metrics():
    module = pytest.importorskip("cmfast.compat.torchmetrics")
    metrics = [getattr(module, name) for name in sorted(module.__all__)]
    return [one for one in metrics if hasattr(one, "update")]  # some have a task, and make one of the others


def made(metric, **options):
    name = metric.__name__
    if name.startswith("Multiclass"):
        options |= {"num_classes": 4}
    elif name.startswith("Multilabel"):
        options |= {"num_labels": 2}
    return metric(**options)


def test_no_update_of_torchmetrics_classes_is_lost():
    total = THREADS * 40
    found = [one for one in torch_metrics() if one.__name__.startswith(("Binary", "Multi"))]
    assert len(found) > 20
    one_of_each_way = {metric.update.__qualname__ + metric.__name__[:6]: metric for metric in found}
    for metric in one_of_each_way.values():
        one = made(metric)
        preds = torch.zeros((3, 2), dtype=torch.long) if "Multilabel" in metric.__name__ else torch.zeros(3).long()
        in_threads(lambda k, i, one=one, preds=preds: one.update(preds, preds), 40)
        expected = total * 3 * (2 if "Multilabel" in metric.__name__ else 1)
        assert int(one.confmat.sum()) == expected, metric
        again = pickle.loads(pickle.dumps(one))
        again.update(preds, preds)
        assert int(one.clone().confmat.sum()) == expected
        assert int(again.confmat.sum()) == expected + expected // total


def test_calls_of_torchmetrics_classes_are_not_mixed():
    from cmfast.compat.torchmetrics import MulticlassAccuracy

    one = MulticlassAccuracy(num_classes=4, average="micro")
    target = torch.tensor([0, 1, 2, 3])
    seen = []
    in_threads(lambda k, i: seen.append(float(one(target, target))), 15)
    assert set(seen) == {1.0}
    assert int(one.confmat.sum()) == THREADS * 15 * 4


@pytest.mark.parametrize("way", ["update", "forward"])
def test_first_updates_of_a_collection_may_come_from_several_threads(way):
    module = pytest.importorskip("cmfast.compat.torchmetrics")
    target = torch.tensor([0, 1, 2, 3])
    for _ in range(40):  # in the first ones it finds out which metrics share their counts
        some = ("MulticlassF1Score", "MulticlassCohenKappa", "MulticlassAccuracy")
        every = module.MetricCollection([getattr(module, name)(num_classes=4) for name in some])
        in_threads(lambda k, i, every=every: getattr(every, way)(target, target), 2)
        assert {int(one.confmat.sum()) for one in every.values()} == {THREADS * 2 * 4}
        assert all(value == 1 for value in every.compute().values())
    assert every.clone()._lock is not every._lock


def test_readers_see_whole_updates():
    counts = cmfast.ConfusionCounts()
    stop = threading.Event()
    wrong = []

    def read():
        while not stop.is_set():
            frame = counts.table(["accuracy"]) if counts.groups else None
            one = copy.copy(counts)
            if frame is not None and not (frame["accuracy"] == 1).all():
                wrong.append(frame)
            if one.matrix.shape[-1] != len(one.labels) or one.n_samples % 4:
                wrong.append(one)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        in_threads(lambda k, i: counts.update(IDS + k, IDS + k, groups=(IDS + i) % 7))
    finally:
        stop.set()
        reader.join()
    assert not wrong
    assert counts.n_samples == THREADS * UPDATES * 4


@pytest.mark.parametrize("kind", UPDATED)
def test_copies_and_pickles_have_locks_of_their_own(kind):
    make, step, n, total = UPDATED[kind]
    one = make()
    step(one, 0, 0)
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        with one._guard.lock:
            done = threading.Thread(target=step, args=(again, 0, 0))
            done.start()
            done.join(20 if again._guard is not one._guard else 0)
        done.join()
        assert total(again) == 2 * n
    assert total(one) == n


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_does_not_wait_for_a_lock_that_another_thread_held():
    counts = cmfast.ConfusionCounts(n_classes=4).update(IDS, IDS)
    held, done = threading.Event(), threading.Event()

    def hold():
        with counts._guard.lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:  # no pytest in here
        faulthandler.dump_traceback_later(20, exit=True, file=sys.__stderr__)  # where it waits
        counts.update(IDS, IDS)
        os._exit(0 if counts.n_samples == 8 else 3)
    try:
        pid = 0
        for _ in range(600):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                break
            done.wait(0.05)
        if not pid:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert pid, "the child waits for ever"
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        done.set()
        thread.join()


def test_a_library_that_another_thread_is_importing_is_not_asked(tmp_path):
    (tmp_path / "pandas.py").write_text(
        "import threading\nstarted.set(); go.wait(60)\nCategoricalDtype = Series = None\n"
    )
    said = python("-c", IMPORTING, cwd=ROOT, path=f"{tmp_path}{os.pathsep}{ROOT}")
    assert said.split() == ["1", "1"]


IMPORTING = """
import builtins, threading, numpy as np, cmfast
builtins.started, builtins.go = threading.Event(), threading.Event()
threading.Thread(target=lambda: __import__("pandas")).start()
started.wait()
try:
    print(cmfast.ConfusionCounts.from_labels(["a"], ["a"]).n_samples)
    print(cmfast.confusion_matrix(["a"], ["a"]).sum())
finally:
    go.set()
"""


def public_classes():
    for space in SPACES:
        module = import_module(space)
        for name in module.__all__:
            one = getattr(module, name)
            if inspect.isclass(one):
                yield f"{space}.{name}", one


def changing_methods(cls):
    """Return the methods of a class, and of what it inherits from cmfast, that assign to an attribute of `self`."""
    found = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("cmfast"):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):  # made by a call, as named tuples are
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name not in ("__init__", "__post_init__", "_of"):
                targets = [t for n in ast.walk(node) if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)
                           for t in (n.targets if isinstance(n, ast.Assign) else [n.target])]  # fmt: skip
                flat = [leaf for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Attribute)]
                if any(isinstance(leaf.value, ast.Name) and leaf.value.id == "self" for leaf in flat):
                    found.add(node.name)
    return found


def test_every_class_that_can_be_updated_is_tried_here_and_has_a_lock():
    classes = dict(public_classes())
    assert len(classes) > 50
    changing = {name: changing_methods(one) - PLOTS for name, one in classes.items()}
    concrete = {one.__name__ for one in torch_metrics() if one.__name__.startswith(("Binary", "Multi"))}
    found = {name.rpartition(".")[2] for name, methods in changing.items() if methods}
    assert {name for name in found if not name.endswith("Display")} == CLASSES | concrete | {"MetricCollection"}
    named = {one.__name__ for one in classes.values() if hasattr(one, "update") or hasattr(one, "__iadd__")}
    assert named == CLASSES | {one.__name__ for one in torch_metrics()}
    assert {kind.partition(",")[0] for kind in UPDATED} == CLASSES


def test_functions_that_take_warnings_leave_those_of_other_threads_alone():
    y, p = np.array([0, 1, 1, 2] * 5), np.array([0, 1, 0, 1] * 5)
    notes = cmfast.report(y, p, n_resamples=20).to_dict()["notes"]
    assert notes, "of so few samples it has something to say"
    before = (list(warnings.filters), warnings.showwarning)
    found, heard = [], []

    def step(k, i):
        if k % 2:
            found.append(cmfast.report(y, p, n_resamples=20).to_dict()["notes"])
        else:
            warnings.warn(f"of thread {k}", RuntimeWarning, stacklevel=2)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: heard.append(str(message))
        in_threads(step, 5)
        assert len(heard) == THREADS // 2 * 5
    assert all(one == notes for one in found)
    assert (list(warnings.filters), warnings.showwarning) == before


def test_no_function_changes_the_filters_of_warnings():
    of_processes = ("cmfast/cli/", "cmfast/_reproduce/")  # commands, which have one thread
    few = {"cmfast/_warmup.py", "cmfast/_files/tables.py", "cmfast/_files/npy_objects.py"}  # readers of commands
    wrong = {"catch_warnings", "simplefilter", "filterwarnings"}
    found = set()
    for path in [*(ROOT / "cmfast").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]:
        name = path.relative_to(ROOT).as_posix()
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if not name.startswith(of_processes) and {getattr(call, "attr", "") for call in calls} & wrong:
            found.add(name)
    assert found == few


def test_the_page_says_of_every_public_class_what_threads_may_do():
    page = (ROOT / "docs" / "thread_safety.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    in_one_line = {one.__name__ for one in torch_metrics()} - {"MetricCollection"} | set(cmfast.results.__all__)
    missing = {one.__name__ for _, one in public_classes()} - named - in_one_line
    assert not missing, sorted(missing)
    assert "classes of `cmfast.compat.torchmetrics`" in page
    assert "Results are the classes of `cmfast.results`" in page


def test_locks_that_nobody_has_are_forgotten():
    before = len(locking._every)
    for _ in range(100):
        cmfast.ConfusionCounts()
    assert len(locking._every) <= before + 10
