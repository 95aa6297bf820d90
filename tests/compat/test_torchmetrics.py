"""torchmetrics' classes by cmfast: the same values in the same shapes, one state for all, sums over processes."""

import os
import pickle
import subprocess
import sys
from functools import partial
from itertools import product

import pytest
from processes import ROOT

from cmfast._core import dispatch

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")
theirs = pytest.importorskip("torchmetrics.classification")
from cmfast.compat import torchmetrics as ours  # noqa: E402
from cmfast.compat.torchmetrics import _sums  # noqa: E402

pytestmark = pytest.mark.peers

SCORES = ["Accuracy", "Precision", "Recall", "F1Score", "Specificity", "StatScores"]
MATRICES = ["ConfusionMatrix", "CohenKappa", "MatthewsCorrCoef", "JaccardIndex"]
NONE_OF_THEIRS = ("CohenKappa", "multilabel")
BASES = {"binary": {}, "multiclass": {"num_classes": 4}, "multilabel": {"num_labels": 3}}


def batches(task, seed=0, n=20):
    """Return batches of predictions, as probabilities or labels, and targets of two dimensions."""
    torch.manual_seed(seed)
    for probabilities in (True, False):
        if task == "multiclass":
            scores, target = torch.randn(n, 4, 5).softmax(1), torch.randint(4, (n, 5))
            yield scores if probabilities else torch.randint(4, (n, 5)), target
        else:
            shape = (n, 3, 5) if task == "multilabel" else (n, 5)
            yield torch.rand(shape) if probabilities else torch.randint(2, shape), torch.randint(2, shape)


def assert_absent_classes_agree(name):
    """Check macro averages over few rows, in which some classes are never true, and some never among the best two."""
    rng = torch.Generator().manual_seed(0)
    for rows in (1, 2, 3) * 4:
        preds, target = torch.rand(rows, 5, generator=rng), torch.randint(0, 5, (rows,), generator=rng)
        for k in (1, 2, 3):
            options = {"num_classes": 5, "top_k": k, "average": "macro"}
            found, want = (
                getattr(library, f"Multiclass{name}")(**options)(preds, target) for library in (ours, theirs)
            )
            torch.testing.assert_close(found, want)


def assert_agree(name, task, **options):
    """Assert that ours gives what torchmetrics gives, for batches and for all of them."""
    options = {"task": task, **BASES[task], **options}
    mine, other = getattr(ours, name)(**options), getattr(theirs, name)(**options)
    assert isinstance(mine, type(other))
    for preds, target in batches(task):
        if preds.is_floating_point() or options.get("top_k", 1) == 1:
            torch.testing.assert_close(mine(preds, target), other(preds, target), equal_nan=True, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(mine.compute(), other.compute(), equal_nan=True, rtol=1e-5, atol=1e-6)
    return mine


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("task", BASES)
def test_scores_are_those_of_torchmetrics(name, task):
    for over in ("global", "samplewise"):
        for ignored in (None, -1, 0):
            for average in ("micro", "macro", "weighted", "none"):
                assert_agree(name, task, multidim_average=over, ignore_index=ignored, average=average)
    if task == "multiclass":
        assert_agree(name, task, top_k=2, average="macro")
        assert_absent_classes_agree(name)
        assert_agree(name, task, top_k=2, average="micro", ignore_index=1)


@pytest.mark.parametrize("name", SCORES[:4])
@pytest.mark.parametrize("zero_division", [0, 1])
def test_what_is_undefined_gets_what_was_asked_for(name, zero_division):
    for average in ("micro", "macro", "weighted", "none"):
        options = {"num_classes": 5, "average": average, "zero_division": zero_division}
        mine, other = (getattr(module, f"Multiclass{name}")(**options) for module in (ours, theirs))
        for target in (torch.tensor([0, 0, 1, 2]), torch.zeros(4, dtype=torch.long)):
            preds = torch.tensor([0, 1, 1, 3])
            torch.testing.assert_close(mine(preds, target), other(preds, target))


@pytest.mark.filterwarnings("ignore:.* NaN values found")  # both say so
@pytest.mark.parametrize("task", BASES)
def test_metrics_of_matrices_are_those_of_torchmetrics(task):
    for ignored in (None, -1, 0):
        for normalize in (None, "true", "pred", "all"):
            assert_agree("ConfusionMatrix", task, normalize=normalize, ignore_index=ignored)
        assert_agree("MatthewsCorrCoef", task, ignore_index=ignored)
        for average in ("micro", "macro", "weighted", "none"):
            assert_agree("JaccardIndex", task, average=average, ignore_index=ignored)
        if task != "multilabel":
            for weights in (None, "linear", "quadratic"):
                assert_agree("CohenKappa", task, weights=weights, ignore_index=ignored)


@pytest.mark.parametrize(
    "pair", [([0, 0, 0], [0, 0, 0]), ([1, 1, 1], [0, 0, 0]), ([0, 1, 1], [0, 0, 0]), ([1, 0], [0, 1])]
)
def test_degenerate_matrices_have_the_values_of_torchmetrics(pair):
    preds, target = map(torch.tensor, pair)
    for name in ("BinaryMatthewsCorrCoef", "BinaryCohenKappa", "BinaryJaccardIndex", "BinaryF1Score"):
        got, want = (getattr(module, name)()(preds, target) for module in (ours, theirs))
        torch.testing.assert_close(got, want, equal_nan=True)


def none(task):
    """Return what a metric may be given of no samples, and of samples that are all ignored as class 0."""
    empty, zeros = torch.empty(0, dtype=torch.long), torch.zeros(4, dtype=torch.long)
    if task == "multilabel":
        return [(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.long)), (torch.zeros(4, 3), torch.zeros(4, 3).long())]
    return [(empty, empty), (torch.empty(0, 3) if task == "multiclass" else torch.empty(0), empty), (zeros, zeros)]


