"""Powers have the same bits for scalars and for elements of arrays."""

import numpy as np
import pytest
from checks import assert_same_bits

from cmfast import contingency, uncertainty
from cmfast._core.powers import compute_exp, compute_sqrt


@pytest.mark.parametrize("function", [compute_sqrt, compute_exp])
def test_scalars_and_arrays_have_the_same_bits(rng, function):
    x = rng.random(20_000)
    whole = function(x)
    for form in (lambda value: value, np.asarray, lambda value: np.array([value])):
        assert_same_bits(np.array([function(form(value)) for value in x]).reshape(-1), whole)


def test_powers_are_those_of_the_standard_library(rng):
    x = rng.random(100)
    np.testing.assert_allclose(compute_sqrt(x) * compute_sqrt(x), x, rtol=1e-15)
    assert_same_bits(compute_sqrt(9.0), 3.0)
    np.testing.assert_allclose(np.log(compute_exp(x)), x, rtol=1e-13)


def test_a_matrix_alone_has_the_wilson_interval_of_the_batch(rng):
    M = rng.integers(1, 999, (2_000, 3, 3))
    batch = uncertainty.interval(M, "accuracy", method="wilson")
    for k, one in enumerate(M):
        alone = uncertainty.interval(one, "accuracy", method="wilson")
        for part, other in zip(batch[:4], alone[:4], strict=True):
            assert_same_bits(part[k], other)


def test_a_path_alone_has_the_lengths_of_the_batch(rng):
    M = rng.integers(1, 999, (2_000, 4, 3, 3))
    batch = contingency.learning_path(M, name="accuracy")
    for k, one in enumerate(M):
        for part, other in zip(batch, contingency.learning_path(one, name="accuracy"), strict=True):
            assert_same_bits(np.asarray(part[k]), np.asarray(other))
