"""Conformal sets of many rows and of many small problems, and how often classes share one."""

import numpy as np

from benchmarks._job import Job, Rival
from cmfast import conformal

ALPHAS = [0.05, 0.1, 0.2, 0.3]


def rows(n, C):
    """Return probabilities of a model that is mostly right, labels drawn from them, and a U for each row."""
    rng = np.random.default_rng([n, C])
    P = np.exp(3.0 * rng.normal(size=(n, C)))
    P /= P.sum(-1, keepdims=True)
    return P, (P.cumsum(-1) < rng.random((n, 1))).sum(-1).clip(0, C - 1), rng.random(n)


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs."""
    n = 500 if small else 100_000
    large = [one for C in (10, 100, 1000) for one in _of_classes(n if C < 1000 or small else n // 5, C)]
    return [*large, _many(3 if small else 1000, 2 if small else 5), _by_class(2000 if small else 1_000_000)]


def _many(clients, rounds):
    """Return the job: clients by rounds of 500 rows, half to calibrate with, half to predict, and their counts."""
    P, y, u = (x.reshape(clients, rounds, 500, *x.shape[1:]) for x in rows(clients * rounds * 500, 10))
    few = max(1, clients // 100)

    def ours(P, y, u, threads=None):
        train, new, options = slice(250), slice(250, None), {"num_threads": threads}
        s = conformal.scores(P[:, :, train], y[:, :, train], u=u[:, :, train], **options)
        q = conformal.threshold(s, 0.1, **options)
        return conformal.ccm(conformal.prediction_sets(P[:, :, new], q, u=u[:, :, new], **options), **options).G

    def loop():
        return np.stack([[numpy_counts(P[k, t], y[k, t], u[k, t]) for t in range(rounds)] for k in range(few)])

    want = ours(P, y, u)

    def check(found):
        assert (found.reshape(-1, 10, 10) != want.reshape(-1, 10, 10)[: found.size // 100]).mean() < 1e-3
        return "counts"

    n = clients * rounds
    return Job(
        "problems", f"{clients:,} clients x {rounds} rounds of 500 x 10", n, "problems",
        lambda threads: ours(P, y, u, threads), check, P.copy, "copy",
        [Rival("NumPy, one by one", loop, few * rounds, check)],
    )  # fmt: skip


def _by_class(n):
    """Return the job: a threshold for each of 1000 classes."""
    rng = np.random.default_rng(n)
    s, y = rng.random(n), rng.integers(0, 1000, n)

    def each():
        return np.array([conformal.threshold(s[y == c], 0.1)[0] for c in range(1000)])

    want = conformal.threshold(s, 0.1, y=y, n_classes=1000, on_failure="ignore")[0]

    def check(found):
        assert (found.ravel() == want).mean() > 0.8, "a class without scores has none of its own"
        return "thresholds"

    return Job(
        "threshold", f"{n:,} scores of 1000 classes", n, "scores",
        lambda threads: conformal.threshold(s, 0.1, y=y, n_classes=1000, on_failure="ignore", num_threads=threads),
        check, s.copy, "copy", [Rival("one call per class", each, n, check)],
    )  # fmt: skip


def numpy_counts(P, y, u):
    """Calibrate, predict and count for one client in one round."""
    s = numpy_scores(P[:250], y[:250], u[:250])
    k = int(np.ceil(251 * 0.9))
    z = numpy_sets(P[250:], [np.sort(s)[k - 1]], u[250:])[0].astype(np.float32)
    return (z.T @ z).astype(np.int64)[None]


def _of_classes(n, C):
    P, y, u = rows(n, C)
    s = conformal.scores(P, y, u=u)
    q = conformal.threshold(s, ALPHAS)
    sets = conformal.prediction_sets(P, q, u=u)
    mask, G = sets.mask, conformal.ccm(sets).G
    Z = mask[1].astype(np.float32)
    one = conformal.PredictionSets(sets.packed[1:2], sets.sizes[1:2], C, "allow")

    def same_scores(found):
        np.testing.assert_allclose(found, s, atol=1e-9)
        return "scores"

    def same_sets(found):
        got = found if isinstance(found, np.ndarray) else found.mask
        # Every threshold is the score of a row: in floating point its last bit may tell the two apart.
        assert (got != mask).sum() <= max(2 * len(ALPHAS), 1e-5 * mask.size)
        return "sets"

    def same_counts(found):
        got = found if isinstance(found, np.ndarray) else found.G[0]
        assert (got == G[1]).all()
        return "counts"

    size = f"{n:,} rows, {C} classes"
    return [
        Job(
            "scores", size, n, "rows", lambda threads: conformal.scores(P, y, u=u, num_threads=threads),
            same_scores, P.copy, "copy", [Rival("NumPy", lambda: numpy_scores(P, y, u), n, same_scores)],
        ),
        Job(
            "prediction_sets", f"{size}, {len(ALPHAS)} alphas", n, "rows",
            lambda threads: conformal.prediction_sets(P, q, u=u, num_threads=threads),
            same_sets, P.copy, "copy", [Rival("NumPy", lambda: numpy_sets(P, q, u), n, same_sets)],
        ),
        Job(
            "ccm", size, n, "rows", lambda threads: conformal.ccm(one, num_threads=threads),
            same_counts, Z.copy, "copy", [Rival("float32 Z.T @ Z", lambda: Z.T @ Z, n, same_counts)],
        ),
    ]  # fmt: skip


def numpy_scores(P, y, u):
    """Sort, add up, pick: what most write."""
    return np.take_along_axis(_sorted_scores(P, u)[1], _places(P, y), -1)[:, 0]


def _places(P, y):
    order = np.argsort(-P, axis=-1, kind="stable")
    return (order == y[:, None]).argmax(-1)[:, None]


def _sorted_scores(P, u):
    order = np.argsort(-P, axis=-1, kind="stable")
    ranked = np.take_along_axis(P, order, -1)
    return order, ranked.cumsum(-1) - (1 - u[:, None]) * ranked


def numpy_sets(P, q, u):
    """Sort and add up once, compare with every threshold, put back."""
    order, s = _sorted_scores(P, u)
    out = np.empty((len(q), *P.shape), bool)
    for k, limit in enumerate(q):
        np.put_along_axis(out[k], order, s <= limit, -1)
    return out
