"""A pytest plugin for the suites of other libraries: what became of every test, and of calls that ours left to them.

``-p peer_plugin --peer sklearn`` (or ``torchmetrics``, or ``pot``) ``--outcomes FILE`` writes it down as JSON. With
``--with-cmfast`` ours replace theirs before a test module imports them. ``--only FILE`` has the names of the
tests to run, as JSON.
"""

import hashlib
import json
import pickle
import sys
import warnings
from collections import Counter
from functools import partial, wraps
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
import sklearn

OUTCOMES, REASONS, COUNTS, REFERENCES = {}, {}, Counter(), {}


def pytest_addoption(parser):
    """Take whose suite it is, whether ours are put in place, which tests are run, and where to write."""
    parser.addoption("--peer", choices=PATCHES, required=True)
    parser.addoption("--with-cmfast", action="store_true")
    parser.addoption("--only", type=Path)
    parser.addoption("--outcomes", type=Path, required=True)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Give torchmetrics' suite what keeps its references, for which it imports a library in its first file."""
    if early_config.known_args_namespace.peer == "torchmetrics":
        sys.modules["cachier"] = module = ModuleType("cachier")
        module.cachier = lambda **_: remembered


def pytest_configure(config):
    """Put ours in place."""
    if config.option.peer == "torchmetrics":
        sklearn.set_config(skip_parameter_validation=True)  # of its references, which take nearly all of the time
    if config.option.with_cmfast:
        PATCHES[config.option.peer]()


def pytest_collection_modifyitems(config, items):
    """Leave out what is not asked for."""
    if config.option.only:
        only = set(json.loads(config.option.only.read_text(encoding="utf-8")))
        items[:] = [item for item in items if item.nodeid in only]


def pytest_runtest_setup(item):
    """Seed each test of torchmetrics, so that it has the same random numbers with and without ours."""
    if item.config.option.peer == "torchmetrics":
        import torch

        torch.manual_seed(0)


def pytest_runtest_logreport(report):
    """Record the outcome of each test: of its call, and of a failed or skipped set-up or tear-down."""
    if report.when == "call" or report.outcome != "passed":
        OUTCOMES[report.nodeid] = report.outcome
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash:
        REASONS[report.nodeid] = crash.message.partition("\n")[0]


def pytest_sessionfinish(session):
    """Write it down."""
    text = json.dumps({"outcomes": OUTCOMES, "reasons": REASONS, "counts": COUNTS})
    session.config.option.outcomes.write_text(text, encoding="utf-8")


def remembered(function):
    """Return the function with its values kept by those of its arguments, not by addresses of tensors."""

    def call_cached(*args, **options):
        key = hashlib.sha256(pickle.dumps([plain(function), plain(args), plain(options)])).digest()
        if key not in REFERENCES:
            REFERENCES[key] = pickle.dumps(function(*args, **options))
        return pickle.loads(REFERENCES[key])

    return call_cached


def plain(x):
    """Return a picklable form of an argument for a cache key."""
    if isinstance(x, partial):
        return plain(x.func), plain(x.args), plain(x.keywords)
    if isinstance(x, FunctionType):
        inner = x.__closure__ if "<" in x.__qualname__ else None  # of one made in a function or without a name
        return x.__module__, x.__qualname__, x.__code__.co_firstlineno, plain([c.cell_contents for c in inner or ()])
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return list(map(plain, x))
    if hasattr(x, "tolist"):
        return str(x.dtype), tuple(x.shape), x.tolist()
    return repr(x)


def count_ops():
    """Count how often an op of cmfast is run."""
    from cmfast._core import dispatch

    call = dispatch.call

    def count_and_call(*args, **options):
        COUNTS["ops"] += 1
        return call(*args, **options)

    dispatch.call = count_and_call


def patch_sklearn():
    """Replace scikit-learn's functions by ours, and count the calls that ours leave to theirs."""
    from cmfast.compat import sklearn as ours
    from cmfast.compat.sklearn import _originals

    count_ops()
    ours.patch()
    for name, theirs in list(_originals.ORIGINALS.items()):
        _originals.ORIGINALS[name] = wraps(theirs)(partial(noted, theirs))


def noted(theirs, *args, **options):
    """Call scikit-learn's own function, and note why: it raises, it warns, or neither, which ours should have done."""
    asked = sys._getframe(1).f_code.co_name == "replay"
    why = "raised"
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            value = theirs(*args, **options)
        why = "asked" if asked else "warned" if said else f"neither: {theirs.__name__}"
    finally:
        COUNTS[why] += 1
    for warning in said:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return value


def patch_torchmetrics():
    """Replace torchmetrics' classes by ours."""
    import torchmetrics.classification as theirs

    from cmfast.compat import torchmetrics as ours

    count_ops()
    new = {getattr(theirs, name): getattr(ours, name) for name in ours.__all__ if name != "MetricCollection"}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torchmetrics":
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value in new:
                    setattr(module, key, new[value])


def patch_pot():
    """Replace POT's log-domain Sinkhorn algorithm by ours wherever it is called by name."""
    import ot.bregman._sinkhorn as theirs

    count_ops()
    original = theirs.sinkhorn_log
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "ot" and getattr(module, "sinkhorn_log", None) is original:
            module.sinkhorn_log = sinkhorn_log


def sinkhorn_log(
    a, b, M, reg, numItermax=1000, stopThr=1e-9, verbose=False, log=False, warn=True, warmstart=None, **options
):  # fmt: skip  # theirs
    """Do what POT's function does by ``cmfast.ipf`` of logarithms; where it begins does not matter."""
    from ot.backend import get_backend
    from ot.utils import list_to_array

    import cmfast

    del verbose, warmstart, options
    a, b, M = list_to_array(a, b, M)
    nx = get_backend(M, a, b)
    is_torch = nx.__name__ == "torch"  # whose tensors may want gradients
    u, v, cost = ((part.double() if is_torch else nx.to_numpy(part).astype(float)) for part in (a, b, M))
    like = cost.detach() if is_torch else cost
    u = u if len(u) else like[:, 0] * 0 + 1 / cost.shape[0]
    v = v if len(v) else like[0] * 0 + 1 / cost.shape[1]
    tol = min(max(stopThr, 1e-14), 0.1)
    # A sweep of theirs reads the matrix twice; of ours a pass reads it once.
    found = cmfast.ipf(-cost / reg, u, v.T, logits=True, tol=tol, max_iter=2 * numItermax, on_failure="ignore")
    if warn and not (found.status == cmfast.Status.CONVERGED).all():
        warnings.warn("Sinkhorn did not converge.", stacklevel=2)
    plan = found.matrix if v.ndim == 1 else (found.matrix * cost).sum((-1, -2))

    def convert_part(part):
        return part.to(M.dtype) if is_torch else nx.from_numpy(part, type_as=M)

    if not log:
        return convert_part(plan)
    factors = {"log_u": found.row_scale.T, "log_v": found.col_scale.T}
    factors |= {name[4:]: part.exp() if is_torch else np.exp(part) for name, part in factors.items()}
    factors = {name: convert_part(part) for name, part in factors.items()}
    return convert_part(plan), {**factors, "niter": 0, "err": [0.0]}


PATCHES = {"sklearn": patch_sklearn, "torchmetrics": patch_torchmetrics, "pot": patch_pot}
