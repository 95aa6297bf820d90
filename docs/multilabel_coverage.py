"""Measure how often intervals of multilabel metrics hold the truth: ``python docs/multilabel_coverage.py``.

For every setting the distribution of samples, their labels and the predictions of two models is known. Test sets of n
samples are drawn from it, every method makes the interval of every metric, and those that hold the true value are
counted. The counts are kept in ``multilabel_coverage.json``, and their table in ``multilabel.md`` is written anew.

All of it, 500 test sets of each setting, takes about ten minutes of one core.
"""

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast import metrics
from cmfast.uncertainty import _multilabel, _replicate_statistics

HERE = Path(__file__).parent
PAGE, KEPT = HERE / "multilabel.md", HERE / "multilabel_coverage.json"
BEGIN, END = "<!-- coverage begins -->", "<!-- coverage ends -->"
METHODS = _multilabel.METHODS
NAMES = [
    "f1_macro", "f1_weighted", "f1_micro", "f1_samples", "jaccard_samples", "precision_macro", "recall_macro",
    "subset_accuracy", "hamming_loss",
]  # fmt: skip
SHOWN = ["f1_macro", "f1_micro", "f1_samples", "subset_accuracy", "hamming_loss"]
REPLICATES = 199
POPULATION = 2_000_000
MOST_TOGETHER = 10_000_000  # indicators of a population drawn at a time


class Setting(NamedTuple):
    """A distribution of samples: the share of each label, how often it is missed and falsely found, and the size."""

    shares: tuple[float, ...]
    missed: float
    false: float
    n: int


def list_settings() -> dict[str, Setting]:
    """Return the settings by name."""
    falling = tuple(round(0.3 * 0.8**k, 4) for k in range(20))
    found = {}
    for n in (50, 500):
        found |= {
            f"5 labels of 30 %, n = {n}": Setting((0.3,) * 5, 0.2, 0.1, n),
            f"20 labels of 30 %, n = {n}": Setting((0.3,) * 20, 0.2, 0.1, n),
            f"20 labels of 30 % to 0.4 %, n = {n}": Setting(falling, 0.2, 0.02, n),
            f"20 labels of 2 %, n = {n}": Setting((0.02,) * 20, 0.2, 0.005, n),
            f"5 labels of 30 %, few errors, n = {n}": Setting((0.3,) * 5, 0.01, 0.005, n),
        }
    return found


def draw(setting: Setting, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return true labels and those of two models; labels of a sample go together, and so do errors of both models."""
    L = len(setting.shares)
    busy = np.where(rng.random((n, 1)) < 0.5, 1.5, 0.5)  # samples with more and with fewer labels
    y = (rng.random((n, L)) < np.array(setting.shares) * busy).astype(np.int8)
    hard = np.where(rng.random((n, 1)) < 0.3, 2.0, 4.0 / 7.0)
    found = [y]
    for factor in (1.0, 1.2):
        wrong = np.where(y == 1, setting.missed, setting.false) * hard * factor
        found.append(np.where(rng.random((n, L)) < wrong, 1 - y, y).astype(np.int8))
    return found


def find_truth(setting: Setting) -> dict[str, float]:
    """Return the metrics of the first model, and the differences of both, in a large population."""
    rng = np.random.default_rng(1)
    parts = max(1, POPULATION * len(setting.shares) // MOST_TOGETHER)
    sums: list[dict[str, Any]] = []
    for _ in range(parts):  # means of parts: averages over labels of so many samples are linear enough
        y, *sides = draw(setting, POPULATION // parts, rng)
        sums.append({k: metrics.multilabel(y, side, NAMES) for k, side in enumerate(sides)})
    truth = {name: float(np.mean([part[0][name] for part in sums])) for name in NAMES}
    others = {name: float(np.mean([part[1][name] for part in sums])) for name in NAMES}
    return truth | {f"difference of {name}": truth[name] - others[name] for name in NAMES}


def count_covered(setting: Setting, n_sets: int, seed: list[int], truth: dict[str, float]) -> dict[str, dict[str, int]]:
    """Return by method, then by metric, how many of the intervals of `n_sets` test sets hold the truth."""
    rng = np.random.default_rng(seed)
    held: dict[str, dict[str, int]] = {method: dict.fromkeys(truth, 0) for method in METHODS}
    options: dict[str, Any] = {"undefined": "present", "on_failure": "ignore", "num_threads": 1}
    for _ in range(n_sets):
        y, a, b = draw(setting, setting.n, rng)
        given = {"y_true": y, "y_a": a, "y_b": b}
        samples, *_ = _multilabel._prepare_samples(given, None, _multilabel._parse_names(NAMES)[1], options)
        first, second = samples.draw(REPLICATES, int(rng.integers(2**63)), 1)
        estimates = samples.evaluate(samples.sum_up())
        left, other = samples.leave_one_out()
        for method in METHODS:
            for k, name in enumerate(NAMES):
                cases = {
                    name: (first[k], estimates[k][0], left[k]),
                    f"difference of {name}": (
                        first[k] - second[k], estimates[k][0] - estimates[k][1], left[k] - other[k],
                    ),
                }  # fmt: skip
                for case, parts in cases.items():
                    replicates = _multilabel._make_replicates(samples, *parts, method)
                    # Few replicates: their ends are at the ranks .025 (n + 1), as docs/coverage.md says.
                    level = 0.95 * (REPLICATES + 1) / (REPLICATES - 1)
                    low, high, _ = _replicate_statistics.compute_interval(replicates, method, level, 1)
                    held[method][case] += bool(low - 1e-9 <= truth[case] <= high + 1e-9)
    return held


def write_table(kept: dict[str, Any]) -> str:
    """Return the table of coverages in Markdown."""
    heads = ["samples", "method", *(f"`{name}`" for name in SHOWN), "difference of `f1_macro`"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name, one in kept.items():
        for method in METHODS:
            shares = [one["held"][method][case] / one["test_sets"] for case in (*SHOWN, "difference of f1_macro")]
            lines.append("| " + " | ".join([name, f'`"{method}"`', *(f"{100 * x:.1f} %" for x in shares)]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=500, help="test sets of each setting")
    parser.add_argument("--page", action="store_true", help="write the page of what was measured before")
    args = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for k, (name, setting) in enumerate(list_settings().items()):
        if not args.page and kept.get(name, {}).get("test_sets") != args.sets:
            truth = find_truth(setting)
            held = count_covered(setting, args.sets, [7, k], truth)
            kept[name] = {"test_sets": args.sets, "truth": truth, "held": held}
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    text = PAGE.read_text()
    head, tail = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{head}\n\n{write_table(kept)}\n\n{tail}")


if __name__ == "__main__":
    main()
