"""What `benchmarks.apart` runs elsewhere: ``python -I _peers.py PEER PACKAGE PROBLEM.npz FOUND.npz SECONDS``.

Here only NumPy is imported, and a peer by its function. Each gets the arrays of a problem, converts them to what the
peer takes, compiles what the peer compiles, and returns the call that is timed, and what reads weights and facts of
what the call returns. So times have neither imports nor conversions in them. Tolerances are 1e-9 where a peer has one.
"""

import contextlib
import io
import json
import logging
import sys
import tempfile
import time
from importlib.metadata import version

import numpy as np

TOL = 1e-9
MANY = 10_000


def _make_text_frame(given):
    """Return a frame of categories as text, a column for each attribute."""
    import pandas as pd

    return pd.DataFrame({f"a{k}": code.astype(str) for k, code in enumerate(given["codes"])})


def balance(given):
    """``balance.weighting_methods.rake.rake``, whose target is another sample: ours with the weights that are wanted.

    Totals it would take as well, but rounds them to a sample of 10,000.
    """
    import pandas as pd

    logging.disable(logging.CRITICAL)
    from balance.weighting_methods.rake import rake

    sample, other = _make_text_frame(given), _make_text_frame(given)
    weights, wanted = pd.Series(given["weights"]), pd.Series(given["answer"])
    options = {"variables": list(sample), "transformations": None, "na_action": "drop"}
    options |= {"convergence_rate": TOL, "max_iteration": MANY, "rate_tolerance": 0.0}

    def call():
        return rake(sample, weights, other, wanted, **options)

    return call, lambda found: (found["weight"], {"says": "converged" if found["model"]["converged"] else "gave up"})


def samplics(given):
    """``SampleWeight().rake``."""
    from samplics.weighting import SampleWeight

    margins = {f"a{k}": code for k, code in enumerate(given["codes"])}
    control = {f"a{k}": dict(enumerate(totals.tolist())) for k, totals in enumerate(given["totals"])}
    options = {"tol": TOL, "ctrl_tol": TOL, "max_iter": MANY}

    def call():
        return SampleWeight().rake(given["weights"], margins, control, **options)

    return call, lambda found: (found, {})


def weightipy(given):
    """``weightipy.weight``, which begins with weights of one and takes shares."""
    from weightipy import scheme_from_dict, weight

    sample, total = _make_text_frame(given), given["totals"][0].sum()
    wanted = {
        f"a{k}": {str(level): 100 * value / totals.sum() for level, value in enumerate(totals.tolist())}
        for k, totals in enumerate(given["totals"])
    }
    scheme = scheme_from_dict(wanted, rim_params={"max_iterations": MANY, "convcrit": TOL})

    def call():
        with contextlib.redirect_stdout(io.StringIO()):
            return weight(sample, scheme)

    return call, lambda found: (np.asarray(found) * total / len(sample), {})


def populationsim(given):
    """``np_balancer_py``, which its settings choose by default."""
    from populationsim.balancing.balancers import np_balancer_py

    return _make_region_calls(given, np_balancer_py)


def populationsim_numba(given):
    """``np_balancer_numba``, of ``USE_NUMBA``."""
    from populationsim.balancing.balancers_numba import np_balancer_numba

    return _make_region_calls(given, np_balancer_numba)


def _make_region_calls(given, balancer):
    """Return calls of a balancer of PopulationSim; its first control is the one of households, which it meets last."""
    regions = []
    for k in range(int(given["n_regions"])):
        A, q, totals, low, high, importance = (
            given[f"{name}{k}"] for name in ("columns", "weights", "totals", "low", "high", "importance")
        )
        regions.append((*A.shape, 0, np.ascontiguousarray(A.T), q, q * low, q * high, totals, importance))

    def call(most=MANY):
        return [balancer(*region, most) for region in regions]

    def collect(found):
        says = ["converged" if facts[0] else "gave up" for _, _, facts in found]
        weights = np.concatenate([weights for weights, _, _ in found])
        return weights, {"iterations": [int(facts[1]) for _, _, facts in found], "says": ", ".join(says)}

    call(1)
    return call, collect


def cooler(given):
    """``cooler.balance_cooler`` without its filters, as strict as it is by default, of a file on disk."""
    import cooler
    import pandas as pd

    n, folder = int(given["n"]), tempfile.mkdtemp(dir=".")  # the folder that the peer is run in, which goes with it
    bins = pd.DataFrame({"chrom": "one", "start": np.arange(n) * 10, "end": np.arange(1, n + 1) * 10})
    pixels = pd.DataFrame({"bin1_id": given["i"], "bin2_id": given["j"], "count": given["counts"]})
    cooler.create_cooler(f"{folder}/map.cool", bins, pixels, dtypes={"count": np.int64})
    opened = cooler.Cooler(f"{folder}/map.cool")
    filters = {"ignore_diags": False, "mad_max": 0, "min_nnz": 0, "min_count": 0}

    def call():
        return cooler.balance_cooler(opened, **filters)

    return call, lambda found: (found[0], {"says": "converged" if found[1]["converged"] else "gave up"})


def sweeps(given):
    """NumPy: the peer of ``--smoke``, which needs no environment."""
    codes, totals = given["codes"], given["totals"]

    def call():
        w = given["weights"].copy()
        for _ in range(200):
            for code, target in zip(codes, totals, strict=True):
                w *= (target / np.bincount(code, w, len(target)))[code]
        return w

    return call, lambda found: (found, {"says": "converged"})


def untouched(given):
    """Weights as they were: the peer of ``--smoke`` whose answers are wrong."""
    if "n" in given:
        weights = np.ones(int(given["n"]))
    elif "n_regions" in given:
        weights = np.concatenate([given[f"weights{k}"] for k in range(int(given["n_regions"]))])
    else:
        weights = given["weights"]
    return weights.copy, lambda found: (found, {"iterations": [0]})


def main(peer, package, problem, found, seconds):
    """Time a peer until `seconds` have passed and write what it found; the first time of several is left out."""
    with np.load(problem) as file:
        given = dict(file)
    call, read = globals()[peer](given)
    wall, cpu, begin = [], [], time.perf_counter()
    while True:
        start = time.perf_counter(), time.process_time()
        result = call()
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
        if time.perf_counter() - begin > seconds:
            break
    weights, facts = read(result)
    facts |= {
        "version": version(package) if package else "",
        "wall": wall[1:] or wall,
        "cpu": cpu[1:] or cpu,
        "numpy": np.__version__,
    }
    np.savez(found, weights=np.asarray(weights, np.float64), facts=json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]))
