"""What the sources print and what is right: each test holds the right value and names the printed one.

The sources: Erbani et al., On the Normalization of Confusion Matrices; a glossary of confusion matrices in
infrastructure inspection; Foucart's notebook 4.4.2.3 (normalised matrices; its tables are in test_uncertainty.py);
Ahmadzadeh et al., Contingency Space; Perlo et al., Characterizing the performance of classification models through
conformal correlation matrices. ``docs/errata.md`` is the list.
"""

import re
from math import comb

import numpy as np
import pytest
from processes import ROOT

import cmfast
from cmfast import conformal, contingency, metrics
from cmfast._reproduce.glossary import _matrices

SURFACES, GRADES, DEFECTS, TRIVIAL = _matrices.SURFACES, _matrices.GRADES, _matrices.DEFECTS, _matrices.TRIVIAL
HAIRLINE, EFFLORESCENCE, CORROSION, INTACT = 0, 3, 4, 5
SECOND_TEAM = np.array(  # of the notebook: not detected, and four classes; the first row is what is no cell
    [[0, 962, 629, 5, 285], [824, 6240, 88, 0, 57], [500, 162, 7131, 4, 6], [10, 1, 18, 133, 10], [115, 16, 1, 11, 164]]
)
FINLEY = np.array([[2680, 72], [23, 28]])  # tornadoes, 1884; the second class is "tornado"


def rates(M):
    """Return tp, fn, fp, tn of class 1."""
    (tn, fp), (fn, tp) = M
    return tp, fn, fp, tn


def test_the_list_and_the_tests_are_of_one_another():
    listed = re.findall(r"`(?:(tests/[^`]+)::)?(test_\w+)`", (ROOT / "docs" / "errata.md").read_text())
    here = set(
        re.findall(r"^def (test_\w+)", (ROOT / "tests" / "contract" / "test_errata.py").read_text(), re.MULTILINE)
    )
    assert {name for place, name in listed if not place} == here - {"test_the_list_and_the_tests_are_of_one_another"}
    assert all(f"def {name}(" in (ROOT / place).read_text() for place, name in listed if place)


# The normalisation


def test_the_overlap_of_proportional_matrices_is_one():
    assert cmfast.overlap(SURFACES, 3 * SURFACES) == 1


def test_bi_is_not_always_closest_to_the_balanced_matrix():
    """One network, a test set with a tenth of the composites: it is as it was, but bi is not."""
    balanced = SURFACES / SURFACES.sum(axis=1, keepdims=True)
    imbalanced = balanced * [[1000], [1000], [100]]
    row, bi = (cmfast.normalize(imbalanced, method) for method in ("row", "bi"))
    assert cmfast.overlap(row, balanced) == pytest.approx(1)
    ceiling = cmfast.overlap(cmfast.bi_normalize(balanced), balanced)
    assert cmfast.overlap(bi, balanced) == pytest.approx(ceiling)
    assert ceiling < 0.995
    assert cmfast.kl_divergence(balanced, row) == pytest.approx(0)
    assert cmfast.kl_divergence(balanced, bi) > 1e-3
    # What the definition says: of all doubly stochastic matrices it is closest to what it is made of.
    other = bi + 0.01 * np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
    assert cmfast.kl_divergence(bi, imbalanced) < cmfast.kl_divergence(other, imbalanced)


def test_a_small_constant_is_not_small_in_what_is_bi_normalised():
    M = np.array([[1.0, 1.0], [0.0, 1.0]])
    for eps, confused in ((0.5, 0.366), (1e-3, 0.0307), (1e-6, 0.000999)):
        assert cmfast.normalize(M, "bi", smoothing=eps)[1, 0] == pytest.approx(confused, rel=3e-3)


def test_the_sums_that_are_asked_for_are_those_of_the_result():
    u, v = [500, 300, 200], [400, 300, 300]
    Q = cmfast.ipf(SURFACES, u, v).matrix
    np.testing.assert_allclose(Q.sum(axis=1), u)
    np.testing.assert_allclose(Q.sum(axis=0), v)
    assert SURFACES.sum(axis=1).tolist() != u


