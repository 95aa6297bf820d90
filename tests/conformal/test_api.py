"""What callers rely on: worked cases, laws of scores and sets, the guarantee, merging, what is refused."""

import json
import math
import tracemalloc
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast import conformal
from cmfast.kernels.shared.conformal import quantile_rank

WORKED = json.loads((Path(__file__).parents[1] / "data" / "conformal.json").read_text())
TRAIN, TEST = np.array(WORKED["p_cal_64"]) / 64, np.array(WORKED["p_test_64"]) / 64
LABELS = np.array(WORKED["y_cal"])
U_TRAIN, U_TEST = np.array(WORKED["U_cal_16"]) / 16, np.array(WORKED["U_test_16"]) / 16
RNG = np.random.default_rng(18)
P, Y = RNG.dirichlet(np.full(6, 0.3), 400), RNG.integers(0, 6, 400)
U = RNG.random(400)


def rules(case):
    """Return the options of a worked case, for its calibration and for its new rows."""
    common = {"method": "raps", "lam": case["lam"], "k_reg": case["k_reg"]} if case["lam"] else {}
    if not case["randomised"]:
        return {"randomised": False, **common}, {"randomised": False, **common}
    return {"u": 1 - U_TRAIN, **common}, {"u": 1 - U_TEST, **common}  # of these cases U is the share that counts


def written(sets):
    """Return sets as the worked cases write them."""
    return ["".join(map(str, row)) for row in sets.mask[0].astype(int)]


@pytest.mark.parametrize("case", WORKED["cases"], ids=lambda case: f"{case['name']}-{case['alpha']}")
def test_worked_cases(case):
    train, test = rules(case)
    s = conformal.scores(TRAIN, LABELS, **train)
    assert (64 * s).tolist() == case["calibration_scores_64"]
    q = conformal.threshold(s, case["alpha"])
    assert 64 * q[0] == (math.inf if case["threshold_64"] is None else case["threshold_64"])
    sets = conformal.prediction_sets(TEST, q, **test)
    assert written(sets) == case["sets"]
    counts = conformal.ccm(sets)
    assert (counts.n[0], counts.G[0].tolist()) == (case["ccm"]["n"], case["ccm"]["G"])
    np.testing.assert_allclose(counts.correlation()[0], np.array(case["ccm"]["R"], float), rtol=0, atol=1e-14)


@pytest.mark.parametrize("case", WORKED["class_conditional"])
def test_worked_cases_by_class(case):
    s = conformal.scores(TRAIN, LABELS, randomised=False)
    q = conformal.threshold(s, case["alpha"], y=LABELS)
    assert (64 * q[0]).tolist() == case["threshold_64"]
    sets = conformal.prediction_sets(TEST, q, randomised=False)
    assert written(sets) == case["sets"]
    assert conformal.ccm(sets).G[0].tolist() == case["ccm"]["G"]


def test_worked_coverage_confusion():
    case = WORKED["coverage_confusion"]
    q = conformal.threshold(conformal.scores(TRAIN, LABELS, randomised=False), case["alpha"])
    found = conformal.coverage_confusion(conformal.prediction_sets(TRAIN, q, randomised=False), LABELS)
    assert found.V[0].tolist() == case["V"]
    assert found.n[0].tolist() == np.bincount(LABELS, minlength=4).tolist()


def test_worked_ranks():
    for alpha, by_n in WORKED["ranks_by_alpha_then_n"].items():
        for n, k in by_n.items():
            assert conformal.threshold(np.arange(1.0, int(n) + 1), float(alpha))[0] == (k if k <= int(n) else math.inf)


def test_ranks_are_exact_for_all_alphas_of_two_decimals():
    off = set()
    for hundredth in range(1, 100):
        alpha = Fraction(hundredth, 100)
        for n in range(2001):
            k = math.ceil((n + 1) * (1 - alpha))
            assert quantile_rank(n, *alpha.as_integer_ratio()) == k
            if math.ceil((n + 1) * (1 - hundredth / 100)) != k:
                off.add(hundredth)
    assert len(off) == 27, "as many alphas for which floating point is one rank off"
    assert {70, 85, 95, 44, 18} <= off


@pytest.mark.parametrize(
    "alpha", [0.7, np.float32(0.7), np.float64(0.7), Decimal("0.7"), Fraction(7, 10), np.array(0.7)]
)
def test_alpha_is_the_decimal_that_was_written(alpha):
    assert conformal.threshold(np.arange(1.0, 10.0), alpha)[0] == 3.0, "in floating point it is the fourth"


