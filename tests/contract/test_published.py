"""Numbers that others have printed, and closed forms: ``data/scaling.json`` holds them, recomputed in 500 bits."""

import json
from pathlib import Path

import numpy as np
import pytest

import cmfast
from cmfast import Status

CASES = json.loads((Path(__file__).parents[1] / "data" / "scaling.json").read_text())["cases"]
SCALED = [case for case in CASES if case["status"] == "CONVERGED"]
UNSCALED = [case for case in CASES if case["status"] != "CONVERGED"]
RTOL = 1e-11


def by_id(case):
    return case["id"]


def scaled(case, solver, **options):
    targets = case["row_sums"], case["col_sums"]
    return cmfast.ipf(case["input"], *targets, smoothing=case["smoothing"], solver=solver, tol=1e-14, **options)


@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("case", SCALED, ids=by_id)
def test_recomputed(case, solver):
    result = scaled(case, solver)
    assert result.status == Status.CONVERGED
    np.testing.assert_allclose(result.matrix, case["expected"], rtol=RTOL, atol=1e-300)
    if "row_scale" in case:
        np.testing.assert_allclose(result.row_scale, case["row_scale"], rtol=RTOL)
        np.testing.assert_allclose(result.col_scale, case["col_scale"], rtol=RTOL)


@pytest.mark.parametrize("case", [case for case in SCALED if "published" in case], ids=by_id)
def test_published(case):
    off = np.abs(np.asarray(scaled(case, "auto").matrix) - case["published"]).max()
    # The difference is known: digits that were not printed, or an algorithm that was stopped early.
    np.testing.assert_allclose(off, case["published_max_abs_error"], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in SCALED if case["smoothing"] == "pseudo-bayes"], ids=by_id)
def test_pseudo_bayes(case):
    result = scaled(case, "auto")
    np.testing.assert_allclose(result.smoothing, case["pseudo_bayes_k"], rtol=1e-13)
    smoothed = np.asarray(result.matrix) / result.row_scale[:, None] / result.col_scale
    np.testing.assert_allclose(smoothed, case["smoothed_input"], rtol=1e-12)


def test_grass_printed_its_eleventh_sweep():
    (case,) = (case for case in CASES if case["id"] == "O3")
    early = scaled(case, "sinkhorn", max_iter=11, on_failure="ignore")
    assert early.status == Status.MAX_ITER
    np.testing.assert_allclose(early.matrix, case["published"], atol=5.1e-4)
    assert np.abs(scaled(case, "sinkhorn").matrix - np.asarray(case["published"])).max() > 3e-3


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
@pytest.mark.parametrize("case", UNSCALED, ids=by_id)
def test_what_has_no_scaling_is_not_called_converged(case, solver):
    result = scaled(case, solver, on_failure="ignore")
    assert result.status != Status.CONVERGED
    with pytest.warns(cmfast.FailureWarning):
        _ = scaled(case, solver)


@pytest.mark.parametrize("smoothing", [1.0, 0.5, 1e-3])
def test_sweeps_of_the_smoothing_table(smoothing):
    """Plain iterative proportional fitting needs more sweeps the smaller the smoothing; Newton's method does not."""
    (case,) = (case for case in CASES if case["id"] == f"SM{smoothing:g}")
    sweeps = {1.0: 96, 0.5: 178, 1e-3: 40955}[smoothing]
    options = {"smoothing": smoothing, "tol": 1e-11, "on_failure": "ignore"}
    few, enough = (
        cmfast.ipf(case["input"], solver="sinkhorn", max_iter=sweeps + more, **options)
        for more in (-1 - sweeps // 1000, 1 + sweeps // 1000)
    )
    assert enough.residual <= 1e-11 < few.residual  # of the total, as the table has it; rows take a little longer
    plain = cmfast.ipf(case["input"], solver="sinkhorn", max_iter=50_000, **options)
    assert plain.status == Status.CONVERGED
    assert plain.line_error <= 1e-11
    assert sweeps <= plain.n_iter <= 1.1 * sweeps
    assert cmfast.ipf(case["input"], solver="newton", **options).n_iter <= 12