def test_a_constant_changes_no_derivative():
    M, P, h = SURFACES / 1000, np.full((3, 3), 1 / 9), 1e-6
    less = np.eye(3)[:1].T * np.eye(3)[0] * h  # a step along the first cell

    def slope(f):
        return (f(P + less) - f(P - less)) / (2 * h)

    kl = slope(lambda P: (P * np.log(P / M)).sum())
    assert slope(lambda P: (P * np.log(P / M)).sum() - 1) == pytest.approx(kl, abs=1e-7)
    assert kl == pytest.approx(np.log(P / M)[0, 0] + 1, abs=1e-7)
    assert slope(lambda P: (P * np.log(P / M)).sum() - P.sum()) == pytest.approx(np.log(P / M)[0, 0], abs=1e-7)


def test_the_right_factor_belongs_to_the_prediction():
    found = cmfast.ipf(SURFACES)
    left, right = found.row_scale, found.col_scale
    np.testing.assert_allclose((left[:, None] * right * SURFACES).sum(axis=1), 1)
    by_truth = (left * right)[:, None] * SURFACES  # printed
    assert abs(by_truth.sum(axis=1) - 1).max() > 0.01


@pytest.mark.filterwarnings("ignore::cmfast.DiagnosticWarning")
def test_clusters_and_the_matrix_must_be_of_one_set():
    y = np.arange(3)
    points = 10.0 * y[:, None]  # a cell for each
    grid = cmfast.Grid([0.0], [1.0])
    found = cmfast.geometric_confusion_matrix(
        points, y, (y + 1) % 3, weights="all", n_components=None, grid=grid, on_failure="ignore"
    )
    np.testing.assert_allclose(found.matrix, cmfast.confusion_matrix(y, (y + 1) % 3) / 3)
    assert cmfast.overlap(found.matrix, cmfast.confusion_matrix(y, y)) == 0  # another set, on which it is right


def test_a_network_for_32_pixels_takes_none_of_96():
    def values(side):  # before the first full layer: twice two convolutions of 5 without a border, then halves
        for _ in range(2):
            side = (side - 8) // 2
        return 128 * side**2

    assert values(32) == 512
    assert values(96) == 41472


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


def test_the_map_of_the_glossary_paints_no_confusion_red():
    red_to_green = pytest.importorskip("matplotlib").colormaps["RdYlGn"]
    empty, confused = red_to_green(0.0), red_to_green(1.0)  # red, green, blue, opacity
    assert empty[0] > 0.6
    assert empty[1] < 0.1
    assert confused[0] < 0.1
    assert confused[1] > 0.4


def test_rows_of_a_class_that_does_not_occur_are_no_shares():
    M = np.array([[3, 1], [0, 0]])
    with np.errstate(invalid="ignore"):
        assert np.isnan(M / M.sum(axis=1)[:, np.newaxis]).sum() == 2
    assert metrics.confusion_fractions(M).tolist() == [[0.75, 0.25], [0, 0]]


def test_a_perfect_model_exceeds_the_agreement_of_two_annotators():
    right = (1 + np.sqrt(0.7)) / 2  # of each, of two grades, on their own
    both = [[right**2, right * (1 - right)], [right * (1 - right), (1 - right) ** 2]]  # right or wrong, of each
    assert metrics.accuracy(both) == pytest.approx(0.85)
    assert right == pytest.approx(0.918, abs=1e-3)


# The notebook (its printed tables: test_uncertainty.py)


def test_an_unsupported_class_leaves_the_recall_alone_not_the_precision_too():
    M = np.array([[5, 1, 1], [1, 5, 0], [0, 0, 0]])
    found = metrics.compute(M, ["precision", "recall"], undefined="nan")
    supported = M.sum(1) > 0
    P, R = (found[name][supported].mean() for name in ("precision", "recall"))
    assert round(2 * P * R / (P + R), 4) == 0.8025  # what its code gives
    assert round(float(metrics.f1_of_macro(M, undefined="nan")), 4) == 0.6468


def test_the_simulation_draws_true_proportions_not_predicted_ones():
    true, predicted = SECOND_TEAM[1:].sum(axis=1), SECOND_TEAM[:, 1:].sum(axis=0)
    shares = true / true.sum(), predicted / predicted.sum()
    np.testing.assert_allclose(shares[0], [0.47, 0.50, 0.01, 0.02], atol=0.005)
    assert shares[1][3] / shares[0][3] == pytest.approx(1.654, abs=0.001)


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


