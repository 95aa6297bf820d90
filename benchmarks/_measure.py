"""Wall times in one process, interleaved, and the peak of extra memory."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def interleaved(calls: dict[str, Callable[[], Any]], *, seconds: float, least: int = 3) -> dict[str, list[float]]:
    """Run every call in turn, A B C A B C ..., until `seconds` have passed and each has run `least` times.

    Each is called once before, so that nothing compiles or faults in fresh pages inside a timing.
    """
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = time.perf_counter()
    while min(map(len, times.values())) < least or time.perf_counter() - begin < seconds:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def timed(call: Callable[[], Any], *, seconds: float) -> tuple[Any, list[float]]:
    """Return the result and the times of `call`, repeated within `seconds`; a slow call runs once, and that counts.

    Of several runs the first is left out: ours are not timed in fresh pages either.
    """
    times: list[float] = []
    begin = time.perf_counter()
    while True:
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        if time.perf_counter() - begin > seconds:
            return result, times[1:] or times


def peak_extra_bytes(call: Callable[[], Any]) -> int | None:
    """Return by how much the resident memory peaks above its level before `call`; None where Linux does not tell."""
    try:
        # What earlier calls freed may still be resident, and would be used again without being seen.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status_kib("VmRSS")
        call()
        return max(0, _status_kib("VmHWM") - before) * 1024
    except (OSError, AttributeError):
        return None


def _status_kib(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise OSError(name)
