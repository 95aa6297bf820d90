"""What the sources print and what is right: each test holds the right value and names the printed one.

The sources: a glossary of confusion matrices in infrastructure inspection; Foucart's notebook 4.4.2.3 (normalised
matrices; its tables are in test_uncertainty.py); Ahmadzadeh et al., Contingency Space; Perlo et al., Characterizing
the performance of classification models through conformal correlation matrices. ``docs/errata.md`` is the list.
"""

import numpy as np
import pytest

import cmfast
from cmfast import conformal, contingency, metrics

SURFACES = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])  # asphalt, concrete, composite
GRADES = np.array([[315, 28, 7, 0], [36, 237, 24, 3], [0, 30, 152, 18], [0, 0, 16, 134]])  # good, fair, poor, failed
DEFECTS = np.array(
    [
        [820, 30, 5, 40, 10, 95],
        [15, 440, 20, 5, 15, 5],
        [0, 10, 285, 5, 20, 0],
        [25, 0, 5, 145, 60, 15],
        [5, 5, 15, 35, 180, 10],
        [65, 0, 0, 10, 15, 1910],
    ]
)
HAIRLINE, EFFLORESCENCE, CORROSION, INTACT = 0, 3, 4, 5
TRIVIAL = np.array([[9500, 0], [500, 0]])
FINLEY = np.array([[2680, 72], [23, 28]])  # tornadoes, 1884; the second class is "tornado"


def rates(M):
    """Return tp, fn, fp, tn of class 1."""
    (tn, fp), (fn, tp) = M
    return tp, fn, fp, tn


# The glossary


def test_kappa_of_the_grades_is_777_not_about_72():
    assert round(float(metrics.kappa(GRADES)), 3) == 0.777


def test_linear_kappa_of_the_grades_is_853_not_about_78():
    assert round(float(metrics.kappa(GRADES, weights="linear")), 3) == 0.853


def test_the_grader_errs_to_the_unsafe_side_and_is_not_conservative():
    shares = metrics.confusion_fractions(GRADES)
    assert shares[1, 0] == 0.12  # fair called good
    assert shares[0, 1] == 0.08  # good called fair


def test_composite_is_taken_for_asphalt_half_as_often_again_not_nearly_twice():
    value, row, col = metrics.most_confused(SURFACES, 2)
    assert value.tolist() == [30, 20]
    assert row.tolist() == [2, 2]
    assert col.tolist() == [0, 1]
    assert value[0] / value[1] == 1.5


def test_the_largest_confusion_of_the_defects_is_hairline_and_intact():
    value, row, col = metrics.most_confused(DEFECTS, 3, by="symmetric")
    pairs = list(zip(row.tolist(), col.tolist(), strict=True))
    # Printed as the most significant: efflorescence and corrosion, 95. The third is not in its list at all.
    assert value.tolist() == [160, 95, 65]
    assert pairs == [(HAIRLINE, INTACT), (EFFLORESCENCE, CORROSION), (HAIRLINE, EFFLORESCENCE)]
    value, row, col = metrics.most_confused(DEFECTS, 2, by="rate")  # by rate it is efflorescence and corrosion
    assert value.tolist() == [0.24, 0.14]
    assert {*row.tolist()} == {*col.tolist()} == {EFFLORESCENCE, CORROSION}


def test_weighted_averages_hide_the_minority_and_do_not_show_it():
    assert metrics.recall(TRIVIAL, average="weighted") == metrics.accuracy(TRIVIAL) == 0.95
    assert metrics.recall(TRIVIAL, average="macro") == 0.5
    assert metrics.precision(TRIVIAL, average="macro") == 0.475


def test_total_disagreement_is_not_a_matthews_coefficient_of_minus_one():
    assert metrics.mcc([[0, 5, 0], [0, 0, 5], [5, 0, 0]]) == -0.5
    assert metrics.mcc([[0, 0, 5, 0], [0, 0, 0, 5], [0, 0, 0, 0], [0, 0, 0, 0]]) == 0
    assert metrics.mcc([[0, 3], [4, 0]]) == -1  # two classes, exactly swapped


def test_the_matthews_coefficient_does_not_use_all_cells():
    moved = SURFACES + np.array([[0, 4, -4], [-4, 0, 4], [4, -4, 0]])  # same diagonal and margins
    assert metrics.mcc(moved) == metrics.mcc(SURFACES)