@pytest.mark.filterwarnings("ignore")  # both warn, of other things
@pytest.mark.parametrize("name", [*SCORES, "ConfusionMatrix", "CohenKappa", "JaccardIndex", "MatthewsCorrCoef"])
@pytest.mark.parametrize("task", BASES)
def test_no_samples_have_the_values_of_torchmetrics(name, task):
    if task == "multilabel" and name == "CohenKappa":
        return  # torchmetrics has none
    sizes = {"multiclass": {"num_classes": 3}, "multilabel": {"num_labels": 3}}.get(task, {})
    averages = ("macro", "micro", "weighted", "none") if sizes and name in (*SCORES, "JaccardIndex") else (None,)
    filled = (0, 1) if name in ("Precision", "Recall", "F1Score", "Specificity", "JaccardIndex") else (0,)
    for average in averages:
        for ignored, zero_division in product((None, 0), filled):
            options = {**sizes, "ignore_index": ignored} | ({} if average is None else {"average": average})
            options |= {"zero_division": zero_division} if zero_division else {}
            zeros = torch.zeros((4, 3) if task == "multilabel" else 4, dtype=torch.long)
            for given in (None, *none(task), (zeros, zeros)):
                answers = []
                for module in (ours, theirs):
                    metric = getattr(module, task.title() + name)(**options)
                    try:
                        answers.append(metric.compute() if given is None else metric(*given))
                    except (RuntimeError, ValueError) as error:
                        answers.append(type(error))
                mine, other = answers
                where = f"{name}, {options}, {given}"
                if isinstance(other, type):
                    assert mine is other, where
                else:
                    assert isinstance(mine, torch.Tensor), where
                    torch.testing.assert_close(
                        mine, other, equal_nan=True, msg=lambda text, where=where: f"{where}: {text}"
                    )


def test_arguments_are_refused_in_the_words_of_torchmetrics():
    with pytest.raises(ValueError, match="`num_classes` is expected to be `int`"):
        ours.F1Score(task="multiclass")
    with pytest.raises(ValueError, match=r"`top_k` must be type `int` when task is .*MULTICLASS"):
        ours.Accuracy("multiclass", num_classes=3, top_k=None)
    with pytest.raises(ValueError, match=r"`num_labels` must be type `int` when task is .*MULTILABEL"):
        ours.Accuracy("multilabel")
    with pytest.raises(ValueError, match="`top_k` to be"):
        ours.Accuracy("multiclass", num_classes=3, top_k=4)
    with pytest.raises(ValueError, match="Expected argument `average`"):
        ours.Precision("multiclass", num_classes=3, average="best")
    with pytest.raises(RuntimeError, match="Detected the following values in `target`"):
        ours.Recall("binary").update(torch.tensor([0, 1]), torch.tensor([0, 7]))
    assert ours.Precision("multiclass", 0.5, 3, None, "micro").average == "micro"


