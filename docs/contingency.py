"""Draw ``surfaces.png`` and ``paths.png`` and print the numbers of ``contingency.md``: a minute on two cores.

Needs ``pip install ".[bench]"``.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import cmfast  # noqa: E402
from cmfast import contingency  # noqa: E402
from cmfast.contingency import PathDisplay, SurfaceDisplay  # noqa: E402

# Table 2 of the source, in its order; its binary metrics are those of class 1.
METRICS = {
    "accuracy": "accuracy", "balanced accuracy": "balanced_accuracy", "geometric mean": "geometric_mean",
    "precision": "precision", "recall": "recall", "F1": "f1", "Gilbert": "gilbert", "Doolittle": "doolittle",
    "TSS": "tss", "Heidke": "heidke", "Youden's J": "youden_j", "tau": "tau",
}  # fmt: skip
PAIRS = {"0 and 1": (0, 1), "3 and 8": (3, 8)}
RUNS, EPOCHS = 100, 50


def draw_surfaces() -> None:
    """Draw every metric of the table at r = 1 and r = 5."""
    from matplotlib import pyplot as plt  # noqa: TID251

    figure, axes = plt.subplots(4, 6, figsize=(13, 9.2), layout="constrained")
    for i, (title, name) in enumerate(METRICS.items()):
        for side, r in enumerate((1, 5)):
            ax = axes[i // 3, i % 3 + 3 * side]
            SurfaceDisplay.from_metric(name, r).plot(ax=ax, colorbar=False)
            ax.set(xlabel="", ylabel="", xticks=(0, 1), yticks=(0, 1))
            ax.set_title(f"{title}, r = {r}", fontsize="small")
    figure.supxlabel("true negative rate")
    figure.supylabel("true positive rate")
    figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.5)
    figure.savefig(HERE / "surfaces.png", dpi=64, metadata={"Software": None})


def train(pair: tuple[int, int]) -> np.ndarray:
    """Return the validation matrices of every run and epoch of a small network on two digits."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, pair)
    X, y = X[chosen] / 16.0, (y[chosen] == pair[1]).astype(int)
    truth, guess = [], []
    for seed in range(RUNS):
        order = np.random.default_rng(seed).permutation(len(y))
        learn, check = order[: len(y) // 2], order[len(y) // 2 :]
        model = MLPClassifier(16, solver="sgd", learning_rate_init=0.01, momentum=0.9, random_state=seed)
        for _ in range(EPOCHS):
            model.partial_fit(X[learn], y[learn], classes=(0, 1))
            truth.append(y[check])
            guess.append(model.predict(X[check]))
    M = cmfast.confusion_matrix(np.array(truth), np.array(guess), n_classes=2)
    return M.reshape(RUNS, EPOCHS, 2, 2)


def compare_paths() -> None:
    """Compare the lengths of the paths on an easy and on a hard pair of digits."""
    from matplotlib import pyplot as plt  # noqa: TID251
    from scipy.stats import ks_2samp

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    lengths = {}
    for ax, (name, pair) in zip(axes, PAIRS.items(), strict=False):
        M = train(pair)
        path = contingency.learning_path(M)
        lengths[name] = path.length
        low, middle, high = np.quantile(path.length, [0.25, 0.5, 0.75])
        print(f"{name}: median length {middle:.2f} (quartiles {low:.2f}, {high:.2f}),")
        print(f"  last balanced accuracy {cmfast.metrics.balanced_accuracy(M[:, -1]).mean():.3f},")
        print(f"  straightness {np.median(path.straightness):.2f}")
        PathDisplay.from_matrices(M[0], metric="f1").plot(ax=ax)
        ax.set_title(f"{name}, over F1")
    axes[2].boxplot(list(lengths.values()), tick_labels=list(lengths))
    axes[2].set_ylabel(f"length of {RUNS} paths")
    figure.savefig(HERE / "paths.png", dpi=64, metadata={"Software": None})
    test = ks_2samp(*lengths.values())
    print(f"Kolmogorov-Smirnov D = {test.statistic:.2f}, p = {test.pvalue:.1e}")


def sensitivities() -> None:
    """Print how far an imbalance of 5 and of 32 warps every metric."""
    for title, name in METRICS.items():
        found = contingency.imbalance_sensitivity(name, [5, 32])
        print(f"{title}: {found.value[0]:.4f} {found.value[1]:.4f} (+- {found.error.max():.0e})")


def main() -> None:
    """Draw and print everything."""
    import matplotlib as mpl  # noqa: TID251

    mpl.use("Agg")
    draw_surfaces()
    sensitivities()
    compare_paths()


if __name__ == "__main__":
    main()
