"""What the script of a report reads: counts packed, factors of the scaling, names, orders."""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast._report._facts import Model
from cmfast.display import _class_order

MOST_TREE_CLASSES = 200  # classes beyond which a page holds no geometric matrix, and no tree is turned


def packed(M: np.ndarray) -> dict[str, Any]:
    """Return an array as the smallest integers that hold it (else float32), deflated, in base64."""
    whole = M.dtype.kind in "iub"
    kind = next((k for k in ("u1", "u2", "u4") if whole and M.max(initial=0) <= np.iinfo(k).max), "f4")
    cells = np.ascontiguousarray(M, np.dtype(f"<{kind}"))
    return {"kind": kind, "cells": b64encode(zlib.compress(cells.tobytes())).decode()}


def of_models(
    models: Sequence[Model], labels: Sequence[str], geometric: np.ndarray | None, shown: np.ndarray | None = None
) -> dict[str, Any]:
    """Return all of it; of so many classes that only some are `shown`, with the sums of their rows and columns."""
    parts: list[dict[str, Any]] = []
    own = slice(None) if shown is None else shown
    if shown is not None:
        labels = [labels[int(k)] for k in shown]
    for one in models:
        scaled = one.scaled
        lines = {"rows": _few_digits(scaled.rows[own]), "cols": _few_digits(scaled.cols[own])}
        parts.append({"name": one.name, **packed(one.M), **lines, "smoothing": scaled.smoothing})
        if shown is not None:
            parts[-1]["sums"] = [one.facts["classes"][key][own].tolist() for key in ("support", "predicted")]
    facts: dict[str, Any] = {"labels": list(labels), "models": parts}
    shares = models[0].M / np.maximum(models[0].M.sum(axis=1, keepdims=True), 1)
    facts["clustered"] = _class_order.order_by_clustering(shares, turned=len(labels) <= MOST_TREE_CLASSES)
    if geometric is not None and len(labels) <= MOST_TREE_CLASSES:
        facts["geometric"] = packed(geometric)
    return facts


def _few_digits(line: np.ndarray) -> list[float]:
    """Return factors with as many digits as a screen can show of their product."""
    return [float(f"{value:.6g}") for value in line.tolist()]