@pytest.mark.parametrize(("task", "names"), [("multiclass", SCORES + MATRICES), ("binary", SCORES + MATRICES)])
def test_a_collection_counts_once_for_all(task, names, monkeypatch):
    metrics = ours.MetricCollection([getattr(ours, name)(task, **BASES[task]) for name in names])
    plain = ours.MetricCollection([getattr(theirs, name)(task, **BASES[task]) for name in names])
    ran, call = [], dispatch.call
    monkeypatch.setattr(dispatch, "call", lambda op, *args, **options: ran.append(op) or call(op, *args, **options))
    for preds, target in batches(task):
        metrics.update(preds, target)
        plain.update(preds, target)
        ran.append("batch")
    assert len(metrics.compute_groups) == 1
    assert ran[ran.index("batch") :].count("confusion_matrix") == 1
    for name, value in metrics.compute().items():
        torch.testing.assert_close(value, plain.compute()[name], rtol=1e-5, atol=1e-6)


def test_reset_clone_pickle_state_and_plot():
    preds, target = next(batches("multiclass"))
    metric = ours.F1Score("multiclass", num_classes=4)
    value = metric(preds, target)
    metric.persistent(True)
    other = ours.F1Score("multiclass", num_classes=4)
    other.persistent(True)
    other.load_state_dict(metric.state_dict())
    assert set(metric.state_dict()) == {"tp", "fp", "tn", "fn"}  # torchmetrics' names
    for each in (metric.clone(), pickle.loads(pickle.dumps(metric))):
        assert each.compute() == value
    assert all(torch.equal(part, metric.state_dict()[name]) for name, part in other.state_dict().items())
    figure, _ = metric.plot()
    assert figure is not None
    metric.reset()
    assert metric.confmat.sum() == 0


PROCESS = """
import sys, torch, torch.distributed as d
from cmfast.compat.torchmetrics import F1Score, MatthewsCorrCoef, MetricCollection
rank, place = int(sys.argv[1]), sys.argv[2]
d.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=2)
preds, target = torch.tensor([0, 1, 1, 1, 0, 1]), torch.tensor([0, 1, 0, 1, 1, 1])
found = MetricCollection([F1Score("binary"), MatthewsCorrCoef("binary")])
found.update(preds[rank::2], target[rank::2])
print([round(float(value), 6) for value in found.compute().values()])
d.destroy_process_group()
"""


def test_processes_add_up(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROCESS]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True, env=environment
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=200)[0] for process in running]
    preds, target = torch.tensor([0, 1, 1, 1, 0, 1]), torch.tensor([0, 1, 0, 1, 1, 1])
    want = [theirs.BinaryF1Score(), theirs.BinaryMatthewsCorrCoef()]
    assert said[0] == said[1]
    assert eval(said[0]) == pytest.approx([float(metric(preds, target)) for metric in want], abs=1e-6)


AVERAGED = [*product([*SCORES, "JaccardIndex"], BASES, ["macro", "micro", "weighted", "none"])]
PLAIN = [(name, task, None) for name, task in product(MATRICES[:3], BASES) if (name, task) != NONE_OF_THEIRS]


