"""Same bits for any number of threads, any chunking, any order of the batch, any run; for every op on its cases."""

import inspect
import re
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from calls import parts, public
from cases import CASES
from checks import assert_same_bits
from describe import describe_call
from folded import parametrize_folded

import cmfast
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.cpu.geometry import _sample_sort
from cmfast.kernels.ops import OPS

pytestmark = pytest.mark.exhaustive


def inputs(op):
    """Return the number of core axes of each array argument, from the signature of the op."""
    cores = re.findall(r"\((.*?)\)", OPS[op].signature.partition("->")[0])
    return [len(axes.split(",")) if axes else 0 for axes in cores]


def arrays(op, result):
    """Return the arrays of a result, whatever holds them."""
    if not isinstance(result, tuple | Mapping | np.ndarray | np.generic):
        result = parts(op, result)
    return tuple(_leaves(result))


def _leaves(result):
    if isinstance(result, np.ndarray | np.generic):
        yield np.asarray(result)
    elif isinstance(result, tuple | Mapping):
        for part in result.values() if isinstance(result, Mapping) else result:
            yield from _leaves(part)


def run(op, args, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cmfast.FailureWarning)
        return arrays(op, public(op)(*args, **options))


def batched(op, case):
    """Return which arguments have the whole batch, or None if the batch of the case cannot be cut along one axis."""
    if op == "confusion_matrix" and "n_classes" not in case.options:
        return None  # its classes come from the whole batch
    if op in ("resample", "metric_draws", "metric_intervals", "cluster_intervals"):
        return None  # its streams are numbered by the place in the batch
    if op == "round_to_margins":
        return None  # the op says of its tables, which have two axes or more, that they are lines
    if OPS[op].topic == "conformal":
        return None  # rows and thresholds have other axes in the call than in the op; it has tests of its own
    if any(isinstance(value, np.ndarray | tuple) for value in case.options.values()):
        return None
    given = [(a, core) for a, core in zip(case.args, inputs(op), strict=False) if isinstance(a, np.ndarray)]
    batches = {a.shape[: a.ndim - core] for a, core in given} - {()}
    if len(batches) != 1 or min(next(iter(batches))) < 2:
        return None
    core = iter(inputs(op))
    return [isinstance(a, np.ndarray) and a.ndim > next(core) for a in case.args]


def cases(wanted=lambda op, case: True):
    """Return ops that run on several threads, each with its cases that a test is about."""
    threaded = [op for op in OPS if "num_threads" in inspect.signature(public(op)).parameters]
    return {op: [case for case in CASES[op] if wanted(op, case)] for op in threaded}


@contextmanager
def in_many_pieces():
    """Cut even the smallest case into as many pieces as it has elements, and use the pool for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "INLINE_SECONDS", 0.0)
        patch.setattr(pool, "PIECE_SECONDS", 1e-12)
        patch.setattr(_sample_sort, "LEAST_PARTITIONED_POINTS", 1)
        yield


@parametrize_folded(cases())
def test_threads_and_pieces(op, case):
    many = [{**case.options, "num_threads": threads} for threads in (1, 2, 5, 8, 2)]
    with in_many_pieces():
        in_pieces = [run(op, case.args, options) for options in many]
    whole = run(op, case.args, case.options)
    assert whole, "nothing to compare"
    for options, one in zip(many, in_pieces, strict=True):
        assert_same_bits(one, whole, what=describe_call(op, case.args, options, "many pieces, not one"))


@parametrize_folded(cases(batched))
def test_chunks_of_the_batch(op, case):
    has_batch = batched(op, case)
    size = next(len(a) for a, yes in zip(case.args, has_batch, strict=True) if yes)
    whole = run(op, case.args, case.options)
    cuts = sorted({0, 1, size // 2, size})
    chunks = []
    for start, stop in pairwise(cuts):
        args = [a[start:stop] if yes else a for a, yes in zip(case.args, has_batch, strict=True)]
        chunks.append(run(op, args, case.options))
    what = describe_call(op, case.args, case.options, f"chunks that begin at {cuts[:-1]}, not whole")
    for k, part in enumerate(whole):
        assert_same_bits(np.concatenate([chunk[k] for chunk in chunks]), part, what=f"{what}: part {k + 1}")


@parametrize_folded(cases(batched))
def test_order_of_the_batch(op, case):
    """What is next to a matrix, in its tile or anywhere, does not change it."""
    has_batch = batched(op, case)
    size = next(len(a) for a, yes in zip(case.args, has_batch, strict=True) if yes)
    order = np.random.default_rng(3).permutation(size)
    whole = run(op, case.args, case.options)
    args = [a[order] if yes else a for a, yes in zip(case.args, has_batch, strict=True)]
    what = describe_call(op, case.args, case.options, f"elements {order.tolist()}, not in order")
    for k, (part, shuffled) in enumerate(zip(whole, run(op, args, case.options), strict=True)):
        assert_same_bits(shuffled, part[order], what=f"{what}: part {k + 1}")


def test_ops_on_matrices_have_cases_that_can_be_cut():
    matrices = {op for op in OPS if OPS[op].signature.startswith("(R,C)")}
    assert {op for op in OPS for case in CASES[op] if batched(op, case)} >= matrices | {"confusion_matrix"}
