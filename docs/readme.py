"""Draw the picture of the README: a second. Needs ``pip install ".[plot]"``."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from cmfast import display  # noqa: E402

NAMES = ("cat", "lynx", "dog", "wolf", "fox", "cow", "goat", "sheep")
KINDS = (0, 0, 1, 1, 1, 2, 2, 2)
SAMPLES = (4000, 150, 3000, 200, 120, 1500, 100, 300)


def counts() -> np.ndarray:
    """Return what a classifier says that mixes up what is alike, and knows that cats and dogs are frequent."""
    rng = np.random.default_rng(0)
    kinds, sizes = np.array(KINDS), np.array(SAMPLES, float)
    alike = np.where(kinds[:, None] == kinds, 0.09, 0.012) * rng.uniform(0.7, 1.3, (8, 8))
    np.fill_diagonal(alike, 1.0)
    shares = alike * (sizes / sizes.mean()) ** 0.6  # answers lean towards what is frequent
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(rng.poisson(sizes[:, None] * shares))


def main() -> None:
    """Draw one matrix twice."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: TID251

    M = counts()
    figure, axes = plt.subplots(1, 2, figsize=(12.4, 5.6), layout="compressed")
    titles = ("As counted: cats and dogs hide the rest", "Bi-normalised: who is taken for whom")
    for ax, how, title in zip(axes, (None, "bi"), titles, strict=True):
        display.ConfusionDisplay.from_matrix(M, normalize=how, display_labels=NAMES).plot(ax=ax)
        ax.set_title(title, fontsize=14)
    figure.savefig(HERE / "readme.png", dpi=72, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
