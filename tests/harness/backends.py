"""Every way an array can reach a kernel, one line each. A backend that cannot hold an array makes no test of it."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_host
import gpu
import numpy as np
import on_cuda_host
from optional import array_api_strict, jax, torch

from cmfast.kernels.ops import Target

_FOLDER = tempfile.TemporaryDirectory(prefix="cmfast-tests-")


@dataclass(frozen=True)
class Backend:
    """How to make an array of one kind, and which kind comes back."""

    name: str
    make: Callable[[np.ndarray], Any]
    accepts: Callable[[np.ndarray], bool] = lambda a: True
    library: str = "numpy"
    target: Target = "cpu"
    running: Callable[[], AbstractContextManager[None]] = nullcontext
    sees_values: bool = True
    """Whether values matter to what is different here: not to a layout in memory, which only copies see."""

    def __str__(self) -> str:
        return self.name


def _readonly(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    a.flags.writeable = False
    return a


def _strided(a: np.ndarray) -> np.ndarray:
    wide = np.zeros(tuple(2 * n for n in a.shape), a.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    view[...] = a
    return view


def _reversed(a: np.ndarray) -> np.ndarray:
    every = tuple(slice(None, None, -1) for _ in a.shape)
    return np.ascontiguousarray(a[every])[every]


def _memory_map(a: np.ndarray) -> np.ndarray:
    with tempfile.NamedTemporaryFile(dir=_FOLDER.name, suffix=".npy", delete=False) as file:
        np.save(file, a)
    return np.load(Path(file.name), mmap_mode="r")


def _torch(a: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(a).copy())


def _torch_transposed(a: np.ndarray) -> torch.Tensor:
    return (
        torch.from_numpy(np.ascontiguousarray(a.T).copy()).T
        if a.ndim == 2
        else _torch(a).transpose(0, -1).contiguous().transpose(0, -1)
    )


def _make_cuda_host(seed: int, layout: str, make: Callable[[Any], Any]) -> Backend:
    """Return the CUDA kernels on the host, in the order of `seed`."""
    library, name = "cuda_host", f"cuda-host-{seed}-{layout}"
    return Backend(name, make, library=library, target="cuda", running=lambda: cuda_host.schedule(seed))


def _cuda_reversed(a: np.ndarray) -> cuda_host.ndarray:
    every = tuple(slice(None, None, -1) for _ in a.shape)
    return cuda_host.asarray(a[every])[every]


def _cuda_strided(a: np.ndarray) -> cuda_host.ndarray:
    every = tuple(slice(None, None, 2) for _ in a.shape)
    wide = cuda_host.zeros(tuple(2 * n for n in a.shape), a.dtype)
    wide[every] = cuda_host.asarray(a)
    return wide[every]


_TYPES = {np.dtype(t) for t in ("?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")}


def _is_standard_dtype(a: np.ndarray) -> bool:
    return a.dtype in _TYPES


def _is_torch_dtype(a: np.ndarray) -> bool:
    return _is_standard_dtype(a) or a.dtype == np.float16


def _survives_lists(a: np.ndarray) -> bool:
    return a.size > 0 and a.dtype in (np.dtype("f8"), np.dtype("i8"), np.dtype("?"))


BACKENDS = [
    Backend("numpy", np.copy),
    Backend("readonly", _readonly, sees_values=False),
    Backend("fortran", lambda a: np.asfortranarray(a.copy()), lambda a: a.ndim > 1, sees_values=False),
    Backend("strided", _strided, lambda a: a.ndim > 0, sees_values=False),
    Backend("reversed", _reversed, lambda a: a.ndim > 0, sees_values=False),
    Backend(
        "byteswapped", lambda a: a.astype(a.dtype.newbyteorder()), lambda a: a.dtype.itemsize > 1, sees_values=False
    ),
    Backend("memory-map", _memory_map, lambda a: a.size > 0 and a.dtype.kind not in "US", sees_values=False),
    Backend("lists", lambda a: a.tolist(), _survives_lists, sees_values=False),
    Backend("array-api-strict", lambda a: array_api_strict.asarray(a.copy()), _is_standard_dtype, "array_api_strict"),
    Backend("jax", lambda a: jax.numpy.array(a, copy=True), _is_standard_dtype, "jax"),
    Backend("torch", _torch, _is_torch_dtype, "torch"),
    Backend(
        "torch-transposed", _torch_transposed, lambda a: a.ndim > 1 and _is_torch_dtype(a), "torch", sees_values=False
    ),
]
CUDA_HOST = [
    _make_cuda_host(0, "contiguous", cuda_host.asarray),
    _make_cuda_host(1, "reversed", _cuda_reversed),
    _make_cuda_host(2, "strided", _cuda_strided),
]


def _make_gpu_backends() -> list[Backend]:
    """Return the CUDA kernels on the GPU, if there is one."""
    if gpu.missing():
        return []
    import cupy

    @contextmanager
    def stream() -> Iterator[None]:
        cupy.cuda.get_current_stream().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as other:
            yield
            other.synchronize()

    def strided(a: np.ndarray) -> Any:
        every = tuple(slice(None, None, 2) for _ in a.shape)
        wide = cupy.zeros(tuple(2 * n for n in a.shape), a.dtype)
        wide[every] = cupy.asarray(a)
        return wide[every]

    found = [
        Backend("cupy", cupy.asarray, library="cupy", target="cuda"),
        Backend("cupy-strided-stream", strided, library="cupy", target="cuda", running=stream),
    ]
    if not gpu.is_rehearsal():
        found.append(Backend("torch-cuda", lambda a: _torch(a).cuda(), library="torch-cuda", target="cuda"))
    return found


GPU = _make_gpu_backends()


def arrays_of(case: Any) -> list[np.ndarray]:
    """Return every array of a case, positional or not, or in a pair."""
    values = [item for value in (*case.args, *case.options.values()) for item in _items(value)]
    return [item for item in values if isinstance(item, np.ndarray)]


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def supports(backend: Backend, case: Any) -> bool:
    """Return whether `backend` can hold the arrays of `case`; one that it cannot hold differently stays as it is."""
    if backend.library != "numpy":
        holds = _is_standard_dtype if backend.library in ("array_api_strict", "jax") else _is_torch_dtype
        return all(map(holds, arrays_of(case)))
    return any(backend.accepts(a) for a in arrays_of(case))


def first_of_a_layout(cases: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield every case, and whether it is the first with such types, axes, lengths of 0 or 1, size and options."""
    seen = set()
    for case in cases:
        layout = _layout((*case.args, *sorted(case.options.items())))
        yield case, layout not in seen
        seen.add(layout)


def _layout(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_layout, value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, tuple(min(n, 2) for n in value.shape), value.size > 10_000  # beyond, in pieces
    return value if isinstance(value, str) else type(value)


def has_kernels(backend: Backend, op: str, case: Any) -> bool:
    """Return whether every op of a case has a kernel for the target of `backend`."""
    return backend.target == "cpu" or on_cuda_host.has_kernels(op, case)


def convert(backend: Backend, value: Any) -> Any:
    """Return `value` as `backend` makes it; what is no array, or has no such form, stays."""
    if isinstance(value, tuple):
        return tuple(convert(backend, item) for item in value)
    if not isinstance(value, np.ndarray):
        return value
    if backend.accepts(value):
        return backend.make(value)
    return _torch(value) if backend.library == "torch" else value