@pytest.mark.parametrize(("name", "task", "average"), AVERAGED + PLAIN)
def test_checkpoints_load_both_ways(name, task, average):
    options = {"task": task, **BASES[task]} | ({"average": average} if average else {})
    mine, other, again = (getattr(module, name)(**options) for module in (ours, theirs, theirs))
    first, second = batches(task)
    for metric in (mine, other, again):
        metric.persistent(True)
    other.update(*first)
    mine.load_state_dict(other.state_dict())
    for metric in (mine, other, again):
        metric._update_count = 1  # no part of a checkpoint; without samples both warn
    torch.testing.assert_close(mine.compute(), other.compute())
    for metric in (mine, pickle.loads(pickle.dumps(mine)), mine.clone(), other):
        metric.update(*second)
        torch.testing.assert_close(metric.compute(), mine.compute())
    torch.testing.assert_close(mine.compute(), other.compute())
    again.load_state_dict(mine.state_dict())
    assert {key: part.tolist() for key, part in again.state_dict().items()} == {
        key: part.tolist() for key, part in other.state_dict().items()
    }
    torch.testing.assert_close(again.compute(), other.compute())
    for metric in (mine, other, again):
        metric.reset()
        metric.update(*second)
    torch.testing.assert_close(mine.compute(), other.compute())
    again.load_state_dict(mine.state_dict())  # of counts that did not come from a checkpoint
    torch.testing.assert_close(again.compute(), other.compute())


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_checkpoints_of_any_matrix_load(n_classes):
    generator = torch.Generator().manual_seed(n_classes)
    for zero in (0.0, 0.5, 0.9, 1.0):
        counts = torch.randint(1000, (n_classes, n_classes), generator=generator)
        counts[torch.rand(counts.shape, generator=generator) < zero] = 0
        tp, fp, fn = counts.diag(), counts.sum(0) - counts.diag(), counts.sum(1) - counts.diag()
        states = {"tp": tp, "fp": fp, "tn": counts.sum() - tp - fp - fn, "fn": fn}
        metric = ours.MulticlassStatScores(num_classes=n_classes, average="none")
        metric.persistent(True)
        metric.load_state_dict(states)
        metric._update_count = 1
        assert torch.equal(metric.compute(), torch.stack([*states.values(), tp + fn], 1))
        assert all(torch.equal(part, states[name]) for name, part in metric.state_dict().items())


def test_a_matrix_loads():
    metric = ours.Recall("multiclass", num_classes=2)
    metric.load_state_dict({"confmat": torch.tensor([[3, 1], [2, 2]])})
    metric._update_count = 1
    assert metric.compute() == pytest.approx((3 / 4 + 2 / 4) / 2 if metric.average == "macro" else 5 / 8)


def test_checkpoints_of_other_metrics_are_refused():
    def save(name, **options):
        metric = getattr(theirs, name)(**options)
        metric.persistent(True)
        labels = torch.tensor([[0, 1], [1, 3]])
        metric.update(labels, labels)
        return metric.state_dict()

    metric = ours.MulticlassRecall(num_classes=4)
    states = save("MulticlassRecall", num_classes=4)
    lost = {name: part for name, part in states.items() if name != "fn"}
    more = {**states, "fp": states["fp"] + torch.tensor([0, 1, 0, 0])}
    for found, message in (
        (
            save("MulticlassRecall", num_classes=4, average="micro"),
            r"must be a tensor of shape \(4,\), got shape \(1,\)",
        ),
        (save("MulticlassRecall", num_classes=5), r"tp of the checkpoint must be .* \(4,\), got shape \(5,\)"),
        (
            save("MulticlassRecall", num_classes=4, multidim_average="samplewise"),
            r"MulticlassRecall: tp .*, got list\. ",
        ),
        (lost, "fn of the checkpoint must be a tensor of shape .*, got NoneType"),
        (more, "must be counts of the same samples"),
    ):
        with pytest.raises(RuntimeError, match=message):
            metric.load_state_dict(found)
    metric.update(*next(batches("multiclass")))
    assert metric.confmat.sum() == 100  # as before it was refused


@pytest.mark.parametrize("groups", [True, False, [["MulticlassRecall", "MulticlassCohenKappa"]]])
def test_checkpoints_of_collections_load(groups):
    names = [*SCORES, *MATRICES]
    options = {"task": "multiclass", "num_classes": 4}
    first, second = batches("multiclass")
    other = torchmetrics.MetricCollection([getattr(theirs, name)(**options) for name in names])
    other.persistent(True)
    other.update(*first)
    want = pickle.loads(pickle.dumps(other))
    want.update(*second)
    for before in (False, True):
        mine = ours.MetricCollection([getattr(ours, name)(**options) for name in names], compute_groups=groups)
        if before:  # all metrics in one group, which has to be split
            mine.update(*second)
        outer = torch.nn.ModuleDict({"metrics": mine})
        outer.load_state_dict(torch.nn.ModuleDict({"metrics": other}).state_dict())
        mine.update(*second)
        assert len(mine.compute_groups) == (2 if groups else 0)
        for name, value in mine.compute().items():
            torch.testing.assert_close(value, want.compute()[name], rtol=1e-5, atol=1e-6)


