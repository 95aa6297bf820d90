"""Agreement of raters: Krippendorff's alpha of many small studies, with its standard error and interval."""

from functools import partial

import numpy as np

from benchmarks._job import Job, Rival
from cmfast import agreement


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs; `small` ones end in a fraction of a second."""
    return [_alpha(weights, small=small) for weights in ("nominal", "ordinal")]


def _alpha(weights, *, small: bool) -> Job:
    """Return the job: alpha of studies of 50 items, four raters and five categories, a tenth of the ratings missing."""
    B, few, rng = (60, 3, np.random.default_rng(0)) if small else (10_000, 500, np.random.default_rng(0))
    shape = B, 50, 4
    ratings = np.where(rng.random(shape) < 0.6, rng.integers(0, 5, (B, 50, 1)), rng.integers(0, 5, shape)).astype(float)
    ratings[rng.random(shape) < 0.1] = np.nan
    want = _compute_in_numpy(ratings, weights)

    def run(threads):
        return agreement.compute(
            ratings,
            "krippendorff_alpha",
            weights=weights,
            categories=range(5),
            on_failure="ignore",
            num_threads=threads,
        ).estimate

    def check(found):
        np.testing.assert_allclose(found, want[: len(found)], rtol=1e-9, atol=1e-12)
        return "same to rounding"

    def use_krippendorff():
        import krippendorff

        return np.array(
            [
                krippendorff.alpha(one.T, level_of_measurement=weights, value_domain=np.arange(5.0))
                for one in ratings[:few]
            ]
        )

    rivals = [
        Rival("NumPy, no interval", partial(_compute_in_numpy, ratings, weights), B, check),
        Rival("krippendorff, no interval", use_krippendorff, few, check, needs="krippendorff"),
    ]
    size = f"{B:,} studies, 50 items, 4 raters"
    return Job(f"agreement {weights}", size, B, "studies", run, check, ratings.copy, "copy", rivals)


def _compute_in_numpy(ratings, weights):
    """Return alpha of all studies at a time, from coincidences (Krippendorff 2011)."""
    counts = (ratings[..., np.newaxis] == np.arange(5)).sum(2).astype(float)
    sizes = counts.sum(-1, keepdims=True)
    paired = np.where(sizes >= 2, counts, 0.0)
    scaled = paired / np.maximum(sizes - 1, 1)
    n = paired.sum(1)
    coincidences = np.einsum("bik,bil->bkl", scaled, paired)
    coincidences[:, range(5), range(5)] -= scaled.sum(1)
    ranks = np.cumsum(n, -1) - n / 2
    distance = np.subtract.outer(np.arange(5), np.arange(5)) != 0
    if weights == "ordinal":
        distance = (ranks[:, :, np.newaxis] - ranks[:, np.newaxis]) ** 2
    observed = (coincidences * distance).sum((1, 2))
    expected = (n[:, :, np.newaxis] * n[:, np.newaxis] * distance).sum((1, 2))
    return 1.0 - (n.sum(-1) - 1.0) * observed / expected
