"""The one comparison of a result with its oracle: library, dtype, shape, values; and that inputs did not change."""

from dataclasses import fields
from typing import Any

import numpy as np
from optional import torch
from oracle._bounds import Within

from cmfast.kernels.ops import OPS


def library(x: Any) -> str:
    """Return the library of an array or scalar."""
    if isinstance(x, torch.Tensor):
        return "torch" if x.device.type == "cpu" else f"torch-{x.device.type}"
    if isinstance(x, np.ndarray | np.generic):
        return "numpy"
    if hasattr(x, "dtype"):
        return type(x).__module__.partition(".")[0]
    return type(x).__name__


def host(x: Any) -> np.ndarray:
    """Return an ndarray with the values of `x`."""
    if library(x) in ("cuda_host", "cupy"):
        return x.get()
    return x.cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def assert_matches(
    op: str, got: Any, want: np.ndarray | Within, *, expected_library: str = "numpy", rtol: float | None = None
) -> None:
    """Assert that one array is what the oracle says. The tolerance is the one of the table."""
    bounds, want = (want, want.low) if isinstance(want, Within) else (None, want)
    assert library(got) == expected_library, f"{op}: library {library(got)}, wanted {expected_library}"
    got = host(got)
    assert got.dtype == want.dtype, f"{op}: dtype {got.dtype}, wanted {want.dtype}"
    assert got.shape == want.shape, f"{op}: shape {got.shape}, wanted {want.shape}"
    if bounds is not None:
        outside = ~((got >= bounds.low) & (got <= bounds.high)) & ~(np.isnan(got) & np.isnan(bounds.low))
        assert not outside.any(), f"{op}: {got[outside][0]} outside {bounds.low[outside][0]}..{bounds.high[outside][0]}"
        return
    if want.dtype.kind in "biuSU":
        np.testing.assert_array_equal(got, want, err_msg=op)
        return
    if rtol is None:
        rtol = OPS[op].rtol[0] if want.dtype == np.float32 else OPS[op].rtol[1]
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * 1e-3, equal_nan=True, err_msg=op)


def assert_same_bits(first: Any, second: Any) -> None:
    """Assert that two results (arrays, scalars, or tuples of them) have the same type, shape and bits."""
    if isinstance(first, tuple):
        assert isinstance(second, tuple)
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same_bits(a, b)
        return
    assert type(first) is type(second)
    a, b = host(first), host(second)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


def assert_same_fields(found: Any, want: Any) -> None:
    """Compare two results of one dataclass of numbers and arrays, or tuples of them, bit by bit."""
    assert type(found) is type(want)
    for each in fields(want):
        one, other = getattr(found, each.name), getattr(want, each.name)
        for a, b in zip(one, other, strict=True) if isinstance(other, tuple) else [(one, other)]:
            assert_same_bits(np.asarray(a), np.asarray(b))