def test_a_collection_that_loads_nothing_keeps_its_counts():
    metrics = ours.MetricCollection([ours.BinaryRecall(), ours.BinaryConfusionMatrix()])
    want = metrics.clone()
    for preds, target in batches("binary"):
        metrics.load_state_dict({})  # no state is persistent
        metrics.update(preds, target)
        want.update(preds, target)
    assert len(metrics.compute_groups) == 1
    for name, value in metrics.compute().items():
        torch.testing.assert_close(value, want.compute()[name])


def test_a_collection_computes_its_sums_once(monkeypatch):
    view, ran = _sums.view_counts, []
    monkeypatch.setattr(_sums, "view_counts", lambda counts: ran.append(counts) or view(counts))
    names = [name for name in SCORES if name != "StatScores"]
    metrics = ours.MetricCollection(
        [getattr(ours, name)("multiclass", num_classes=4, average="none") for name in names]
    )
    metrics.update(*next(batches("multiclass")))
    metrics.compute()
    assert len(ran) == 1
    metrics["MulticlassRecall"].compute()
    metrics.update(*next(batches("multiclass")))
    metrics["MulticlassRecall"].compute()
    assert len(ran) == 2


ODD = {
    "logits": (torch.tensor([-3.0, 0.2, 4.0, -0.1]), torch.tensor([0, 1, 1, 1])),
    "NaN": (torch.tensor([0.9, float("nan"), 0.2, 0.7]), torch.tensor([0, 1, 1, 1])),
    "gradients": (torch.tensor([0.9, 0.1, 0.2, 0.7], requires_grad=True), torch.tensor([0, 1, 1, 1])),
    "half": (torch.tensor([0.9, 0.1, 0.2, 0.7]).half(), torch.tensor([0, 1, 1, 1])),
    "bool": (torch.tensor([True, False, True, True]), torch.tensor([False, False, True, False])),
    "int8": (torch.tensor([1, 0, 1, 1], dtype=torch.int8), torch.tensor([1, 1, 0, 1], dtype=torch.int16)),
    "strided": (
        torch.tensor([0.9, 0.1, 0.2, 0.7, 0.3, 0.1, 0.6, 0.8])[::2],
        torch.tensor([0, 1, 1, 1, 0, 0, 0, 1])[1::2],
    ),
    "a wrong prediction that is ignored": (torch.tensor([1, 7, 0, 1]), torch.tensor([1, -1, 0, 1])),
    "a wrong prediction": (torch.tensor([1, 7, 0, 1]), torch.tensor([1, 1, 0, 1])),
    "ignored": (torch.tensor([0.9, 0.1, 0.2, 0.7]), torch.tensor([1, -1, 0, 1])),
    "ignored logits": (torch.tensor([0.9, 3.0, 0.2, 0.7]), torch.tensor([1, -1, 0, 1])),
    "no axis": (torch.tensor(1), torch.tensor(1)),
    "other shapes": (torch.tensor([1, 0]), torch.tensor([1, 0, 0])),
    "a float target": (torch.tensor([0.9, 0.1]), torch.tensor([1.0, 0.0])),
}


