"""``ndarray`` with the functions of CuPy that the launchers use; the data are NumPy's, between red zones.

As strict as a GPU: no implicit conversion to a host array or a Python number. Each read of a value
on the host counts as a synchronisation. What CuPy 14.2 does otherwise than NumPy is done as CuPy does it: which results
are in the order of Fortran, that every sort is stable and wants contiguous memory, that ``ascontiguousarray`` of one
number has an axis, that NumPy's arrays are no operands. What it leaves undefined is an error: two values for one place.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from cuda_host._build import MODE

# Bytes before and after each array; none where AddressSanitizer watches, which knows the end of the memory itself.
RED = 0 if MODE in ("address", "coverage") else 64
MARK = 0xA5
POISON = 0xFF  # NaN of every float, -1 of every integer: nobody may rely on what empty() holds

_state = SimpleNamespace(synchronisations=0, copied=0, allocations=0, allocator=None)


class _Chosen(threading.local):
    """The devices that a thread has chosen, the last one first to be left; every thread begins with the first."""

    def __init__(self) -> None:
        self.devices = [0]


_chosen = _Chosen()


def synchronisations() -> int:
    """Return how often the host has waited for a value so far."""
    return int(_state.synchronisations)


def allocations() -> int:
    """Return how often memory has been allocated so far."""
    return int(_state.allocations)


def copied() -> int:
    """Return how many bytes have been copied to the host so far."""
    return int(_state.copied)


def _synchronise(copied: int = 0) -> None:
    _state.synchronisations += 1
    _state.copied += copied


class UnownedMemory:
    """Memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    """A place in memory."""

    def __init__(self, mem: UnownedMemory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset


def get_allocator() -> Callable[[int], MemoryPointer]:
    """Return whom arrays have their memory from."""
    return _state.allocator or _allocate


def _allocate(size: int) -> MemoryPointer:
    _state.allocations += 1
    owner = np.empty(size, np.uint8)
    return MemoryPointer(UnownedMemory(owner.ctypes.data, size, owner, _chosen.devices[-1]), 0)


@contextmanager
def using_allocator(allocator: Callable[[int], MemoryPointer]) -> Iterator[None]:
    """Let arrays have their memory from somebody else."""
    before, _state.allocator = _state.allocator, allocator
    try:
        yield
    finally:
        _state.allocator = before


class Device:
    """One of any number of devices, with separate memory."""

    attributes: ClassVar = {"MaxSharedMemoryPerBlockOptin": 160 << 10, "MultiProcessorCount": 3}
    compute_capability = "90"

    def __init__(self, number: int) -> None:
        self.id = number

    def __enter__(self) -> "Device":
        """Do what CuPy does there: choose it."""
        _chosen.devices.append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        """Choose what was chosen before."""
        _chosen.devices.pop()


def _here(*values: Any) -> None:
    """Refuse arrays of another device than the chosen one, as CuPy does between devices without peer access."""
    for value in values:
        if isinstance(value, ndarray) and value.device.id != _chosen.devices[-1]:
            msg = f"The device where the array resides ({value.device.id}) is different from the current device"
            msg += f" ({_chosen.devices[-1]}). Peer access is unavailable between these devices."
            raise ValueError(msg)


class ndarray:  # noqa: N801, PLW1641  # CuPy's name; as unhashable as NumPy's
    """An array on the device that the tests have."""

    def __init__(self, host: np.ndarray, zone: np.ndarray | None = None, memory: Any = None) -> None:
        self._host = host
        self._zone = zone
        self._memory = memory
        self.device = Device(_chosen.devices[-1])

    shape = property(lambda self: self._host.shape)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: self._host.flags)
    data = property(lambda self: SimpleNamespace(ptr=self._host.ctypes.data, mem=self._memory))

    T = property(lambda self: _view(self._host.T, self))

    def __len__(self) -> int:
        return len(self._host)

    def __repr__(self) -> str:
        return f"cuda_host.{self._host!r}"

    def check_red_zones(self) -> None:
        """Raise if something was written before or after the memory of this array."""
        zone = self._zone
        if zone is not None and not ((zone[:RED] == MARK).all() and (zone[zone.size - RED :] == MARK).all()):
            msg = f"a kernel wrote beyond an array of shape {self.shape}"
            raise RuntimeError(msg)

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        """Refuse, as CuPy does."""
        msg = "implicit conversion to a NumPy array"
        raise TypeError(msg)

    def get(self) -> np.ndarray:
        """Return a copy on the host."""
        _synchronise(self.nbytes)
        return self._host.copy()

    def _number(self, kind: Any) -> Any:
        _synchronise(self.nbytes)
        return kind(self._host)

    def __bool__(self) -> bool:
        return self._number(bool)

    def __int__(self) -> int:
        return self._number(int)

    def __float__(self) -> float:
        return self._number(float)

    def __index__(self) -> int:
        return self._number(int)

    def tolist(self) -> Any:
        """Return the values as Python's."""
        return self.get().tolist()

    def item(self) -> Any:
        """Return the only value as Python's."""
        return self._number(np.ndarray.item)

    def __getitem__(self, index: Any) -> "ndarray":
        """Return a view, or a copy of what an array picks; a mask needs to know on the host how much that is."""
        if isinstance(index, ndarray):
            _here(self, index)
            if index.dtype == bool:
                _synchronise()
        return _view(self._host[_plain(index)], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write values; which of two for the same place stays there, a GPU does not say."""
        _here(self, index, value)
        at, values = _plain(index), _plain(value)
        self._host[at] = values
        several = isinstance(index, ndarray) and index.dtype != bool and isinstance(value, ndarray) and value.ndim > 0
        if several and not np.array_equal(self._host[at], values, equal_nan=values.dtype.kind == "f"):
            msg = "two values for one place"
            raise RuntimeError(msg)

    def reshape(self, *shape: Any) -> "ndarray":
        """Return a view where strides allow one, else a copy."""
        return _view(self._host.reshape(*shape), self)

    def swapaxes(self, one: int, other: int) -> "ndarray":
        return _view(self._host.swapaxes(one, other), self)

    def view(self, dtype: Any) -> "ndarray":
        """Return the same bytes as another type."""
        return _view(self._host.view(dtype), self)

    def astype(self, dtype: Any, copy: bool = True) -> "ndarray":
        """Convert."""
        if not copy and self.dtype == dtype:
            return self
        _here(self)
        with np.errstate(all="ignore"):
            return _copy_keeping_order(self._host.astype(dtype))

    def sort(self) -> None:
        """Sort in place."""
        _here(self)
        if not self.flags.c_contiguous:
            msg = "Sorting non-contiguous array is not supported."  # as CuPy says it
            raise NotImplementedError(msg)
        self._host.sort(kind="stable")

    def argsort(self) -> "ndarray":
        """Return the order of the values, equal ones as they come."""
        _here(self)
        return _new(self._host.argsort(kind="stable"))

    def __eq__(self, other: object) -> Any:
        return _apply("__eq__", self, other)

    def __ne__(self, other: object) -> Any:
        return _apply("__ne__", self, other)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value._host if isinstance(value, ndarray) else value


def _view(host: np.ndarray, base: ndarray) -> ndarray:
    """Return `host` as an array: with the memory of `base` if it lies there, else in memory of its own."""
    if isinstance(host, np.ndarray) and base._zone is not None and np.may_share_memory(host, base._zone):
        return _put_on_device_of(ndarray(host, base._zone, base._memory), base)
    if not host.size:
        return _put_on_device_of(_new(host), base)
    _here(base)
    return _new(host)


def _put_on_device_of(view: ndarray, base: ndarray) -> ndarray:
    view.device = base.device
    return view


def _operands(*values: Any) -> None:
    """Refuse what CuPy does not calculate with, in its words: NumPy's arrays, lists, arrays of another device."""
    _here(*values)
    for value in values:
        if not isinstance(value, ndarray | np.generic | bool | int | float):
            msg = f"Unsupported type {type(value)}"
            raise TypeError(msg)


def _apply(name: str, *values: Any) -> ndarray:
    _operands(*values)
    first, *rest = map(_plain, values)
    with np.errstate(all="ignore"):
        return _new(getattr(np.asarray(first), name)(*rest))


def _operator(name: str) -> Any:
    return lambda *values: _apply(name, *values)


for _name in ("lt", "le", "gt", "ge", "or", "and", "xor", "add", "sub", "mul", "truediv", "floordiv", "mod", "invert",
              "neg", "radd", "rsub", "rmul", "rtruediv",
              "lshift", "rshift", "ror", "rand", "matmul", "abs"):  # fmt: skip
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))