# The notebook (its printed tables: test_uncertainty.py)


def test_an_unsupported_class_leaves_the_recall_alone_not_the_precision_too():
    M = np.array([[5, 1, 1], [1, 5, 0], [0, 0, 0]])
    found = metrics.compute(M, ["precision", "recall"], undefined="nan")
    supported = M.sum(1) > 0
    P, R = (found[name][supported].mean() for name in ("precision", "recall"))
    assert round(2 * P * R / (P + R), 4) == 0.8025  # what its code gives
    assert round(float(metrics.f1_of_macro(M, undefined="nan")), 4) == 0.6468


# Contingency space


def test_doolittles_score_of_finley_is_142_not_7_52():
    tp, fn, fp, tn = rates(FINLEY)
    p, n = tp + fn, tn + fp
    assert round(float((tp * tn - fp * fn) ** 2 / ((tp + fp) * (tp + fn) * p * n)), 2) == 7.52  # Table 2
    assert round(float(metrics.doolittle(FINLEY)), 3) == 0.142
    assert metrics.doolittle(FINLEY) == pytest.approx(metrics.mcc(FINLEY) ** 2)


def test_true_skill_of_finley_is_523_not_909():
    tp, fn, fp, tn = rates(FINLEY)
    tpr, fpr = tp / (tp + fn), fp / (fp + tn)
    assert round(float((tpr - fpr) / (tpr + fpr)), 3) == 0.909  # Table 2
    assert round(float(metrics.tss(FINLEY)), 3) == 0.523
    assert metrics.tss(FINLEY) == metrics.youden_j(FINLEY)


def test_gilberts_score_takes_off_the_hits_of_chance_not_the_imbalance():
    tp, fn, fp, tn = rates(FINLEY)
    r = (tn + fp) / (tp + fn)  # the only r that the source defines
    assert (tp - r) / (tp + fp + fn - r) < 0
    assert round(float(metrics.gilbert(FINLEY)), 3) == 0.216


def test_the_volume_between_surfaces_is_a_mean_over_the_grid_not_a_sum():
    def bare_sum(size):  # definition 5.3
        surfaces = contingency.metric_surface("accuracy", [1, 4], size)
        return np.abs(surfaces[1] - surfaces[0]).sum()

    assert round(float(bare_sum(15)), 3) == 24.0  # its code gives 24.052: it cuts the cells down to integers
    assert bare_sum(101) / bare_sum(15) > 40  # it grows with the grid
    volume = contingency.imbalance_sensitivity("accuracy", 4)
    assert abs(volume.value - 0.1) < volume.error < 1e-5


def test_the_code_of_the_source_cuts_cells_down_to_integers():
    size, positive, negative = 15, 100, 400
    tp = np.floor(positive * np.arange(size) / (size - 1))
    tn = np.floor(negative * np.arange(size) / (size - 1))
    balanced = (tp[:, None] + np.floor(positive * np.arange(size) / (size - 1))) / (2 * positive)
    warped = (tp[:, None] + tn) / (positive + negative)
    assert round(float(np.abs(warped - balanced).sum()), 3) == 24.052


def test_sensitivity_to_imbalance_is_bounded_and_no_logarithm():
    value = contingency.imbalance_sensitivity("accuracy", [10.0, 1e3, 1e6]).value
    np.testing.assert_allclose(
        value, (np.array([10.0, 1e3, 1e6]) - 1) / (6 * np.array([11.0, 1e3 + 1, 1e6 + 1])), atol=2e-4
    )
    assert value[2] - value[1] < 0.001 < value[1] - value[0]


def test_nodes_that_reach_zero_and_one_are_over_l_minus_one():
    surface = contingency.metric_surface("recall", size=5)
    assert surface[:, 0].tolist() == [0, 0.25, 0.5, 0.75, 1]  # the printed i / l stops at 0.8


def test_tau_is_a_cone_and_not_of_constant_curvature():
    tau, accuracy = (contingency.metric_surface(name, size=11) for name in ("tau", "accuracy"))
    assert np.ptp(np.diff(accuracy[0], 2)) < 1e-12
    assert np.ptp(np.diff(tau[5], 2)) > 0.005


