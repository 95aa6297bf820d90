"""`cmfast.config`: a block of calls that leave out the same options."""

import asyncio
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest

import cmfast
from cmfast.kernels.cpu._core import pool

BAD = np.array([[[1.0, 2.0], [3.0, -1.0]], [[2.0, 1.0], [1.0, 2.0]]])
CALLS = {
    "ipf": lambda **options: cmfast.ipf(BAD, **options),
    "overlap": lambda **options: cmfast.overlap(BAD, BAD, **options),
    "metrics.compute": lambda **options: cmfast.metrics.compute(BAD, ["accuracy"], **options),
    "metrics.accuracy": lambda **options: cmfast.metrics.accuracy(BAD, **options),
    "normalize": lambda **options: cmfast.normalize(BAD, "bi", **options),
    "uncertainty.standard_error": lambda **options: cmfast.uncertainty.standard_error(BAD, "mcc", **options),
    "uncertainty.interval": lambda **options: cmfast.uncertainty.interval(BAD, "mcc", n_resamples=9, **options),
    "ipf_nd": lambda **options: cmfast.ipf_nd(BAD, [(1, [1.0, 1.0])], ndim=2, **options),
    "lazy ipf": lambda **options: cmfast.ipf(da.from_array(BAD, (1, 2, 2)), **options).status.compute(),
    "lazy accuracy": lambda **options: cmfast.metrics.accuracy(da.from_array(BAD, (1, 2, 2)), **options).compute(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_a_call_leaves_out_is_as_the_block_says(call):
    with pytest.warns(cmfast.FailureWarning):
        call()
    with cmfast.config(on_failure="raise"):
        with pytest.raises(cmfast.FailureError):
            call()
        with pytest.warns(cmfast.FailureWarning):
            call(on_failure="warn")
        with warnings.catch_warnings(), cmfast.config(on_failure="ignore"):
            warnings.simplefilter("error")
            call()
        with pytest.raises(cmfast.FailureError):
            call()
    with pytest.warns(cmfast.FailureWarning):
        call()


def test_a_lazy_call_keeps_the_settings_that_it_was_made_with():
    with cmfast.config(on_failure="ignore"):
        quiet = cmfast.ipf(da.from_array(BAD, (1, 2, 2))).status
    loud = cmfast.ipf(da.from_array(BAD, (1, 2, 2))).status
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet.compute()
    with cmfast.config(on_failure="ignore"), pytest.warns(cmfast.FailureWarning):
        loud.compute()


def test_the_number_of_threads(monkeypatch):
    asked = []
    run = pool.run_pieces

    def spy(*args, num_threads=None, **options):
        asked.append(num_threads)
        return run(*args, num_threads=num_threads, **options)

    monkeypatch.setattr(pool, "run_pieces", spy)
    many = np.tile(BAD[1], (50_000, 1, 1))
    with cmfast.config(num_threads=3):
        cmfast.ipf(many)
        cmfast.ipf(many, num_threads=2)
    cmfast.ipf(many)
    assert (set(asked[:1]), 2 in asked, asked[-1]) == ({3}, True, None)


def test_a_block_is_of_its_thread_and_of_its_task():
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with cmfast.config(on_failure="raise"):
            entered.set()
            leave.wait()

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(hold)
        entered.wait()
        with pytest.warns(cmfast.FailureWarning):
            cmfast.ipf(BAD)
        leave.set()
        done.result()

    async def strict(turn, other):
        with cmfast.config(on_failure="raise"):
            turn.set()
            await other.wait()

    async def usual(turn, other):
        await other.wait()
        with pytest.warns(cmfast.FailureWarning):
            cmfast.ipf(BAD)
        turn.set()

    async def both():
        one, two = asyncio.Event(), asyncio.Event()
        await asyncio.gather(strict(one, two), usual(two, one))

    asyncio.run(both())


def test_a_block_ends_where_it_raises():
    with pytest.raises(KeyError), cmfast.config(on_failure="raise"):
        raise KeyError
    with pytest.warns(cmfast.FailureWarning):
        cmfast.ipf(BAD)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"on_failure": "stop"}, ValueError, "config: on_failure must be one of"),
        ({"num_threads": 0}, ValueError, "config: num_threads must be"),
        ({"num_threads": "2"}, TypeError, "config: num_threads must be an integer"),
    ],
)
def test_wrong_settings_are_refused(options, error, text):
    with pytest.raises(error, match=f"^{text}"), cmfast.config(**options):
        pass


def test_a_call_without_a_block_says_that_it_sets_nothing():
    with pytest.warns(cmfast.DiagnosticWarning, match="^config: the call alone sets nothing; write `with ") as caught:
        cmfast.config(num_threads=2)
    assert caught[0].filename == __file__
    with pytest.warns(cmfast.FailureWarning):
        cmfast.ipf(BAD)
    held = cmfast.config(on_failure="raise")
    assert "with cmfast.config(on_failure='raise'): ..." in repr(held)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with held:
            pass
        del held


def test_a_block_is_used_once():
    once = cmfast.config(on_failure="raise")
    with once:
        pass
    with pytest.raises(RuntimeError, match="config: the context manager was used before"), once:
        pass


def test_a_decorator_sets_options_in_every_call_of_a_function():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @cmfast.config(on_failure="raise")
        def strict(deeper=True):
            if deeper:
                strict(deeper=False)
            return cmfast.ipf(BAD)

    for _ in range(2):
        with pytest.raises(cmfast.FailureError):
            strict()
    with pytest.warns(cmfast.FailureWarning):
        cmfast.ipf(BAD)