@pytest.mark.parametrize("name", ["Accuracy", "ConfusionMatrix"])
@pytest.mark.parametrize("kind", ODD)
def test_odd_tensors_have_the_same_values_and_errors_on_both_ways(name, kind):
    for task, sizes in (("binary", {}), ("multilabel", {"num_labels": 2}), ("multiclass", {"num_classes": 2})):
        preds, target = ODD[kind]
        if task == "multilabel" and preds.ndim:
            preds, target = (x.reshape(-1, 2) if x.numel() % 2 == 0 else x for x in (preds, target))
        if task == "multiclass" and preds.ndim and preds.is_floating_point():
            preds = torch.stack([1 - preds, preds], 1)
        for ignored, checked in product((None, -1), (True, False)):
            answers = []
            for general in (False, True):
                metric = getattr(ours, task.title() + name)(**sizes, ignore_index=ignored, validate_args=checked)
                if general:
                    metric.__dict__["_count_plain"] = lambda preds, target: None
                try:
                    answers.append(metric(preds, target))
                except (RuntimeError, ValueError, IndexError) as error:
                    answers.append(f"{type(error)}: {error}")
            if isinstance(answers[1], str):
                assert answers[0] == answers[1]
            else:
                torch.testing.assert_close(*answers, rtol=0, atol=0)


@pytest.mark.parametrize("name", [*SCORES, "JaccardIndex", "CohenKappa", "MatthewsCorrCoef"])
@pytest.mark.parametrize("task", BASES)
def test_counts_that_numpy_does_not_read_have_the_same_values(name, task):
    if task == "multilabel" and name == "CohenKappa":
        return  # torchmetrics has none
    averages = ("macro", "micro", "weighted", "none") if name in (*SCORES, "JaccardIndex") else (None,)
    for average, ignored in product(averages, (None, 0)):
        options = {"task": task, **BASES[task], "ignore_index": ignored} | ({"average": average} if average else {})
        metric, other = getattr(ours, name)(**options), getattr(ours, name)(**options)
        for each in (metric, other):
            each.update(*next(batches(task)))
        other.confmat = other.confmat.int()  # as counts on another device: tensors throughout
        torch.testing.assert_close(metric.compute(), other.compute(), check_dtype=False, rtol=1e-6, atol=1e-7)


def test_the_best_of_equal_scores_is_that_of_torchmetrics():
    scores = torch.tensor(
        [[0.5, 0.5, 0.1], [float("nan"), 0.9, 0.1], [0.1, float("nan"), float("nan")], [-0.0, 0.0, 0.0]]
    )
    target = torch.tensor([0, 1, 2, 0])
    got, want = (module.MulticlassConfusionMatrix(num_classes=3)(scores, target) for module in (ours, theirs))
    assert torch.equal(got, want)


def test_subclasses_and_other_ways_of_calling_count_as_well():
    class Flipped(ours.BinaryRecall):
        def update(self, preds, target):
            super().update(1 - preds, target)

        def compute(self):
            return 2 * super().compute()

    preds, target = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, 1, 0])
    flipped, plain = Flipped(), ours.BinaryRecall()
    flipped.update(preds, target)
    plain.update(target=target, preds=preds)
    assert flipped.compute() == pytest.approx(4 / 3)
    assert plain.compute() == pytest.approx(1 / 3)
    matrix = ours.BinaryConfusionMatrix()
    first = matrix(preds, target)
    kept = matrix.compute()
    kept += 5
    assert torch.equal(matrix.confmat, first)
    assert matrix.compute() is kept  # kept as in torchmetrics, until the next update
    with pytest.warns(UserWarning, match="was called before the"):
        ours.BinaryRecall().compute()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit, and of a property that it reads
@pytest.mark.parametrize("name", ["MultilabelJaccardIndex", "MultilabelF1Score"])
def test_torch_script_accepts_metrics(name):
    scripted = torch.jit.script(getattr(ours, name)(num_labels=3))  # as torchmetrics' own suite does
    assert isinstance(scripted, torch.jit.ScriptModule)


