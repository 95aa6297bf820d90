"""Replicates against theory, and the published simulation with what is wrong in it."""

import numpy as np
import pytest
from oracle._draws import philox
from scipy import stats

import cmfast
from cmfast import metrics, uncertainty

# Foucart, notebook 4.4.2.3: four teams; the first column holds what was not detected.
TEAMS = np.array(
    [
        [[831, 6098, 260, 8, 12], [507, 79, 7214, 2, 1], [8, 5, 39, 118, 2], [102, 16, 11, 8, 170]],
        [[824, 6240, 88, 0, 57], [500, 162, 7131, 4, 6], [10, 1, 18, 133, 10], [115, 16, 1, 11, 164]],
        [[1152, 5960, 96, 0, 1], [860, 76, 6864, 3, 0], [11, 1, 20, 137, 3], [99, 30, 8, 11, 159]],
        [[690, 6193, 302, 2, 22], [349, 179, 7274, 1, 0], [12, 3, 38, 117, 2], [90, 30, 7, 25, 155]],
    ]
)
MISSED, COUNTS = TEAMS[..., 0], TEAMS[..., 1:]
NAMES = ["accuracy", "geometric_mean", "mcc_01", "f1_of_macro", "kappa_01"]
# The columns Acc, GM, MCCn, hF1, kUn as printed: of the counts, then of the rows divided by their sums.
PRINTED = np.array(
    [
        [0.968, 0.867, 0.970, 0.902, 0.970, 0.873, 0.867, 0.919, 0.883, 0.916],
        [0.973, 0.904, 0.975, 0.897, 0.975, 0.907, 0.904, 0.939, 0.908, 0.938],
        [0.981, 0.892, 0.982, 0.928, 0.982, 0.897, 0.892, 0.933, 0.901, 0.931],
        [0.957, 0.834, 0.959, 0.870, 0.959, 0.843, 0.834, 0.899, 0.851, 0.895],
    ]
)
# The column sF1 as printed is the mean F1 of the first two classes, not of the four.
PRINTED_SF1 = np.array([[0.972, 0.887], [0.978, 0.931], [0.984, 0.915], [0.962, 0.872]])
RIGHT_F1_MACRO = np.array([[0.900, 0.873], [0.895, 0.906], [0.926, 0.895], [0.868, 0.840]])
# Printed widths of sF1 at 15000, 5000 and 1000 samples; then what they are for the mean over all four classes.
WIDTHS_SF1 = {15000: (0.001, 0.002), 5000: (0.001, 0.007), 1000: (0.003, 0.035)}
RIGHT_WIDTHS_SF1 = {15000: (0.007, 0.003), 5000: (0.012, 0.010), 1000: (0.050, 0.054)}
# Printed widths at 15000, 5000 and 1000 samples, counts then normalised.
WIDTHS = {
    15000: ([0.001, 0.003, 0.001, 0.006, 0.001], [0.003, 0.003, 0.002, 0.003, 0.002]),
    5000: ([0.002, 0.011, 0.002, 0.011, 0.002], [0.010, 0.011, 0.006, 0.009, 0.006]),
    1000: ([0.006, 0.056, 0.005, 0.046, 0.005], [0.052, 0.056, 0.035, 0.054, 0.034]),
}


def width(values):
    """Return the largest width over the teams, as the source takes it."""
    ordered, n = np.sort(values, axis=-1), values.shape[-1]
    return (ordered[:, int(0.975 * n)] - ordered[:, int(0.025 * n)]).max()


def replicates(scheme, n, *, normalized, n_resamples=5000, rng=0):
    M = uncertainty.resample(COUNTS, MISSED, n_resamples=n_resamples, scheme=scheme, n=n, rng=rng)
    return cmfast.normalize(M, "row") if normalized else M


def widths(scheme, n, *, normalized, rng=0):
    """Return the width of every metric."""
    found = metrics.compute(replicates(scheme, n, normalized=normalized, rng=rng), NAMES)
    return np.array([width(found[name]) for name in NAMES])


def test_table_of_the_source():
    tables = [metrics.compute(M, NAMES) for M in (COUNTS, cmfast.normalize(COUNTS, "row"))]
    found = np.stack([table[name] for table in tables for name in NAMES], -1)
    np.testing.assert_allclose(found, PRINTED, atol=5.001e-4)


