"""Inputs that have the right shape and the wrong meaning: each is refused or warned of, and none that is right is."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import cmfast
from cmfast import metrics, nn, uncertainty

RNG = np.random.default_rng(8)
N, C = 60, 4
IDS = RNG.integers(0, C, N)
GUESS = RNG.integers(0, C, N)
LOGITS = torch.from_numpy(RNG.normal(0, 3, (N, C)))
TENSOR = torch.from_numpy(IDS)


@pytest.fixture(autouse=True)
def _loud():
    with warnings.catch_warnings():
        warnings.simplefilter("error", cmfast.DiagnosticWarning)
        yield


@pytest.mark.parametrize("wrong", [LOGITS, LOGITS.float(), LOGITS.softmax(1) * 2, LOGITS.sigmoid(), LOGITS.half()],
                         ids=["logits", "float32", "doubled", "sigmoid", "half"])  # fmt: skip
def test_rows_that_are_no_probabilities_are_refused(wrong):
    with pytest.raises(ValueError, match="probabilities must be rows that add up to 1"):
        nn.soft_confusion_matrix(wrong, TENSOR)
    with pytest.raises(ValueError, match=r"pass from_logits=True"):
        nn.MetricLoss("f1_macro")(wrong, TENSOR)


def test_rows_below_zero_that_add_up_to_one_are_refused():
    with pytest.raises(ValueError, match=r"row 1 with -0\.5"):
        nn.soft_confusion_matrix(torch.tensor([[0.5, 0.5], [1.5, -0.5]]), torch.tensor([0, 1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 10, 2000])
def test_rows_of_softmax_in_any_precision_are_taken(dtype, classes):
    for scale in (0.0, 1.0, 30.0):
        rows = (torch.randn(7, classes, generator=torch.Generator().manual_seed(1)) * scale).to(dtype).softmax(1)
        assert nn.soft_confusion_matrix(rows, torch.zeros(7, dtype=torch.long)).isfinite().all()


def test_from_logits_is_the_softmax_before():
    logits = LOGITS.clone().requires_grad_()
    ours = nn.MetricLoss("f1_macro", from_logits=True)
    assert "from_logits=True" in repr(ours)
    ours(logits, TENSOR).backward()
    other = LOGITS.clone().requires_grad_()
    nn.MetricLoss("f1_macro")(other.softmax(1), TENSOR).backward()
    assert torch.equal(logits.grad, other.grad)
    half = nn.soft_confusion_matrix(LOGITS.bfloat16(), TENSOR, from_logits=True)
    assert torch.equal(half, nn.soft_confusion_matrix(LOGITS.bfloat16().float().softmax(1), TENSOR))
    nan = LOGITS.softmax(1).clone()
    nan[3, 1] = torch.nan  # a bad value, which makes its row one
    assert nn.soft_confusion_matrix(nan, TENSOR).isnan().any()


SERIES = {
    "confusion_matrix": cmfast.confusion_matrix,
    "n_classes": lambda y, p: cmfast.confusion_matrix(y, p, n_classes=C),
    "from_labels": lambda y, p: metrics.from_labels(y, p, "accuracy"),
    "ConfusionCounts": cmfast.ConfusionCounts.from_labels,
    "ids": lambda y, p: cmfast.ConfusionCounts(n_classes=C).update(y, p),
    "sample_weight": lambda y, p: cmfast.confusion_matrix(IDS, IDS, sample_weight=y, groups=p),
    "paired_counts": lambda y, p: uncertainty.paired_counts(y, y, p),
    "groups": lambda y, p: cmfast.ConfusionCounts.from_labels(y, y, groups=p),
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("kind", ["integers", "text", "categorical"])
def test_series_of_one_index_in_two_orders_are_refused(name, kind):
    if kind != "integers" and name in ("n_classes", "ids", "sample_weight"):
        return
    index = pd.Index(RNG.permutation(1000)[:N])
    values = IDS if kind == "integers" else np.array(list("abcd"))[IDS]
    y = pd.Series(values, index, dtype="category" if kind == "categorical" else None)
    call = SERIES[name]
    with pytest.raises(ValueError, match=r"one index in two orders; give .*reindex"):
        call(y, y.sample(frac=1, random_state=1))
    call(y, y)
    call(y, y.reset_index(drop=True))  # other labels: by position, as arrays
    with pytest.warns(cmfast.DiagnosticWarning, match="matched by position, but their indexes have .* in common"):
        call(y, y.set_axis(y.index + 1))
    call(y.to_numpy(), y.sample(frac=1, random_state=1))
    call(y, y.sample(frac=1, random_state=1).reindex(y.index))
    if name != "sample_weight":
        twice = pd.concat([y, y])  # of which no order is the other's
        with pytest.warns(cmfast.DiagnosticWarning, match="matched by position, but their indexes differ, and repeat"):
            call(twice, twice.iloc[::-1])


WORDS = np.array(["cat", "dog", "fox"])
FRAME = pd.DataFrame([[8, 1, 2], [3, 9, 1], [1, 1, 7]], WORDS, WORDS)
COUNTS = cmfast.ConfusionCounts.from_labels(*(WORDS[x] for x in np.nonzero(np.ones((3, 3)))))
LABELLED = {
    "overlap": cmfast.overlap,
    "kl_divergence": cmfast.kl_divergence,
    "l1_distance": cmfast.l1_distance,
    "display": cmfast.display.ConfusionDisplay.compare,
}


@pytest.mark.parametrize("name", LABELLED)
def test_matrices_of_one_set_of_labels_in_two_orders_are_refused(name):
    call, turned = LABELLED[name], WORDS[::-1]
    other = cmfast.ConfusionCounts.from_labels(WORDS, WORDS, labels=turned)
    with pytest.raises(ValueError, match=r"A and B must have the same labels in one order.*'cat', 'dog', 'fox'.*'fox'"):
        call(COUNTS, other)
    with pytest.raises(ValueError, match=r"give B.reindex\(index=A.index\)"):
        call(FRAME, FRAME.loc[turned, turned])
    for pair in ((COUNTS, FRAME.loc[turned, turned]), (FRAME.loc[turned, turned], COUNTS)):
        with pytest.raises(ValueError, match=r"reindex\(index=[AB].labels\)"):
            call(*pair)
    call(FRAME, FRAME)
    call(COUNTS, FRAME)
    call(COUNTS, other.matrix)  # by position
    call(FRAME, FRAME.loc[turned, turned].to_numpy())


def test_sums_of_labels_in_another_order_are_refused():
    sums = pd.Series([1.0, 2.0, 3.0], WORDS[::-1])
    for M in (100 * FRAME, cmfast.ConfusionCounts.from_labels(np.repeat(WORDS, 300), np.tile(WORDS, 300))):
        for call in (
            lambda M, s: cmfast.ipf(M, s, [2.0, 2.0, 2.0]),
            lambda M, s: cmfast.ipf(M, [2.0, 2.0, 2.0], s),
            lambda M, s: cmfast.estimate_for_target(M, class_shares=s / 6),
        ):
            with pytest.raises(ValueError, match=r"must have the same index, .*reindex"):
                call(M, sums)
            call(M, sums[WORDS])
    wide = pd.DataFrame([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], WORDS, ["x", "y"])
    with pytest.raises(ValueError, match=r"give col_sums.reindex\(M.columns\)"):
        cmfast.ipf(wide, [1.0, 1.0, 1.0], pd.Series([1.0, 2.0], ["y", "x"]))
    with pytest.raises(ValueError, match=r"give B.reindex\(columns=A.columns\)"):
        cmfast.overlap(wide, wide[["y", "x"]])


CALLS = {
    "confusion_matrix": cmfast.confusion_matrix,
    "n_classes": lambda y, p: cmfast.confusion_matrix(y, p, n_classes=C),
    "from_labels": lambda y, p: metrics.from_labels(y, p, "accuracy", n_classes=2),
    "ConfusionCounts": cmfast.ConfusionCounts.from_labels,
    "ids": lambda y, p: cmfast.ConfusionCounts(n_classes=2).update(y, p),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "make", [np.asarray, lambda x: np.asarray(x, bool), torch.from_numpy], ids=["int", "bool", "torch"]
)
def test_one_hot_labels_are_warned_of_and_no_batch_is(name, make):
    call = CALLS[name]
    one_hot, other = np.eye(C, dtype=np.int64)[IDS], np.eye(C, dtype=np.int64)[GUESS]
    with pytest.warns(cmfast.DiagnosticWarning, match=r"exactly one 1 in each of 60 rows.*pass \.argmax\(-1\)") as told:
        call(make(one_hot), make(other))
    assert len(told) == 1
    for y, p in ((one_hot[:1], other[:1]), (one_hot[0], other[0]),
                 (one_hot[:9, :2], one_hot[:9, :2]), (one_hot[None], other[None])):  # fmt: skip
        call(make(np.ascontiguousarray(y)), make(np.ascontiguousarray(p)))


BATCH = RNG.integers(0, 2, (N, C))
INDICATED = {
    "confusion_matrix": cmfast.confusion_matrix,
    "from_labels": lambda y, p, **options: metrics.from_labels(y, p, "accuracy", **options),
    "label_margins": metrics.label_margins,
}


@pytest.mark.parametrize("name", INDICATED)
@pytest.mark.parametrize(
    "make", [np.asarray, lambda x: np.asarray(x, bool), torch.from_numpy, np.ndarray.tolist],
    ids=["int", "bool", "torch", "list"],
)  # fmt: skip
def test_indicators_of_several_labels_are_warned_of_and_no_other_batch_is(name, make):
    call = INDICATED[name]
    one_hot = np.eye(C, dtype=np.int64)[IDS]
    for y, p in ((BATCH, BATCH), (one_hot, BATCH), (BATCH, one_hot), (BATCH[:10, :2], BATCH[:10, :2])):
        with pytest.warns(cmfast.DiagnosticWarning, match=r"that are 0 or 1.*metrics\.multilabel takes") as told:
            call(make(y), make(p))
        assert len(told) == 1
        call(make(y), make(p), n_classes=2)
    wide = RNG.integers(0, 2, (4, N))
    call(make(wide), make(wide))
    call(make(BATCH[:, 0]), make(BATCH[:, 1]))
    call(make(BATCH[:3]), make(BATCH[:3]))
    if "bool" not in str(getattr(make(BATCH), "dtype", "")):
        for y, p in ((BATCH + 1, BATCH), (BATCH, BATCH * 2), (BATCH - 1, BATCH)):
            call(make(y + 1), make(p + 1))


def test_maps_of_0_and_1_are_no_indicators():
    assert cmfast.confusion_matrix(BATCH, BATCH, sample_axes=2).shape == (2, 2)
    assert cmfast.ConfusionCounts.from_labels(BATCH, BATCH).n_samples == BATCH.size
    assert uncertainty.paired_counts(BATCH, BATCH, BATCH).n_samples == BATCH.size


POOLED = {
    "interval": lambda y, p: uncertainty.interval(y, p, "accuracy", method="wilson"),
    "posterior": lambda y, p: uncertainty.posterior(y, p, "accuracy", n_resamples=5),
    "standard_error": lambda y, p: uncertainty.standard_error(y, p, "accuracy"),
    "compare": lambda y, p: uncertainty.compare(y, p, 1 - p, "accuracy", n_resamples=20),
    "mcnemar": lambda y, p: uncertainty.mcnemar(y, p, 1 - p),
}


@pytest.mark.parametrize("name", POOLED)
def test_indicators_that_count_as_independent_samples_are_warned_of(name):
    call, guess = POOLED[name], np.where(RNG.random(BATCH.shape) < 0.8, BATCH, 1 - BATCH)
    for make in (np.asarray, torch.from_numpy):
        with pytest.warns(
            cmfast.DiagnosticWarning, match=r"counted as \d+ independent samples.*multilabel=True.*ravel"
        ):
            call(make(BATCH), make(guess))
    call(BATCH.ravel(), guess.ravel())
    call(BATCH[:8], guess[:8])
    call(1 + BATCH, 1 + guess) if name not in ("compare", "mcnemar") else None


def test_one_hot_labels_of_two_classifiers_are_warned_of():
    one_hot, other = np.eye(C, dtype=np.int64)[IDS], np.eye(C, dtype=np.int64)[GUESS]
    for make in (np.asarray, lambda x: np.asarray(x, bool), torch.from_numpy):
        with pytest.warns(cmfast.DiagnosticWarning, match=r"labels have exactly one 1 .* pass \.argmax\(-1\) of all"):
            uncertainty.paired_counts(make(one_hot), make(other), make(one_hot))
    uncertainty.paired_counts(one_hot, other, BATCH)


def test_groups_in_a_dict_have_the_index_of_the_labels():
    y = pd.Series(IDS)
    turned = pd.Series(IDS)[::-1]
    for call in (
        cmfast.ConfusionCounts.from_labels,
        lambda y, p, groups: uncertainty.paired_counts(y, p, p, groups=groups),
    ):
        with pytest.raises(ValueError, match=r"y_true and groups\['b'\] must have the same index"):
            call(y, y, groups={"a": y, "b": turned})
        call(y, y, groups={"a": y, "b": turned.to_numpy()})
    with pytest.raises(ValueError, match="y_true and sample_weight must have the same index"):
        cmfast.confusion_matrix(y, pd.Series(IDS, index=y.index + 7), sample_weight=turned)


def test_probabilities_as_labels_are_told_of_argmax():
    P = LOGITS.softmax(1)
    for call in (
        lambda p: cmfast.confusion_matrix(IDS, p),
        lambda p: cmfast.confusion_matrix(IDS, p, n_classes=C),
        lambda p: metrics.from_labels(IDS, p, "accuracy"),
        lambda p: cmfast.ConfusionCounts.from_labels(IDS, p),
        lambda p: cmfast.ConfusionCounts(n_classes=C).update(IDS, p),
    ):
        for p in (P.numpy(), P.numpy()[:, 0], P.numpy().astype(np.float32)):
            with pytest.raises(TypeError, match=r"y_pred must be integers.*as probabilities are: \.argmax"):
                call(p)
        with pytest.raises(TypeError, match="whole_floats=True takes whole numbers"):
            call(IDS.astype(float))
        with pytest.raises(TypeError, match="whole_floats=True takes whole numbers"):
            call((IDS > 1).astype(float))
    for options in ({}, {"n_classes": C}):
        with pytest.raises(ValueError, match=r"y_pred must be whole numbers, got .* as probabilities are: \.argmax"):
            cmfast.confusion_matrix(IDS, P[:, 0].numpy(), whole_floats=True, **options)
    with pytest.raises(TypeError, match=r"y_b must be integers.*as probabilities are: \.argmax"):
        uncertainty.paired_counts(IDS, IDS, P[:, 0].numpy())
    with pytest.raises(TypeError, match=r"y_a must be integers.*; \.astype\(int\) makes labels of whole numbers"):
        uncertainty.paired_counts(IDS, IDS.astype(float), IDS)


def test_targets_that_are_proportions_are_warned_of():
    design = np.stack([IDS % 2, GUESS])
    shares = [(0, np.array([0.4, 0.6])), (1, np.full(C, 1 / C))]
    with pytest.warns(cmfast.DiagnosticWarning, match=r"rake: targets add up to 1, as proportions do.*60 now"):
        cmfast.rake(design, shares)
    with pytest.warns(cmfast.DiagnosticWarning, match="which add up to 6,000 now"):
        cmfast.rake(design, shares, weights=np.full(N, 100.0))
    cmfast.rake(design, shares, weights=np.full(N, 1 / N))  # weights that are shares, too
    cmfast.rake(design, [(k, target * 5000) for k, target in shares])


def _series(index, values=(0, 1, 1, 0, 1, 0)):
    return pd.Series(list(values), index=index)


NEW = range(6)  # the index of pd.Series(model.predict(X))
OF_SAMPLES = {
    "confusion_matrix": cmfast.confusion_matrix,
    "of categories": lambda y, p: cmfast.confusion_matrix(y.astype("category"), p.astype("category")),
    "from_labels": lambda y, p: metrics.from_labels(y, p, "accuracy"),
    "ConfusionCounts": cmfast.ConfusionCounts.from_labels,
    "update": lambda y, p: cmfast.ConfusionCounts(n_classes=2).update(y, p),
    "label_margins": metrics.label_margins,
    "paired_counts": lambda y, p: uncertainty.paired_counts(y, p, np.zeros(6, int)),
    "interval": lambda y, p: uncertainty.interval(y, p, "accuracy", n_resamples=20),
    "roc_auc": metrics.roc_auc,
    "report": lambda y, p: cmfast.report(y, p, n_resamples=20),
}
SILENT = {
    "one index": ([5, 2, 9, 7, 1, 30], [5, 2, 9, 7, 1, 30]),
    "a shuffled split": ([5, 2, 9, 7, 1, 30], NEW),
    "a split in order": (range(80, 86), NEW),
    "dates": (pd.date_range("2024-01-01", periods=6), NEW),
    "names": (list("abcdef"), NEW),
    "repeated": ([0, 1, 2, 0, 1, 2], NEW),
    "every other": (range(0, 12, 2), NEW),
    "without the first rows": (range(1, 7), NEW),
    "shifted back": (range(-2, 4), NEW),
}
WARNED = {
    "nothing in common": ([5, 2, 9, 7, 1, 30], list("abcdef"), "their indexes have no label in common"),
    "two splits": (range(80, 86), range(20, 26), "their indexes have no label in common"),
    "some in common": ([5, 2, 9, 7, 1, 30], [5, 2, 9, 70, 10, 31], "their indexes have 3 of 6 labels in common"),
    "repeated": ([0, 1, 2, 0, 1, 2], [0, 1, 1, 0, 2, 2], "their indexes differ, and repeat labels"),
}
REFUSED = {
    "another order": ([5, 4, 3, 2, 1, 0], NEW, r"in two orders; give .*to_numpy\(\) if rows belong together.*reindex"),
    "named, in another order": (list("fedcba"), list("abcdef"), r"in two orders; give y_.*\.reindex"),
    "other samples": ([5, 2, 9, 7, 1, 30], [5, 2, 9, 7, 1, 31], "of the same samples, .* 5 of 6 labels in common"),
    "shifted": (range(81, 87), range(80, 86), "5 of 6 labels in common"),
}


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_indexes_of_samples(name, monkeypatch):
    call = OF_SAMPLES[name]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*by position")
        warnings.filterwarnings("ignore", message=".*(few|only)")
        for index, other in SILENT.values():
            call(_series(index), _series(other, (0, 1, 0, 0, 1, 1)))
            call(_series(other), _series(index, (0, 1, 0, 0, 1, 1)))
    for index, other, text in WARNED.values():
        for pair in ((index, other), (other, index)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call(*map(_series, pair))
            told = [one for one in caught if re.search("y_true and .* are matched by position", str(one.message))]
            assert len(told) == 1, caught
            assert re.search(text, str(told[0].message))
            assert told[0].category is cmfast.DiagnosticWarning
    for index, other, text in REFUSED.values():
        for pair in ((index, other), (other, index)):
            with pytest.raises(ValueError, match=text):
                call(*map(_series, pair))


def test_sums_of_rows_and_columns_have_labels_of_their_own():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, cols = pd.Series([1.0, 2.0], ["N", "S"]), pd.Series([1.4, 1.6], ["S", "W"])
        found = cmfast.ipf([[1.0, 2.0], [3.0, 4.0]], rows, cols).matrix
    np.testing.assert_allclose(found.sum(axis=1), [1.0, 2.0], rtol=1e-8)
    np.testing.assert_allclose(found.sum(axis=0), [1.4, 1.6], rtol=1e-8)


def test_labels_that_occur_nowhere_are_said():
    """scikit-learn raises; a part of a stream may well have none of the labels, so here it is a warning."""
    for listed, y in (([7, 8], [1, 2, 3]), (["x"], ["a", "b", "c"])):
        for options in ({}, {"sparse": True}):
            with pytest.warns(cmfast.DiagnosticWarning, match="none of labels=.* is in y_true"):
                found = cmfast.confusion_matrix(y, y, labels=listed, **options)
            assert found.sum() == 0
        with pytest.warns(cmfast.DiagnosticWarning, match="none of labels=.* is in y_true"):
            cmfast.ConfusionCounts.from_labels(y, y, labels=listed)


def test_labels_that_occur_are_not_doubted():
    assert cmfast.confusion_matrix([1, 2, 7], [2, 2, 1], labels=[7, 8]).sum() == 0  # 7 is in y_true
    assert cmfast.confusion_matrix([], [], labels=[7, 8]).sum() == 0
    assert cmfast.confusion_matrix([0, 0], [1, 2], labels=[1, 2], ignore_index=0).sum() == 0
    assert cmfast.confusion_matrix([1, 7], [1, 2], labels=[1]).tolist() == [[1]]
    counts = cmfast.ConfusionCounts(labels=[7, 8])
    assert counts.update([7], [7]).update([1], [1]).n_samples == 1  # a later part of a stream


def test_tables_of_labels_are_no_matrices():
    pl = pytest.importorskip("polars")
    labels = {"y_true": [1, 0], "y_pred": [1, 1]}
    for table in (pd.DataFrame(labels), pl.DataFrame(labels)):
        for function in (lambda M: metrics.compute(M, "accuracy"), metrics.f1, cmfast.ipf):
            with pytest.raises(TypeError, match="M must be a matrix, got a table with columns of labels"):
                function(table)
    names = ["true", "pred"]  # classes of these names are allowed
    assert metrics.accuracy(pd.DataFrame([[1, 1], [1, 1]], names, names)) == 0.5


def test_counts_take_no_matrix():
    for given in ([[1, 2], [3, 4]], ["a", "b"]):
        with pytest.raises(TypeError, match=r"takes no matrix: from_labels\(y_true, y_pred\) counts labels"):
            cmfast.ConfusionCounts(given)


def test_a_table_is_no_paired_sample():
    with pytest.raises(TypeError, match=r"got a table of 2 x 2; uncertainty\.bowker takes it"):
        uncertainty.mcnemar([[10, 2], [5, 9]])
    assert uncertainty.bowker([[10, 2], [5, 9]]).statistic == pytest.approx((2 - 5) ** 2 / (2 + 5))


@pytest.mark.parametrize("turned", [WORDS, WORDS[::-1]], ids=["same order", "turned"])
def test_counts_and_a_table_are_added_by_name(turned):
    counts = cmfast.ConfusionCounts.from_labels(np.repeat(WORDS, 2), np.tile(WORDS, 2))
    other = FRAME.loc[turned, turned]
    by_hand = counts.matrix + FRAME.to_numpy()
    for found in (counts + other, other + counts):
        np.testing.assert_array_equal(found.loc[WORDS, WORDS], by_hand)
        np.testing.assert_array_equal(found, by_hand)
    np.testing.assert_array_equal((counts - other).loc[WORDS, WORDS], counts.matrix - FRAME.to_numpy())
    np.testing.assert_array_equal((other - counts).loc[WORDS, WORDS], FRAME.to_numpy() - counts.matrix)
    for wrong in (other.rename(index={"fox": "cow"}), other.iloc[:2, :2], other.rename(columns={"cat": "cow"})):
        with pytest.raises(ValueError, match=r"with the labels of the counts, \('cat', 'dog', 'fox'\), got \("):
            counts + wrong
        with pytest.raises(ValueError, match=r"with the labels of the counts"):
            wrong + counts
    for operation in (lambda: counts * other, lambda: other / counts, lambda: counts + other["cat"]):
        with pytest.raises(TypeError):
            operation()


def test_sums_in_the_order_of_value_counts_are_doubted():
    shares = pd.Series(["fox"] * 3 + ["cat"] * 2 + ["dog"]).value_counts()
    bare = 100 * FRAME.to_numpy()
    for M in (bare, pd.DataFrame(bare), bare.tolist()):
        for call in (
            lambda M, s: cmfast.ipf(M, s, [2.0, 2.0, 2.0]),
            lambda M, s: cmfast.ras(M, [2.0, 2.0, 2.0], s),
            lambda M, s: cmfast.support(M, s, s),
            lambda M, s: cmfast.estimate_for_target(M, class_shares=s / 6),
        ):
            with pytest.warns(
                cmfast.DiagnosticWarning, match=r"sorted by size.*\('fox', 'cat', 'dog'\); give .*sort_i"
            ):
                call(M, shares)
            call(M, shares.sort_index())
            call(M, shares.to_numpy())
            call(M, pd.Series([1.0, 2.0, 3.0], ["low", "mid", "high"]))  # an order of its own
            call(M, pd.Series([2.0, 2.0, 2.0], ["low", "mid", "high"]))


def test_sums_of_other_labels_are_refused():
    sums = pd.Series([1.0, 2.0, 3.0], ["cat", "cow", "fox"])
    for call in (
        lambda: cmfast.ipf(FRAME, sums, [2.0, 2.0, 2.0]),
        lambda: cmfast.ipf(FRAME, [2.0, 2.0, 2.0], sums),
        lambda: cmfast.estimate_for_target(COUNTS, class_shares=sums),
    ):
        with pytest.raises(ValueError, match=r"the same labels.*\('cat', 'dog', 'fox'\) and \('cat', 'cow', 'fox'\)"):
            call()
    turned = pd.DataFrame(100 * FRAME.to_numpy(), WORDS, WORDS[::-1])  # rows and columns in two orders
    cmfast.ipf(turned, pd.Series([1.0, 2.0, 3.0], WORDS), pd.Series([1.0, 2.0, 3.0], WORDS[::-1]).to_numpy())
    with pytest.raises(ValueError, match=r"M and row_sums must have the same index"):
        cmfast.ipf(turned, pd.Series([1.0, 2.0, 3.0], WORDS[::-1]), [2.0, 2.0, 2.0])


TRUTH, OTHER, THIRD = ["a", "b"] * 10, ["c", "d"] * 10, ["d", "c"] * 10
TABLE = pd.DataFrame({"y": TRUTH, "p": OTHER, "g": [0, 1] * 10})
WITHOUT_A_COMMON_LABEL = {
    "confusion_matrix": lambda: cmfast.confusion_matrix(TRUTH, OTHER),
    "ConfusionCounts": lambda: cmfast.ConfusionCounts.from_labels(TRUTH, OTHER).compute("accuracy"),
    "categorical": lambda: cmfast.ConfusionCounts.from_labels(TABLE.y.astype("category"), TABLE.p.astype("category")),
    "columns": lambda: cmfast.ConfusionCounts.from_labels(TABLE, y_true="y", y_pred="p"),
    "by": lambda: cmfast.by(TABLE, "g", y_true="y", y_pred="p").table("accuracy"),
    "from_labels": lambda: metrics.from_labels(TRUTH, OTHER, "accuracy"),
    "interval": lambda: uncertainty.interval(TRUTH, OTHER, "accuracy", method="wilson"),
    "compare": lambda: uncertainty.compare(TRUTH, OTHER, THIRD, "accuracy", n_resamples=20),
    "compare right": lambda: uncertainty.compare(TRUTH, TRUTH, OTHER, "accuracy", n_resamples=20),
    "mcnemar": lambda: uncertainty.mcnemar(TRUTH, OTHER, THIRD),
    "equivalence": lambda: uncertainty.equivalence(TRUTH, OTHER, THIRD, "accuracy", margin=0.1),
    "paired_counts": lambda: uncertainty.paired_counts(TRUTH, OTHER, THIRD),
    "report": lambda: cmfast.report(TRUTH, OTHER, n_resamples=20),
    "report of two": lambda: cmfast.report(TRUTH, {"new": OTHER, "old": THIRD}, n_resamples=20),
    "display": lambda: cmfast.display.ConfusionDisplay.from_predictions(TRUTH, OTHER),
}


@pytest.mark.parametrize("name", WITHOUT_A_COMMON_LABEL)
def test_labels_without_one_in_common_are_said_once(name):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        WITHOUT_A_COMMON_LABEL[name]()
    texts = [str(one.message) for one in said if "no label in common, of 2 and 2" in str(one.message)]
    assert len(texts) == 1
    assert "y_true and y_" in texts[0]


def test_labels_with_one_in_common_are_not_doubted():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for y, p in ((TRUTH, ["a", "c"] * 10), (TRUTH, ["c"] * 20), (["a"] * 20, OTHER)):
            counts = cmfast.ConfusionCounts.from_labels(y, p)
            cmfast.ConfusionCounts.from_labels(TRUTH, OTHER, labels=["a", "b", "c", "d"])  # listed, so meant
            uncertainty.mcnemar(y, p, y)
            counts.compute("accuracy")
    assert [str(one.message) for one in said if "in common" in str(one.message)] == []


PAIR = np.array([[5, 2], [1, 9]])
BITS, OTHER_BITS = [0, 1, 1, 0, 1, 0, 1, 1] * 3, [0, 1, 0, 0, 1, 1, 1, 1] * 3
OF_TWO = cmfast.ConfusionCounts.from_labels(BITS, OTHER_BITS)
FEW = {"n_resamples": 20}
WITH_A_POSITIVE_CLASS = {
    "compute": lambda name, k: metrics.compute(PAIR, name, pos_label=k),
    "from_labels": lambda name, k: metrics.from_labels(BITS, OTHER_BITS, name, pos_label=k),
    "counts": lambda name, k: OF_TWO.compute(name, pos_label=k),
    "table": lambda name, k: OF_TWO.table([name], pos_label=k),
    "interval": lambda name, k: uncertainty.interval(PAIR, name, method="normal", pos_label=k),
    "interval of counts": lambda name, k: OF_TWO.interval(name, method="normal", pos_label=k),
    "posterior": lambda name, k: uncertainty.posterior(PAIR, name, pos_label=k, **FEW),
    "standard_error": lambda name, k: uncertainty.standard_error(PAIR, name, pos_label=k),
    "compare": lambda name, k: uncertainty.compare(BITS, OTHER_BITS, BITS, name, pos_label=k, method="delta", **FEW),
    "equivalence": lambda name, k: uncertainty.equivalence(BITS, OTHER_BITS, BITS, name, 0.1, pos_label=k),
}


@pytest.mark.parametrize("call", WITH_A_POSITIVE_CLASS.values(), ids=WITH_A_POSITIVE_CLASS)
def test_a_positive_class_that_no_metric_has_is_refused(call):
    warnings.simplefilter("ignore")  # the samples are few
    for name in ("f1", "f1_macro", "fbeta_2", "fbeta_2_weighted"):
        binary = f"{name.removesuffix('_macro').removesuffix('_weighted')}_binary"
        with pytest.raises(
            ValueError, match=rf"pos_label must be left out for {name}, got 1; '{binary}' is of the pos"
        ):
            call(name, 1)
        call(name, None)
        call(binary, 0)
    with pytest.raises(ValueError, match=r"pos_label must be left out for accuracy, got 1$"):
        call("accuracy", 1)


def test_a_positive_class_beside_other_metrics_is_taken():
    found = metrics.compute(PAIR, ["f1", "f1_binary"], pos_label=0)
    assert found["f1_binary"] == found["f1"][0]
    with pytest.raises(ValueError, match='pos_label must be left out without average="binary", got 1'):
        metrics.f1(PAIR, pos_label=1)
    assert metrics.f1(PAIR, average="binary", pos_label=0) == found["f1_binary"]
    with pytest.raises(ValueError, match=r"for 71 metrics without a positive class, first accuracy"):
        metrics.compute(PAIR, pos_label=1)


def test_metrics_that_nobody_asked_for_are_not_doubted():
    rng = np.random.default_rng(3)
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 900)]
    p = np.where(rng.random(900) < 0.7, y, "a")
    counts = cmfast.ConfusionCounts.from_labels(y, p)
    metrics.compute(counts)  # with the weighted kappas, as every metric
    M = [[70, 15, 15], [15, 70, 15], [15, 15, 70]]
    uncertainty.interval(M, n_resamples=200)
    with pytest.warns(cmfast.DiagnosticWarning, match="kappa_linear depends on the order"):
        metrics.compute(counts, "kappa_linear")
    with pytest.warns(cmfast.DiagnosticWarning, match="min_recall"):
        uncertainty.interval(M, "min_recall", n_resamples=200)


@pytest.mark.parametrize(
    ("counts", "labels", "options", "text"),
    [
        ({"labels": ["a", "b"]}, (["x", "y"], ["a", "b"]), {}, r"as none of labels=\['a', 'b'\] is in y_true"),
        ({"labels": ["a", "b"]}, (["a", "b"], ["x", "y"]), {}, r"as none of labels=\['a', 'b'\] is in y_pred"),
        ({"labels": ["a"], "other": True}, (["x", "y"], ["a", "b"]), {}, "is in the row of the rest"),
        ({"labels": [4, 5]}, (torch.tensor([1, 2]), torch.tensor([1, 2])), {}, r"none of labels=\[4, 5\] is in y_true"),
        ({"n_classes": 3}, ([0, 0], [1, 2]), {"ignore_index": 0}, r"its true label is in ignore_index=0$"),
        ({}, (["x", "x"], ["x", "y"]), {"ignore_index": "x"}, r"ignore_index='x'$"),
        ({"labels": ["a"]}, (["x"], ["a"]), {"ignore_index": "y"}, "or not among the classes"),
    ],
)
def test_a_first_update_that_counts_nothing_is_said_once(counts, labels, options, text):
    y_true, y_pred = (torch.as_tensor(y) if hasattr(y, "numpy") else np.array(y) for y in labels)
    made = cmfast.ConfusionCounts(**counts)
    with pytest.warns(cmfast.DiagnosticWarning, match=f"ConfusionCounts.update: every sample.*{text}"):
        made.update(y_true, y_pred, **options)
    made.update(y_true, y_pred, **options)
    with pytest.warns(cmfast.DiagnosticWarning, match=f"ConfusionCounts.from_labels: every sample.*{text}"):
        cmfast.ConfusionCounts.from_labels(y_true, y_pred, **counts, **options)


def test_a_first_update_that_counts_something_is_silent():
    made = cmfast.ConfusionCounts(labels=["a", "b"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.update(np.array(["a", "x"]), np.array(["b", "x"]))
        made.update(np.array([], str), np.array([], str))
        ids = cmfast.ConfusionCounts(n_classes=2).update([0, 1], [1, 1], ignore_index=0)
        ids.update([0], [1], ignore_index=0)
        rest = cmfast.ConfusionCounts(labels=["a"], other=True).update(np.array(["a", "x"]), np.array(["b", "x"]))
        none = cmfast.ConfusionCounts(labels=["a"]).update(np.array([], str), np.array([], str))
    assert caught == []
    assert [one.n_samples for one in (made, ids, rest, none)] == [1, 1, 2, 0]
