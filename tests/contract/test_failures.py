"""What becomes of bad values: one warning, one error or nothing; the same for every op that has failing cases."""

import inspect
import pickle
import threading
import warnings

import numpy as np
import pytest
from calls import is_direct, parts, public
from cases import CASES
from checks import assert_same_bits
from optional import torch

import cmfast
from cmfast._core import failures
from cmfast._core.adapters import _numpy
from cmfast.kernels.cpu._core import pool
from cmfast.kernels.ops import OPS
from cmfast.kernels.status import Status

FAILING = [pytest.param(op, case, id=f"{op}-{case}") for op in OPS if is_direct(op) for case in CASES[op] if case.fails]


@pytest.mark.parametrize(("op", "case"), FAILING)
def test_on_failure(op, case):
    with pytest.warns(cmfast.FailureWarning, match=rf"^{op}: ") as caught:
        warned = public(op)(*case.args, **case.options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ignored = public(op)(*case.args, **case.options, on_failure="ignore")
    for one, other in zip(parts(op, warned), parts(op, ignored), strict=True):
        assert_same_bits(one, other)
    with pytest.raises(cmfast.FailureError) as error:
        public(op)(*case.args, **case.options, on_failure="raise")
    assert str(error.value) == str(caught[0].message)
    assert isinstance(error.value, ValueError)
    assert np.asarray(error.value.status).any()


@pytest.mark.parametrize("op", [op for op in OPS if "on_failure" in inspect.signature(public(op)).parameters])
def test_an_op_that_takes_the_option_has_a_case_that_fails(op):
    assert any(case.fails for case in CASES[op])


def codes(**failed):
    """Return the status of twenty elements, the named ones failed."""
    status = np.zeros(20, np.int8)
    for name, where in failed.items():
        status[where] = Status[name]
    return status


def test_message_counts_and_names_the_first():
    status = codes(INVALID=[4, 7, 9, 12], ZERO_LINE=[1])
    with pytest.raises(cmfast.FailureError) as error:
        failures.report(status, "raise", failed="things not done")
    assert str(error.value) == "5 of 20 things not done (first: 1, 4, 7): 4 INVALID, 1 ZERO_LINE"
    assert error.value.status is status


def test_message_of_a_batch_with_axes():
    with pytest.raises(cmfast.FailureError, match=r"2 of 20 matrices not computed \(first: \(0, 3\), \(2, 1\)\)"):
        failures.report(codes(RANGE=[3, 11]).reshape(4, 5), "raise")


def test_message_of_a_single_matrix():
    with pytest.raises(cmfast.FailureError, match=r"^matrices not computed: INVALID$"):
        failures.report(np.int8(Status.INVALID), "raise")


def test_message_with_a_description_of_the_only_failure():
    with pytest.raises(cmfast.FailureError, match=r"^INVALID \(element 3 of 20\): bad cell in \(3,\)$"):
        failures.report(codes(INVALID=[3]), "raise", describe=lambda index: f"bad cell in {index}")


def test_an_error_in_a_thread_of_the_pool_names_the_function(monkeypatch):
    """That thread does not know who called; the thread that called says it."""
    both = threading.Barrier(2)
    caller = threading.current_thread()

    def work(_, start, stop):
        both.wait()
        if threading.current_thread() is not caller:
            msg = f"{start} to {stop} is too much"
            raise OverflowError(msg)

    def kernel(*_, **__):
        pool.run_pieces(work, [(0, 1), (1, 2)], seconds=1.0, num_threads=2)

    monkeypatch.setattr(_numpy, "get_kernel", lambda *_: kernel)
    with pytest.raises(OverflowError, match=r"^metrics\.margins: \d to \d is too much$"):
        cmfast.metrics.margins(np.ones((2, 2)))


def test_status_of_tensors():
    failures.report(torch.zeros(3, dtype=torch.int8), "raise")
    with pytest.raises(cmfast.FailureError, match="1 of 3"):
        failures.report(torch.tensor([0, 5, 0], dtype=torch.int8), "raise")


def test_ignore_does_not_look():
    nothing_to_look_at = object()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert failures.report(nothing_to_look_at, "ignore") is None
    with pytest.raises((AttributeError, TypeError)):
        failures.report(nothing_to_look_at, "warn")


def test_error_survives_pickling():
    """As it must between the processes of joblib or multiprocessing."""
    error = pickle.loads(pickle.dumps(failures.FailureError("text", np.array([0, 5], np.int8))))
    assert str(error) == "text"
    assert error.status.tolist() == [0, 5]


def test_a_warning_can_be_made_an_error_by_its_class():
    S = np.full((2, 2), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cmfast.FailureWarning)
        with pytest.raises(cmfast.FailureWarning):
            cmfast.overlap(S, S)


def test_an_exact_limit_is_no_failure_but_warns():
    with pytest.warns(cmfast.FailureWarning, match="LIMIT_ONLY"):
        result = cmfast.ipf([[1, 1], [0, 1]], on_failure="raise")
    assert result.matrix.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(cmfast.FailureError, match="1 LIMIT_ONLY"):
        cmfast.ipf([[[1, 1], [0, 1]], [[1, 0], [1, 0]]], on_failure="raise")


def test_factors_that_only_a_limit_would_have_are_a_failure():
    with pytest.raises(cmfast.FailureError, match="LIMIT_ONLY"):
        cmfast.ras([[1, 1], [0, 1]], on_failure="raise")
