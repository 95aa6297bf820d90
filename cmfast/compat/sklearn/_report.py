"""scikit-learn's classification report, as text or dict."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cmfast.compat.sklearn._averages import EVERY, compute_scores
from cmfast.compat.sklearn._originals import delegate, is_foreign, replace_original
from cmfast.compat.sklearn._tables import make_tables
from cmfast.compat.sklearn._targets import Targets, make_targets

COLUMNS = ("precision", "recall", "f1-score", "support")


@replace_original
def classification_report(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    target_names: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    digits: int = 2,
    output_dict: bool = False,
    zero_division: Any = "warn",
) -> Any:
    """Return precision, recall and F1 per label and averaged; replaces scikit-learn's function of this name."""
    rows = None
    if not is_foreign(y_true, y_pred, labels, sample_weight):
        found = make_targets(y_true, y_pred, sample_weight)
        if found is not None:
            rows = _compute_rows(found, labels, target_names, zero_division)
    if rows is None:
        return delegate(
            "classification_report", y_true, y_pred, labels=labels, target_names=target_names,
            sample_weight=sample_weight, digits=digits, output_dict=output_dict, zero_division=zero_division,
        )  # fmt: skip
    per_label, averages = rows
    return _make_dict(per_label, averages) if output_dict else _format_text(per_label, averages, digits)


def _compute_rows(found: Targets, labels: Any, names: Any, zero_division: Any) -> Any:
    """Return the rows of labels and of averages; None for input that is delegated to scikit-learn."""
    every = labels is None
    labels = found.labels if every else np.asarray(labels)
    table = None if names is not None and len(names) != len(labels) else make_tables(found, None if every else labels)
    if table is None:
        return None
    names = [f"{label}" for label in labels] if names is None else names
    per_label = compute_scores(table, 1, None, EVERY, None, zero_division)
    total = np.sum(per_label[3])
    kinds = ["micro", "macro", "weighted", *(["samples"] if found.is_multilabel else [])]
    averages = []
    for kind in kinds:
        of = make_tables(found, None if every else labels, samplewise=True) if kind == "samples" else table
        values = compute_scores(of, 1, kind, EVERY, found.weight, zero_division)[:3]
        averages.append((f"{kind} avg", (*values, total)))
    if not found.is_multilabel and (every or set(found.labels.tolist()).issubset(labels.tolist())):
        averages[0] = ("accuracy", averages[0][1])
    return list(zip(names, zip(*per_label, strict=True), strict=True)), averages


def _make_dict(per_label: list[Any], averages: list[Any]) -> dict[Any, Any]:
    """Return the report as a dict."""
    report: dict[Any, Any] = {
        name: dict(zip(COLUMNS, map(float, row), strict=True)) for name, row in [*per_label, *averages]
    }
    if averages[0][0] == "accuracy":
        report["accuracy"] = report["accuracy"]["precision"]
    return report


def _format_text(per_label: list[Any], averages: list[Any], digits: int) -> str:
    """Return the report as text."""
    width = max(len("weighted avg"), digits, *(len(name) for name, _ in per_label))

    def line(name: str, cells: list[str]) -> str:
        """Format one line of the report."""
        return f"{name:>{width}} " + "".join(f" {cell:>9}" for cell in cells)

    lines = [line("", list(COLUMNS)), ""]
    for block in (per_label, averages):
        for name, (*values, support) in block:
            cells = [f"{value:.{digits}f}" for value in values]
            if block is averages and name == "accuracy":
                cells[:2] = "", ""
            lines.append(line(name, [*cells, f"{support}"]))
        lines.append("")
    return "\n".join(lines)
