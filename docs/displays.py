"""Draw the pictures of ``displays.md``: seconds. Needs ``pip install ".[plot]"``."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from cmfast import display, uncertainty  # noqa: E402

NAMES = ("cat", "lynx", "wolf", "dog", "fox", "goat", "sheep", "horse", "donkey", "cow")
KINDS = (0, 0, 1, 1, 1, 2, 2, 3, 3, 2)


def labels(n: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a truth of unequal classes and two predictions, wrong mostly within a kind, the second more often."""
    rng = np.random.default_rng(seed)
    y = rng.choice(10, n, p=np.linspace(3, 1, 10) / 20)
    kinds = np.array(KINDS)
    found = []
    for wrong in (share, 1.6 * share):
        near = np.array([rng.choice(np.flatnonzero(kinds == kinds[k])) for k in y])
        anything = rng.integers(0, 10, n)
        guess = np.where(rng.random(n) < 2 * wrong, near, y)
        found.append(np.where(rng.random(n) < wrong / 4, anything, guess))
    return y, found[0], found[1]


def thousand() -> np.ndarray:
    """Return counts of a thousand classes in forty clusters that nobody has told."""
    rng = np.random.default_rng(1)
    cluster = rng.integers(0, 40, 1000)
    same = cluster[:, None] == cluster
    rate = np.where(same, rng.gamma(0.4, 1.0, (1000, 1000)), 0.02 * (rng.random((1000, 1000)) < 0.02))
    rate[np.arange(1000), np.arange(1000)] = 25.0
    return rng.poisson(rate)


def checkpoints() -> np.ndarray:
    """Return matrices of a model that learns."""
    every = [labels(4000, 0.35 / (1 + epoch / 3), epoch)[:2] for epoch in range(12)]
    truth, guess = zip(*every, strict=True)
    return np.asarray(cmfast.confusion_matrix(np.array(truth), np.array(guess), n_classes=10))


def save(drawn: "display.ConfusionDisplay | display.DifferenceDisplay | display.StripDisplay", name: str) -> None:
    """Write a picture."""
    drawn.figure_.savefig(HERE / f"displays_{name}.png", dpi=64, metadata={"Software": None})


def main() -> None:
    """Draw everything."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: TID251

    y, first, second = labels(6000, 0.15, 0)
    figure, axes = plt.subplots(1, 2, figsize=(13, 5.6), layout="compressed")
    matrix = cmfast.confusion_matrix(y, second, n_classes=10)
    rng = np.random.default_rng(2)
    order = rng.permutation(10)  # as it comes
    shuffled = matrix[np.ix_(order, order)]
    names = [NAMES[k] for k in order]
    for ax, how in zip(axes, ("given", "cluster"), strict=True):
        display.ConfusionDisplay.from_matrix(shuffled, normalize="row", display_labels=names, order=how).plot(ax=ax)
        ax.set_title(f'order="{how}"')
    figure.savefig(HERE / "displays_orders.png", dpi=64, metadata={"Software": None})
    with plt.style.context("dark_background"):
        paired = uncertainty.paired_counts(y, first, second)
        found = display.ConfusionDisplay.compare(paired.first, paired.second, paired=paired, display_labels=NAMES)
        save(found.plot(), "difference")
    large = display.ConfusionDisplay.from_matrix(thousand(), order="cluster").blocks()
    save(large.plot(log=True), "thousand")
    save(large.zoom()[0].plot(), "zoom")
    save(display.StripDisplay.from_matrices(checkpoints(), display_labels=NAMES).plot(most=6), "strip")


if __name__ == "__main__":
    main()
