"""Adapter of torch tensors, without copies: ``cpu`` kernels on NumPy views, or ``cuda`` kernels through CuPy."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch  # noqa: TID251
from torch._C._functorch import is_batchedtensor  # noqa: TID251
from torch.autograd import forward_ad  # noqa: TID251

from cmfast._core import caller
from cmfast._core.adapters import Adapter, _torch_gradients
from cmfast._core.kernel_lookup import get_kernel
from cmfast.kernels.loading import load

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch stores these dtypes but supports few operations on them
_skipped_packages: set[str] = set()

_DTYPES = {
    torch.bool: np.dtype(np.bool_),
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.uint16: np.dtype(np.uint16),
    torch.uint32: np.dtype(np.uint32),
    torch.uint64: np.dtype(np.uint64),
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.complex64: np.dtype(np.complex64),  # only for the message that refuses it
    torch.complex128: np.dtype(np.complex128),
}

_TYPES = {numbers: tensors for tensors, numbers in _DTYPES.items()}


class Torch(Adapter):
    """Adapter of tensors on the CPU and on CUDA, with gradients where an op propagates them."""

    has_devices = True

    def adopt(self, name: str, x: Any, op: str | None) -> Any:
        """Return `x` if cmfast can use it, else raise TypeError; also make torch.compile skip cmfast.

        With `op`, `x` may require the gradients that the op propagates.
        """
        if not isinstance(x, torch.Tensor):
            msg = f"{name} must be a tensor, got {type(x).__module__}.{type(x).__qualname__}"
            raise TypeError(msg)
        if x.requires_grad and (refusal := _torch_gradients.explain_refusal(x, op)):
            msg = f"{name} {refusal}; give {name}.detach()"
            raise TypeError(msg)
        if forward_ad.unpack_dual(x).tangent is not None:
            msg = f"{name} has a tangent of forward mode, which cmfast does not propagate; torch.func.vjp goes backward"
            raise TypeError(msg)
        if is_batchedtensor(x):
            msg = f"{name} is inside torch.vmap, which shows one matrix of many; give cmfast the whole batch instead"
            raise TypeError(msg)
        if x.is_nested:
            msg = f"{name} is a nested tensor; give a dense one, or one call per part"
            raise TypeError(msg)
        if x.layout != torch.strided:
            msg = f"{name} is a sparse tensor ({x.layout}); give {name}.to_dense()"
            raise TypeError(msg)
        if x.dtype not in _DTYPES:
            msg = f"{name} has dtype {x.dtype}, which NumPy does not have; give {name}.float()"
            raise TypeError(msg)
        if x.device.type not in {"cpu", "cuda"}:
            msg = f"{name} is on {x.device}; cmfast works on cpu and cuda tensors"
            raise TypeError(msg)
        if "torch._dynamo" in sys.modules and not _skipped_packages:
            _skip_in_torch_compile()
        return x

    def to_host(self, x: Any) -> np.ndarray:
        """Return an ndarray that shares the memory of `x`; on CUDA a copy, which synchronises the device."""
        host: np.ndarray = x.detach().cpu().resolve_neg().numpy()  # resolve_neg: a negated view is only a flag
        return host

    def from_host(self, x: np.ndarray, like: Any) -> Any:
        """Return a tensor that shares the memory of `x`, on the device of `like`; torch has no read-only tensors."""
        view = x.view()
        view.flags.writeable = True
        return torch.from_numpy(view).to(like.device)

    def dtype(self, x: Any) -> np.dtype[Any]:
        """Return the NumPy dtype that corresponds to the tensor's dtype."""
        return _DTYPES[x.dtype]

    def device(self, x: Any) -> str:
        """Return the device of a tensor: "cpu", "cuda:0", ..."""
        return str(x.device)

    def is_on_host(self, x: Any) -> bool:
        """Return whether a tensor is in host memory."""
        return x.device.type == "cpu"  # type: ignore[no-any-return]

    def call(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the op, outside torch.compile where that is in use: a graph break, without tracing into cmfast."""
        run: Any = self._run
        if _torch_gradients.needs_gradient(arrays, options):
            run = partial(_torch_gradients.call_with_gradient, run)
        if "torch._dynamo" in sys.modules:
            disabled: Any = torch.compiler.disable
            run = disabled(lambda op, *rest, run=run: run(op, *rest))
        return run(op, arrays, options)

    def _run(self, op: str, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the op on the memory of the tensors, without recording gradients."""
        first = next(array for array in arrays if array is not None)
        if first.device.type == "cuda":
            return _call_cuda(op, first.device, arrays, options)
        return super().call(op, arrays, options)

    def share_memory(self, name: str, x: Any) -> np.ndarray | None:
        """Return the memory of a tensor on the CPU."""
        tensor = self.adopt(name, x, None)
        if tensor.is_neg():
            msg = f"{name} is a negated view, whose memory has other values; give {name}.clone()"
            raise TypeError(msg)
        return self.to_host(tensor) if self.is_on_host(tensor) else None

    def evaluate(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """Apply `function` to tensors as they are."""
        return function(*arrays)

    def extent(self, x: Any) -> tuple[int, int]:
        """Return the minimum and maximum of a nonempty integer tensor; synchronises the device."""
        values = self.to_host(x) if x.dtype in _UNSIGNED else x  # torch has no min() for these dtypes
        return int(values.min()), int(values.max())

    def cast(self, x: Any, dtype: type) -> Any:
        """Convert a tensor to the torch dtype that corresponds to a NumPy dtype."""
        return x.to(_TYPES[np.dtype(dtype)])

    def unique(self, x: Any) -> tuple[np.ndarray, Any]:
        """Return the sorted unique values of a tensor on the host, and each element's position among them."""
        if x.device.type == "cpu":
            return super().unique(x)
        values, codes = torch.unique(x, return_inverse=True)
        return self.to_host(values), codes

    def scatter(self, x: Any, shape: tuple[int, ...], source: list[Any], target: list[Any]) -> Any:
        """Copy ``x[np.ix_(*source)]`` into a zero tensor of `shape` (int64 or float64) on the device of `x`."""
        out = torch.zeros(shape, dtype=torch.float64 if x.is_floating_point() else torch.int64, device=x.device)
        out[_index_mesh(target, x.device)] = x[_index_mesh(source, x.device)].to(out.dtype)
        return out


def _skip_in_torch_compile() -> None:
    """Tell torch.compile to skip cmfast, because it would trace NumPy arrays as tensors."""
    from torch._dynamo import trace_rules  # noqa: TID251

    for package in ("cmfast", "cmfast.kernels"):
        trace_rules.add(package)
        _skipped_packages.add(package)


class _CurrentStream:
    """Torch's current stream in the protocol that CuPy accepts; torch's own class has it only since 2.9."""

    def __init__(self, device: Any) -> None:
        self._stream = torch.cuda.current_stream(device)

    def __cuda_stream__(self) -> tuple[int, int]:  # the protocol's name
        """Return the protocol version and the stream's address."""
        return 0, self._stream.cuda_stream


def _call_cuda(op: str, device: Any, arrays: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Run the op on CuPy views of the tensors, on torch's current stream, and return the results as tensors."""
    get_kernel(op, "cuda")
    try:
        import cupy  # noqa: TID251
    except ImportError as error:
        msg = f"tensors on {device} need CuPy: install cmfast[cuda12] or cmfast[cuda13], as your driver asks"
        raise ImportError(caller.prefix_name(msg)) from error
    cuda, memory = load("cmfast._core.adapters._cupy").ADAPTER, load("cmfast._core.adapters._torch_memory")
    with (
        cupy.cuda.Device(device.index),
        cupy.cuda.Stream.from_external(_CurrentStream(device)),
        cupy.cuda.using_allocator(memory.make_allocator(device)),
    ):
        bare = (None if array is None else array.detach().resolve_neg() for array in arrays)
        shared = tuple(None if array is None else cupy.from_dlpack(array) for array in bare)
        out = cuda.call(op, shared, options)
        items = out if isinstance(out, tuple) else (out,)
        parts = [memory.share_as_tensor(x, _TYPES[x.dtype]) if isinstance(x, cupy.ndarray) else x for x in items]
    return tuple(parts) if isinstance(out, tuple) else parts[0]


def _index_mesh(places: list[Any], device: Any) -> tuple[Any, ...]:
    """Return an index of every combination of positions, given one list per axis (as np.ix_)."""
    flat = (torch.as_tensor(place, dtype=torch.int64, device=device) for place in places)
    mesh: tuple[Any, ...] = torch.meshgrid(*flat, indexing="ij")
    return mesh


ADAPTER = Torch()
