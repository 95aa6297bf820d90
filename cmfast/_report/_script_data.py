"""Data for the script of a report: packed counts, scaling factors, names, orders."""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from cmfast._report._model_facts import Model
from cmfast.display import _class_order

MOST_TREE_CLASSES = 200  # most classes with a geometric matrix and optimal leaf ordering


def pack_array(M: np.ndarray) -> dict[str, Any]:
    """Return an array as the smallest integer type that holds it (else float32), deflated, in base64."""
    whole = M.dtype.kind in "iub"
    kind = next((k for k in ("u1", "u2", "u4") if whole and M.max(initial=0) <= np.iinfo(k).max), "f4")
    cells = np.ascontiguousarray(M, np.dtype(f"<{kind}"))
    return {"kind": kind, "cells": b64encode(zlib.compress(cells.tobytes())).decode()}


def pack_models(
    models: Sequence[Model], labels: Sequence[str], geometric: np.ndarray | None, shown: np.ndarray | None = None
) -> dict[str, Any]:
    """Return the data of all models; with `shown` only those classes, with their full row and column sums."""
    parts: list[dict[str, Any]] = []
    own = slice(None) if shown is None else shown
    if shown is not None:
        labels = [labels[int(k)] for k in shown]
    for one in models:
        scaled = one.scaled
        lines = {"rows": _round_factors(scaled.rows[own]), "cols": _round_factors(scaled.cols[own])}
        parts.append({"name": one.name, **pack_array(one.M), **lines, "smoothing": scaled.smoothing})
        if shown is not None:
            parts[-1]["sums"] = [one.facts["classes"][key][own].tolist() for key in ("support", "predicted")]
    facts: dict[str, Any] = {"labels": list(labels), "models": parts}
    shares = models[0].M / np.maximum(models[0].M.sum(axis=1, keepdims=True), 1)
    facts["clustered"] = _class_order.order_by_clustering(shares, turned=len(labels) <= MOST_TREE_CLASSES)
    if geometric is not None and len(labels) <= MOST_TREE_CLASSES:
        facts["geometric"] = pack_array(geometric)
    return facts


def _round_factors(line: np.ndarray) -> list[float]:
    """Return factors with six significant digits, enough for display."""
    return [float(f"{value:.6g}") for value in line.tolist()]
