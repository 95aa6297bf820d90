"""The metrics of Table 2: cmfast names, and the formulas as printed."""

import numpy as np

from cmfast.metrics import MetricName

METRICS: dict[str, MetricName] = {  # in the order of the table; its binary metrics are those of class 1
    "accuracy": "accuracy", "balanced accuracy": "balanced_accuracy", "geometric mean": "geometric_mean",
    "precision": "precision", "recall": "recall", "F1": "f1", "Gilbert": "gilbert", "Doolittle": "doolittle",
    "TSS": "tss", "Heidke": "heidke", "Youden's J": "youden_j", "tau": "tau",
}  # fmt: skip
OTHERS: dict[str, MetricName] = {
    "MCC": "mcc", "specificity": "specificity", "NPV": "npv", "Jaccard": "jaccard", "F0.5": "fbeta_0.5",
    "F2": "fbeta_2", "mean F1": "f1_macro", "weighted tau, 1 and 5": "tau_weighted_1_5",
}  # fmt: skip
AGNOSTIC = ("balanced accuracy", "geometric mean", "recall", "TSS", "Youden's J", "tau")  # as the paper lists them
PLANES = ("accuracy", "balanced accuracy", "recall", "TSS", "Youden's J", "tau")  # "of constant curvature"
BENT = ("precision", "F1", "Gilbert", "Doolittle")


def compute_printed_formulas(M: np.ndarray) -> dict[str, np.ndarray]:
    """Compute metrics of matrices ``[[tn, fp], [fn, tp]]`` by the formulas of the table, literally."""
    tn, fp, fn, tp = np.moveaxis(M.reshape(*M.shape[:-2], 4), -1, 0)
    p, n = tp + fn, tn + fp
    pre, rec, r = tp / (tp + fp), tp / p, n / p
    return {
        "accuracy": (tp + tn) / (p + n),
        "balanced accuracy": (tp / p + tn / n) / 2,
        "geometric mean": np.sqrt(tp / p * tn / n),
        "precision": pre,
        "recall": rec,
        "F1": 2 * pre * rec / (pre + rec),
        "Gilbert": (tp - r) / (tp + fp + fn - r),
        "Doolittle": (tp * tn - fp * fn) ** 2 / ((tp + fp) * (tp + fn) * p * n),
        "TSS": (tp / p - fp / n) / (tp / p + fp / n),
        "Heidke": 2 * (tp * tn - fp * fn) / (p * (fn + tn) + n * (tp + fp)),
        "Youden's J": (tp * tn - fp * fn) / ((tp + fn) * (fp + tn)),
    }
