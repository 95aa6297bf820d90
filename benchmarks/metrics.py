"""Every metric of a batch of confusion matrices, metrics of labels of very many classes, and ROC curves of scores."""

from collections.abc import Iterator

import numpy as np

from benchmarks import _data, _numba_loops, _numba_metrics, _rivals_of_metrics
from benchmarks._job import Job, Rival
from cmfast import metrics

NAMES = ["accuracy", *(f"{name}_{a}" for a in ("macro", "weighted") for name in ("precision", "recall", "f1"))]


def jobs(*, small: bool = False) -> Iterator[Job]:
    """Yield the jobs, one in memory at a time; `small` ones end in a fraction of a second."""
    sizes = ((3, 100), (10, 100), (40, 10)) if small else ((3, 2_000_000), (10, 1_000_000), (100, 2_000), (1000, 20))
    for C, B in sizes:
        yield _make_matrix_job(C, B)
        if C <= 10:
            yield _make_matrix_job(C, B, again=True)
    for C, n in [(50, 2_000)] if small else [(10_000, 10_000_000), (100_000, 10_000_000)]:
        yield _make_labels_job(C, n)
    for weighted in (False, True):
        yield _make_curve_job(2_000 if small else 1_000_000, weighted=weighted)


def _make_matrix_job(C: int, B: int, *, again: bool = False) -> Job:
    """Return the job; with `again` results are written to those of an earlier call, and there are no rivals."""
    # Rounded up, so that every class is true and predicted: rivals differ in what they make of a 0/0.
    M = np.ceil(100 * _data.confusion_matrices(min(B, 1000), C, 0.8, 1e-3)).astype(np.int64)
    M = np.tile(M, (-(-B // len(M)), 1, 1))[:B]
    out = metrics.compute(M, _numba_metrics.NAMES) if again else None
    part = M[: -(-B // 50)]
    few = min(20, len(part))
    labels = [_expand_labels(m) for m in M[:few]] if C <= 100 else []
    want = _rivals_of_metrics.numpy_metrics(M[:200])

    def check(found):
        for name, values in found.items():
            k = min(200, len(values))
            np.testing.assert_allclose(values[:k], want[name][:k], rtol=1e-9, atol=1e-12, err_msg=name)
        return f"{len(found)} metrics"

    name, size, limit = f"metrics {C}", f"{B:,} int64 matrices {C}x{C}", _make_move(M.nbytes + 8 * B * len(want))
    if again:
        return Job(
            f"{name} again",
            f"{size}, to the arrays of an earlier call",
            B,
            "matrices",
            lambda threads: metrics.compute(M, _numba_metrics.NAMES, num_threads=threads, out=out),
            check,
            limit,
            "move of bytes in and out",
        )
    against = [
        Rival("NumPy expressions", lambda: _rivals_of_metrics.numpy_metrics(part), len(part), check),
        Rival("Numba loop", lambda: _numba_metrics.compute(M), B, check, lambda: _numba_metrics.compute(M[:1])),
    ]
    if labels:
        against.append(Rival("scikit-learn", lambda: _rivals_of_metrics.sklearn_metrics(labels), len(labels), check))
    if C <= 10:
        against.append(Rival("PyCM", lambda: _rivals_of_metrics.pycm_metrics(M[:few]), few, check))
    return Job(
        name,
        size,
        B,
        "matrices",
        lambda threads: metrics.compute(M, _numba_metrics.NAMES, num_threads=threads),
        check,
        limit,
        "move of bytes in and out",
        against,
    )


def _make_move(n_bytes: int):
    """Return a call that moves `n_bytes`: half of them read, half written, in pages that are there."""
    source, target = np.ones(n_bytes // 16), np.empty(n_bytes // 16)
    return lambda: np.copyto(target, source)


def _expand_labels(m):
    i, j = np.nonzero(m)
    return np.repeat(i, m[i, j]), np.repeat(j, m[i, j])


def _make_labels_job(C: int, n: int) -> Job:
    """Return the job with so many classes that a matrix of all pairs would not fit."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, n)
    p = np.where(rng.random(n) < 0.7, y, rng.integers(0, C, n))
    out = np.empty_like(y)
    want = metrics.from_labels(y, p, NAMES, n_classes=C)

    def check(found):
        for name, value in found.items():
            np.testing.assert_allclose(value, want[name], rtol=2e-6, err_msg=name)  # torchmetrics: float32
        return f"{len(found)} metrics"

    def ours(found):
        assert found["recall_weighted"] == found["accuracy"]
        np.testing.assert_allclose(found["accuracy"], (y == p).mean(), rtol=1e-12)
        return check(found)

    def use_margins(margins):
        return lambda: _rivals_of_metrics.label_metrics(margins(y, p, C))

    loop = _numba_loops.label_margins
    against = [
        Rival("scikit-learn", lambda: _rivals_of_metrics.sklearn_label_metrics(y, p), n, check),
        Rival("numpy.bincount", use_margins(_rivals_of_metrics.numpy_label_margins), n, check),
        Rival("Numba loop", use_margins(loop), n, check, lambda: loop(y[:100], p[:100], C)),
    ]
    if C <= 10_000:  # its matrix of all pairs takes 8 C^2 bytes, 80 GB for 100,000 classes
        against.append(Rival("torchmetrics", lambda: _rivals_of_metrics.torchmetrics_label_metrics(y, p, C), n, check))
    return Job(
        f"labels {C}",
        f"{n:,} labels, {C:,} classes, no matrix",
        n,
        "labels",
        lambda threads: metrics.from_labels(y, p, NAMES, n_classes=C, num_threads=threads),
        ours,
        lambda: (np.copyto(out, y), np.copyto(out, p)),
        "copy",
        against,
        memory=True,
    )


def _make_curve_job(n: int, *, weighted: bool) -> Job:
    """Return the job of the ROC curve of one array of scores."""
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 2, n), rng.random(n)
    weight = rng.random(n) if weighted else None
    want = metrics.roc_auc(y, scores, sample_weight=weight)

    def check(found):
        np.testing.assert_allclose(np.trapezoid(found[2], found[1]), want, rtol=1e-9)
        return f"area {want:.4f}"

    return Job(
        "roc weighted" if weighted else "roc",
        f"{n:,} scores" + (" with weights" if weighted else ""),
        n,
        "scores",
        lambda threads: metrics.roc(y, scores, sample_weight=weight),
        check,
        _make_move(n * (48 if weighted else 40)),
        "move of bytes in and out",
        [
            Rival("NumPy", lambda: _rivals_of_metrics.numpy_roc(y, scores, weight), n, check),
            Rival("scikit-learn", lambda: _rivals_of_metrics.sklearn_roc(y, scores, weight), n, check),
        ],
    )
