"""Draw the picture of ``detection.md``: a second. Needs ``pip install ".[plot]"``."""

import sys
from pathlib import Path

import matplotlib as mpl  # noqa: TID251
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from cmfast import detection  # noqa: E402

mpl.use("agg")
NAMES = ["car", "bus"]
TRUE = {"boxes": [[1, 1, 5, 4], [7, 1, 12, 5], [3, 6, 7, 9]], "labels": [0, 1, 0]}
PREDICTED = {
    "boxes": [[1.4, 1.3, 5.5, 4.2], [6.8, 1.2, 11.6, 5.3], [9, 6, 12, 9]],
    "labels": [0, 0, 1],
    "scores": [0.9, 0.8, 0.6],
}


def main() -> None:
    """Draw true and predicted boxes, and their confusion matrix."""
    from matplotlib.figure import Figure  # noqa: TID251

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for image, color, style, word in ((TRUE, "#1f5c99", "-", "true"), (PREDICTED, "#d9731a", "--", "predicted")):
        for (x0, y0, x1, y1), k in zip(image["boxes"], image["labels"], strict=True):
            left.plot([x0, x1, x1, x0, x0], [y0, y0, y1, y1, y0], style, color=color, linewidth=2)
            low = word == "true"
            left.text(x0, y0 if low else y1, NAMES[k], color=color, va="top" if low else "bottom")
        left.plot([], [], style, color=color, label=word)
    left.set(xticks=[], yticks=[], aspect="equal", title="boxes", xlim=(0, 13), ylim=(-0.2, 10.8))
    left.legend(loc="lower left", bbox_to_anchor=(0, 0.55), frameon=False)
    counts = detection.count(TRUE, PREDICTED, labels=NAMES)
    M = np.asarray(counts.matrix)
    right.imshow(M, cmap="Blues", vmin=0, vmax=2)
    for (i, j), value in np.ndenumerate(M):
        right.text(j, i, str(value) if value else "", ha="center", va="center", fontsize=13)
    right.set(xticks=range(3), yticks=range(3), xticklabels=counts.labels, yticklabels=counts.labels)
    right.set(xlabel="predicted", ylabel="true", title="detection.count")
    figure.savefig(HERE / "detection.png", dpi=110)


if __name__ == "__main__":
    main()