def test_its_macro_f1_stops_after_two_classes():
    per_class = [metrics.f1(M) for M in (COUNTS, cmfast.normalize(COUNTS, "row"))]
    first_two = np.stack([f[:, :2].mean(-1) for f in per_class], -1)
    np.testing.assert_allclose(first_two, PRINTED_SF1, atol=5.001e-4)
    right = np.stack([metrics.f1(M, average="macro") for M in (COUNTS, cmfast.normalize(COUNTS, "row"))], -1)
    np.testing.assert_allclose(right, RIGHT_F1_MACRO, atol=5.001e-4)
    assert (np.abs(right - PRINTED_SF1) > 0.01).all()


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("normalized", [False, True])
def test_its_widths_of_macro_f1_are_those_of_two_classes(n, normalized):
    f1 = metrics.f1(replicates("expected_rounded", n, normalized=normalized))
    assert width(f1[..., :2].mean(-1)) == pytest.approx(WIDTHS_SF1[n][normalized], abs=1e-3)
    assert width(f1.mean(-1)) == pytest.approx(RIGHT_WIDTHS_SF1[n][normalized], rel=0.1, abs=5e-4)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("normalized", [False, True])
def test_its_simulation(n, normalized):
    printed = np.array(WIDTHS[n][normalized])
    runs = np.array([widths("expected_rounded", n, normalized=normalized, rng=seed) for seed in range(6)])
    # Cells are rounded, so widths jump from stream to stream: half a last digit beyond the range of six streams, and
    # a sixth of the value more at 1000 samples.
    slack = 5.001e-4 + printed * (1 / 6 if n == 1000 else 0.05)
    assert (printed >= runs.min(0) - slack).all()
    assert (printed <= runs.max(0) + slack).all()


def test_real_draws_are_wider():
    for n in WIDTHS:
        for normalized in (False, True):
            real, rounded = (widths(s, n, normalized=normalized) for s in ("multinomial", "expected_rounded"))
            assert (real / rounded > 2.5).all()


@pytest.mark.parametrize("scheme", ["multinomial", "row_multinomial"])
def test_moments(scheme):
    M = np.array([[30, 10, 0], [5, 50, 5], [1, 2, 97]])
    drawn = uncertainty.resample(M, n_resamples=40000, scheme=scheme, rng=8)
    total = M.sum() if scheme == "multinomial" else M.sum(1, keepdims=True)
    variance = M * (1 - M / total)
    np.testing.assert_array_less(np.abs(drawn.mean(0) - M), 5 * np.sqrt(variance / 40000) + 1e-12)
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.1)
    assert (drawn.sum((-1, -2)) == M.sum()).all()
    if scheme == "row_multinomial":
        assert (drawn.sum(-1) == M.sum(1)).all()