def _method(name: str) -> Any:
    def method(self: ndarray, *args: Any, **options: Any) -> ndarray:
        _here(self, *args)
        with np.errstate(all="ignore"):
            return _new(getattr(self._host, name)(*map(_plain, args), **options))

    return method


for _name in ("sum", "min", "max", "any", "all", "ravel", "take", "copy", "argmax"):
    setattr(ndarray, _name, _method(_name))


def empty(shape: Any, dtype: Any = float) -> ndarray:
    """Return an array full of poison, between red zones."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    zone, memory = _memory(n + 2 * RED)
    zone[:] = MARK
    zone[RED : RED + n] = POISON
    return ndarray(zone[RED : RED + n].view(dtype).reshape(shape), zone, memory)


def _memory(size: int) -> tuple[np.ndarray, Any]:
    place = get_allocator()(size)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place.ptr)), place.mem


def zeros(shape: Any, dtype: Any = float) -> ndarray:
    """Return zeros."""
    out = empty(shape, dtype)
    out._host[...] = 0
    return out


def asarray(host: Any, dtype: Any = None) -> ndarray:
    """Copy to the device, in the order of Fortran what is in it; an array of the device is returned as it is."""
    if isinstance(host, ndarray):
        return host if dtype is None or host.dtype == dtype else host.astype(dtype)
    host = np.asarray(host, dtype)
    return _copy_keeping_order(host) if host.flags.fnc else _new(host)


def _new(host: Any) -> ndarray:
    """Return the result of a kernel, in C order."""
    host = np.asarray(host)
    out = empty(host.shape, host.dtype)
    out._host[...] = host
    return out


def _copy_keeping_order(host: np.ndarray) -> ndarray:
    """Copy to the device, keeping the memory order of the axes."""
    axes = np.argsort([-abs(stride) for stride in host.strides], kind="stable").astype(int)
    out = empty(tuple(host.shape[axis] for axis in axes), host.dtype)
    kept = ndarray(out._host.transpose(np.argsort(axes)), out._zone, out._memory)
    kept._host[...] = host
    return kept


def ascontiguousarray(array: ndarray, dtype: Any = None) -> ndarray:
    """Return `array` in the order of C, itself if it is that already; with at least one axis."""
    if array.flags.c_contiguous and (dtype is None or array.dtype == dtype):
        return array if array.ndim else array.reshape(1)
    _here(array)
    return _new(np.ascontiguousarray(array._host, dtype))


def broadcast_to(array: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Return a view."""
    return _view(np.broadcast_to(array._host, shape), array)


