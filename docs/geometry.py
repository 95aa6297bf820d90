"""Write the table of ``geometry.md``: real activations, widths and axes. Needs ``pip install ".[demo]"``."""

import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import cmfast

PAGE = Path(__file__).parent / "geometry.md"
START, END = "<!-- table -->\n", "<!-- end of table -->\n"
AXES = (2, 3, 5, 10)


def activations():
    """Return the hidden layer, labels and predictions of a small network on digits in four rotations, test half."""
    X, y = load_digits(return_X_y=True)
    turned = np.concatenate([np.rot90(X.reshape(-1, 8, 8), k, axes=(1, 2)).reshape(-1, 64) for k in range(4)]) / 16
    labels = np.tile(y, 4)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is stopped early on purpose: a perfect network has nothing to show
        network = MLPClassifier(64, max_iter=8, random_state=0).fit(turned[train], labels[train])
    hidden = np.maximum(turned[test] @ network.coefs_[0] + network.intercepts_[0], 0)
    return hidden, labels[test], network.predict(turned[test])


def table():
    """Return the table in Markdown, and the accuracy and number of points."""
    X, y, p = activations()
    lines = [
        f"{len(y):,} test points, accuracy {np.mean(y == p):.2f}, weights `bi` of M + 0.001, five origins.",
        "",
        "| axes | width | cells | alone | unmixed | overlap | guaranteed | permuted | pattern | permuted | origin |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for m in AXES:
        curve = cmfast.width_curve(X, y, p, n_components=m, smoothing=1e-3)
        for factor, d, spread in zip(curve.factors, curve.diagnostics, curve.origin_spread, strict=True):
            shares = (d.overlap, d.guaranteed, d.null_overlap, d.pattern, d.pattern_null, spread)
            row = [str(m), f"{factor:g}", f"{d.n_cells:,}", f"{d.singleton_fraction:.0%}", f"{d.unmixed_fraction:.0%}"]
            lines.append("| " + " | ".join(row + [f"{x:.2f}" for x in shares]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(START)
    PAGE.write_text(before + START + table() + END + rest.split(END)[1])