def test_the_form_with_r_is_not_the_matrix_of_rates():
    tp, fn, fp, tn = rates(FINLEY)
    r, tpr, tnr = (tn + fp) / (tp + fn), tp / (tp + fn), tn / (tn + fp)
    with_r, without = ([[k * tnr, k * (1 - tnr)], [1 - tpr, tpr]] for k in (r, 1))
    assert metrics.accuracy(with_r) == pytest.approx(metrics.accuracy(FINLEY))
    assert [round(float(metrics.accuracy(M)), 2) for M in (with_r, without)] == [0.97, 0.76]


def test_a_costly_miss_weighs_the_recall_of_the_positives():
    misses, alarms = [[9, 1], [5, 5]], [[5, 5], [1, 9]]
    assert metrics.tau(misses) == metrics.tau(alarms)
    dear = [metrics.tau_weighted(M, [1, 4]) for M in (misses, alarms)]  # of negatives (x), of positives (y)
    cheap = [metrics.tau_weighted(M, [4, 1]) for M in (misses, alarms)]
    assert dear[0] < dear[1]
    assert cheap[0] > cheap[1]


def test_ratios_of_many_classes_are_over_the_smallest():
    sizes, x = np.array([100, 200, 400]), np.array([0.9, 0.5, 0.25])
    assert (sizes / sizes[0] >= 1).all()
    assert not (sizes[0] / sizes >= 1).all()  # printed
    recalled = sizes * x
    right, printed = (np.sum(r * x) / r.sum() for r in (sizes / sizes[0], sizes[0] / sizes))
    assert right == pytest.approx(recalled.sum() / sizes.sum())  # the accuracy
    assert abs(printed - right) > 0.1


def test_surfaces_are_not_all_between_zero_and_one():
    for name in ("mcc", "kappa", "tss"):
        assert contingency.metric_surface(name, size=5)[0, 0] == -1


def test_tau_is_one_minus_a_distance_and_none_itself():
    perfect, worst = [[5, 0], [0, 5]], [[0, 5], [5, 0]]
    assert metrics.tau(perfect) == 1  # both points are equal: a distance would be 0
    assert metrics.tau(worst) == 0  # and they are apart

    def constant(a, b):
        return 1.0

    points = [(0.1, 0.9), (0.5, 0.5)]
    assert all(constant(a, b) == constant(b, a) >= 0 for a in points for b in points)
    assert constant(points[0], points[0]) != 0


def test_the_printed_p_is_no_value_of_the_test():
    n = 100
    exact = [
        2 * sum((-1) ** (j - 1) * comb(2 * n, n - j * k) for j in range(1, n // k + 1)) / comb(2 * n, n)
        for k in range(1, n + 1)
    ]
    around = [p for p in exact if 1e-48 < p < 1e-46]
    assert [f"{p:.2e}" for p in around] == ["5.04e-47", "1.82e-48"]
    assert f"{2 * np.exp(-2 * n / 2):.1e}" == "7.4e-44"  # asymptotic, of samples that do not overlap at all


def test_a_high_true_negative_rate_means_few_false_alarms_not_few_misses():
    quiet = [[990, 10], [90, 10]]
    assert metrics.specificity(quiet)[1] == 0.99
    assert metrics.recall(quiet)[1] == 0.1


def test_guesses_are_a_line_and_not_a_point():
    shares = [0.0, 0.5, 1.0]
    np.testing.assert_allclose(contingency.chance_level("accuracy", 4, shares), [0.8, 0.5, 0.2])
    np.testing.assert_allclose(contingency.chance_level("heidke", 4, shares), 0, atol=1e-15)
    guess = np.outer([400, 100], [0.2, 0.8])  # calls four of five positive, whatever they are
    assert metrics.recall(guess).tolist() == pytest.approx([0.2, 0.8])


def test_the_move_of_figure_3_is_on_no_contour_of_f1():
    before, after, level = [[5, 5], [0, 10]], [[10, 0], [5, 5]], [[30, 0], [10, 20]]
    assert metrics.f1(before)[1] == pytest.approx(0.8)
    assert metrics.f1(after)[1] == pytest.approx(2 / 3)
    assert metrics.f1(level)[1] == pytest.approx(0.8)  # where the contour ends: tpr 2/3, not 1/2
    assert (metrics.recall(before) != metrics.recall(after)).all()


def test_surfaces_do_not_warp_in_proportion():
    near, far = contingency.imbalance_sensitivity("f1", [5.0, 32.0]).value
    assert far / near == pytest.approx(1.94, abs=0.01)


def test_a_larger_weight_makes_tau_steeper_along_its_axis():
    def fall(x, y, weights):
        return 1 - metrics.tau_weighted([[x, 1 - x], [1 - y, y]], weights)

    assert fall(0.9, 1, [5, 1]) == pytest.approx(np.sqrt(5) * fall(0.9, 1, [1, 1]))
    assert fall(1, 0.9, [5, 1]) == pytest.approx(fall(1, 0.9, [1, 1]))


def test_weighted_tau_does_not_rank_by_cost():
    def cost(x, y):
        return 10 * (1 - y) + (1 - x)

    def tau(x, y):
        return metrics.tau_weighted([[x, 1 - x], [1 - y, y]], [1, 10])

    alarms, both = (0.0, 1.0), (0.9, 0.9)
    assert cost(*alarms) < cost(*both)
    assert tau(*alarms) < tau(*both)


def test_error_rates_extend_to_many_classes_as_well():
    M = np.array([[8, 1, 1], [0, 6, 4], [5, 0, 5]])
    errors = 1 - np.diag(M) / M.sum(axis=1)
    assert metrics.tau(M) == pytest.approx(1 - np.sqrt((errors**2).sum() / 3))


def test_points_do_not_know_the_imbalance():
    runs = np.array([[[[90, 10], [4, 6]]], [[[9, 1], [4, 6]]]])
    one, other = contingency.learning_path(runs).points
    assert one.tolist() == other.tolist() == [[0.9, 0.6]]


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
    told = conformal.ccm(conformal.prediction_sets(np.eye(3)[y], [0.5], u=np.full(90, 0.6)))
    assert told.correlation()[0, 0, 1] == pytest.approx(-0.5)
    mixed = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])[y]
    torn = conformal.ccm(conformal.prediction_sets(mixed, [0.9], u=np.full(90, 0.6)))
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


