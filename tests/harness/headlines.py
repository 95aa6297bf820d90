"""How often a report says of confusions what is not so, and how often it finds what is: by simulation of known truths.

``PYTHONPATH=.:tests/harness python tests/harness/headlines.py`` prints the tables of docs/report.md.
"""

import sys
from itertools import product

import numpy as np

import cmfast
from cmfast._report import _confusions, _model_facts, _options

ASKED = _options.ReportOptions(confidence_level=0.95, smoothing=None, n_resamples=2, seed=0, num_threads=1)
SIZES = (2, 5, 10, 50)
SAMPLES = {2: 1_000, 5: 10_000, 10: 10_000, 50: 200_000}
WRONG = 0.3  # share of samples


def errors(E, shares=None):
    """Return a table of probabilities: a share of every class wrong, in proportion to the row of `E`."""
    C = len(E)
    E = E * (1 - np.eye(C))
    shares = np.full(C, 1 / C) if shares is None else shares / shares.sum()
    return shares[:, None] * (WRONG * E / E.sum(axis=1, keepdims=True) + (1 - WRONG) * np.eye(C))


def symmetric(C, rng):
    """Return a table that is the same both ways, all pairs within a factor of three."""
    E = rng.uniform(0.5, 1.5, (C, C))
    E = (E + E.T) * (1 - np.eye(C))
    return WRONG * E / E.sum() + (1 - WRONG) * np.eye(C) / C


def uniform(C, rng):
    """Return a table whose errors are the same everywhere."""
    return errors(np.ones((C, C)))


def tied(C, rng):
    """Return a symmetric table with two pairs (or one, of few classes) that are equal and far above the others."""
    E = np.ones((C, C))
    for i, j in ((0, 1), (2, 3)) if C > 4 else ((0, 1),):
        E[i, j] = E[j, i] = 5.0 * C
    P = WRONG * E * (1 - np.eye(C))
    return P / P.sum() * WRONG + (1 - WRONG) * np.eye(C) / C


def rare(C, rng):
    """Return a table of classes between a half and one in a thousand of all, whose errors fall evenly."""
    return errors(np.ones((C, C)), np.geomspace(1.0, 0.002, C))


def rare_symmetric(C, rng):
    """Return a symmetric table of classes as rare as that."""
    a = np.geomspace(1.0, 0.002, C)
    E = a[:, None] * a * (1 - np.eye(C))
    return WRONG * E / E.sum() + (1 - WRONG) * np.diag(a / a.sum())


def asymmetric(C, rng):
    """Return a table with one pair above all others, one way only: a fifth of the first class is taken for the next."""
    P = uniform(C, rng)
    P[0, 0] -= 0.2 / C
    P[0, 1] += 0.2 / C
    return P


KINDS = {kind.__name__: kind for kind in (symmetric, uniform, tied, rare, rare_symmetric)}


def cases():
    """Return kinds of truth, numbers of classes and of samples: so many that all cells are met, and few."""
    return [(kind, C, n) for kind, C in product(KINDS, SIZES) for n in (SAMPLES[C], 8 * C)]


def describe_report(M):
    """Return what a report says of the confusions of a matrix of counts."""
    labels = [str(k) for k in range(len(M))]
    return _confusions.describe_confusions(M, _model_facts.scale_matrix(M, ASKED), labels, ASKED)


def strictly(values, tolerance=1e-9):
    """Return how many are larger, and how many are smaller than each, beyond rounding."""
    ordered = np.sort(values)
    larger = len(values) - np.searchsorted(ordered, values + tolerance, side="right")
    return larger, np.searchsorted(ordered, values - tolerance, side="left")


def mistakes(found, P):
    """Return which kinds of statement of the top and of the rank tables are not so; an order of equals is not so."""
    C = len(P)
    upper = np.triu_indices(C, 1)
    place = {pair: k for k, pair in enumerate(zip(*(u.tolist() for u in upper), strict=True))}
    of = {"rank": (P + P.T)[upper]}
    if found["standing"]["judged"]:
        B = cmfast.bi_normalize(P)
        of["rank_balanced"] = (B + B.T)[upper]
    wrong = set()

    def index(a, b):
        return place[tuple(sorted((int(a), int(b))))]

    standing = found["standing"]
    counts = of["rank"]
    leading = [index(p["first"], p["second"]) for p in standing["pairs"]] if standing["n_pairs"] > 1 else []
    if leading and np.delete(counts, leading).max(initial=-1.0) >= counts[leading].min() - 1e-12:
        wrong.add("leading")
    for p in standing["pairs"]:
        i, j = int(p["first"]), int(p["second"])
        if p["told"] and (P[i, j] - P[j, i]) * (p["forth"] - p["back"]) <= 1e-12:
            wrong.add("direction")
    for c in found["confusions"]:
        i, j = int(c["true"]), int(c["predicted"])
        if not c["both_ways"] and abs(P[i, j] - P[j, i]) <= 1e-12:
            wrong.add("direction")
    if (one := standing["balanced"]) is not None:
        k, values = index(one["first"], one["second"]), of["rank_balanced"]
        if np.delete(values, k).max() >= values[k] - 1e-9:
            wrong.add("balanced")
    for name, values in of.items():
        larger, smaller = strictly(values)
        for c in [*found["confusions"], *standing["moved"]]:
            k = index(*((c["true"], c["predicted"]) if "true" in c else (c["first"], c["second"])))
            least, most = c[name]
            if larger[k] < least - 1 or smaller[k] < len(values) - most:
                wrong.add(name)
    return wrong


def simulate(kind, C, n, draws, seed=0):
    """Return of how many draws anything is wrong, and in how many something is said to stand out at all."""
    rng = np.random.default_rng([seed, C, n, *kind.encode()])
    wrong = stands = 0
    for _ in range(draws):
        P = KINDS[kind](C, rng)
        found = describe_report(rng.multinomial(n, P.ravel()).reshape(C, C))
        wrong += bool(mistakes(found, P))
        stands += bool(found["standing"]["n_pairs"] > 1 and found["standing"]["pairs"])
    return wrong, stands


def power(C, n, draws, seed=0):
    """Return in how many draws of `asymmetric` its pair alone is at the top, and in how many with its direction."""
    rng = np.random.default_rng([seed, C, n])
    top = told = 0
    P = asymmetric(C, rng)
    for _ in range(draws):
        pairs = describe_report(rng.multinomial(n, P.ravel()).reshape(C, C))["standing"]["pairs"]
        right = len(pairs) == 1 and (pairs[0]["first"], pairs[0]["second"]) == ("0", "1")
        top += right
        told += right and pairs[0]["told"] and pairs[0]["forth"] > pairs[0]["back"]
    return top, told


def main(n_resamples):
    """Write the tables of docs/report.md."""
    write = sys.stdout.write
    for case in cases():
        shares = " | ".join(f"{count / n_resamples:.3f}" for count in simulate(*case, n_resamples))
        kind, C, n = case
        write(f"| {kind.replace('_', ' ')} | {C} | {n:,} | {shares} |\n")
    for C in SIZES:
        for n in (20 * C, 100 * C, 500 * C):
            top, told = power(C, n, n_resamples)
            write(f"| {C} | {n:,} | {top / n_resamples:.2f} | {told / n_resamples:.2f} |\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