def test_weighted_tau_has_no_lower_bound():
    assert round(float(metrics.tau_weighted([[0, 5], [5, 0]], [10, 10])), 2) == -2.16
    assert metrics.tau_weighted([[0, 5], [5, 0]], [10, 10], normalize=True) == 0


def test_other_metrics_than_tau_have_a_form_for_many_classes():
    names = ["accuracy", "balanced_accuracy", "geometric_mean", "recall_macro", "heidke", "peirce"]
    many = metrics.compute(GRADES, names)
    assert all(0 < many[name] < 1 for name in names)
    two = metrics.compute(FINLEY, names)
    assert two["heidke"] == pytest.approx(metrics.compute(FINLEY, "heidke_ovr_macro"))
    assert two["peirce"] == pytest.approx(metrics.tss(FINLEY))


def test_a_high_true_negative_rate_means_few_false_alarms_not_few_misses():
    quiet = [[990, 10], [90, 10]]
    assert metrics.specificity(quiet)[1] == 0.99
    assert metrics.recall(quiet)[1] == 0.1


# Conformal correlation matrices


def test_coverage_is_bounded_by_one_over_n_plus_one_without_ties():
    """Of n + 1 scores in any order the last one is at most the threshold of the others k / (n + 1) of the time."""
    for n in (4, 9, 19):
        scores = np.arange(n + 1.0)
        held = [scores[i] <= conformal.threshold(np.delete(scores, i), 0.25)[0] for i in range(n + 1)]
        assert 0.75 <= np.mean(held) <= 0.75 + 1 / (n + 1) < 0.75 + 1 / (n - 1)
        tied = np.zeros(n + 1)
        assert all(tied[i] <= conformal.threshold(np.delete(tied, i), 0.25)[0] for i in range(n + 1))


def test_a_perfect_classifier_has_no_sets_of_one_class_alone():
    y = np.arange(4000) % 4
    P = np.eye(4)[y]
    rng = np.random.default_rng(0)
    q = conformal.threshold(conformal.scores(P, y, rng=rng), 0.1)
    sizes = conformal.prediction_sets(P, q, rng=rng).sizes[0]
    assert 0.08 < (sizes == 0).mean() < 0.12
    q = conformal.threshold(conformal.scores(P, y, randomised=False), 0.1)
    assert (conformal.prediction_sets(P, q, randomised=False).sizes == 4).all()


def test_sets_hold_all_classes_as_alpha_goes_to_zero():
    assert conformal.threshold(np.arange(99.0), [0.02, 0.005, 1e-9]).tolist() == [97.0, np.inf, np.inf]


def test_a_pair_that_is_told_apart_has_a_negative_correlation():
    y = np.arange(90) % 3
    told = conformal.ccm(conformal.prediction_sets(np.eye(3)[y], [0.5], u=np.full(90, 0.4)))
    assert told.correlation()[0, 0, 1] == pytest.approx(-0.5)
    mixed = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])[y]
    torn = conformal.ccm(conformal.prediction_sets(mixed, [0.9], u=np.full(90, 0.4)))
    assert torn.correlation()[0, 0, 1] == 1.0


def test_sets_do_not_tell_the_confusion_matrix():
    P = np.array([[0.6, 0.4], [0.6, 0.4]])
    one, other = (cmfast.confusion_matrix(y, P.argmax(-1), n_classes=2) for y in ([0, 0], [0, 1]))
    assert (one != other).any()
    sets = conformal.prediction_sets(P, [0.9], randomised=False)
    assert conformal.ccm(sets).G.tolist() == [[[2, 0], [0, 0]]]


def test_a_higher_dirichlet_parameter_makes_clients_alike():
    spread = [np.random.default_rng(0).dirichlet(np.full(10, a), 500).std() for a in (0.1, 1.0, 10.0)]
    assert spread[0] > spread[1] > spread[2]


def test_fractions_of_few_rows_give_the_counts_away():
    z = np.random.default_rng(2).random((37, 3)) < [0.2, 0.5, 0.7]
    G = z.astype(int).T @ z
    fractions = G / 37
    fits = [n for n in range(2, 200) if np.allclose(fractions * n, np.rint(fractions * n), atol=1e-9)]
    assert fits[0] == 37
    assert (np.rint(fractions * 37) == G).all()
