"""Logarithm and exponential of eight lanes, against correctly rounded decimals."""

import math
import os
from decimal import Decimal, localcontext

import numpy as np
import pytest
from processes import ROOT, python

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu._core.vector import WIDTH, bits, largest, load, new_lines, splat, store, store_elements
from cmfast.kernels.cpu._core.vector_functions import exp, log

pytestmark = pytest.mark.exhaustive  # these functions are inner ones of kernels that other tests look at

TINY, LARGEST = 2.0**-1074, math.nextafter(math.inf, 0.0)
UNITS = 1.5  # in the last place


@jit()
def _log(lines):
    for k in range(len(lines)):
        store(lines, k, log(load(lines, k)))


@jit()
def _exp(lines):
    for k in range(len(lines)):
        store(lines, k, exp(load(lines, k)))


@jit()
def _reduced(lines, limit):
    return largest(load(lines, 0)), bits(load(lines, 0) > splat(limit))


@jit()
def _written(lines, numbers, k):
    store_elements(numbers, k, load(lines, 0))


def _of(kernel, numbers):
    x = np.array(numbers, np.float64)
    lines = new_lines(-(-len(x) // WIDTH))
    flat = lines.reshape(-1)
    flat[:] = 1.0
    flat[: len(x)] = x
    kernel(lines)
    return flat[: len(x)].copy()


def _near_one():
    yield from (math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), 1.0 - 2.0**-30, 1.0 + 2.0**-30)
    for at in (math.sqrt(0.5), math.sqrt(2.0)):
        yield from (math.nextafter(at, 0.0), at, math.nextafter(at, 3.0))


def _errors(found, want):
    for x, y in zip(found.tolist(), want, strict=True):
        yield float(abs(Decimal(x) - y) / Decimal(math.ulp(x)))


def test_logarithms_are_within_a_unit_or_so(rng):
    x = [*_near_one(), LARGEST, 2.0**-1022, math.e, 10.0, 0.1, TINY, 3.0 * TINY]
    x += [*rng.uniform(0.4, 2.5, 2000), *np.exp(rng.uniform(-700.0, 700.0, 2000))]
    with localcontext(prec=60):
        assert max(_errors(_of(_log, x), [Decimal(y).ln() for y in map(float, x)])) < UNITS


def test_exponentials_are_within_a_unit_or_so(rng):
    x = [1.0, -1.0, 1e-300, -1e-300, 709.78, -708.3, 0.5 * math.log(2.0), -0.5 * math.log(2.0), -740.0, -745.13]
    x += [*rng.uniform(-2.0, 2.0, 2000), *rng.uniform(-708.0, 709.0, 2000)]
    with localcontext(prec=60):
        assert max(_errors(_of(_exp, x), [Decimal(y).exp() for y in map(float, x)])) < UNITS


def test_logarithms_of_what_has_none():
    inf, nan = np.inf, np.nan
    found = _of(_log, [1.0, 0.0, -0.0, inf, nan, -1.0, -inf, -TINY])
    np.testing.assert_array_equal(found, [0.0, -inf, -inf, inf, nan, nan, nan, nan])


def test_exponentials_at_the_ends():
    inf, nan = np.inf, np.nan
    found = _of(_exp, [0.0, -0.0, inf, -inf, nan, 709.8, -746.0, LARGEST, -LARGEST])
    np.testing.assert_array_equal(found, [1.0, 1.0, inf, 0.0, nan, inf, 0.0, inf, 0.0])


def test_neighbours_do_not_matter(rng):
    x = rng.uniform(0.0, 3.0, 5 * WIDTH)
    order = rng.permutation(len(x))
    for kernel in (_log, _exp):
        np.testing.assert_array_equal(_of(kernel, x)[order], _of(kernel, x[order]))


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="is what it would start")
def test_the_same_as_plain_python():
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, cwd=ROOT, NUMBA_DISABLE_JIT="1")
    assert " passed" in said


@pytest.mark.parametrize("place", range(WIDTH))
def test_the_largest_lane_and_its_bit(place):
    lines = new_lines(1)
    lines[0] = -np.arange(1.0, WIDTH + 1)
    lines[0, place] = 0.5
    assert _reduced(lines, 0.0) == (0.5, 1 << place)
    assert _reduced(lines, -100.0) == (0.5, 255)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int8])
def test_numbers_are_written_where_and_as_what_they_are_wanted(dtype):
    lines, numbers = new_lines(1), np.full(WIDTH + 3, 7, dtype)
    lines[0] = [0.0, 1.0, 2.5, -3.0, 100.0, 5.0, 6.0, 127.0]
    _written(lines, numbers, 2)
    np.testing.assert_array_equal(numbers, np.array([7, 7, *lines[0], 7]).astype(dtype))
