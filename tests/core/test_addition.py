"""No sum of counts wraps: two parts of 2**62 or so are refused, or get a status, and negative counts are no counts."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

import cmfast
from cmfast import conformal, metrics, uncertainty
from cmfast._core import overflow_checks

HUGE = 2**62
MOST = 2**61 - 1


def confusion(n):
    weight = np.array([n, 0])
    return cmfast.ConfusionCounts.from_labels(["a", "b"], ["a", "b"], sample_weight=weight)


def grouped(n):
    return cmfast.ConfusionCounts.from_labels([0, 1], [0, 1], sample_weight=np.array([n, 0]), groups=["x", "y"])


def declared(n):
    counts = cmfast.ConfusionCounts(n_classes=2)
    return counts.update([0, 1], [0, 1], sample_weight=np.array([n, 0]))


def tensors(n):
    y = torch.tensor([0, 1])
    return cmfast.ConfusionCounts.from_labels(y, y, sample_weight=torch.tensor([n, 0]))


def paired(n):
    facts = json.loads(uncertainty.paired_counts([0, 1], [0, 1], [1, 1]).to_json())
    facts["counts"]["values"][0] = n
    facts.pop("digest", None)
    return uncertainty.PairedCounts.from_json(json.dumps(facts))


def cells(n):
    facts = json.loads(cmfast.cell_counts([[0.5]], [0], [0], grid=cmfast.Grid([0.0], [1.0])).to_json())
    facts["counts"]["values"][0] = n
    facts.pop("digest", None)
    return cmfast.CellCounts.from_json(json.dumps(facts))


MADE = {
    "ConfusionCounts": (confusion, 2**63 - 1),
    "with groups": (grouped, 2**63 - 1),
    "with n_classes": (declared, 2**63 - 1),
    "tensors": (tensors, 2**63 - 1),
    "PairedCounts": (paired, 2**63 - 2),  # one more sample is in another cell
    "CellCounts": (cells, MOST),
    "CcmCounts": (lambda n: conformal.CcmCounts(np.array(n), np.array([[n, 0], [0, 0]])), MOST),
    "CoverageCounts": (lambda n: conformal.CoverageCounts(np.array([[n, 0], [0, 0]]), np.array([n, 0])), MOST),
    "ScoreHistogram": (lambda n: conformal.ScoreHistogram(np.array([n, 0, 0]), 1.0), MOST),
}


@pytest.mark.parametrize("kind", MADE)
def test_a_sum_that_int64_does_not_hold_is_an_error_and_changes_nothing(kind):
    make, most = MADE[kind]
    counts = make(most)
    before = counts.to_bytes()
    assert type(counts).from_bytes(before) == counts
    with pytest.raises(OverflowError, match=r"2\*\*6[13]"):
        counts + counts
    with pytest.raises(OverflowError):
        type(counts).merge([counts, make(2)]) if hasattr(type(counts), "merge") else sum([counts, make(2)])
    assert counts.to_bytes() == before


@pytest.mark.parametrize("kind", MADE)
def test_a_sum_up_to_the_limit_is_exact_and_can_be_saved(kind):
    make, most = MADE[kind]
    third = (most - most % 2) // 2
    if kind == "PairedCounts":
        third -= 1  # as many samples again are in the other cell
    both = make(third) + make(third)
    assert type(both).from_json(both.to_json()) == both
    if kind in ("ConfusionCounts", "tensors"):
        assert both.n_samples == both.matrix.max() == 2 * third


def test_what_raises_has_counted_nothing_also_on_the_short_way():
    counts = cmfast.ConfusionCounts(n_classes=2)
    counts.update([0, 0], [0, 0], sample_weight=np.array([2**63 - 2, 0]))
    y = np.zeros(1, np.int64)
    assert counts.update(y, y).n_samples == 2**63 - 1
    with pytest.raises(OverflowError, match=r"at \(0, 0\)|at \[0, 0\]|9,223,372,036,854,775,808"):
        counts.update(y, y)
    assert counts.n_samples == 2**63 - 1
    ones = np.ones(1, np.int64)
    with pytest.raises(OverflowError, match="in all"):  # every cell would fit, but not their sum
        counts.update(ones, ones)
    assert counts.n_samples == 2**63 - 1


def test_the_bound_that_spares_a_look_is_one():
    rng = np.random.default_rng(3)
    counts = cmfast.ConfusionCounts()
    for _ in range(200):
        n, kind = int(rng.integers(0, 9)), rng.integers(4)
        y, p = rng.integers(0, 4, (2, n))
        weight = rng.integers(0, 2**50, n) if kind == 1 else None
        groups = None
        counts.update(y, p, sample_weight=weight, groups=groups, ignore_index=2 if kind == 2 else None)
        if kind == 3:
            counts = cmfast.ConfusionCounts.from_bytes((counts + counts).to_bytes())
        assert counts._held.matrix is None or counts.n_samples <= counts._held.most
        if counts.n_samples > 2**58:
            counts.reset()


def test_integers_that_take_more_away_than_there_is_are_refused():
    counts = cmfast.ConfusionCounts.from_labels([0, 1, 1], [0, 1, 0])
    before = counts.to_bytes()
    with pytest.raises(ValueError, match="at least 0, as counts are, got -1"):
        counts.update([0], [1], sample_weight=[-1])
    assert counts.to_bytes() == before
    counts.update([1], [0], sample_weight=[-1])
    assert counts.matrix.tolist() == [[1, 0], [0, 1]]
    floats = cmfast.ConfusionCounts.from_labels([0], [1], sample_weight=[-0.5])  # weights, which may be negative
    assert cmfast.ConfusionCounts.from_bytes(floats.to_bytes()) == floats


@pytest.mark.parametrize("kind", MADE)
def test_negative_counts_are_refused_where_they_are_read(kind):
    counts = MADE[kind][0](3)
    facts = json.loads(counts.to_json())
    facts.pop("digest", None)
    name = {"ConfusionCounts": "matrix", "CcmCounts": "G", "CoverageCounts": "V"}.get(type(counts).__name__, "counts")
    name = "matrices" if kind == "with groups" else name
    flat = facts[name]["values"]
    while isinstance(flat[0], list):
        flat = flat[0]
    flat[0] = -3
    with pytest.raises(ValueError, match=f"holds no {type(counts).__name__}"):
        type(counts).from_json(json.dumps(facts))


@pytest.mark.parametrize("large", [-1, 2**61])
def test_counts_that_are_made_by_hand_are_checked(large):
    error = ValueError if large < 0 else OverflowError
    for library in (np.array, torch.tensor, list):
        with pytest.raises(error, match="CcmCounts: G must be"):
            conformal.CcmCounts(library([3]), library([[[3, 0], [0, large]]]))
        with pytest.raises(error, match="CoverageCounts: n must be"):
            conformal.CoverageCounts(library([[3, 0], [0, 3]]), library([3, large]))
        with pytest.raises(error, match="ScoreHistogram: counts must be"):
            conformal.ScoreHistogram(library([3, large, 0]), 1.0)
    with pytest.raises(OverflowError, match="the sum of counts"):  # that a threshold adds up
        conformal.ScoreHistogram([2**60, 2**60, 2**60], 1.0)
    with pytest.raises(TypeError, match="counts must be integers"):
        conformal.ScoreHistogram([0.5, 1.0], 1.0)


def test_sums_along_a_batch_are_checked():
    many = conformal.ScoreHistogram(np.full((8, 3), 2**56), 1.0)
    assert many.sum().counts.tolist() == [2**59] * 3
    with pytest.raises(OverflowError, match="2\\*\\*61"):
        conformal.ScoreHistogram(np.full((16, 3), 2**58), 1.0).sum()
    with pytest.raises(OverflowError, match="at most"):
        conformal.CcmCounts(np.full(4, 2**60), np.full((4, 1, 1), 2**60)).sum()


def test_sums_of_random_counts_are_those_of_pythons_integers():
    rng = np.random.default_rng(0)
    for _ in range(300):
        bits = int(rng.integers(1, 63))
        x, y = rng.integers(0, 2**bits, (2, 3, 4))
        most = 2 ** int(rng.integers(bits, 64)) - 1
        exact = x.astype(object) + y.astype(object)
        for library in (np.array, torch.tensor):
            a, b = library(x), library(y)
            assert overflow_checks.sum_counts(a) == sum(x.ravel().tolist())
            if exact.max() > most:
                with pytest.raises(OverflowError, match=f"{int(exact.max()):,}"):
                    overflow_checks.add_counts("x", a, b, most)
            else:
                assert np.array_equal(np.asarray(overflow_checks.add_counts("x", a, b, most)), exact)
            along = x.astype(object).sum(0)
            if along.max() > most:
                with pytest.raises(OverflowError):
                    overflow_checks.sum_counts_along("x", a, 0, most)
            else:
                assert np.array_equal(np.asarray(overflow_checks.sum_counts_along("x", a, 0, most)), along)


@pytest.mark.parametrize("weight", [[HUGE, HUGE], [HUGE, HUGE, HUGE, HUGE], [2**63 - 1, 0, 1]])
@pytest.mark.parametrize("text", [False, True])
def test_metrics_of_weights_that_int64_cannot_add_up_are_nan_and_warn(weight, text):
    y = np.arange(len(weight)) % 2
    y = np.array(["a", "b"])[y] if text else y
    for name in ("accuracy", "mcc", "kappa_linear"):
        with pytest.warns(cmfast.FailureWarning, match="from 0 to the largest int64"):
            assert np.isnan(metrics.from_labels(y, y, name, sample_weight=np.array(weight)))
    with pytest.warns(cmfast.FailureWarning):
        batch = metrics.from_labels(
            np.array([[0, 1], [1, 1]]),
            np.array([[0, 1], [0, 1]]),
            "accuracy",
            n_classes=2,
            sample_weight=np.array([[HUGE, HUGE], [1, 3]]),
        )
    assert np.isnan(batch[0])
    assert batch[1] == 0.75
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.from_labels(y, y, "accuracy", sample_weight=np.array(weight) // 4) == 1


def test_sparse_sums_are_exact_or_invalid():
    rng = np.random.default_rng(5)
    failed = 0
    for _ in range(200):
        n, bits, kind = (
            int(rng.integers(1, 30)),
            int(rng.choice([3, 40, 60, 63])),
            [np.int64, np.uint64][rng.integers(2)],
        )
        bits += kind is np.uint64
        y, p = rng.integers(0, 3, (2, n))
        weight = rng.integers(0, 2**bits - 1, n, kind, endpoint=True)
        exact = np.zeros((3, 3), object)
        np.add.at(exact, (y, p), weight.astype(object))
        cells = np.zeros((3, 3), kind)
        cells[y, p] = weight
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = cmfast.confusion_matrix(y, p, n_classes=3, sample_weight=weight, sparse=True)
        if exact.max() >= 2**63:
            failed += 1
            assert [str(one.message) for one in caught] == [
                "confusion_matrix: matrices not computed: INVALID; its weights add up to more than fits"
            ]
            assert found.nnz == 0
            assert found.shape == (3, 3)
        else:
            assert not caught
            assert (found.toarray() == exact).all()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cmfast.FailureWarning)
            dense = metrics.collapse(cells, [0, 0, 1]).matrix
            assert (metrics.collapse(scipy.sparse.coo_array(cells), [0, 0, 1]).matrix.toarray() == dense).all()
    assert 20 < failed < 180


def test_sparse_sums_that_are_not_finite_are_reported():
    large = scipy.sparse.csr_array(np.full((2, 2), 1e308))
    with pytest.warns(cmfast.FailureWarning, match="matrices not collapsed: INVALID"):
        metrics.collapse(large, ["a", "a"])
    with pytest.raises(cmfast.FailureError, match="more than fits"):
        cmfast.confusion_matrix([0, 0], [0, 0], sample_weight=[HUGE, HUGE], sparse=True, on_failure="raise")


def test_no_sum_of_a_sparse_matrix_wraps_to_one_that_could_be():
    M = 3 * np.eye(6, dtype=np.int64)
    for k in (1, 2, 3, 4):  # rows and columns add up to 2**64 + 3
        M += HUGE * np.roll(np.eye(6, dtype=np.int64), k, axis=1)
    assert M.sum(axis=1).tolist() == [3] * 6
    for name in ("accuracy", "kappa", "mcc"):
        with pytest.warns(cmfast.FailureWarning, match="the cells of M add up to more than fits"):
            assert np.isnan(metrics.compute(scipy.sparse.csr_array(M), name))


@pytest.mark.parametrize("method", ["true", "pred", "all", "bi"])
def test_shares_of_weights_that_int64_cannot_add_up_are_nan(method):
    y = np.array([[0, 0, 1], [0, 1, 1]])
    weight = np.array([[HUGE, HUGE, 7], [1, 2, 3]])
    alone = cmfast.confusion_matrix(y[1], y[1], n_classes=2, sample_weight=weight[1], normalize=method)
    for library in (np.array, torch.tensor):
        with pytest.warns(cmfast.FailureWarning, match="1 of 2 .* more than fits") as caught:
            found = cmfast.confusion_matrix(
                library(y), library(y), n_classes=2, sample_weight=library(weight), normalize=method
            )
        assert len(caught) == 1
        assert np.isnan(np.asarray(found[0])).all()
        assert np.array_equal(np.asarray(found[1]), alone)
    da = pytest.importorskip("dask.array")
    lazily = [da.from_array(x, chunks=(2, 2)) for x in (y, y, weight)]
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):
        found = cmfast.confusion_matrix(*lazily[:2], n_classes=2, sample_weight=lazily[2], normalize=method).compute()
    assert np.isnan(found[0]).all()
    assert np.array_equal(found[1], alone)


def test_sums_over_chunks_raise_where_int64_does_not_hold_them():
    da = pytest.importorskip("dask.array")
    from cmfast._core.adapters import _dask

    y = da.zeros(4, chunks=1, dtype=np.int64)
    weight = da.from_array(np.array([HUGE, HUGE, 1, 1]), chunks=1)
    with pytest.warns(cmfast.FailureWarning, match="INVALID"):  # of 64 bits, which are added in halves
        cmfast.confusion_matrix(y, y, n_classes=1, sample_weight=weight).compute()
    digits = da.full((2**20, 1), 2**43, chunks=(2**18, 1), dtype=np.int64)
    with pytest.raises(OverflowError, match="all chunks"):
        da.reduction(digits, _dask._sum_integers, _dask._sum_integers, axis=(0,), dtype=np.int64).compute()
    exact = da.reduction(digits[:-1], _dask._sum_integers, _dask._sum_integers, axis=(0,), dtype=np.int64).compute()
    assert exact.tolist() == [2**43 * (2**20 - 1)]


def test_counts_that_wrap_to_none_are_not_called_no_samples():
    M = np.full((2, 2), HUGE)
    for what in (uncertainty.standard_error, uncertainty.interval, uncertainty.posterior):
        with pytest.warns(cmfast.FailureWarning, match="its cells add up to more than fits"):
            what(M, "accuracy")


def test_merge_of_files_refuses_what_int64_does_not_hold(tmp_path):
    from cmfast.cli import main

    confusion(HUGE).save(tmp_path / "a.json")
    argv = ["merge", str(tmp_path / "a.json"), str(tmp_path / "a.json"), "-o", str(tmp_path / "all.json")]
    assert main(argv) != 0
    assert not (tmp_path / "all.json").exists()
