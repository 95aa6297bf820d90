"""Conformal (nonconformity) scores of labels: of one label, or of all, by the mass ranked before each."""

import math
from itertools import product
from typing import Any

import numpy as np

from cmfast.kernels.cuda._core import batches
from cmfast.kernels.cuda._core.module import NAMES, Kernel, library
from cmfast.kernels.shared import conformal
from cmfast.kernels.shared.conformal import ScoreRule, make_draw_keys, make_score_rule

SHARED = ("LAC", "SAPS", "TOP_K", "SAFE", "MOST_TOTAL", "OUTSIDE", "FIRST_FACTOR", "SECOND_FACTOR")
DEFINES = {name: getattr(conformal, name) for name in SHARED}

_TEAMS = tuple(product(("float", "double"), batches.WIDTHS))
_ROWS = Kernel("conformal/scores", "cmfast_scores_rows", _TEAMS)
_LABELS = Kernel("conformal/scores", "cmfast_scores_labels", _TEAMS)
_ALL = Kernel("conformal/scores", "cmfast_scores_all", (("float",), ("double",)))
_DRAWS = Kernel("conformal/scores", "cmfast_row_draws_rows", _TEAMS)
KERNELS = (_ROWS, _LABELS, _ALL, _DRAWS)


def row_draws(P: Any, *, seed: int, num_threads: int | None = None) -> Any:
    """Return a uniform draw in [0, 1) for every row, a hash of its probabilities and the seed."""
    del num_threads
    xp, rows, C = library(P), P.shape[:-1], P.shape[-1]
    flat = batches.flat_batch(batches.as_floating(P).reshape(math.prod(rows), C), 1)
    out = xp.empty(len(flat), np.float64)
    if out.size:
        width = batches.width(C)
        _DRAWS.launch(
            (NAMES[flat.dtype], width), batches.blocks(len(flat), width), shared=batches.team_scratch(width),
            P=flat, keys=xp.asarray(make_draw_keys(seed, C)), C=C, n=len(flat), out=out,
        )  # fmt: skip
    return out.reshape(rows)


def validate_rows(P: Any, u: Any, groups: Any, n_groups: int) -> tuple[Any, Any, Any, Any]:
    """Return rows, draws and groups as contiguous arrays, and the status of every row."""
    xp, C = library(P), P.shape[-1]
    flat = batches.flat_batch(batches.as_floating(P).reshape(math.prod(P.shape[:-1]), C), 1)
    draws, own = (None if x is None else xp.ascontiguousarray(x, t).reshape(-1) for x, t in ((u, "f8"), (groups, "i8")))
    status = xp.empty(len(flat), np.int8)
    if status.size:
        width = batches.width(C)
        _ROWS.launch(
            (NAMES[flat.dtype], width), batches.blocks(len(flat), width), shared=batches.team_scratch(width),
            P=flat, u=draws, groups=own, C=C, n=len(flat), n_groups=n_groups, out_status=status,
        )  # fmt: skip
    return flat, draws, own, status


def score_all_labels(P: Any, u: Any, status: Any, rule: ScoreRule) -> Any:
    """Return the scores of all labels of all rows."""
    out = library(P).empty(P.shape, np.float64)
    if out.size:
        _ALL.launch(
            (NAMES[P.dtype],), batches.item_blocks(out.size),
            P=P, u=u, status=status, C=P.shape[1], n=len(P), **rule._asdict(), out=out,
        )  # fmt: skip
    return out


def scores(
    P: Any, y: Any, u: Any, *, method: str, lam: float, k_reg: int, num_threads: int | None = None
) -> tuple[Any, Any]:
    """Return the scores of the labels `y`, or of all labels if `y` is None, and the status of every row."""
    del num_threads
    xp, rows, rule = library(P), P.shape[:-1], make_score_rule(method, lam, k_reg)
    flat, draws, _, status = validate_rows(P, u, None, 1)
    if y is None:
        return score_all_labels(flat, draws, status, rule).reshape(P.shape), status.reshape(rows)
    out = xp.empty(len(flat), np.float64)
    if out.size:
        width = batches.width(flat.shape[1])
        labels = xp.ascontiguousarray(y, np.int64).reshape(-1)
        _LABELS.launch(
            (NAMES[flat.dtype], width), batches.blocks(len(flat), width), shared=batches.team_scratch(width),
            P=flat, y=labels, u=draws, C=flat.shape[1], n=len(flat), **rule._asdict(),
            out=out, out_status=status,
        )  # fmt: skip
    return out.reshape(rows), status.reshape(rows)