def concatenate(arrays: Any, axis: int = 0) -> ndarray:
    """Concatenate arrays along an axis."""
    _here(*arrays)
    return _new(np.concatenate([a._host for a in arrays], axis))


def arange(*bounds: int) -> ndarray:
    """Return integers."""
    return _new(np.arange(*bounds))


def cumsum(array: ndarray, axis: int | None = None, dtype: Any = None) -> ndarray:
    """Return running totals, modulo the size of an integer."""
    _here(array)
    with np.errstate(over="ignore"):
        return _new(np.cumsum(array._host, axis, dtype))


def isfinite(array: ndarray) -> ndarray:
    """Return which values are finite."""
    _here(array)
    return _new(np.isfinite(array._host))


def frexp(array: ndarray) -> tuple[ndarray, ndarray]:
    """Return fractions and exponents of two."""
    _here(array)
    fractions, exponents = np.frexp(array._host)
    return _new(fractions), _new(exponents)


def ldexp(array: ndarray, exponents: ndarray) -> ndarray:
    """Return values times powers of two."""
    _operands(array, exponents)
    return _new(np.ldexp(array._host, exponents._host))


def where(condition: ndarray, one: Any, other: Any) -> ndarray:
    """Return values of `one` where the condition holds, else of `other`."""
    _operands(condition.astype(bool), one, other)
    return _new(np.where(_plain(condition), _plain(one), _plain(other)))


def unique(array: ndarray) -> ndarray:
    """Return the sorted values; how many there are must be known on the host."""
    _here(array)
    _synchronise()
    return _new(np.unique(array._host))


def flatnonzero(array: ndarray) -> ndarray:
    """Return where values are not zero; how many there are must be known on the host."""
    _here(array)
    _synchronise()
    return _new(np.flatnonzero(array._host))


def searchsorted(a: ndarray, v: ndarray) -> ndarray:
    """Return where the values belong."""
    _here(a, v)
    return _new(np.searchsorted(a._host, v._host))


class cuda:  # noqa: N801  # CuPy's name
    """Memory and streams; the host has one stream."""

    UnownedMemory, MemoryPointer = UnownedMemory, MemoryPointer
    get_allocator, using_allocator = staticmethod(get_allocator), staticmethod(using_allocator)

    @staticmethod
    def get_current_stream() -> SimpleNamespace:
        """Return it."""
        return SimpleNamespace(synchronize=_synchronise, ptr=0)


class linalg:  # noqa: N801  # CuPy's name
    """Linear algebra."""

    @staticmethod
    def eigh(array: ndarray) -> tuple[ndarray, ndarray]:
        """Return eigenvalues, rising, and eigenvectors of a symmetric matrix."""
        _here(array)
        values, vectors = np.linalg.eigh(array._host)
        return _new(values), _copy_keeping_order(np.asfortranarray(vectors))
