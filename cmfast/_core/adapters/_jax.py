"""Adapter of JAX arrays on the CPU: without copies where they have values, by callbacks inside jit, vmap and grad."""

from collections.abc import Callable
from typing import Any

import jax  # noqa: TID251
import numpy as np
from jax import numpy as jnp  # noqa: TID251

from cmfast._core import caller
from cmfast._core.adapters import _jax_tracing, reads_for_message
from cmfast._core.adapters._array_api import Namespace
from cmfast._core.adapters._jax_tracing import UNKNOWN_VALUES, find_values, is_traced

config: Any = jax.config  # whose flags type checkers do not know


class Jax(Namespace):
    """Adapter of JAX arrays with 64-bit types, and of the tracers that stand for them inside transformations."""

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return `x`; raise TypeError without 64-bit types, or if its memory or that of its values is on a device."""
        if not isinstance(x, jax.Array):
            msg = f"{name} must be a JAX array, got {type(x).__module__}.{type(x).__qualname__}"
            raise TypeError(msg)
        if not config.jax_enable_x64:
            what = "as counts are int64 and sums float64, which JAX rounds to 32 bits by default"
            cure = f"call jax.config.update('jax_enable_x64', True) first, or give numpy.asarray({name})"
            msg = f"{name} must be an array of JAX with 64-bit types, {what}; {cure}"
            raise TypeError(msg)
        if jnp.issubdtype(x.dtype, jax.dtypes.extended) or x.dtype.kind not in "?biufc":
            msg = f"{name} has dtype {x.dtype}, which NumPy does not have; give {name}.astype(float)"
            raise TypeError(msg)
        if not is_traced(x):
            return super().adopt(name, x, op)
        if (place := find_default_device()).platform != "cpu":
            what = f"{name} is traced by JAX for {place}, and cmfast takes arrays of JAX on the CPU alone"
            msg = f"{what}; use it inside jax.default_device(jax.devices('cpu')[0])"
            raise TypeError(msg)
        return x

    def to_host(self, x: Any) -> np.ndarray:
        """Return the memory of `x` as an ndarray; raise TypeError for a tracer, whose values are not known.

        What only a message needs is read without its gradient.
        """
        known = find_values(x, ignore_gradient=reads_for_message.get())
        if known is None:
            raise TypeError(caller.prefix_name(UNKNOWN_VALUES))
        return super().to_host(known)

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the dtype of `x`, which JAX shares with NumPy."""
        dtype: np.dtype[Any] = np.dtype(x.dtype)
        return dtype

    def device(self, x: Any) -> str:
        """Return the device of `x`: "cpu:0", ...; for a tracer that on which JAX runs."""
        place = find_default_device() if is_traced(x) else x.device
        return f"{place.platform}:{place.id}" if isinstance(place, jax.Device) else str(place)

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return `x` as a JAX array on the device of `like`, which shares its memory where that is aligned for JAX."""
        return jnp.asarray(x) if is_traced(like) else jax.device_put(x, like.device)

    def _returned(self, out: Any, like: Any) -> Any:
        """Convert host results of an op into JAX arrays, in one call, which is faster than one for each."""
        parts = list(out) if isinstance(out, tuple) else [out]
        places = [k for k, x in enumerate(parts) if isinstance(x, np.ndarray | np.generic)]
        hosts = [np.asarray(parts[k]) for k in places]
        hosts = [x if x.flags.writeable else x.copy() for x in hosts]  # read-only memory may be that of an argument
        for k, x in zip(places, jax.device_put(hosts, like.device), strict=True):
            parts[k] = x
        return tuple(parts) if isinstance(out, tuple) else parts[0]

    def has_values(self, x: Any) -> bool:
        """Return whether `x` is no tracer, or one that has no gradient and whose values eager ``jax.grad`` knows."""
        return find_values(x) is not None

    def is_on_host(self, x: Any) -> bool:
        """Return whether the values of `x` can be read."""
        return self.has_values(x)

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the op on memory, or by a callback where an array is a tracer."""
        traced = any(is_traced(x) for x in arrays)
        return _jax_tracing.call(super().call, op, arrays, options) if traced else super().call(op, arrays, options)

    def postpone(self, function: Callable[[Any], None], x: Any) -> bool:
        """Call `function` with the values of a tracer when they are known, once for a batch of vmap."""
        if self.has_values(x):
            return False
        _jax_tracing.call_later(function, x)
        return True

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to memory, or to tracers as they are, through which gradients go."""
        arrays = tuple(x if (known := find_values(x)) is None else known for x in arrays)
        if not any(is_traced(x) for x in arrays):
            return super().evaluate(function, *arrays)
        try:
            return function(*arrays)
        except TypeError as error:  # an assignment, or the truth of a tracer
            raise TypeError(caller.prefix_name(UNKNOWN_VALUES)) from error

    def any(self, x: Any) -> bool:
        """Return whether any element of `x` is nonzero."""
        return bool(self.to_host(x).any())

    def extent(self, x: Any) -> tuple[int, int]:
        """Return the minimum and maximum of a nonempty integer array."""
        host = self.to_host(x)
        return int(host.min()), int(host.max())


def find_default_device() -> Any:
    """Return the device on which JAX runs what nothing binds to another."""
    chosen = config.jax_default_device
    return jax.devices(chosen)[0] if isinstance(chosen, str) else chosen or jax.devices()[0]


ADAPTER = Jax(jnp)
