"""Gradients of scaling against central differences in 80 digits, as ``docs/gradient_errors.py`` does at length."""

import json

import gradient_errors
import numpy as np
import pytest
from cases.scaling import CASES
from oracle import scaling

pytestmark = pytest.mark.torch

MADE = {label: few for label, few in gradient_errors.families((3, 20)).items() if label not in gradient_errors.OF_TESTS}


@pytest.mark.parametrize("label", MADE)
def test_families(label):
    row = gradient_errors.measured(label, MADE[label])
    assert row["own"] < 1e-11
    assert row["largest"] < 1e-12


@pytest.mark.parametrize("matrix", [gradient_errors.halves, gradient_errors.permutation])
def test_matrices_too_large_for_registers(matrix):
    """Of which elimination of another kind, and from 129 columns on conjugate gradients take care."""
    rng = np.random.default_rng(1)
    for C in (66, 130):
        found = gradient_errors.errors(gradient_errors.Given(matrix(rng, C, 1e-9)), rng)
        assert found["own"] < 1e-11


def test_both_ways_to_differences_agree():
    given = gradient_errors.oblong(np.random.default_rng(2), 3, 4)
    G, change = np.random.default_rng(3).normal(size=(2, 3, 4))
    cells, _, _ = scaling.gradient(given.M, G, None, None, given.row_sums, given.col_sums)
    want = float((cells * given.M * change).sum())
    for axes in ((0, 1), (1, 0)):
        M, *rest = (a.transpose(axes) for a in (given.M, G, change))
        targets = [(given.row_sums, given.col_sums)[k] for k in axes]
        assert scaling.slope(M, *rest, *targets) == pytest.approx(want, rel=1e-14)


def test_every_case_is_in_the_table_or_left_out_with_a_reason():
    listed = [name for names in gradient_errors.OF_TESTS.values() for name in names] + list(gradient_errors.LEFT_OUT)
    assert sorted(listed) == sorted(case.id for case in CASES["ipf"])
    for names in gradient_errors.OF_TESTS.values():
        for name in names:
            assert next(gradient_errors.of_case(name), None) is not None, name


def test_the_page_has_what_was_measured():
    rows, text = json.loads(gradient_errors.KEPT.read_text()), gradient_errors.PAGE.read_text()
    assert gradient_errors.page(rows, text) == text
    assert {row["family"] for row in rows} == set(gradient_errors.families((3,)))
    known = ("float32", "targets whose totals are 5e-10 apart", "two halves coupled by 1e-12")  # the page says why
    assert max(row["own"] for row in rows if row["family"] not in known) < 1e-11
    assert max(row["largest"] for row in rows if row["family"] not in known[:2]) < 1e-12
