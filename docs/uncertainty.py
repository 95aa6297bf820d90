"""Draw the pictures of ``uncertainty.md``: a few seconds. Needs ``pip install ".[plot]"``."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from cmfast import metrics, uncertainty  # noqa: E402

M = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
FEW = [[5, 0], [2, 40]]


def axes(rows: int) -> Any:
    """Return where to draw so many lines."""
    from matplotlib import pyplot as plt  # noqa: TID251

    return plt.subplots(figsize=(6, 0.7 + 0.28 * rows), layout="constrained")[1]


def save(ax: Any, name: str) -> None:
    """Write a picture, of few bytes."""
    ax.figure.savefig(HERE / f"uncertainty_{name}.png", dpi=70, metadata={"Software": None})


def forest(found: dict[str, cmfast.results.Interval], method: str, name: str, label: str = "") -> None:
    """Draw intervals, one below the other."""
    rows = sum(np.size(one.low) for one in found.values())
    drawn = cmfast.results.Intervals(found, method=method, confidence_level=0.95, n_resamples=10_000)
    ax = drawn.plot(ax=axes(rows))
    if label:
        ax.set_xlabel(label)
    save(ax, name)


def patients() -> np.ndarray:
    """Return a matrix of each of forty patients, in some of whom nearly everything is wrong."""
    rng = np.random.default_rng(41)
    patient = np.sort(rng.integers(0, 40, 600))
    hard = rng.random(40) < 0.3
    y = rng.integers(0, 3, 600)
    said = np.where(rng.random(600) < np.where(hard[patient], 0.8, 0.05), (y + 1) % 3, y)
    found: np.ndarray = cmfast.confusion_matrix(y, said, groups=patient)
    return found


def pair() -> uncertainty.PairedCounts:
    """Return what two classifiers said of the same samples: what is hard is so for both."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 2000)
    hard = rng.random(2000) < 0.25
    old = np.where(hard | (rng.random(2000) < 0.02), (y + 1) % 3, y)
    new = np.where(hard & (rng.random(2000) < 0.96), (y + 1) % 3, y)
    return uncertainty.paired_counts(y, new, old)


def of_differences() -> None:
    """Draw the difference of two classifiers, taken as paired and as independent."""
    T = pair()
    paired = uncertainty.compare(T, "f1_macro")
    apart = float(paired.difference)
    errors = [uncertainty.standard_error(side, "f1_macro") for side in (T.first, T.second)]
    reach = 1.96 * float(np.hypot(*errors))
    display = cmfast.display.ComparisonDisplay(
        ["paired, as it is", "as if independent"],
        difference=np.array([apart, apart]),
        low=np.array([paired.low, apart - reach]),
        high=np.array([paired.high, apart + reach]),
        confidence_level=0.95,
    )
    save(display.plot(ax=axes(2)).ax_, "paired")


def of_posterior() -> None:
    """Draw the posterior of the MCC, and how much of it is above 0.83."""
    draws = uncertainty.posterior(M, "mcc").draws
    ax, bins = axes(5), np.linspace(0.78, 0.9, 61)
    ax.hist(draws, bins, color="0.8")
    ax.hist(draws[draws > 0.83], bins, color="C0", label=f"above 0.83: {(draws > 0.83).mean():.0%}")
    ax.set_yticks([])
    ax.set_xlabel("MCC")
    ax.legend(frameon=False, loc="upper left")
    save(ax, "posterior")


def main() -> None:
    """Draw all of them."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("Agg")
    some = uncertainty.interval(M, ["accuracy", "mcc", "recall"])
    forest(dict(some), "bca", "intervals")
    shares = M / M.sum()
    sizes = {f"{n:,} samples": uncertainty.interval(shares, "mcc", method="normal", n=n) for n in (100, 1000, 10_000)}
    forest(sizes, "normal", "sizes", f"MCC {float(metrics.mcc(M)):.3f} and 1.96 standard errors")
    cells = uncertainty.interval(M, of="bi", method="bca")
    names = {f"{i} taken for {j}": (i, j) for i in range(3) for j in range(3) if i != j}
    forest({name: cmfast.results.Interval(*(x[at] for x in cells)) for name, at in names.items()}, "bca", "cells")
    each = patients()
    both = {"by sample": each.sum(0), "by patient": each}
    forest(
        {name: uncertainty.interval(x, "accuracy", clusters=x.ndim == 3) for name, x in both.items()},
        "bca", "patients", "accuracy, 95% by bca",
    )  # fmt: skip
    few = {
        method: uncertainty.interval(FEW, "recall", method=method, on_failure="ignore")
        for method in ("bca", "normal", "wilson", "posterior")
    }
    ends = {name: cmfast.results.Interval(*(np.asarray(x)[0] for x in one)) for name, one in few.items()}
    forest(ends, "each method", "few", "recall, 5 of 5 right")
    of_differences()
    of_posterior()


if __name__ == "__main__":
    main()
