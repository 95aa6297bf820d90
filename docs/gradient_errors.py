"""Write the table of errors in ``gradients.md``: ``python docs/gradient_errors.py``, some minutes. Needs torch.

Gradients of scaling are compared with central differences in 80 digits, of every matrix that the tests scale and of
harder and larger ones: every cell and every target of small matrices, some directions through large ones. What was
found is kept in ``gradient_errors.json``; ``--page`` writes the table of that alone.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch  # noqa: TID251

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests")]

from cases.scaling import CASES, confusion  # noqa: E402
from oracle import scaling  # noqa: E402

import cmfast  # noqa: E402

PAGE, KEPT = HERE / "gradients.md", HERE / "gradient_errors.json"
BEGIN, END = "<!-- errors -->\n", "<!-- end of errors -->\n"
TOL = 1e-14
NOTHING = 1e-30  # a slope that is zero, of differences in 80 digits
SMALL, LARGE = 16, 2000  # cells, up to which every one is nudged, from which on one direction less is taken
SIZES = (2, 3, 10, 30, 100, 300)

# The cases of the tests by what their matrices are.
OF_TESTS = {
    "counts": (
        *("bad-first-middle-last", "empty-lines", "batch-of-one", "single", "counts", "int32", "2x2"),
        *("bool", "batch-of-batches", "newton", "sinkhorn", "warm-start", "1x1", "many", "float16"),
    ),
    "targets, rectangular": (
        *("bad-targets", "unequal-totals", "1xC", "Rx1", "float32-matrix-only", "rectangular"),
        *("integer-targets", "tall", "targets-broadcast", "batches-broadcast", "sinkhorn-rectangular"),
        "flat-targets",
    ),
    "targets whose totals are 5e-10 apart": ("nearly-equal-totals",),
    "targets of zero": ("zero-targets", "sinkhorn-zero-targets"),
    "confusion matrices": ("confusions", "sinkhorn-stopped", "C-30", "flat", "flat-C-20"),
    "cells from 1e-9 to 1e9": ("wide-range",),
    "smoothed": ("confusions-smoothed", "smoothed-bad"),
    "superclasses, 1e-6": ("superclasses",),
    "chain": ("total-support",),
    "nearly a permutation, 1e-4": ("hidden-permutation",),
    "float32": ("float32", "float32-targets"),
}
LEFT_OUT = {  # and why
    "single-bad": "has no scaling",
    "denormal": "has no scaling",
    "pseudo-bayes": "has no gradient",
    "pseudo-bayes-batch": "has no gradient",
    "empty-dropped": "a class with a nudged cell is not empty",
    "all-empty-dropped": "a class with a nudged cell is not empty",
    "all-targets-zero": "a nudged target is the only one",
    "batch-of-none": "is empty",
    "batch-of-none-targets": "is empty",
}


class Given(NamedTuple):
    """A matrix, targets or None, and options."""

    M: np.ndarray
    row_sums: np.ndarray | None = None
    col_sums: np.ndarray | None = None
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed


def of_case(name: str) -> Iterator[Given]:
    """Yield the matrices of a case of the tests that have a scaling."""
    case = next(case for case in CASES["ipf"] if case.id == name)
    M, *targets = case.args[:3]
    targets = [a for a in targets if a is not None]
    options = {"smoothing": case.options["smoothing"]} if "smoothing" in case.options else {}
    if M.dtype != np.float32 or (targets and targets[0].dtype != np.float32):
        M = M.astype(np.float64)
    batch = np.broadcast_shapes(M.shape[:-2], *(a.shape[:-1] for a in targets))
    M = np.broadcast_to(M, batch + M.shape[-2:])
    targets = [np.broadcast_to(a, batch + a.shape[-1:]) for a in targets]
    status = cmfast.ipf(M, *targets, tol=TOL, on_failure="ignore", **options).status
    for index in np.argwhere(status == cmfast.Status.CONVERGED)[:12]:
        at = tuple(index)
        yield Given(M[at], *(a[at].astype(M.dtype) for a in targets), *(() if targets else (None, None)), options)


def halves(rng: np.random.Generator, C: int, coupling: float) -> np.ndarray:
    """Return a matrix of two halves that have little to do with one another."""
    M, k = np.full((C, C), coupling / C), C // 2
    M[:k, :k], M[k:, k:] = rng.random((k, k)) + 0.1, rng.random((C - k, C - k)) + 0.1
    return M


def permutation(rng: np.random.Generator, C: int, rest: float) -> np.ndarray:
    """Return a matrix with one large cell in every row and column."""
    M = rest * (rng.random((C, C)) + 0.1) / C
    M[np.arange(C), rng.permutation(C)] += rng.random(C) + 0.1
    return M


def oblong(rng: np.random.Generator, R: int, C: int) -> Given:
    """Return a matrix with targets that it can have."""
    P = rng.random((R, C)) + 0.05
    return Given(rng.random((R, C)) + 0.05, P.sum(1), P.sum(0))


def families(sizes: tuple[int, ...] = SIZES) -> dict[str, list[Given]]:
    """Return matrices by what they are."""
    rng = np.random.default_rng(22)
    found = {label: [one for name in names for one in of_case(name)] for label, names in OF_TESTS.items()}
    found["any cells, C from 1 to 300"] = [Given(rng.random((C, C)) + 0.05) for C in (1, *sizes)]
    found["the same, smoothed by 0.1"] = [Given(rng.random((C, C)), options={"smoothing": 0.1}) for C in sizes]
    found["rectangular to 300"] = [oblong(rng, *pair) for C in sizes for pair in ((2, C), (C, 1 + C // 2))]
    for spread in (1, 3, 5):
        cells = [Given(np.exp(spread * rng.normal(size=(C, C)))) for C in sizes]
        found[f"exponentials of normal numbers, spread {spread}"] = cells
    for accuracy in (0.9, 0.9999):
        cells = [Given(confusion(rng, C, accuracy)) for C in sizes]
        found[f"confusion matrices, accuracy {accuracy:g}"] = cells
    for rest in (1e-4, 1e-8, 1e-12):
        found[f"nearly permutations, {rest:g}"] = [Given(permutation(rng, C, rest)) for C in sizes]
    for coupling in (1e-3, 1e-6, 1e-9, 1e-12):
        found[f"two halves coupled by {coupling:g}"] = [Given(halves(rng, C, coupling)) for C in sizes]
    return found


def gradients(given: Given, G: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], float]:
    """Return the gradients in the cells and in both targets, and the second singular value of the result."""
    tensors = [torch.from_numpy(np.array(a)).requires_grad_() for a in given[:3] if a is not None]
    P = cmfast.ipf(*tensors, tol=TOL, **given.options).matrix
    found = torch.autograd.grad(P, tensors, torch.from_numpy(G))
    scaled = P.detach().double().numpy()
    u, v = (np.where(a > 0.0, a, 1.0) for a in (scaled.sum(1), scaled.sum(0)))
    values = np.linalg.svd(scaled / np.sqrt(u[:, None] * v), compute_uv=False)
    return found[0].numpy(), [a.numpy() for a in found[1:]], float(values[1]) if len(values) > 1 else 0.0


def errors(given: Given, rng: np.random.Generator) -> dict[str, float]:
    """Return how far gradients are off: of themselves, and of the largest; how many were compared, and sigma2."""
    M, row_sums, col_sums, options = given
    G = rng.normal(size=M.shape).astype(M.dtype)
    cells, targets, sigma = gradients(given, G)
    if M.size <= SMALL:
        want, *of_targets = scaling.gradient(M, G.astype(float), None, None, row_sums, col_sums, **options)
        pairs = [(cells * np.where(M > 0.0, M, 1.0), want * np.where(M > 0.0, M, 1.0))]
        pairs += [pair for pair in zip(targets, of_targets, strict=False) if pair[0].size > 1]
    else:
        smooth = M + options.get("smoothing", 0.0)
        slopes, small = cells.astype(float) * smooth, np.abs(cells * smooth)
        changes = [rng.normal(size=M.shape)]
        for part in (0.5, 0.1) if M.size <= LARGE else (0.1,):
            few = small <= np.quantile(small[smooth > 0.0], part)
            changes.append(np.where(few, rng.normal(size=M.shape), 0.0))
        wanted = [scaling.slope(smooth, G, change, row_sums, col_sums) for change in changes]
        # A sum of many numbers may be near zero: it is compared with what is typical of one.
        typical = [float(np.linalg.norm(slopes * change)) for change in changes]
        off = [abs(float((slopes * c).sum()) - w) / t for c, w, t in zip(changes, wanted, typical, strict=True)]
        return {"own": max(off), "largest": off[0], "numbers": len(changes), "sigma": sigma}
    own = largest = 0.0
    for found, exact in pairs:
        there = np.abs(exact) > NOTHING
        off = np.abs(found - exact)
        own = max(own, float((off[there] / np.abs(exact[there])).max(initial=0.0)))
        largest = max(largest, float(off.max() / max(np.abs(exact).max(), NOTHING)))
    return {"own": own, "largest": largest, "numbers": sum(exact.size for _, exact in pairs), "sigma": sigma}


def measured(label: str, family: list[Given]) -> dict[str, Any]:
    """Return the row of a family."""
    rng = np.random.default_rng(len(label))
    found = [errors(given, rng) for given in family]
    sides = [max(given.M.shape) for given in family]
    return {
        "family": label,
        "sides": [min(sides), max(sides)],
        "matrices": len(found),
        "numbers": sum(int(one["numbers"]) for one in found),
        "gap": min(1.0 - one["sigma"] for one in found),
        "own": max(one["own"] for one in found),
        "largest": max(one["largest"] for one in found),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as the page has them."""
    lines = ["| family | side | matrices | numbers | 1 - sigma2, least | off, of itself | off, of the largest |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        low, high = row["sides"]
        sides = f"{low}" if low == high else f"{low} to {high}"
        gap = "rounding" if row["gap"] < 1e-14 else f"{row['gap']:.0e}"
        figures = f"{gap} | {_shown(row['own'])} | {_shown(row['largest'])}"
        lines.append(f"| {row['family']} | {sides} | {row['matrices']} | {row['numbers']:,} | {figures} |")
    return "\n".join(lines) + "\n"


def _shown(error: float) -> str:
    return "0" if error == 0.0 else f"{error:.0e}" if math.isfinite(error) else "no number"


def page(rows: list[dict[str, Any]], text: str) -> str:
    """Return the text of the page with the table of the rows."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + "\n" + table(rows) + "\n" + END + rest.split(END)[1]


def main() -> None:
    """Measure, keep, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the table of what is kept")
    if not parser.parse_args().page:
        rows = []
        for label, family in families().items():
            rows.append(measured(label, family))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
        KEPT.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(page(json.loads(KEPT.read_text()), PAGE.read_text()))


if __name__ == "__main__":
    main()