def test_the_slight_decreases_are_of_8_and_10_percent():
    before, after = np.array([0.808, 0.630, 0.511]), np.array([0.742, 0.570, 0.493])
    assert (100 * (before - after) / before).round().tolist() == [8, 10, 4]


def test_ten_classes_of_a_hundred_have_no_whole_rows():
    order = [4, 30, 55, 72, 95, 1, 32, 67, 73, 91]
    figure_1 = np.array([
        [64, 0, 5, 0, 0, 0, 0, 0, 0, 0], [1, 67, 3, 2, 12, 0, 0, 2, 9, 0], [3, 3, 41, 15, 2, 0, 0, 0, 1, 1],
        [1, 1, 3, 44, 1, 0, 0, 1, 8, 0], [0, 5, 1, 2, 65, 0, 0, 0, 4, 0], [0, 0, 0, 0, 0, 80, 2, 0, 0, 2],
        [0, 0, 0, 0, 0, 0, 63, 4, 0, 0], [2, 6, 0, 0, 2, 2, 6, 62, 9, 0], [0, 6, 3, 3, 5, 2, 2, 9, 47, 4],
        [0, 0, 2, 0, 0, 2, 3, 1, 5, 80],
    ])  # fmt: skip
    rows = figure_1.sum(axis=1)
    assert (rows.min(), rows.max()) == (59, 96)  # of 100 pictures of each class
    never = [order[k] for k in np.flatnonzero(figure_1[order.index(91)] == 0)]
    assert never == [4, 30, 72, 95]  # printed: 91 and 30


def test_the_calibration_needs_labels():
    """One model, two truths of the rows that calibrate: other sets of the same new rows."""
    P = np.tile([[0.6, 0.4], [0.4, 0.6]], (20, 1))
    thresholds = [conformal.threshold(conformal.scores(P, y), 0.1)[0] for y in (P.argmax(-1), P.argmin(-1))]
    assert thresholds[0] < thresholds[1]


def test_fractions_of_few_rows_give_the_counts_away():
    z = np.random.default_rng(2).random((37, 3)) < [0.2, 0.5, 0.7]
    G = z.astype(int).T @ z
    fractions = G / 37
    fits = [n for n in range(2, 200) if np.allclose(fractions * n, np.rint(fractions * n), atol=1e-9)]
    assert fits[0] == 37
    assert (np.rint(fractions * 37) == G).all()
