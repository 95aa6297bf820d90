"""Time a job of a project: ``ratios.py NAME SOURCE``, run by ``check.py`` before and after the patch; prints JSON."""

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

FEWEST, LONGEST = 3, 20.0  # calls, seconds


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest call; the first, which may compile, does not count."""
    call()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < FEWEST and (not times or time.perf_counter() - begin < LONGEST):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def ipfn(_source: Path) -> dict[str, float]:
    """Fit a table of three axes to the sums of every two."""
    from ipfn import ipfn as package

    rng = np.random.default_rng(0)
    wanted = rng.gamma(0.5, size=(20, 20, 20))
    seed = wanted * np.exp(sum(rng.normal(size=shape) for shape in ((20, 20, 1), (20, 1, 20), (1, 20, 20))))
    axes = [[0, 1], [0, 2], [1, 2]]
    sums = [wanted.sum(tuple({0, 1, 2} - set(kept))) for kept in axes]
    return {"20 x 20 x 20, all pairs": seconds(lambda: package.ipfn(seed.copy(), sums, axes).iteration())}


def pot(_source: Path) -> dict[str, float]:
    """Transport 200 points at two strengths of regularisation."""
    import ot

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 1
    a, M = np.full(200, 1 / 200), ot.dist(x, y)
    M /= M.max()
    method = "sinkhorn_newton" if hasattr(ot.bregman, "sinkhorn_newton") else "sinkhorn_log"
    return {
        f"200 x 200, reg {reg:g}, to 1e-9": seconds(
            lambda reg=reg: ot.sinkhorn(a, a, M, reg, method=method, stopThr=1e-9, numItermax=100_000)
        )
        for reg in (0.05, 0.005)
    }


def scikit_learn(_source: Path) -> dict[str, float]:
    """Count a million integers and texts."""
    from sklearn.metrics import confusion_matrix

    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 10, (2, 1_000_000))
    names = np.array([f"class {k}" for k in range(10)])
    return {
        "1,000,000 integers": seconds(lambda: confusion_matrix(y, p)),
        "1,000,000 texts": seconds(lambda: confusion_matrix(names[y], names[p])),
    }


def torchmetrics(_source: Path) -> dict[str, float]:
    """Count a million labels of 10 and 1,000 classes."""
    import torch  # noqa: TID251
    from torchmetrics.functional.classification import multiclass_confusion_matrix

    found = {}
    for C in (10, 1000):
        y, p = torch.randint(C, (2, 1_000_000), generator=torch.manual_seed(0))
        found[f"1,000,000 labels, {C:,} classes"] = seconds(
            lambda C=C, y=y, p=p: multiclass_confusion_matrix(p, y, num_classes=C, validate_args=False)
        )
    return found


def cooler(source: Path) -> dict[str, float]:
    """Balance the map of cooler's own tests, as its tests do and to rounding."""
    import inspect

    import cooler as package

    path = source / "tests" / "data" / "hg19.GM12878-MboI.matrix.2000kb.cool"
    newton = {"method": "newton"} if "method" in inspect.signature(package.balance_cooler).parameters else {}
    return {
        f"hg19 at 2 Mb, variance of sums {tol:g}": seconds(
            lambda tol=tol: package.balance_cooler(package.Cooler(str(path)), tol=tol, max_iters=5000, **newton)
        )
        for tol in (1e-5, 1e-16)
    }


def balance(_source: Path) -> dict[str, float]:
    """Rake 10,000 respondents to the shares of four variables of a population, alone and with dependent variables."""
    import pandas as pd
    from balance.weighting_methods import rake as package

    names, sizes = ["age", "region", "education", "income"], (6, 8, 5, 6)
    found = {}
    for word, bound in (("independent", 0.0), ("dependent", 0.9)):
        rng = np.random.default_rng(0)

        def draw(n: int, shift: float, bound: float = bound, rng: np.random.Generator = rng) -> pd.DataFrame:
            common = rng.beta(1 + shift, 2, n)
            own = np.where(rng.random((len(sizes), n)) < bound, common, rng.beta(1 + shift, 2, (len(sizes), n)))
            levels = (own * np.array(sizes)[:, None]).astype(int).astype(str)
            return pd.DataFrame(dict(zip(names, levels, strict=True)))

        sample, target = draw(10_000, 0.0), draw(20_000, 0.5)
        found[f"10,000 respondents, {word} variables"] = seconds(
            lambda sample=sample, target=target: package.rake(
                sample, pd.Series(np.ones(len(sample))), target, pd.Series(np.ones(len(target))), variables=names
            )
        )
    fit = getattr(package, "_run_ipf", package._run_ipf_numpy)
    rng = np.random.default_rng(0)
    table, wanted = (rng.gamma(1.0, size=sizes) * 1e-4 for _ in range(2))
    for k in range(5):  # combinations that nearly all belong to
        table[k, k, k, k] = wanted[k, k, k, k] = 1.0
        wanted[k, k, k, k] *= 1.0 + 0.1 * k
    wanted *= table.sum() / wanted.sum()
    sums = [wanted.sum(tuple({0, 1, 2, 3} - {axis})) for axis in range(4)]
    found["the fit alone, four dependent variables"] = seconds(lambda: fit(table.copy(), sums, 1e-6, 100_000, 0.0))
    return found


JOBS = {
    "ipfn": ipfn,
    "POT": pot,
    "scikit-learn": scikit_learn,
    "torchmetrics": torchmetrics,
    "cooler": cooler,
    "balance": balance,
}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(JOBS[sys.argv[1]](Path(sys.argv[2]))))