@pytest.mark.parametrize("name", SCORES + MATRICES)
@pytest.mark.parametrize("task", BASES)
def test_several_values_are_ignored(name, task):
    """Several values of `ignore_index` are as one in a target where they are the same."""
    if (name, task) == NONE_OF_THEIRS:
        pytest.skip("torchmetrics has none")
    for several, one in (([0, 255], 0), ((255, -100, 0), 0), ([-1, 200], -1)):
        mine = getattr(ours, name)(task=task, ignore_index=several, **BASES[task])
        other = getattr(theirs, name)(task=task, ignore_index=one, **BASES[task])
        named = getattr(ours, type(mine).__name__)(ignore_index=several, **BASES[task])
        named_other = getattr(theirs, type(mine).__name__)(ignore_index=one, **BASES[task])
        for k, (preds, target) in enumerate(batches(task)):
            own = target.clone()
            for j, value in enumerate(several):
                own[j + k :: 5] = value
            merged = torch.where(torch.isin(own, torch.tensor(several)), one, own)
            torch.testing.assert_close(mine(preds, own), other(preds, merged), equal_nan=True, rtol=1e-5, atol=1e-6)
            named.update(preds=preds, target=own.to(torch.int32))
            named_other.update(preds, merged)
        for found, want in ((pickle.loads(pickle.dumps(mine)), other), (named, named_other)):
            torch.testing.assert_close(found.compute(), want.compute(), equal_nan=True, rtol=1e-5, atol=1e-6)
        assert (mine.ignore_index, *mine.also_ignored) == tuple(several)


def test_several_ignored_classes_are_in_no_average():
    preds, target = torch.tensor([0, 1, 2, 3, 3, 1]), torch.tensor([0, 1, 2, 3, 1, 255])
    found = ours.MulticlassJaccardIndex(num_classes=4, ignore_index=[0, 2, 255])
    found.update(preds, target)
    torch.testing.assert_close(found.compute(), torch.tensor((1 / 2 + 1 / 2) / 2))  # of classes 1 and 3
    small = ours.BinaryAccuracy(ignore_index=[-1, 255])  # uint8 has no -1
    small.update(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 255], dtype=torch.uint8))
    assert small.compute() == 0.5


def test_wrong_lists_of_ignored_values():
    for wrong in ([1.5], ["a"], [True], [[1]]):
        with pytest.raises(
            ValueError, match=r"ignore_index must be None, an integer or a list of integers, got .* in it"
        ):
            ours.MulticlassAccuracy(num_classes=3, ignore_index=wrong)
        with pytest.raises(ValueError, match="ignore_index must be None, an integer or a list of integers"):
            ours.Accuracy("multiclass", num_classes=3, ignore_index=wrong)
    for wrong in (torch.tensor([1, 2]).numpy(), torch.tensor([1, 2]), {1, 2}, range(2)):
        for make in (ours.MulticlassAccuracy, partial(ours.CohenKappa, "multiclass")):
            with pytest.raises(
                ValueError, match=r"ignore_index must be None, an integer or a list of integers, .*, got"
            ):
                make(num_classes=3, ignore_index=wrong)
    with pytest.raises(ValueError, match="ignore_index must be None, an integer or a list of integers"):
        ours.BinaryRecall(0.5, "global", torch.tensor([3, 4]))
    assert ours.BinaryRecall(ignore_index=[]).ignore_index is None
    assert ours.BinaryRecall(0.5, "global", [3, 4]).also_ignored == (4,)


OUTSIDE = {
    "multiclass": (torch.tensor([0, 1, 2, 1, 1]), torch.tensor([9, 0, 1, 9, 7]), 9, r"\(first: 7 at 4\)"),
    "several axes": (torch.tensor([[0, 1], [2, 1]]), torch.tensor([[9, 0], [9, 7]]), 9, r"\(first: 7 at 3\)"),
    "binary": (torch.tensor([0, 1, 1, 1]), torch.tensor([9, 0, 9, 7]), 9, r"\(first: 7 at 3\)"),
    "multilabel": (
        torch.tensor([[0, 1, 0], [1, 1, 0]]), torch.tensor([[9, 0, 9], [1, 9, 7]]), 9, r"\(first: 7 at 5\)",
    ),
    "predictions": (torch.tensor([0, 5, 2, 8]), torch.tensor([9, 9, 1, 2]), 9, r"\(first: 8 at 3\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", OUTSIDE)
@pytest.mark.parametrize("name", ["Accuracy", "ConfusionMatrix"])
def test_a_label_outside_is_named_at_its_place_among_all_samples(case, name):
    preds, target, ignored, said = OUTSIDE[case]
    task = case if case in BASES else "multiclass"
    metric = getattr(ours, name)(task, **BASES[task], ignore_index=ignored, validate_args=False)
    with pytest.raises(ValueError, match=said):
        metric.update(preds, target)
