"""Conformal sets of many rows and of many small problems, and how often classes share one."""

import numpy as np

from benchmarks._job import Job, Rival
from benchmarks._rivals_of_conformal import (
    numpy_problem,
    numpy_rank_scores,
    numpy_rank_sets,
    numpy_scores,
    numpy_sets,
    peers,
)
from cmfast import conformal

ALPHAS = [0.05, 0.1, 0.2, 0.3]
CALIBRATING = 20_000  # rows that peers are calibrated with


def rows(n, C):
    """Return probabilities of a model that is mostly right, labels drawn from them, and a U for each row."""
    rng = np.random.default_rng([n, C])
    P = np.exp(3.0 * rng.normal(size=(n, C)))
    P /= P.sum(-1, keepdims=True)
    return P, (P.cumsum(-1) < rng.random((n, 1))).sum(-1).clip(0, C - 1), rng.random(n)


def jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs."""
    n = 500 if small else 100_000
    large = [one for C in (10, 100, 1000) for one in _make_classes_job(n if C < 1000 or small else n // 5, C)]
    few = [_shared(500, C) for C in ((10,) if small else (10, 100))]
    return [
        *large,
        *_make_rank_jobs(n, 100, "saps", {"lam": 0.1}),
        *_make_rank_jobs(n, 100, "top_k", {}),
        *(_make_lac_job(n if C < 1000 or small else n // 5, C) for C in (10, 100, 1000)),
        *few,
        _many(3 if small else 1000, 2 if small else 5),
        _make_class_thresholds_job(2000 if small else 1_000_000),
    ]


def full_jobs(*, small: bool = False) -> list[Job]:
    """Return the jobs of some GB."""
    return [] if small else [*_make_classes_job(100_000, 1000), _many(1000, 50)]


def _many(clients, rounds):
    """Return the job: clients by rounds of 500 rows, half to calibrate with, half to predict, and their counts."""
    one_round = rows(clients * 500, 10)
    P, y, u = (np.tile(x, (rounds, *[1] * (x.ndim - 1))).reshape(clients, rounds, 500, *x.shape[1:]) for x in one_round)
    few, train, new = max(1, clients // 100), slice(250), slice(250, None)

    def ours(threads=None):
        options = {"num_threads": threads}
        s = conformal.scores(P[:, :, train], y[:, :, train], u=u[:, :, train], **options)
        q = conformal.threshold(s, 0.1, **options)
        return conformal.ccm(conformal.prediction_sets(P[:, :, new], q, u=u[:, :, new], **options), **options).G

    def counts(sets):
        z = sets.astype(np.float32)
        return (z.transpose(0, 2, 1) @ z).astype(np.int64)

    def numpy_loop():
        each = [(P[k, t], y[k, t], u[k, t]) for k in range(few) for t in range(rounds)]
        found = [numpy_problem(p[train], a[train], b[train], p[new], b[new], [0.1]) for p, a, b in each]
        return np.stack([counts(sets)[0] for sets in found])

    def loop(peer):
        first = [(P[k, 0], y[k, 0]) for k in range(few)]
        return np.stack([counts(peer.sets(p[train], a[train], p[new], [0.1]))[0] for p, a in first])

    want = ours()[:few, :, 0]

    def check(found):
        got = found.reshape(-1, 10, 10)
        if len(got) == want.shape[0] * rounds:
            assert (got != want.reshape(-1, 10, 10)).mean() < 1e-3
            return "counts"
        if len(got) > len(want):
            return check(got.reshape(clients, rounds, 10, 10)[:few])
        size = np.trace(got, axis1=-2, axis2=-1).mean() / 250
        held = np.trace(want[:, 0], axis1=-2, axis2=-1).mean() / 250
        assert 0.4 < size / held < 1.5, "another rule, but sets of about the size"
        return f"{size:.2f} labels to a set, ours {held:.2f}"

    return Job(
        "problems", f"{clients:,} clients x {rounds} rounds of 500 x 10", clients * rounds, "problems",
        ours, check, P.sum, "read",
        [
            Rival("NumPy, one by one", numpy_loop, few * rounds, check),
            *(Rival(f"{peer.name}, one by one", lambda peer=peer: loop(peer), few, check) for peer in peers()),
        ],
    )  # fmt: skip


def _make_class_thresholds_job(n):
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


def _make_classes_job(n, C):
    P, y, u = rows(n, C)
    s = conformal.scores(P, y, u=u)
    q = conformal.threshold(s, ALPHAS)
    mask = conformal.prediction_sets(P, q, u=u).mask
    half = n // 2

    def same_scores(found):
        np.testing.assert_allclose(found, s, atol=1e-9)
        return "scores"

    def like_scores(found):
        assert abs(found.mean() - s.mean()) < 0.1, "another U"
        return "scores of other draws"

    def same_sets(found):
        got = found if isinstance(found, np.ndarray) else found.mask
        # Every threshold is the score of a row: in floating point its last bit may tell the two apart.
        assert (got != mask).sum() <= max(2 * len(ALPHAS), 1e-5 * mask.size)
        return "sets"

    def like_sets(found):
        size, held = found.sum() / found[..., 0].size, mask.sum() / mask[..., 0].size
        assert size > held / 3, "another rule and calibration, but no less work"
        return f"{size:.2f} labels to a set, ours {held:.2f}"

    size = f"{n:,} rows, {C} classes"
    drawn = np.random.default_rng(0)
    predicting = [
        (peer, peer.calibrate(P[half:][:CALIBRATING], _all_classes(y[half:][:CALIBRATING], C), ALPHAS))
        for peer in peers()
    ]
    return [
        Job(
            "scores", size, n, "rows", lambda threads: conformal.scores(P, y, u=u, num_threads=threads),
            same_scores, P.sum, "read", [Rival("NumPy", lambda: numpy_scores(P, y, u), n, same_scores)],
        ),
        Job(
            "scores, own U", size, n, "rows", lambda threads: conformal.scores(P, y, num_threads=threads),
            like_scores, P.sum, "read", [Rival("NumPy", lambda: numpy_scores(P, y, drawn.random(n)), n, like_scores)],
        ),
        Job(
            "prediction_sets", f"{size}, {len(ALPHAS)} alphas", n, "rows",
            lambda threads: conformal.prediction_sets(P, q, u=u, num_threads=threads),
            same_sets, P.sum, "read",
            [
                Rival("NumPy", lambda: numpy_sets(P, q, u), n, same_sets),
                *(Rival(peer.name, lambda peer=peer, known=known: peer.predict(known, P[:half][: peer.rows]),
                        min(half, peer.rows), like_sets)
                  for peer, known in predicting),
            ],
        ),
        _shared(n, C),
    ]  # fmt: skip


def _make_lac_job(n, C):
    """Return the job: the sets of four thresholds of one minus probability; NumPy compares, without checks."""
    P, y, _ = rows(n, C)
    q = conformal.threshold(conformal.scores(P, y, method="lac"), ALPHAS)
    mask = conformal.prediction_sets(P, q, method="lac").mask

    def same_sets(found):
        got = found if isinstance(found, np.ndarray) else found.mask
        assert (got != mask).sum() <= max(2 * len(ALPHAS), 1e-5 * mask.size)  # the rows whose scores are thresholds
        return "sets"

    def compare():
        return 1.0 - q[:, None, None] <= P

    size = f"{n:,} rows, {C} classes, {len(ALPHAS)} alphas"
    return Job(
        "prediction_sets, lac", size, n, "rows",
        lambda threads: conformal.prediction_sets(P, q, method="lac", num_threads=threads),
        same_sets, P.sum, "read", [Rival("NumPy", compare, n, same_sets)],
    )  # fmt: skip


def _make_rank_jobs(n, C, method, options):
    """Return the jobs of a score by ranks: the scores of labels, and the sets of four thresholds."""
    P, y, u = rows(n, C)
    rule = {"method": method, "u": u, **options}
    s = conformal.scores(P, y, **rule)
    q = conformal.threshold(s, ALPHAS)
    mask = conformal.prediction_sets(P, q, **rule).mask

    def same_scores(found):
        np.testing.assert_allclose(found, s, atol=1e-9)
        return "scores"

    def same_sets(found):
        got = found if isinstance(found, np.ndarray) else found.mask
        assert (got != mask).sum() <= max(2 * len(ALPHAS), 1e-5 * mask.size)  # the rows whose scores are thresholds
        return "sets"

    size = f"{n:,} rows, {C} classes"
    return [
        Job(
            f"scores, {method}", size, n, "rows", lambda threads: conformal.scores(P, y, num_threads=threads, **rule),
            same_scores, P.sum, "read",
            [Rival("NumPy", lambda: numpy_rank_scores(P, y, u, **options), n, same_scores)],
        ),
        Job(
            f"prediction_sets, {method}", f"{size}, {len(ALPHAS)} alphas", n, "rows",
            lambda threads: conformal.prediction_sets(P, q, num_threads=threads, **rule),
            same_sets, P.sum, "read",
            [Rival("NumPy", lambda: numpy_rank_sets(P, q, u, **options), n, same_sets)],
        ),
    ]  # fmt: skip


def _all_classes(y, C):
    """Return labels in which every class occurs, as far as the rows suffice: some libraries require it."""
    found, missing = y.copy(), np.setdiff1d(np.arange(C), y)[: len(y)]
    found[: len(missing)] = missing
    return found


def _shared(n, C):
    """Return the job: how many sets hold both of two classes."""
    P, _, u = rows(n, C)
    one = conformal.prediction_sets(P, [0.9], u=u)
    counts, Z = conformal.ccm(one), one.mask[0].astype(np.float32)
    rho = counts.correlation(undefined="zero")[0]

    def same_counts(found):
        got = found if isinstance(found, np.ndarray) else found.G[0]
        assert (got == counts.G[0]).all()
        return "counts"

    def same_correlation(found):
        np.testing.assert_allclose(np.nan_to_num(found), rho, atol=1e-5)
        return "correlation"

    def correlate():
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.corrcoef(Z, rowvar=False)

    return Job(
        "ccm", f"{n:,} rows, {C} classes", n, "rows", lambda threads: conformal.ccm(one, num_threads=threads),
        same_counts, Z.copy, "copy",
        [Rival("float32 Z.T @ Z", lambda: Z.T @ Z, n, same_counts),
         Rival("numpy.corrcoef", correlate, n, same_correlation)],
    )  # fmt: skip
