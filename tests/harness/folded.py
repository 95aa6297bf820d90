"""One test for many cases that are one claim: it runs all of them and names those that failed."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from first_line import reword

SHOWN = 8  # names of failed cases


def check_each(cases: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Call every check; raise the first failure with the name of its case, followed by those of the others.

    A skip within a check ends the whole test, so that none can hide among results.
    """
    failed: list[tuple[str, BaseException]] = []
    n = 0
    for name, check in cases:
        n += 1
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # any failure of a case
            if isinstance(error, AssertionError):
                reword(error)
            failed.append((name, error))
    assert n, "no case to check"
    if failed:
        name, first = failed[0]
        kind = "" if isinstance(first, AssertionError | pytest.fail.Exception) else f"{type(first).__name__}: "
        msg = f"{name}: {kind}{first}"
        if len(failed) > 1:
            others = [other for other, _ in failed[1:]]
            more = ", ..." if len(others) > SHOWN else ""
            msg += f"\n{len(failed)} of {n} cases failed; the others: {', '.join(others[:SHOWN])}{more}"
        raise AssertionError(msg) from first


def parametrize_folded(groups: Mapping[str, Sequence[Any]]) -> Callable[[Callable[[str, Any], None]], Any]:
    """Make of a check of a name and one of its cases a test of each name, which runs all cases of that name."""

    def decorate(check: Callable[[str, Any], None]) -> Any:
        def test(name: str) -> None:
            check_each((f"{name}, {case}", partial(check, name, case)) for case in groups[name])

        functools.update_wrapper(test, check)  # pytest shows where the check is
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # but asks for the name alone
            [inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        )
        return pytest.mark.parametrize("name", [name for name in groups if groups[name]])(test)

    return decorate
