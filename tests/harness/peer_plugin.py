"""A pytest plugin for the suites of other libraries: what became of every test, and of calls that ours left to them.

``-p peer_plugin --outcomes FILE`` writes it down as JSON. With ``--with-cmfast sklearn`` (or ``torchmetrics``) ours
stand in place of theirs before a test module imports them.
"""

import json
import sys
import warnings
from collections import Counter
from functools import partial, wraps
from pathlib import Path

OUTCOMES, COUNTS = {}, Counter()


def pytest_addoption(parser):
    """Take where to write, and in whose place ours are put."""
    parser.addoption("--outcomes", required=True)
    parser.addoption("--with-cmfast", choices=PATCHES, default="nothing")


def pytest_configure(config):
    """Put ours in place."""
    PATCHES[config.option.with_cmfast]()


def pytest_runtest_logreport(report):
    """Keep what became of each test: of its call, and of what stands around it where that is no pass."""
    if report.when == "call" or report.outcome != "passed":
        OUTCOMES[report.nodeid] = report.outcome


def pytest_sessionfinish(session):
    """Write it down."""
    text = json.dumps({"outcomes": OUTCOMES, "counts": COUNTS})
    Path(session.config.option.outcomes).write_text(text, encoding="utf-8")


def count_ops():
    """Count how often an op of cmfast is run."""
    from cmfast._core import dispatch

    call = dispatch.call

    def counted(*args, **options):
        COUNTS["ops"] += 1
        return call(*args, **options)

    dispatch.call = counted


def patch_sklearn():
    """Put ours in place of scikit-learn's, and note what is left to those."""
    from cmfast.compat import sklearn as ours
    from cmfast.compat.sklearn import _originals

    count_ops()
    ours.patch()
    for name, theirs in list(_originals.ORIGINALS.items()):
        _originals.ORIGINALS[name] = wraps(theirs)(partial(noted, theirs))


def noted(theirs, *args, **options):
    """Call scikit-learn's own function, and note why: it raises, it warns, or neither, which ours should have done."""
    asked = sys._getframe(1).f_code.co_name == "ask"
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
    """Put ours in place of torchmetrics' classes."""
    import torchmetrics.classification as theirs

    from cmfast.compat import torchmetrics as ours

    count_ops()
    new = {getattr(theirs, name): getattr(ours, name) for name in ours.__all__ if name != "MetricCollection"}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torchmetrics":
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value in new:
                    setattr(module, key, new[value])


PATCHES = {"nothing": lambda: None, "sklearn": patch_sklearn, "torchmetrics": patch_torchmetrics}
