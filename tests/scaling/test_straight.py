"""Straight-line code and loops: which of them runs never shows in a bit."""

import numpy as np
import pytest
import torture

from cmfast.kernels.cpu._core import unroll, vector
from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import load, some, splat, store
from cmfast.kernels.cpu.scaling import launch
from cmfast.kernels.status import Status

MOST = max(launch.UNROLLED_SIZES)
EVERY = pytest.mark.exhaustive  # each size is compiled by itself


def both_ways(M, **options):
    """Return what straight-line code and what loops make of matrices."""
    straight = launch.ipf(M, None, None, None, None, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "UNROLLED_SIZES", ())
        loops = launch.ipf(M, None, None, None, None, **options)
    return straight, loops


def assert_same_bits(straight, loops):
    for one, other in zip(straight, loops, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("family", [*torture.POSITIVE, *torture.ZEROS])
@pytest.mark.parametrize("C", [2, 3, pytest.param(5, marks=EVERY), 10])
def test_hard_matrices_have_the_same_bits(family, C):
    M = (torture.POSITIVE | torture.ZEROS)[family](np.random.default_rng([C, len(family)]), 60, C)
    assert_same_bits(*both_ways(M))


@pytest.mark.parametrize("C", [pytest.param(C, marks=EVERY if C not in (2, 3, 10) else ()) for C in range(1, MOST + 1)])
@pytest.mark.parametrize("options", [{}, {"smoothing": 1e-12}, {"tol": 1e-13, "max_iter": 6}], ids=str)
def test_every_size_has_the_same_bits(C, options):
    rng = np.random.default_rng(C)
    M = torture.counts(rng, 203, C, 0.7) + 0.5 * (rng.random((203, 1, 1)) < 0.5)
    M[7, 0] = 0.0  # a row without cells
    M[100, 0, 0] = np.nan
    M[150] *= 1e-200  # far from one
    M[-1] = M[-1, ::-1]  # not paired by its diagonal
    straight, loops = both_ways(M, **options)
    assert_same_bits(straight, loops)
    assert Status.INVALID in straight[5]


def test_a_matrix_has_the_same_bits_alone_as_among_others():
    M = torture.counts(np.random.default_rng(5), 37, 6, 0.8)
    M[3, 2] = 0.0
    together = launch.ipf(M, None, None, None, None)
    for b in (0, 3, 4, 36):
        alone = launch.ipf(M[b], None, None, None, None)
        for one, many in zip(alone, together, strict=True):
            assert np.asarray(one).tobytes() == many[b].tobytes()


def test_targets_of_one_give_what_no_targets_do():
    """Given as arrays they go through the loops, which may take a step more: cells are looked at as well."""
    M = torture.counts(np.random.default_rng(6), 40, 5, 0.6) + 0.1
    one = np.ones(5)
    straight, loops = launch.ipf(M, None, None, None, None), launch.ipf(M, one, one, None, None)
    for part in range(3):
        np.testing.assert_allclose(loops[part], straight[part], rtol=1e-8)
    np.testing.assert_array_equal(loops[5], straight[5])


@jit(inner=True)
def _branches(t):
    if some(load(t.S, 0) > 0.0):
        store(t.S, 1, splat(1.0))


def test_straight_line_code_refuses_to_branch_on_numbers():
    trace = unroll.Trace({})
    with pytest.raises(TypeError, match="cannot branch"):
        unroll.trace_source(_branches, trace)(Lines(trace))


class Lines:
    """A tile of nothing but lines."""

    def __init__(self, trace):
        self.S = trace


def test_what_is_known_needs_no_operation():
    trace = unroll.Trace({0: 1.0, 1: 0.0})
    one, zero, x = trace.load(0), trace.load(1), trace.load(2)
    for value in (x * one, one * x, x / one, x + zero, zero + x, x - zero):
        assert value is x
    assert (x * zero).number == 0.0
    assert (one + one).number == 2.0
    assert (one > zero).number == 1.0
    assert not (~(one > zero)).number
    assert trace.apply(vector.where, one > zero, x, zero) is x
    assert trace.apply(vector.fma, x, one, zero) is x
    assert len(trace.order) == 1  # the load