def assert_law(counts, chances):
    """Assert that counts are what draws with these chances give (chi-square; rare outcomes together)."""
    order = np.argsort(-chances)
    counts, expected = counts[order], chances[order] * counts.sum()
    few = np.searchsorted(-expected, -10.0)
    counts, expected = (np.append(a[:few], a[few:].sum()) for a in (counts, expected))
    counts, expected = (a[expected > 0] for a in (counts, expected))
    distance = ((counts - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(distance, len(counts) - 1) > 1e-4


# By inversion below forty expected successes, else by rejection; from the other side above a half.
@pytest.mark.parametrize(
    ("some", "others"),
    [
        (1, 1),
        (1, 3),
        (9, 9),
        (9, 900),
        (11, 900),
        (10, 10),
        (21, 19),
        (40, 9),
        (39, 900),
        (41, 900),
        (78, 79),
        (82, 83),
        (300, 400),
        (9e5, 11),
        (9e5, 60),
    ],
)
def test_the_law_of_one_cell(some, others):
    n, p = int(some + others), some / (some + others)
    drawn = uncertainty.resample([[some, others], [0, 0]], n_resamples=100_000, scheme="row_multinomial", rng=2)
    assert (drawn[:, 0].sum(-1) == n).all()
    assert not drawn[:, 1].any()
    first = int(drawn[:, 0, 0].min())
    found = np.bincount(drawn[:, 0, 0] - first)
    assert_law(
        np.append(found, 0), np.append(p_of := stats.binom.pmf(first + np.arange(len(found)), n, p), 1 - p_of.sum())
    )


def test_the_law_of_a_matrix():
    M = np.array([[2, 1], [0, 3]])
    drawn = uncertainty.resample(M, [0, 1], n_resamples=100_000, rng=3)
    assert not drawn[:, 1, 0].any()
    codes = drawn[:, 0, 0] * 64 + drawn[:, 0, 1] * 8 + drawn[:, 1, 1]
    a, b, c = np.indices((8, 8, 8))
    chances = stats.multinomial.pmf(np.stack([a, b, c, 7 - a - b - c], -1), 7, np.array([2, 1, 3, 1]) / 7)
    assert_law(np.bincount(codes, minlength=512), np.where(a + b + c > 7, 0.0, chances).ravel())


@pytest.mark.parametrize("n", [10**9, 10**12, 2**53, 2**60])
def test_counts_of_any_size(n):
    M = np.array([[3.0, 1.0], [1e-3, 0.0]])
    drawn = uncertainty.resample(M, n=n, n_resamples=20_000, rng=4)
    assert (drawn.sum((1, 2)) == n).all()
    share = (M / M.sum())[M > 0]
    z = (drawn[:, M > 0] - n * share) / np.sqrt(n * share * (1 - share))
    for cell in z.T:
        assert stats.kstest(cell, "norm").pvalue > 1e-4


def test_the_numbers_behind_the_draws_are_philox():
    """Answers that the authors of Philox publish with their code (Random123, philox4x32 10)."""
    ones = 0xFFFFFFFF
    assert philox((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert philox(*pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@pytest.mark.parametrize("scheme", ["multinomial", "row_multinomial", "expected_rounded"])
def test_a_replicate_depends_on_seed_place_and_number_alone(scheme):
    options = {"scheme": scheme, "rng": 5}
    drawn = uncertainty.resample(COUNTS[[0, 0, 1]], n_resamples=50, num_threads=2, **options)
    assert (drawn[0] != drawn[1]).any()
    np.testing.assert_array_equal(drawn[0], uncertainty.resample(COUNTS[0], n_resamples=50, **options))
    np.testing.assert_array_equal(drawn[:, :7], uncertainty.resample(COUNTS[[0, 0, 1]], n_resamples=7, **options))
    other = uncertainty.resample(COUNTS[[2, 0, 3]], n_resamples=50, num_threads=1, **options)
    np.testing.assert_array_equal(drawn[1], other[1])
    seeds = uncertainty.resample(COUNTS[0], n_resamples=50, scheme=scheme, rng=6)
    assert (drawn[0] != seeds).mean() > 0.2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scheme": "bootstrap"}, "scheme must be one of"),
        ({"scheme": "row_multinomial", "n": 5}, 'n must be None with scheme="row_multinomial", got 5'),
        ({"n_resamples": -1}, "n_resamples must be at least 0, got -1"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ValueError, match=text):
        uncertainty.resample(COUNTS, **options)


@pytest.mark.parametrize(
    ("M", "options", "reason"),
    [
        ([[0.5, 0.25], [0.0, 0.25]], {}, "fractions; pass n=, the number of samples .*, or the counts .*are 0$"),
        ([[0.5, 0.25], [0.0, 0.25]], {"scheme": "row_multinomial"}, "fractions; pass the counts"),
        ([[[1, 2], [3, 4]], [[0, 0], [0, 0]]], {"n": 10}, r"M\[1\] has no samples to draw from; its .* are 0$"),
        ([[1, -2], [3, 4]], {}, r"negative value at M\[0, 1\]"),
    ],
)
def test_why_nothing_was_drawn(M, options, reason):
    with pytest.warns(cmfast.FailureWarning, match=reason):
        assert not uncertainty.resample(M, n_resamples=3, **options)[-1].any()


def test_missed_has_one_entry_per_class():
    with pytest.raises(ValueError, match=r"missed must be of shape \(4, 4\)"):
        uncertainty.resample(COUNTS, MISSED[0])