OPTIONS = [
    {"u": U}, {"randomised": False}, {"u": U, "method": "raps", "lam": 0.01, "k_reg": 2}, {"method": "lac"},
    {"u": U, "method": "saps", "lam": 0.1}, {"u": U, "method": "top_k"},
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [6, pytest.param(40, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("options", OPTIONS, ids=["aps", "aps-1", "raps", "lac", "saps", "top-k"])
def test_calibration_is_prediction(options, C):
    """The true label is in the set exactly where its score is at most the threshold, with ties and zeros too."""
    rows = np.zeros((400, C))
    rows[:, :6] = np.round(16 * P) / 16
    rows[:9, :] = 1 / 32
    s = conformal.scores(rows, Y, **options)
    assert_same_bits(s, conformal.scores(rows, **options)[np.arange(400), Y])
    for q in (s[0], s[200], s[399], np.nextafter(s[7], 0)):
        sets = conformal.prediction_sets(rows, [q], **options)
        assert (sets.mask[0][np.arange(400), Y] == (s <= q)).all()


def uneven(C, spread):
    """Return rows of all kinds: peaked and flat, with ties, zeros, rounding errors, beyond a sum of 1 and below it."""
    rows = np.random.default_rng([C, 5]).dirichlet(np.full(C, spread), 61)
    rows[3] *= 3 / max(1, 3 * rows[3].max())
    rows[4:9] = np.round(rows[4:9] * 2 * C) / (4 * C)
    rows[9:12] = [[1 / C], [0.5 / C], [0.0]]
    rows[12:20][rows[12:20] < 1 / C] = 0.0
    rows[20], rows[21] = np.eye(C)[C - 1], 1.0
    rows[22], rows[23][::3], rows[24, -1] = -1e-18, -(2**-21), 1 + 2**-40  # rounding errors, which count as 0 and 1
    return rows


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [25, 64, 65, 71, 200])
@pytest.mark.parametrize("spread", [0.02, 0.3, 20.0])
@pytest.mark.parametrize("options", [*OPTIONS[:3], *OPTIONS[4:]], ids=["aps", "aps-1", "raps", "saps", "top-k"])
def test_sets_of_many_classes_are_the_scores_below_the_threshold(C, spread, options):
    """They are found without scores, from the least probability that is in."""
    rows = uneven(C, spread)
    own = options | ({"u": np.round(4 * U[:61]) / 4} if "u" in options else {})
    s = conformal.scores(rows, **own)
    q = np.array([0.3, 0.9, 0.999999, 1.0, math.inf, math.nan, 0.0, -0.1, 1.7, s[4, 3], s[9, C // 2], s[30, 7]])
    inside = ~(s > q[:, None, None])
    sets = conformal.prediction_sets(rows, q, **own)
    np.testing.assert_array_equal(sets.mask, inside)
    np.testing.assert_array_equal(sets.sizes, inside.sum(-1))
    first = np.arange(C) == rows.argmax(-1)[:, None]
    top = conformal.prediction_sets(rows, q, empty="top1", **own)
    np.testing.assert_array_equal(top.mask, inside | (~inside.any(-1, keepdims=True) & first))


def test_scores_never_fall_along_the_ranking():
    s = conformal.scores(P, u=U, method="raps", lam=0.01)
    order = np.argsort(-P, axis=-1, kind="stable")
    assert (np.diff(np.take_along_axis(s, order, -1)) >= 0).all()


def test_sums_are_exact():
    """Equal parts in another order, beside another label: the same score, though floating-point sums differ."""
    parts = np.array([0.1, 0.2, 0.3, 0.4])
    rows = np.stack([parts, parts[::-1], parts[[2, 0, 3, 1]]])
    s = conformal.scores(rows, [0, 3, 1], randomised=False)
    assert len({x.tobytes() for x in s}) == 1
    assert abs(s[0] - 1) < 4 * 2**-51


def test_sets_of_smaller_alphas_hold_the_others():
    q = conformal.threshold(conformal.scores(P, Y, u=U), [0.5, 0.2, 0.1, 0.01])
    assert (np.diff(q) >= 0).all()
    mask = conformal.prediction_sets(P, q, u=U).mask
    assert (mask[1:] >= mask[:-1]).all()


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_are_whole_numbers_are_repeated_scores(seed):
    """As the documentation has it for covariate shift: the smallest score that has its share of all weights."""
    rng = np.random.default_rng(seed)
    s, w, most = rng.integers(0, 30, 25) / 16, rng.integers(0, 9, 25), int(rng.integers(1, 20))
    for alpha in (Fraction(1, 10), Fraction(3, 10), Fraction(7, 10)):
        needed = (1 - alpha) * (int(w.sum()) + most)
        want = min((x for x in s if w[s <= x].sum() >= needed), default=math.inf)
        assert conformal.threshold(np.append(np.repeat(s, w), [math.inf] * (most - 1)), alpha)[0] == want


@pytest.mark.parametrize("by", ["all", "classes", "groups"])
def test_the_guarantee(by):
    """Coverage of 40 calibrations of 99 scores at alpha = 0.1: 0.9 to 0.91, within five standard errors."""
    rng, tests, held = np.random.default_rng(4), 0, 0
    for turn in range(40):
        rows = rng.dirichlet(np.full(5, 0.7), 99 + 500)
        labels = (rows.cumsum(-1) < rng.random((len(rows), 1))).sum(-1)
        groups = (rows[:, 0] > 0.2).astype(int)
        known = {"all": {}, "classes": {"y": labels[:99], "n_classes": 5}, "groups": {"groups": groups[:99]}}[by]
        q = conformal.threshold(conformal.scores(rows[:99], labels[:99], rng=turn), 0.1, **known)
        own = {"groups": groups[99:]} if by == "groups" else {}
        sets = conformal.prediction_sets(rows[99:], q, rng=turn, **own)
        tests += 500
        held += sets.coverage(labels[99:])[0] * 500
    spread = 5 * math.sqrt(0.09 / 40 / 100 + 0.09 / tests)
    most = {"all": 0.91, "classes": 1.0, "groups": 0.93}[by]  # 1 / (n + 1) of a part of the scores
    assert 0.9 - spread < held / tests < most + spread


def test_too_few_scores_give_all_classes():
    q = conformal.threshold([0.1, 0.2], [0.1, 0.5])
    assert q.tolist() == [math.inf, 0.2]
    assert (conformal.prediction_sets(P, q, u=U).sizes[0] == 6).all()


def test_saturated_probabilities():
    """With U = 1 a threshold of 1 gives all classes; randomised scores tell labels of probability 0 apart from it.

    A number that the row makes is the same for all rows of a class, so sets are never empty here; drawn ones may be.
    """
    rows = np.eye(4)[np.arange(200) % 4]
    y = np.arange(200) % 4
    inclusive = conformal.threshold(conformal.scores(rows, y, randomised=False), 0.1)
    assert inclusive[0] == 1.0
    assert (conformal.prediction_sets(rows, inclusive, randomised=False).sizes == 4).all()
    made = conformal.threshold(conformal.scores(rows, y), 0.1)
    assert set(conformal.prediction_sets(rows, made).sizes[0].tolist()) == {1}
    rng = np.random.default_rng(0)
    drawn = conformal.threshold(conformal.scores(rows, y, rng=rng), 0.1)
    assert set(conformal.prediction_sets(rows, drawn, rng=rng).sizes[0].tolist()) == {0, 1}


def test_empty_sets_are_those_of_certain_rows():
    rows = np.array([[0.95, 0.05], [0.5, 0.5]])
    assert conformal.prediction_sets(rows, [0.9], randomised=False).sizes.tolist() == [[0, 1]]
    top = conformal.prediction_sets(rows, [0.9], randomised=False, empty="top1")
    assert (top.sizes.tolist(), top.empty) == ([[1, 1]], "top1")
    assert top.mask[0, 0].tolist() == [True, False]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_scores_of_short_floats_are_float64(kind):
    """A score of float32 would round one side alone: they are those of the same numbers in float64."""
    rows = P.astype(kind)
    assert_same_bits(conformal.scores(rows, u=U), conformal.scores(rows.astype(np.float64), u=U))


def test_tensors_come_back_as_tensors():
    rows, y, u = torch.from_numpy(P), torch.from_numpy(Y), torch.from_numpy(U)
    s = conformal.scores(rows, y, u=u)
    q = conformal.threshold(s, [0.1, 0.2], y=y)
    sets = conformal.prediction_sets(rows, q, rng=1)
    ours = conformal.prediction_sets(P, q.numpy(), rng=1)
    assert_same_bits(sets.mask.numpy(), ours.mask)
    counts, covered = conformal.ccm(sets), conformal.coverage_confusion(sets, y)
    for found in (s, q, sets.packed, sets.mask, sets.coverage(y), counts.n, counts.G, counts.correlation(),
                  counts.mean_size, counts.sum(0).G, covered.rates()):  # fmt: skip
        assert isinstance(found, torch.Tensor)
    assert_same_bits(counts.correlation().numpy(), conformal.ccm(ours).correlation())
    assert isinstance(conformal.score_histogram(s).threshold(0.1), torch.Tensor)


def test_bad_rows_are_said_once_and_touch_no_other():
    rows = P.copy()
    rows[3, 1], rows[7, 0] = np.nan, 1.5
    with pytest.warns(cmfast.FailureWarning, match=r"^conformal\.scores: 2 of 400 rows not scored \(first: 3, 7\)"):
        s = conformal.scores(rows, Y, u=U)
    clean = conformal.scores(P, Y, u=U)
    assert np.isnan(s[[3, 7]]).all()
    others = np.setdiff1d(np.arange(400), [3, 7])
    assert_same_bits(s[others], clean[others])
    worst = np.where(np.isnan(s), np.inf, s)
    assert conformal.threshold(s, 0.1) == conformal.threshold(worst, 0.1)
    with pytest.warns(cmfast.FailureWarning, match="2 of 400 rows given all classes"):
        sets = conformal.prediction_sets(rows, [0.7], u=U)
    assert (sets.sizes[0, [3, 7]] == 6).all()
    with pytest.raises(cmfast.FailureError):
        conformal.prediction_sets(rows, [0.7], u=U, on_failure="raise")


def test_a_bad_label_is_left_out_and_said():
    """Thresholds are those of the other scores: no other class knows of it."""
    y = Y.copy()
    y[[5, 9]] = -1, 6
    s = conformal.scores(P, Y, u=U)
    with pytest.warns(cmfast.FailureWarning, match=r"^conformal\.threshold: 2 of 400 scores left out \(first: 5, 9\)"):
        q = conformal.threshold(s, [0.1, 0.3], y=y, n_classes=6)
    rest = np.setdiff1d(np.arange(400), [5, 9])
    assert_same_bits(q, conformal.threshold(s[rest], [0.1, 0.3], y=y[rest], n_classes=6))


BAD_Y, BAD_U, BAD_GROUPS = Y.copy(), U.copy(), np.zeros(len(Y), np.int64)
BAD_Y[9], BAD_U[4], BAD_GROUPS[6] = 6, 1.5, 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: conformal.scores(np.log(P), Y),
            r"-\d.* at P\[0, 0\] is not a probability; pass softmax probabilities, not logits",
        ),
        (lambda: conformal.scores(P[None] * [[[1, np.nan, 1, 1, 1, 1]]]), r"NaN value at P\[0, 0, 1\]"),
        (lambda: conformal.scores(np.ones((2, 3000))), r"probabilities of P\[0\] add up to more than fits"),
        (lambda: conformal.scores(P, Y, u=BAD_U), r"1\.5 at u\[4\] is not in \[0, 1\]"),
        (lambda: conformal.scores(P, Y, u=np.where(BAD_U > 1, np.nan, U)), r"NaN value at u\[4\]"),
        (lambda: conformal.scores(P, BAD_Y), r"6 at y\[9\] is not one of the 6 classes, 0 to 5"),
        (
            lambda: conformal.prediction_sets(P, [[0.9, 0.8]], groups=BAD_GROUPS),
            r"2 at groups\[6\] is not one of the 2 groups, 0 to 1",
        ),
        (lambda: conformal.threshold(U, 0.1, y=BAD_Y, n_classes=6), r"6 at y\[9\] is not one of the 6 classes"),
        (
            lambda: conformal.threshold([0.5], 0.1, y=[0], n_classes=0),
            r"0 at y\[0\] is invalid, as there are no classes",
        ),
        (
            lambda: conformal.threshold([0.5], 0.1, groups=[1], n_groups=2),
            "group 0 has no scores, so its threshold is infinity",
        ),
        (lambda: conformal.prediction_sets(P, [0.9]).coverage(BAD_Y), r"6 at y\[9\] is not one of the 6 classes"),
        (
            lambda: conformal.coverage_confusion(conformal.prediction_sets(P, [0.9]), BAD_Y),
            r"6 at y\[9\] is not one of the 6 classes",
        ),
    ],
)
def test_it_is_said_what_is_wrong_with_the_first_bad_value(call, said):
    with pytest.warns(cmfast.FailureWarning, match=f"; {said}"):
        call()


def test_counts_of_more_sets_than_products_hold():
    """Ten thousand million sets: products of their counts leave int64, correlations do not notice."""
    counts = conformal.ccm(conformal.prediction_sets(P, [0.6], u=U))
    many = conformal.CcmCounts(counts.n * 25_000_000, counts.G * 25_000_000)
    np.testing.assert_allclose(many.correlation(), counts.correlation(), rtol=1e-15)
    np.testing.assert_allclose(many.covariance(), counts.covariance(), rtol=1e-15)


def test_classes_without_scores_are_said():
    with pytest.warns(cmfast.FailureWarning, match="1 of 7 classes without a threshold of their own.*6"):
        q = conformal.threshold(conformal.scores(P, Y, u=U), 0.1, y=Y, n_classes=7)
    assert q[0, 6] == math.inf


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [1, 3, 12, 13])
def test_counts_of_many_sets_of_few_classes(C):
    """Where there are more sets than kinds of them, kinds are counted."""
    z = np.random.default_rng(C).random((9001, C)) < np.linspace(0.1, 0.9, C)
    sets = conformal.prediction_sets(np.where(z, 0.5, 0.0), [0.5], method="lac")
    np.testing.assert_array_equal(conformal.ccm(sets).G[0], z.T.astype(np.int64) @ z)


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [2, 10, 15, 16, 17, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("n", [1, 63, 65, 250, 4200])
def test_counts_of_any_number_of_sets(C, n):
    """Several sets share a word where classes are few."""
    z = np.random.default_rng([C, n]).random((n, C)) < np.linspace(0.2, 1.0, C)
    sets = conformal.prediction_sets(np.where(z, 0.5, 0.0), [0.5], method="lac")
    np.testing.assert_array_equal(conformal.ccm(sets).G[0], z.T.astype(np.int64) @ z)


PARTS = [slice(0, 1), slice(1, 1), slice(1, 65), slice(65, 400)]


def test_counts_of_parts_merge_to_those_of_the_whole():
    q = np.array([0.5, 0.8, math.inf])
    whole = conformal.prediction_sets(P, q, u=U)
    parts = [conformal.prediction_sets(P[part], q, u=U[part]) for part in PARTS]
    assert sum(map(conformal.ccm, parts)) == conformal.ccm(whole)
    assert conformal.CcmCounts.merge(map(conformal.ccm, parts)) == conformal.ccm(whole)
    covered = [conformal.coverage_confusion(sets, Y[part]) for sets, part in zip(parts, PARTS, strict=True)]
    assert sum(covered) == conformal.coverage_confusion(whole, Y)
    sized = [sets.coverage_by_size(Y[part]) for sets, part in zip(parts, PARTS, strict=True)]
    for k in range(2):
        assert_same_bits(sum(one[k] for one in sized), whole.coverage_by_size(Y)[k])


@pytest.mark.parametrize("count", [conformal.ccm, lambda sets: conformal.coverage_confusion(sets, Y)])
def test_counts_of_two_rules_for_empty_sets_do_not_add(count):
    allowed, top = (count(conformal.prediction_sets(P, [0.5], u=U, empty=empty)) for empty in ("allow", "top1"))
    with pytest.raises(ValueError, match="empty must be the same in both, allow, got top1"):
        allowed + top
    with pytest.raises(ValueError, match="empty must be the same in both, top1, got allow"):
        type(top).merge([top, allowed])
    assert allowed != type(top)(**{name: getattr(allowed, name) for name in top._CORES}, empty="top1")
    assert (top + top).sum(0).empty == "top1"
    for read, write in (("from_bytes", "to_bytes"), ("from_json", "to_json")):
        again = getattr(type(top), read)(getattr(top, write)())
        assert again == top
        assert again.empty == "top1"
    with pytest.raises(ValueError, match="damaged: its empty is no rule"):
        type(top).from_json(json.dumps({**json.loads(top.to_json()), "empty": "top2", "digest": None}))


def test_clients_of_two_rules_for_empty_sets_are_not_ranked():
    counts = [conformal.ccm(conformal.prediction_sets(P, [0.5], u=U, empty=empty)) for empty in ("allow", "top1")]
    with pytest.raises(ValueError, match="ccms must be of sets with one rule for empty sets, got allow, top1"):
        conformal.rank_clients(counts, [(0, 1)], order="high")


@pytest.mark.exhaustive
def test_batches_are_one_call():
    """Clients and rounds at once: each as alone, and summed over clients as the counts of all their rows."""
    B, y, u = P.reshape(2, 4, 50, 6), Y.reshape(2, 4, 50), U.reshape(2, 4, 50)
    q = conformal.threshold(conformal.scores(B, y, u=u), [0.1, 0.3])
    sets = conformal.prediction_sets(B, q, u=u)
    counts = conformal.ccm(sets)
    assert counts.G.shape == (2, 4, 2, 6, 6)
    for client, turn in np.ndindex(2, 4):
        at = client, turn
        own = conformal.threshold(conformal.scores(B[at], y[at], u=u[at]), [0.1, 0.3])
        assert_same_bits(own, q[at])
        alone = conformal.ccm(conformal.prediction_sets(B[at], own, u=u[at]))
        assert_same_bits(alone.G, counts.G[at])
    total = counts.sum(1).sum(0)
    assert_same_bits(total.G, counts.G.sum((0, 1)))
    assert total.n.tolist() == [400, 400]


SLICES = {
    "of rows": lambda x: x[:, :, 3:17],
    "of clients": lambda x: x[1:],
    "of rounds": lambda x: x[:, 1:3, :9],
    "every second": lambda x: x[:, :, ::2],
    "swapped": lambda x: np.swapaxes(x, 0, 1)[:, :, :8],
    "one client": lambda x: x[1:, :, 2:],
    "one row": lambda x: x[:, :, 4:5],
    "no rows": lambda x: x[:, :, :0],
    "backwards": lambda x: x[::-1, :, 1:],
    "repeated": lambda x: np.broadcast_to(x[:1, :, :5], (2, *x[0, :, :5].shape)),
}


@pytest.mark.parametrize("C", [6, pytest.param(40, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("cut", SLICES.values(), ids=SLICES)
def test_slices_are_what_their_copies_are(cut, C):
    """They are read where they lie; what of labels, numbers and groups lies in another way is copied."""
    rng = np.random.default_rng(C)
    x, g = rng.dirichlet(np.full(C, 0.3), (2, 4, 20)), rng.integers(0, 3, (2, 4, 20))
    y, u = rng.integers(0, C, (2, 4, 20)), rng.random((2, 4, 20))
    q, by_group = rng.random((*cut(x).shape[:2], 2)), rng.random((*cut(x).shape[:2], 2, 3))

    def found(P, y, u, g):
        sets = [conformal.prediction_sets(P, q, u=u), conformal.prediction_sets(P, by_group, u=u, groups=g)]
        s = [conformal.scores(P, y, u=u), conformal.scores(P, u=u), conformal.scores(P, y), conformal.scores(P)]
        return [*s, conformal.scores(P, y, method="lac"), *(part for one in sets for part in (one.packed, one.sizes))]

    want = found(*(np.ascontiguousarray(cut(a)) for a in (x, y, u, g)))
    for given in (
        [cut(a) for a in (x, y, u, g)],
        [cut(x), np.ascontiguousarray(cut(y)), cut(u), np.asfortranarray(cut(g))],
        [cut(x), cut(y.astype(np.int16)), cut(u), cut(g)],
    ):
        for one, other in zip(found(*given), want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.exhaustive
def test_probabilities_of_a_slice_are_not_copied():
    """Also with draws, which cmfast subtracts from one in new memory of another layout."""
    P = np.random.default_rng(0).dirichlet(np.ones(50), (4, 2000))
    y, u = np.zeros((4, 2000), np.int64), np.full((4, 2000), 0.5)
    train = slice(1000)
    conformal.scores(P[:, train], y[:, train], u=u[:, train])
    tracemalloc.start()
    conformal.scores(P[:, train], y[:, train], u=u[:, train])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < P[:, train].nbytes / 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", [8, 9, 16, 63, 64, 250, 700])
def test_thresholds_of_many_calibrations_are_those_of_each(n):
    """Eight are sorted side by side."""
    s = np.random.default_rng(n).integers(-3, 40, (19, n)) / 16
    s[3, 2], s[4, :5], s[17, 1], s[18] = np.nan, np.inf, -0.0, -np.inf
    alphas = [0.05, 0.5, 0.1, 0.01, 0.99]
    assert_same_bits(conformal.threshold(s, alphas), np.stack([conformal.threshold(row, alphas) for row in s]))


def test_histograms_merge_and_never_cover_less():
    s = conformal.scores(P, Y, u=U)
    q = conformal.threshold(s, [0.01, 0.1, 0.5, 0.9])
    whole = conformal.score_histogram(s, bins=64)
    assert sum(conformal.score_histogram(s[part], bins=64) for part in PARTS) == whole
    found = whole.threshold([0.01, 0.1, 0.5, 0.9])
    assert (q <= found).all()
    assert (found - q < 1 / 64).all()
    assert conformal.score_histogram(s[:2]).threshold(0.1) == math.inf
    with pytest.raises(ValueError, match="top must be the same in both"):
        whole + conformal.score_histogram(s, bins=64, top=2)


def test_correlation_is_that_of_numpy():
    counts = conformal.ccm(conformal.prediction_sets(P, [0.6], u=U))
    z = conformal.prediction_sets(P, [0.6], u=U).mask[0]
    np.testing.assert_allclose(counts.correlation()[0], np.corrcoef(z.T), atol=1e-14)
    np.testing.assert_allclose(counts.covariance()[0], np.cov(z.T, ddof=0), atol=1e-16)
    tables = np.stack([np.stack([(~z).T.astype(int), z.T.astype(int)])[k] for k in range(2)])
    table = np.array([[tables[a, 0] @ tables[b, 1] for b in range(2)] for a in range(2)])
    np.testing.assert_allclose(counts.correlation()[0, 0, 1], cmfast.metrics.mcc(table), rtol=1e-12)
    assert counts.mean_size[0] == z.sum() / 400
    np.testing.assert_allclose(counts.conditional()[0], (z.T.astype(float) @ z) / z.sum(0)[:, None])
    np.testing.assert_allclose(counts.lift()[0], 400 * (z.T.astype(float) @ z) / np.outer(z.sum(0), z.sum(0)))


def test_reasons():
    G = np.array([[0, 0, 0], [0, 5, 2], [0, 2, 2]])
    counts = conformal.CcmCounts(np.array(5), G)
    assert counts.reason.tolist() == [1, 2, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(counts.correlation()).sum() == 8
        assert counts.correlation(undefined="zero").tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert conformal.CcmCounts(np.array(0), 0 * G).reason.tolist() == [3, 3, 3]
    assert conformal.ccm(conformal.prediction_sets(P, [math.inf], u=U)).reason.tolist() == [[2] * 6]


def test_the_mean_of_correlations_is_not_that_of_the_whole():
    a = conformal.CcmCounts(np.array(2), np.array([[1, 1], [1, 1]]))
    b = conformal.CcmCounts(np.array(6), np.array([[3, 0], [0, 3]]))
    assert [x.correlation()[0, 1] for x in (a, b, a + b)] == [1.0, -1.0, -0.5]


def test_clients_are_ranked_both_ways():
    G = np.array([[[1, 1], [1, 1]], [[3, 0], [0, 3]], [[2, 1], [1, 2]], [[0, 0], [0, 0]]])
    counts = conformal.CcmCounts(np.array([2, 6, 4, 4]), G)
    assert conformal.rank_clients(counts, [(0, 1)], order="high").tolist() == [0, 2, 1, 3]
    assert conformal.rank_clients(counts, [(0, 1)], order="low").tolist() == [1, 2, 0, 3]
    listed = [conformal.CcmCounts(counts.n[k], G[k]) for k in range(4)]
    assert conformal.rank_clients(listed, [(0, 1), (1, 1)], order="high").tolist() == [0, 2, 1, 3]
    with pytest.raises(TypeError, match="order must be given"):
        conformal.rank_clients(counts, [(0, 1)])


def test_coverage_by_size_and_confusion_agree():
    sets = conformal.prediction_sets(P, [0.5, 0.9], u=U)
    n, covered = sets.coverage_by_size(Y)
    confusion = conformal.coverage_confusion(sets, Y)
    assert n.sum(-1).tolist() == [400, 400]
    assert covered.sum(-1).tolist() == np.diagonal(confusion.V, axis1=-2, axis2=-1).sum(-1).tolist()
    assert_same_bits(sets.size_counts, n)
    assert (n[:, :] == [[(sizes == k).sum() for k in range(7)] for sizes in sets.sizes]).all()
    np.testing.assert_array_equal(sets.coverage(Y), sets.mask[:, np.arange(400), Y].mean(-1))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"u": U, "rng": 0}, "rng must be None with u"),
        ({"u": U, "randomised": False}, "u must be None without randomisation"),
        ({"rng": 0, "lam": 0.1}, 'lam must be 0 unless method="raps" or "saps"'),
        ({"rng": 0, "method": "top_k", "lam": 0.1}, 'lam must be 0 unless method="raps" or "saps"'),
        ({"rng": 0, "k_reg": 2}, 'k_reg must be 0 unless method="raps", got 2'),
        ({"rng": 0, "method": "saps", "lam": 0.1, "k_reg": 1}, 'k_reg must be 0 unless method="raps", got 1'),
        ({"rng": 0, "method": "raps"}, 'lam must be given for method="raps", the penalty per rank beyond k_reg, for'),
        ({"rng": 0, "method": "raps", "k_reg": 2}, 'lam must be given for method="raps"'),
        (
            {"rng": 0, "method": "saps"},
            'lam must be given for method="saps", the weight of a rank, for example 0.1, got None',
        ),
        ({"rng": 0, "method": "saps", "lam": 170}, "lam must be below 1000 / C = 167"),
        ({"rng": 0, "method": "raps", "lam": 170}, "lam must be below 1000 / C = 167"),
    ],
)
def test_options_that_contradict_each_other(options, said):
    with pytest.raises(ValueError, match=f"^conformal.scores: {said}"):
        conformal.scores(P, **options)


def test_raps_with_a_penalty_of_zero_is_aps():
    assert_same_bits(conformal.scores(P, method="raps", lam=0, k_reg=2), conformal.scores(P))


def test_shares_of_tensors_are_float64():
    V, n = torch.tensor([[16777217, 0], [0, 1]]), torch.tensor([16777219, 1])
    counts = conformal.CoverageCounts(V, n)
    assert counts.rates().dtype == torch.float64
    assert counts.rates()[0, 0].item() == 16777217 / 16777219
    sets = conformal.prediction_sets(
        torch.from_numpy(P), torch.tensor([0.5], dtype=torch.float64), u=torch.from_numpy(U)
    )
    assert sets.coverage(torch.from_numpy(Y)).dtype == torch.float64
    assert conformal.ccm(sets).mean_size.dtype == torch.float64


@pytest.mark.exhaustive
@pytest.mark.parametrize("C", [6, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_the_number_of_a_row_is_made_of_the_row_alone(C):
    """By row, in parts, in another order and type, with its label and without: the same number, so the same score."""
    rows = np.pad(P, ((0, 0), (0, C - 6))).astype(np.float32)
    every = conformal.scores(rows)
    assert_same_bits(every, conformal.scores(rows, rng=0))
    assert_same_bits(every, conformal.scores(rows.astype(np.float64)))
    assert_same_bits(every[::-1], conformal.scores(rows[::-1]))
    assert_same_bits(every, np.concatenate([conformal.scores(rows[k : k + 1]) for k in range(400)]))
    assert_same_bits(every, np.concatenate([conformal.scores(rows[part]) for part in PARTS]))
    assert_same_bits(every[np.arange(400), Y], conformal.scores(rows, Y))
    assert_same_bits(conformal.prediction_sets(rows, [0.5, 0.9]).mask, every <= np.array([[[0.5]], [[0.9]]]))
    assert_same_bits(every, conformal.scores(torch.from_numpy(rows)).numpy())
    assert (every != conformal.scores(rows, rng=1)).any(-1).all()


def test_numbers_of_rows_look_drawn():
    """Flat, ordered by none of what a row holds, and of two seeds unrelated."""
    rows = RNG.dirichlet(np.full(4, 0.7), 20_000)
    first, second = (conformal.scores(rows, rng=seed)[:, 0] for seed in (0, 1))
    before = conformal.scores(rows, u=np.ones(20_000))[:, 0]
    u, v = (first - before) / rows[:, 0], (second - before) / rows[:, 0]
    assert abs(np.bincount((u * 20).clip(0, 19).astype(int), minlength=20) - 1000).max() < 5 * math.sqrt(1000)
    for other in (v, *rows.T, np.roll(u, 1)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("step", [1, 7, 1000], ids=["by row", "in parts", "whole"])
def test_the_guarantee_holds_however_rows_are_scored(step):
    """Coverage of 60 calibrations of 19 rows: 0.9 to 0.95, within five standard errors."""
    rng, held = np.random.default_rng(11), []
    for seed in range(60):
        rows = rng.dirichlet(np.full(4, 0.7), 19 + 200)
        labels = (rows.cumsum(-1) < rng.random((len(rows), 1))).sum(-1)
        parts = [slice(k, min(k + step, 219)) for k in range(0, 219, step)]
        s = np.concatenate([conformal.scores(rows[part], labels[part], rng=seed) for part in parts])
        held.append((s[19:] <= conformal.threshold(s[:19], 0.1)).mean())
    spread = 5 * np.std(held) / math.sqrt(60)
    assert 0.9 - spread < np.mean(held) < 0.95 + spread


def test_what_rounding_leaves_is_no_bad_row():
    """Means of several models add up to a little more than 1, and what is left of it to less than nothing."""
    p = np.array([np.nextafter(1, 2), 1.0, 0.9])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = conformal.scores(np.stack([p, 1 - p], -1), randomised=False)
    np.testing.assert_array_equal(found[:2], [[1.0, 1.0]] * 2)
    with pytest.warns(cmfast.FailureWarning, match="1 of 1 rows not scored"):
        conformal.scores([[1.0001, 0.0]], randomised=False)


@pytest.mark.parametrize("make", [float, np.float64, torch.tensor, np.array])
def test_one_threshold_alone(make):
    q = make(conformal.threshold(conformal.scores(P, Y, rng=0), [0.1, 0.3])[1])
    rows = torch.tensor(P) if isinstance(q, torch.Tensor) else P
    found = conformal.prediction_sets(rows, q, rng=0)
    assert found.sizes.shape == (1, len(P))
    assert_same_bits(
        found.packed, conformal.prediction_sets(rows, q.reshape(1) if hasattr(q, "shape") else [q], rng=0).packed
    )
    with pytest.raises(ValueError, match=r"q must be of shape .*, got shape \(\)"):
        conformal.prediction_sets(P.reshape(2, -1, P.shape[-1]), float(q), rng=0)


def test_thresholds_whose_shape_could_be_two_things():
    with pytest.raises(ValueError, match=r"q must be of shape \(\.\.\., A\) or \(\.\.\., A, 6\), with the batch axes"):
        conformal.prediction_sets(P.reshape(2, 200, 6), [0.5], rng=0)
    with pytest.raises(ValueError, match=r"q must be of shape \(\.\.\., A, G\)"):
        conformal.prediction_sets(P, [0.5], rng=0, groups=Y)


def test_results_say_what_they_are():
    sets = conformal.prediction_sets(P, [0.5, 0.9], u=U)
    assert repr(sets) == "<PredictionSets: sets 2 x 400, classes 6, empty allow>"
    assert "of 6 classes on average" in sets.explain()
    assert conformal.ccm(sets).explain() == "classes by sets: 12 in some sets"
    assert "of 800 sets contain the true class" in conformal.coverage_confusion(sets, Y).explain()
    assert conformal.score_histogram(U, bins=8).explain() == "scores in 8 bins from 0 to 1, and beyond"


def test_thresholds_of_many_scores_are_those_of_a_sort(rng):
    n = 30_000
    uniform = rng.random(n)
    kinds = {
        "uniform": uniform,
        "sorted": np.sort(uniform),
        "reversed": np.sort(uniform)[::-1],
        "powers": rng.normal(size=n) ** 15,
        "few values": np.rint(uniform * 3),
        "one value": np.full(n, 0.25),
        "nearly one value": np.where(uniform < 1e-3, uniform, 0.25),
        "infinite": np.where(uniform < 0.4, np.inf, uniform),
        "not a number": np.where(uniform < 0.4, np.nan, np.finfo(float).max),
        "neighbours": 0.5 + np.spacing(0.5) * np.rint(uniform * 9),
        "period": np.tile(uniform[:64], n // 64 + 1)[:n],
    }
    alphas = [0.00005, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.9999]
    ranks = np.array([n + 1 - int((n + 1) * Fraction(str(alpha))) for alpha in alphas])
    for kind, s in kinds.items():
        expected = np.sort(np.where(np.isnan(s), np.inf, s))[ranks - 1]
        assert_same_bits(conformal.threshold(s, alphas), expected, what=kind)
        for alpha, value in zip(alphas, expected, strict=True):
            assert_same_bits(conformal.threshold(s, alpha), np.array([value]), what=f"{kind}, {alpha}")


def test_thresholds_are_right_where_samples_mislead(rng):
    n, seed, drawn = 5000, 88172645463325252, []
    for _ in range(256):  # the xorshift generator of the kernel
        seed ^= (seed << 13) % 2**64
        seed ^= seed >> 7
        seed ^= (seed << 17) % 2**64
        drawn.append(seed % n)
    for kind, outlier in (("large", 2.0), ("small", -2.0), ("infinite", np.inf)):
        s = rng.random(n)
        s[drawn] = outlier
        for alpha in (0.01, 0.1, 0.5, 0.9, 0.99):
            expected = np.sort(s)[n - int((n + 1) * Fraction(str(alpha)))]
            assert conformal.threshold(s, alpha) == expected, (kind, alpha)
