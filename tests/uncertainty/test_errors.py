"""Standard errors against published values, closed forms and draws."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import metrics, uncertainty
from cmfast.kernels.cpu._core import pool

SURFACE = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
# By hand-written slopes in 60 digits: all cells one draw, then every row one.
ERRORS = {
    "accuracy": (0.00948683298051, 0.00930949336251),
    "recall_macro": (0.0104651751185, 0.0104651751185),
    "precision_macro": (0.0101384665797, 0.0100975186451),
    "f1_macro": (0.0102569390069, 0.0102404007235),
    "f1_of_macro": (0.0100974269732, 0.0100873478545),
    "geometric_mean": (0.0110451339387, 0.0110451339387),
    "tau": (0.0136022268813, 0.0136022268813),
    "mcc": (0.0145928536935, 0.0144592877892),
    "kappa": (0.0146941238447, 0.0145419960001),
    "kappa_linear": (0.0168527660729, 0.0167893582019),
    "kappa_quadratic": (0.0205237246835, 0.020483477913),
    "peirce": (0.0150008782603, 0.0148797031076),
    "jaccard_macro": (0.0163681865177, 0.0163286076875),
}


@pytest.mark.parametrize("name", ERRORS)
def test_values_of_hand_written_slopes(name):
    found = [float(uncertainty.standard_error(SURFACE, name, fixed=fixed)) for fixed in ("total", "rows")]
    np.testing.assert_allclose(found, ERRORS[name], rtol=1e-11)


def test_the_error_of_a_share_is_that_of_a_binomial():
    found = uncertainty.standard_error(SURFACE, ["accuracy", "recall", "precision"])
    d, t, p = SURFACE.diagonal(), SURFACE.sum(1), SURFACE.sum(0)
    np.testing.assert_allclose(found["accuracy"], np.sqrt(0.9 * 0.1 / 1000), rtol=1e-13)
    np.testing.assert_allclose(found["recall"], np.sqrt(d / t * (1 - d / t) / t), rtol=1e-13)
    np.testing.assert_allclose(found["precision"], np.sqrt(d / p * (1 - d / p) / p), rtol=1e-13)


@pytest.mark.parametrize(("fixed", "scheme"), [("total", "multinomial"), ("rows", "row_multinomial")])
def test_draws_scatter_as_much(fixed, scheme):
    M = SURFACE * 10
    names = [name for name in metrics.SCALARS if "likelihood" not in name and "odds" not in name]
    drawn = metrics.compute(uncertainty.resample(M, n_resamples=4000, scheme=scheme, rng=3), names)
    found = uncertainty.standard_error(M, names, fixed=fixed)
    assert {name for name in names if not abs(drawn[name].std() / found[name] - 1) < 0.05} == set()


def test_shares_need_the_number_of_samples():
    shares = SURFACE / 1000
    whole = uncertainty.standard_error(SURFACE, ["mcc", "f1"])
    found = uncertainty.standard_error(shares, ["mcc", "f1"], n=4000)
    np.testing.assert_allclose(found["mcc"], whole["mcc"] / 2, rtol=1e-12)
    np.testing.assert_allclose(found["f1"], whole["f1"] / 2, rtol=1e-12)
    with pytest.raises(ValueError, match="INVALID"):
        uncertainty.standard_error(shares, "mcc", on_failure="raise")


@pytest.mark.parametrize("fixed", ["total", "rows"])
def test_errors_of_many_metrics_are_those_of_each_alone(fixed, rng):
    """Equal ones are computed once, but each has memory of its own."""
    M = rng.integers(0, 9, (19, 4, 4)).astype(np.float32)
    found = uncertainty.standard_error(M, metrics.SCALARS, fixed=fixed)
    for name, errors in found.items():
        assert_same_bits(errors, uncertainty.standard_error(M, name, fixed=fixed))
        assert not any(np.shares_memory(errors, found[other]) for other in found if other != name), name
    few = uncertainty.standard_error(M, ["kappa_01", "f1_of_macro", "zero_one_loss", "kappa"], fixed=fixed)
    for name, errors in few.items():
        assert_same_bits(errors, found[name])


@pytest.mark.parametrize("undefined", ["present", "nan", "zero", "one"])
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_rates_that_add_up_to_one_have_the_same_errors(undefined, average):
    for pair in (("recall", "fnr"), ("specificity", "fpr"), ("precision", "fdr"), ("npv", "false_omission_rate")):
        names = [f"{name}_{average}" for name in pair]
        one, other = uncertainty.standard_error(SURFACE, names, undefined=undefined).values()
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_rates_that_a_fill_value_keeps_from_adding_up_to_one_have_errors_of_their_own():
    """Class 1 is never predicted: its precision and its false discovery rate are both 0, and have its weight."""
    M = np.array([[5, 0, 2], [4, 0, 3], [1, 0, 6]])
    found = uncertainty.standard_error(M, ["precision_weighted", "fdr_weighted"])
    np.testing.assert_allclose([*found.values()], [0.11837028400528182, 0.04958595696554233], rtol=1e-13)


def _exact_errors(m):
    """Return errors of metrics of one matrix from their derivatives as on paper, in extended precision."""
    m = m.astype(np.longdouble)
    n, d, C = m.sum(), m.diagonal(), len(m)
    u, v, right, x = m.sum(1)[:, None] / n, m.sum(0) / n, np.eye(C), d.sum() / n
    own, chance = d / n, (m.sum(1) / n * v).sum()
    f = 2 * own / (u[:, 0] + v)
    spread = (1 - (u * u).sum()) * (1 - (v * v).sum())
    both = (x - chance) / np.sqrt(spread)
    slopes = {
        "precision_macro": (right - own / v) / (C * v),
        "f1_macro": ((2 * right - f[:, None]) / (u + v[:, None]) - f / (u[:, 0] + v)) / C,
        "kappa": right / (1 - chance) - (1 - x) * (v[:, None] + u.T) / (1 - chance) ** 2,
        "mcc": (right - v[:, None] - u.T) / np.sqrt(spread)
        + both * (u / (1 - (u * u).sum()) + v / (1 - (v * v).sum())),
    }
    away = abs(np.arange(C) - np.arange(C)[:, None]).astype(np.longdouble)
    for name, w in (("kappa_linear", away), ("kappa_quadratic", away * away)):
        seen, expected = (w * m).sum() / n, (w * u * v).sum()
        slopes[name] = seen / expected**2 * ((w @ v)[:, None] + w @ u[:, 0]) - w / expected
    for name, g in slopes.items():
        mean = (g * m).sum() / n
        yield name, np.sqrt(((g - mean) ** 2 * m).sum()) / n


@pytest.mark.parametrize("C", [11, 12, 13, 64, 80, 81, 88, 131])
def test_errors_of_many_classes_are_exact_also_where_squares_cancel(C, rng):
    """At chance level, or without a hit, derivatives in rows and columns cancel in every cell but the diagonal.

    The bits are those of each metric and each matrix alone.
    """
    chance = rng.poisson(50, (C, C)) + 1
    missed, hits = chance.copy(), np.eye(C, dtype=int)
    np.fill_diagonal(missed, 0)
    good, rare = chance + 1000 * hits, rng.poisson(0.2, (C, C)) + hits
    stack = np.stack([chance, good, missed, rare, good.T])
    found = uncertainty.standard_error(stack, "scalars", on_failure="ignore")
    for name, _ in _exact_errors(good):
        assert_same_bits(uncertainty.standard_error(stack, name, on_failure="ignore"), found[name])
    for k, m in enumerate(stack):
        for name, want in _exact_errors(m):
            np.testing.assert_allclose(found[name][k], float(want), rtol=1e-13, err_msg=f"{name} {k}")
        alone = uncertainty.standard_error(m, "scalars", on_failure="ignore")
        for name, error in alone.items():
            np.testing.assert_array_equal(error, found[name][k], err_msg=f"{name} {k}")


@pytest.mark.parametrize("C", [82, 300])
def test_threads_and_neighbours_change_no_bit_of_large_matrices(C, rng, monkeypatch):
    M = rng.poisson(0.5, (11, C, C)).astype(np.float32)
    M[4, 2, 3], M[7] = 0.5, 0.0  # no count; no sample
    alone = [uncertainty.standard_error(m, "scalars", num_threads=1, on_failure="ignore") for m in M]
    monkeypatch.setattr(pool, "INLINE_SECONDS", 0.0)
    found = uncertainty.standard_error(M, "scalars", num_threads=3, on_failure="ignore")
    large = uncertainty.standard_error(M[0], "scalars", num_threads=3, on_failure="ignore")
    for name, errors in found.items():
        assert_same_bits(errors, np.array([one[name] for one in alone]))
        assert_same_bits(errors[0], large[name])
        assert np.isnan(errors[4])
        assert not name.startswith(("f1", "kappa")) or np.isfinite(errors[[0, 10]]).all()


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (9, 3, 3), (3, 12, 12), (2, 90, 90)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fractions_are_found_in_every_cell(shape, dtype):
    """One fractional cell makes its matrix INVALID, and no other."""
    for cell in np.ndindex(shape[-2:]):
        M = np.ones(shape, dtype)
        M[(*[0] * (len(shape) - 2), *cell)] = 1.5
        found = uncertainty.standard_error(M, "accuracy", on_failure="ignore")
        want = np.zeros(shape[:-2], bool)
        want.reshape(-1)[:1] = True
        np.testing.assert_array_equal(np.isnan(found), want)


@pytest.mark.parametrize("C", [2, 3, 40, 100])
def test_few_errors_among_huge_counts(C):
    """The share of errors is exact where float64 cannot tell the right ones from all."""
    M = np.eye(C, dtype=np.int64) * (2**62 // C)
    M[0, 1], M[1, 0] = 1, 3
    n = int(M.sum())
    for name in ("accuracy", "zero_one_loss", "recall_micro"):
        found = uncertainty.standard_error(M, name)
        np.testing.assert_allclose(found, 2.0 / n, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(uncertainty.standard_error(np.stack([M, M // 2]), "accuracy")[0], 2.0 / n, rtol=1e-12)


@pytest.mark.parametrize("C", [2, 3, 5])
def test_large_whole_numbers_are_counts_in_every_cell(C):
    """Float64 holds whole numbers that int64 does not."""
    for cell in np.ndindex(C, C):
        M = np.ones((C, C))
        M[cell] = 1e20
        assert np.isfinite(uncertainty.standard_error(M, "accuracy")), cell


def test_krippendorff_of_shares_has_the_correction_of_the_samples():
    M = np.array([[40, 10], [5, 45]])
    want = uncertainty.standard_error(M, "krippendorff_alpha")
    np.testing.assert_allclose(uncertainty.standard_error(M / 100, "krippendorff_alpha", n=100), want, rtol=1e-12)
    np.testing.assert_allclose(
        uncertainty.standard_error(M, "krippendorff_alpha", n=400),
        uncertainty.standard_error(M * 4, "krippendorff_alpha"),
        rtol=1e-12,
    )


@pytest.mark.parametrize("C", [64, 65, 100])
def test_rows_that_are_added_in_parts_are_those_of_smaller_matrices(C, rng):
    """Classes that nobody saw change no average over the others, and no sum over cells but by its order."""
    M = np.zeros((9, C, C), np.int64)
    seen = np.sort(rng.permutation(C)[:12])
    few = rng.integers(0, 9, (9, 12, 12))
    M[:, seen[:, None], seen] = few
    names = [name for name in metrics.SCALARS if name not in ("kappa_linear", "kappa_quadratic", "gerrity")]
    names = [name for name in names if not name.endswith("_micro") and name != "gwet_ac1"]
    found, want = uncertainty.standard_error(M, names), uncertainty.standard_error(few, names)
    for name in names:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-11, err_msg=name)


def test_a_class_that_nobody_saw_is_a_constant():
    M = np.zeros((4, 4), int)
    M[:3, :3] = SURFACE
    alone, among = (uncertainty.standard_error(m, "f1_macro", undefined=u) for m, u in ((SURFACE, "zero"), (M, "zero")))
    np.testing.assert_allclose(among, alone * 3 / 4, rtol=1e-13)
    assert np.isnan(uncertainty.standard_error(M, "recall")[3])


@pytest.mark.parametrize("undefined", ["present", "nan", "zero"])
def test_a_neighbour_without_samples_of_a_class_changes_no_bit(undefined):
    """Averages of eight matrices all of whose classes have a value are made in a shorter way, of the same bits."""
    draws = np.random.default_rng(8)
    stack = draws.poisson(6, (16, 3, 3)) + np.eye(3, dtype=int)
    stack[9] = [[5, 1, 0], [2, 6, 0], [0, 0, 0]]
    stack[11] = 0
    found = uncertainty.standard_error(stack, "scalars", undefined=undefined)
    for k in (0, 8, 9, 10):
        alone = uncertainty.standard_error(np.stack([stack[k]] * 8), "scalars", undefined=undefined)
        for name, error in alone.items():
            np.testing.assert_array_equal(error, np.full(8, found[name][k]), err_msg=name)


def test_scaling_the_counts_by_four_halves_the_errors():
    for name, error in uncertainty.standard_error(SURFACE, "scalars").items():
        if name != "krippendorff_alpha":  # which knows how few samples there are
            found = uncertainty.standard_error(SURFACE * 4, name)
            np.testing.assert_allclose(found, error / 2, rtol=1e-11, err_msg=name)


def test_no_names_make_no_errors():
    assert uncertainty.standard_error(SURFACE, []) == {}
