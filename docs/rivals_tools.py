"""Other tools, each asked as strictly as it lets one ask: ``TOOLS`` by name. What is imported, is imported on use.

A tool gets a case of ``rivals_cases.py`` and returns what it said and what it found, or None where it does not take
such cases at all. Tolerances are 1e-9, of what the tool measures; at most 10,000 iterations, 1,000 where they are slow.
"""

import contextlib
import io
import logging
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rivals_cases import Case

TOL = 1e-9
MANY, SOME = 10_000, 1_000
STRICT = {"convergence_rate": TOL, "max_iteration": SOME, "rate_tolerance": 0.0}  # of ipfn
DONE, UNSAID, GAVE_UP, REFUSED = "success", "nothing", "not converged", "refused"

Outcome = tuple[str, np.ndarray | None] | None


class Tool(NamedTuple):
    """How to ask for its version, what it is asked, and what it takes."""

    version: Callable[[], str]
    run: Callable[[Case], Outcome]
    takes: str
    claims: str  # how it says that all is well


def _codes(case: Case) -> np.ndarray:
    assert case.codes is not None
    return case.codes


def _columns(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return a column for each category, or the counts, and the totals of all."""
    if case.counts is not None:
        return case.counts, case.targets[0][1]
    parts = [np.eye(len(t))[np.minimum(_codes(case)[axes[0]], len(t) - 1)] for axes, t in case.targets]
    return np.concatenate(parts, 1), np.concatenate([t for _, t in case.targets])


def _alike(case: Case) -> bool:
    return bool((case.seed == case.seed.flat[0]).all())


def _ones(case: Case) -> bool:
    return all((target == 1).all() for _, target in case.targets)


def _by_category(case: Case) -> bool:
    return case.kind == "records" and case.counts is None


def _independent(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and totals: of further attributes all but the first category, as ``model.matrix()`` has it."""
    columns, totals = _columns(case)
    kept = np.ones(columns.shape[1], bool)
    if case.counts is None:
        starts = np.cumsum([0, *(len(t) for _, t in case.targets[:-1])])
        kept[starts[1:]] = False
    return columns[:, kept], totals[kept]


def ipfn(case: Case, **options: float) -> Outcome:
    """``ipfn.ipfn(..., verbose=1)``."""
    from ipfn import ipfn

    if case.kind != "table":
        return None
    aggregates, dimensions = [t.copy() for _, t in case.targets], [list(axes) for axes, _ in case.targets]
    with contextlib.redirect_stdout(io.StringIO()):
        found, flag = ipfn.ipfn(case.seed.copy(), aggregates, dimensions, **options, verbose=1).iteration()
    return (DONE if flag else GAVE_UP), found


def humanleague(case: Case) -> Outcome:
    """``humanleague.ipf``."""
    import humanleague

    if case.kind != "table":
        return None
    axes = [np.array(of) for of, _ in case.targets]
    found, facts = humanleague.ipf(case.seed.copy(), axes, [t.copy() for _, t in case.targets])
    return (DONE if facts["conv"] else GAVE_UP), found


def aequilibrae(case: Case) -> Outcome:
    """``aequilibrae.distribution.ipf_core``, which the class ``Ipf`` calls."""
    from aequilibrae.distribution.ipf_core import ipf_core

    if not case.two_way:
        return None
    found = case.seed.copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sums = [t for _, t in case.targets]
        _, error = ipf_core(found, *sums, max_iterations=MANY, tolerance=TOL, cores=1)
    return (DONE if error <= TOL and not caught else GAVE_UP), found


def pot(case: Case) -> Outcome:
    """``ot.sinkhorn`` in logarithms, of the cost ``-log M``."""
    import ot

    if not case.two_way:
        return None
    rows, cols = (t for _, t in case.targets)
    with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cost = -np.log(case.seed)
        found = ot.sinkhorn(rows, cols, cost, 1.0, method="sinkhorn_log", numItermax=MANY, stopThr=TOL)
    unsure = any("converge" in str(each.message) or "umerical" in str(each.message) for each in caught)
    return (GAVE_UP if unsure else DONE), np.asarray(found)


def loglin(case: Case) -> Outcome:
    """R's ``loglin(..., start=)``, which takes the margins of a table."""
    if case.kind != "table" or case.other is None or not np.isfinite(case.seed).all():
        return None
    lines = ", ".join(f"c({', '.join(str(axis + 1) for axis in axes)})" for axes, _ in case.targets)
    text = f"""
        found <- loglin(other, list({lines}), start = seed, fit = TRUE, eps = {TOL} * sum(other), iter = {MANY},
                        print = FALSE)$fit
    """
    return _in_r(text, {"seed": case.seed, "other": case.other})


def sinkhorn_knopp(case: Case) -> Outcome:
    """``SinkhornKnopp().fit``."""
    from sinkhorn_knopp.sinkhorn_knopp import SinkhornKnopp

    if case.kind != "map" and not (case.two_way and _ones(case)):
        return None
    solver = SinkhornKnopp(max_iter=MANY, epsilon=TOL)
    found = solver.fit(case.seed)
    return (DONE if solver._stopping_condition == "epsilon" else GAVE_UP), found


def scikit_learn(case: Case) -> Outcome:
    """Do as ``SpectralBiclustering(method="bistochastic")`` does to sparse input."""
    from scipy.sparse import csr_matrix
    from sklearn.cluster._bicluster import _bistochastic_normalize

    if case.kind != "map" and not (case.two_way and _ones(case)):
        return None
    return UNSAID, _bistochastic_normalize(csr_matrix(case.seed), max_iter=MANY, tol=TOL).toarray()


def cooler(case: Case) -> Outcome:
    """``cooler.balance_cooler`` without its filters."""
    import cooler
    import pandas as pd

    if case.kind != "map":
        return None
    n = len(case.seed)
    i, j = np.nonzero(np.triu(case.seed))
    bins = pd.DataFrame({"chrom": "one", "start": np.arange(n) * 10, "end": np.arange(1, n + 1) * 10})
    pixels = pd.DataFrame({"bin1_id": i, "bin2_id": j, "count": case.seed[i, j]})
    filters = {"ignore_diags": False, "mad_max": 0, "min_nnz": 0, "min_count": 0}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cooler.create_cooler(f"{folder}/map.cool", bins, pixels, dtypes={"count": float})
        map_ = cooler.Cooler(f"{folder}/map.cool")
        weights, _ = cooler.balance_cooler(map_, tol=TOL, max_iters=MANY, **filters)
    unsure = any("converge" in str(each.message) for each in caught)
    return (GAVE_UP if unsure else DONE), case.seed * weights[:, None] * weights


def iced(case: Case) -> Outcome:
    """``iced.normalization.ICE_normalization``."""
    if case.kind != "map":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from iced.normalization import ICE_normalization

        return UNSAID, ICE_normalization(case.seed.copy(), max_iter=MANY, eps=TOL)


def balance(case: Case) -> Outcome:
    """``balance.weighting_methods.rake.rake``; targets as another sample where there is one with these totals.

    What no weight may exceed is asked as `weight_trimming_mean_ratio`, where weights begin alike.
    """
    import pandas as pd

    logging.disable(logging.CRITICAL)
    from balance.weighting_methods.rake import rake

    if not _by_category(case):
        return None
    names = [f"a{axes[0]}" for axes, _ in case.targets]
    sample = pd.DataFrame({name: code.astype(str) for name, code in zip(names, _codes(case), strict=True)})
    weights = pd.Series(case.seed)
    options = {"variables": names, "transformations": None, "na_action": "drop"}
    options |= {"convergence_rate": TOL, "max_iteration": MANY, "rate_tolerance": 0.0}
    if case.bounds is not None:
        mean = case.targets[0][1].sum() / case.seed.sum()
        options["weight_trimming_mean_ratio"] = case.bounds[1] / mean
    if case.answer is not None:
        found = rake(sample, weights, sample.copy(), pd.Series(case.answer), **options)
    else:
        wanted = {
            name: {str(k): float(v) for k, v in enumerate(target)}
            for name, (_, target) in zip(names, case.targets, strict=True)
        }
        found = rake(sample, weights, None, None, target_margins=wanted, **options)
    return (DONE if found["model"]["converged"] else GAVE_UP), np.asarray(found["weight"])


def samplics(case: Case) -> Outcome:
    """``SampleWeight().rake``; an upper bound as it takes one."""
    from samplics.weighting import SampleWeight

    if not _by_category(case):
        return None
    names = [f"a{axes[0]}" for axes, _ in case.targets]
    control = {name: dict(enumerate(t.tolist())) for name, (_, t) in zip(names, case.targets, strict=True)}
    margins = dict(zip(names, _codes(case), strict=True))
    most = None if case.bounds is None else case.bounds[1]
    few = most is not None or len(names) >= 9
    options = {"tol": TOL, "ctrl_tol": TOL, "max_iter": SOME if few else MANY}
    return UNSAID, SampleWeight().rake(case.seed, margins, control, up_bound=most, **options)


def samplics_calibrate(case: Case) -> Outcome:
    """``SampleWeight().calibrate(bounded=True)`` where bounds are asked; it is the linear method."""
    from samplics.weighting import SampleWeight

    if case.bounds is None or case.counts is None:
        return None
    columns, totals = _columns(case)
    return UNSAID, SampleWeight().calibrate(case.seed, columns, dict(enumerate(totals.tolist())), bounded=True)


def weightipy(case: Case) -> Outcome:
    """``weightipy.weight``, which takes no design weights, and shares instead of totals."""
    import pandas as pd
    from weightipy import scheme_from_dict, weight

    if not _by_category(case) or case.bounds or not _alike(case) or np.ptp([t.sum() for _, t in case.targets]) > TOL:
        return None
    wanted = {f"a{axes[0]}": {str(k): 100 * v / t.sum() for k, v in enumerate(t.tolist())} for axes, t in case.targets}
    sample = pd.DataFrame({name: code.astype(str) for name, code in zip(wanted, _codes(case), strict=True)})
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = weight(sample, scheme_from_dict(wanted, rim_params={"max_iterations": MANY, "convcrit": TOL}))
    unsure = "onvergence" in said.getvalue()
    return (GAVE_UP if unsure else DONE), np.asarray(found) * case.targets[0][1].sum() / len(sample)


def survey_rake(case: Case) -> Outcome:
    """R's ``survey::rake``, which takes no bounds."""
    if not _by_category(case) or case.bounds:
        return None
    return _in_r(
        f"""
        suppressPackageStartupMessages(library(survey))
        {_frame(case)}
        {_populations(case)}
        design <- svydesign(ids = ~1, weights = ~weight, data = sample)
        ways <- lapply(names(wanted), function(name) as.formula(paste("~", name)))
        found <- weights(rake(design, ways, wanted, control = list(maxit = {MANY}, epsilon = {TOL})))
        """,
        _arrays(case),
    )


def survey_calibrate(case: Case) -> Outcome:
    """R's ``survey::calibrate``, by raking, or by logit where bounds are asked."""
    if case.kind != "records":
        return None
    columns, totals = _independent(case)
    method = "raking" if case.bounds is None else "logit"
    bounds = "c(-Inf, Inf)" if case.bounds is None else f"c({case.bounds[0]}, {case.bounds[1]})"
    return _in_r(
        f"""
        suppressPackageStartupMessages(library(survey))
        sample <- data.frame(columns)
        sample$weight <- weight
        design <- svydesign(ids = ~1, weights = ~weight, data = sample)
        formula <- as.formula(paste("~ 0 +", paste(colnames(sample)[1:ncol(columns)], collapse = " + ")))
        population <- as.vector(totals)
        names(population) <- colnames(sample)[1:ncol(columns)]
        found <- weights(calibrate(design, formula, population, calfun = "{method}", bounds = {bounds},
                                   maxit = {MANY}, epsilon = {TOL}))
        """,
        {"columns": columns.astype(np.float64), "totals": totals, "weight": case.seed},
    )


def populationsim(case: Case) -> Outcome:
    """Call the balancer of PopulationSim, all importances 1e9."""
    from populationsim.balancing.balancers_numba import np_balancer_numba

    if case.kind != "records":
        return None
    columns, totals = _columns(case)
    if (columns < 0).any():
        return None
    low, high = case.bounds or (0.0, 1e9)
    n, K = columns.shape
    found, relaxed, facts = np_balancer_numba(
        n, K, -1, np.ascontiguousarray(columns.T, np.float64), case.seed.copy(), case.seed * low, case.seed * high,
        totals.astype(np.float64), np.full(K, 1e9), MANY,
    )  # fmt: skip
    unsure = not facts[0] or np.abs(relaxed - 1.0).max() > 1e-4  # it says by how much it has relaxed totals
    return (GAVE_UP if unsure else DONE), np.asarray(found, np.float64)


def _arrays(case: Case) -> dict[str, np.ndarray]:
    named = {f"t{axes[0]}": target for axes, target in case.targets}
    return {"weight": case.seed, "codes": _codes(case).T.astype(np.float64), **named}


def _frame(case: Case) -> str:
    names = ", ".join(f'"a{axes[0]}"' for axes, _ in case.targets)
    return f"""
        sample <- data.frame(codes)
        names(sample) <- c({names})
        for (name in names(sample)) sample[[name]] <- factor(sample[[name]])
        sample$weight <- weight
    """


def _populations(case: Case) -> str:
    tables = ", ".join(
        f"a{axes[0]} = data.frame(a{axes[0]} = factor(0:{len(target) - 1}), Freq = as.vector(t{axes[0]}))"
        for axes, target in case.targets
    )
    return f"wanted <- list({tables})"


def _in_r(text: str, arrays: dict[str, np.ndarray]) -> Outcome:
    """Run R on arrays; what it warns of is a failure that it admits, what it stops with a refusal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        read = []
        for key, array in arrays.items():
            (folder / key).write_text("\n".join(repr(float(v)) for v in array.ravel("F")).replace("nan", "NaN"))
            sizes = ", ".join(map(str, array.shape))
            read.append(f'{key} <- array(scan("{folder / key}", quiet = TRUE), c({sizes}))')
        program = f"""
            {chr(10).join(read)}
            unsure <- FALSE
            withCallingHandlers({{ {text} }}, warning = function(w) {{
                if (grepl("converge|failed", conditionMessage(w), ignore.case = TRUE)) unsure <<- TRUE
                invokeRestart("muffleWarning")
            }})
            writeLines(c(if (unsure) "unsure" else "fine", sprintf("%.17g", as.vector(found))), "{folder / "out"}")
        """
        (folder / "run.R").write_text(program)
        ran = subprocess.run(["Rscript", "--vanilla", folder / "run.R"], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip()[-300:])
        said, *numbers = (folder / "out").read_text().split()
        shape = arrays["seed" if "seed" in arrays else "weight"].shape
        found = np.array([float("nan" if v == "NA" else v) for v in numbers])
    return (GAVE_UP if said == "unsure" else DONE), found.reshape(shape, order="F")


def cmfast(case: Case) -> Outcome:
    """``ipf``, ``ipf_nd``, ``rake`` or ``balance``, as they are called by default."""
    import cmfast

    quiet = {"on_failure": "ignore"}
    if case.kind == "map":
        return _balanced(case.seed)
    if case.two_way:
        result = cmfast.ipf(case.seed, *(t for _, t in case.targets), **quiet)
    elif case.kind == "table":
        result = cmfast.ipf_nd(case.seed, case.targets, **quiet)
    else:
        options = {} if case.bounds is None else {"method": "truncated", "bounds": case.bounds}
        if case.counts is not None:
            given = (case.counts, case.targets[0][1])
        else:
            given = (_codes(case), [(axes[0], t) for axes, t in case.targets])
        result = cmfast.rake(*given, weights=case.seed, **options, **quiet)
    return _said(result.status), np.asarray(result[0])


def _balanced(M: np.ndarray) -> Outcome:
    """Return what ``balance`` says, and the map with its weights; where none exist, the limit, as it advises."""
    from scipy.sparse import coo_array

    import cmfast

    result = cmfast.balance(coo_array(M), on_failure="ignore")
    if result.status == cmfast.Status.LIMIT_ONLY:
        limit = cmfast.ipf(M, empty="drop", on_failure="ignore")
        return _said(limit.status), limit.matrix
    return _said(result.status), M * result.weights[:, None] * result.weights


def _said(code: int) -> str:
    import cmfast

    status = cmfast.Status(code)
    return GAVE_UP if status.name in {"MAX_ITER", "UNDETERMINED"} else DONE if status.ok else REFUSED


def _r(package: str) -> Callable[[], str]:
    def ask() -> str:
        what = "getRversion()" if package == "stats" else f'packageVersion("{package}")'
        try:
            ran = subprocess.run(
                ["Rscript", "--vanilla", "-e", f"cat(as.character({what}))"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise PackageNotFoundError(package) from error
        return ran.stdout.strip()

    return ask


def _pip(package: str) -> Callable[[], str]:
    return lambda: version(package)


def _ours() -> str:
    import cmfast

    return cmfast.__version__


TABLES, MATRICES, PEOPLE, MAPS = "tables", "matrices", "records", "maps"
TOOLS = {
    "cmfast": Tool(_ours, cmfast, "all", "status"),
    "ipfn": Tool(_pip("ipfn"), partial(ipfn, **STRICT), TABLES, "flag 1"),
    "ipfn, by default": Tool(_pip("ipfn"), ipfn, TABLES, "flag 1"),
    "humanleague": Tool(_pip("humanleague"), humanleague, TABLES, "conv True"),
    "R loglin": Tool(_r("stats"), loglin, TABLES, "no warning"),
    "AequilibraE": Tool(_pip("aequilibrae"), aequilibrae, MATRICES, "error below its tolerance"),
    "POT": Tool(_pip("POT"), pot, MATRICES, "no warning"),
    "sinkhorn_knopp": Tool(_pip("sinkhorn_knopp"), sinkhorn_knopp, MAPS, "stopped by epsilon"),
    "scikit-learn": Tool(_pip("scikit-learn"), scikit_learn, MAPS, "says nothing"),
    "cooler": Tool(_pip("cooler"), cooler, MAPS, "no warning"),
    "iced": Tool(_pip("iced"), iced, MAPS, "says nothing"),
    "balance": Tool(_pip("balance"), balance, PEOPLE, "converged 1"),
    "samplics": Tool(_pip("samplics"), lambda case: samplics_calibrate(case) or samplics(case), PEOPLE, "says nothing"),
    "weightipy": Tool(_pip("weightipy"), weightipy, PEOPLE, "prints no doubt"),
    "R survey, rake": Tool(_r("survey"), survey_rake, PEOPLE, "no warning"),
    "R survey, calibrate": Tool(_r("survey"), survey_calibrate, PEOPLE, "no warning"),
    "PopulationSim": Tool(_pip("populationsim"), populationsim, PEOPLE, "converged True, nothing relaxed"),
}
