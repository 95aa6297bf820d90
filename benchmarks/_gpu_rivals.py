"""What others do with the same arrays on the same device, for ``python -m benchmarks.gpu --rivals``.

Torch, as it is and compiled, POT, torchmetrics, CuPy and a kernel by hand, each in the best form that it has. Every one
is compared with what it should give before it is timed. Where arrays are on no device, as in the tests, torch works on
the CPU and compiles nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

import cmfast
from benchmarks import _data
from cmfast._core import dispatch

PART = 1000  # items that are compared
TOL = 1e-9  # between margins and what they should be, as far as ours are from it at most
MOST_SWEEPS = 1 << 14
SWEEPS = 20  # of those who want throughput
THREADS = 128
SHARE = 20  # of the memory of a device that one array may take is one in so many
LINES = (1000, 2000, 10_000)  # of one large matrix
COMPARED = 100  # rows of it, from first to last


@dataclass(frozen=True)
class Rival:
    """Something else that does the same.

    Attributes
    ----------
    name : str
    make : callable
        Returns what is timed; everything that a user would do once is done here. ImportError: it is not installed.
    check : callable
        Raises if what was timed gave something else; returns what should be known of it besides, or nothing.
    """

    name: str
    make: Callable[[], Callable[[], Any]]
    check: Callable[[Any], str]


@dataclass(frozen=True)
class Race:
    """What we do, and what the others do."""

    name: str
    size: str
    ours: Callable[[], Any]
    rivals: tuple[Rival, ...]


def fitting(most: int, size: int, room: int) -> int:
    """Return how many items of `size` bytes to use in `room` bytes, leaving memory for the rivals' copies."""
    return max(5, min(most, room // (SHARE * size)))


def tensor(a: Any) -> Any:
    """Return the same memory as a tensor of torch, or a copy where arrays only stand for those of a device."""
    import torch

    return torch.as_tensor(a, device="cuda") if hasattr(a, "__cuda_array_interface__") else torch.from_numpy(a.get())


def array(t: Any) -> Any:
    """Return the same memory as an array of CuPy."""
    return cupy.asarray(t if t.is_cuda else t.numpy())


def host(a: Any) -> np.ndarray:
    """Return the values."""
    return a.get() if hasattr(a, "get") else a.cpu().numpy()


def compiled(function: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """Return what ``torch.compile`` makes of a function of tensors."""
    import torch

    return torch.compile(function, backend="inductor" if like.is_cuda else "eager", dynamic=False)


def same(want: Any, rtol: float) -> Callable[[Any], str]:
    """Return the check against one of our results, on a part."""

    def check(found: Any) -> str:
        np.testing.assert_allclose(host(found[:PART]), host(want[:PART]), rtol=rtol)
        return ""

    return check


# Scaling.


def half_sweeps(M: Any, y: Any) -> Any:
    """Return x and y after a sweep: products by cuBLAS."""
    x = 1.0 / (M @ y[..., None])
    return x[..., 0], 1.0 / (M.mT @ x)[..., 0]


def half_sums(M: Any, y: Any) -> Any:
    """Return the same by sums that a compiler can merge with what is around them."""
    x = 1.0 / (M * y[..., None, :]).sum(-1)
    return x, 1.0 / (M * x[..., None]).sum(-2)


def sweeps(M: Any, number: int, sweep: Callable[[Any, Any], Any] = half_sweeps) -> Any:
    """Return the matrices after so many sweeps: columns are met, rows nearly."""
    y = M.new_ones(M.shape[:-1])
    x = y
    for _ in range(number):
        x, y = sweep(M, y)
    return x[..., None] * M * y[..., None, :]


def sweeps_in_numpy(M: np.ndarray, number: int) -> np.ndarray:
    """Return the same in float64, for a check."""
    M, y = M.astype(np.float64), np.ones(M.shape[:-1])
    x = y
    for _ in range(number):
        x = 1.0 / (M @ y[..., None])[..., 0]
        y = 1.0 / (x[..., None, :] @ M)[..., 0, :]
    return x[..., None] * M * y[..., None, :]


def residual(P: Any) -> float:
    """Return how far the worst of some matrices, arrays or tensors, is from its margins, over the mass."""
    missed = abs(P.sum(-1) - 1.0).sum(-1) + abs(P.sum(-2) - 1.0).sum(-1)
    return float((missed / P.shape[-1]).max())


def needed(M: np.ndarray) -> int:
    """Return how many sweeps, as a power of two, the worst of some matrices needs for our residual."""
    number = 1
    while number < MOST_SWEEPS and residual(sweeps_in_numpy(M, number)) > TOL:
        number *= 2
    return number


def check_sweeps(M: Any, number: int) -> Callable[[Any], str]:
    """Return a check that a result is that of `number` sweeps, which also returns its residual as text."""
    few = max(1, PART // M.shape[-1])
    want = sweeps_in_numpy(M[:few].get(), number)

    def check(found: Any) -> str:
        got = host(found[:few]).astype(np.float64)
        np.testing.assert_allclose(got, want, rtol=1e-3 if M.dtype == np.float32 else 1e-6, atol=1e-30)
        return f"{number} sweeps, residual {residual(got):.0e}"

    return check


def swept_alone(want: Any, number: int) -> Callable[[Any], str]:
    """Return the check of as many sweeps of one large matrix as it needs: they have come to what we have."""
    step = -(-want.shape[-1] // COMPARED)

    def check(found: Any) -> str:
        np.testing.assert_allclose(host(found[:, ::step]), host(want[:, ::step]), rtol=1e-5)
        missed = residual(found)
        assert missed <= TOL, missed
        return f"{number} sweeps, residual {missed:.0e}, ours {residual(want):.0e}"

    return check


def needed_there(M: Any) -> int:
    """Return how many sweeps, as a power of two, one large matrix needs for our residual: found where it lies."""
    there, number = tensor(M), 1
    while number < MOST_SWEEPS and residual(sweeps(there, number)) > TOL:
        number *= 2
    return number


def large(C: int) -> Any:
    """Return one matrix, an accurate classifier's: 0.8 GB of 10,000 classes would take long to make and to move."""
    i = np.arange(C, dtype=np.float64)
    turn, other = cupy.asarray(i * 0.6180339887498949)[:, None], cupy.asarray(i * 0.7548776662466927)
    M = (turn + other) * (1.0 + turn) % 1.0 + 1e-3  # as good as drawn
    M *= cupy.asarray(np.exp(2.3 * (i * 0.4142135623730951 % 1.0)))[:, None]  # sizes of classes, from 1 to 10
    M[cupy.arange(C), cupy.arange(C)] = 9.0 * M.sum(axis=1)
    return M[None]


def alone(room: int) -> Iterator[Race]:
    """Scale one large matrix."""
    for C in [C for C in LINES if room >= SHARE * 8 * C * C] or (40,):
        M = large(C)
        number, want = needed_there(M), cmfast.bi_normalize(M)
        rival = loop(M, number, merged=False, check=swept_alone(want, number))
        yield Race("bi_normalize of one", f"{C:,}x{C:,}", lambda M=M: cmfast.bi_normalize(M), (rival,))


def loop(M: Any, number: int, *, merged: bool, check: Callable[[Any], str] | None = None) -> Rival:
    """Return the loop in torch, eager or compiled: ten sweeps at a time, so that little is compiled."""

    def make() -> Callable[[], Any]:
        there = tensor(M)
        if not merged:
            return lambda: sweeps(there, number)
        ten = compiled(lambda M, y: _some(M, y, min(number, 10)), there)
        ends = compiled(lambda M, x, y: x[..., None] * M * y[..., None, :], there)

        def run() -> Any:
            x = y = there.new_ones(there.shape[:-1])
            for _ in range(-(-number // 10)):
                x, y = ten(there, y)
            return ends(there, x, y)

        return run

    number = number if not merged or number < 10 else -(-number // 10) * 10
    how = "torch.compile" if merged else "torch"
    return Rival(f"{how}, {number} sweeps, {M.dtype}", make, check or check_sweeps(M, number))


def _some(M: Any, y: Any, number: int) -> Any:
    x = y
    for _ in range(number):
        x, y = half_sums(M, y)
    return x, y


def transport(M: Any, want: Any) -> Rival:
    """Return POT's batched Sinkhorn."""

    def make() -> Callable[[], Any]:
        import ot.batch

        there = tensor(M)
        ones = there.new_ones(there.shape[:-1])
        options = {"max_iter": MOST_SWEEPS, "tol": TOL * M.shape[-1] ** 0.5}
        return lambda: ot.batch.bregman_projection_batch(there, ones, ones, **options)["T"]

    def check(found: Any) -> str:
        same(want, 1e-5)(found)
        return f"residual {residual(host(found[:PART])):.0e}"

    return Rival("POT, ot.batch", make, check)


# Handwritten kernel for the layers of language models: one matrix per thread, in registers.
BY_HAND = """
struct alignas(16) Four { float v[4]; };
__global__ void sweeps_of_four(const Four* __restrict__ M, Four* __restrict__ out, long long n, int sweeps) {
  const long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  Four m[4];
  float x[4], y[4] = {1.f, 1.f, 1.f, 1.f};
#pragma unroll
  for (int i = 0; i < 4; ++i) m[i] = M[4 * k + i];
  for (int s = 0; s < sweeps; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = 1.f / (m[i].v[0] * y[0] + m[i].v[1] * y[1] + m[i].v[2] * y[2] + m[i].v[3] * y[3]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      y[j] = 1.f / (m[0].v[j] * x[0] + m[1].v[j] * x[1] + m[2].v[j] * x[2] + m[3].v[j] * x[3]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Four row;
#pragma unroll
    for (int j = 0; j < 4; ++j) row.v[j] = x[i] * m[i].v[j] * y[j];
    out[4 * k + i] = row;
  }
}
"""


def make_handwritten_rival(M: Any, number: int) -> Rival:
    """Return a kernel that sweeps 4x4 matrices."""

    def make() -> Callable[[], Any]:
        module = cupy.RawModule(code=BY_HAND, options=("-std=c++17",), name_expressions=("sweeps_of_four",))
        kernel, out = module.get_function("sweeps_of_four"), cupy.empty(M.shape, np.float32)

        def run() -> Any:
            kernel((-(-len(M) // THREADS),), (THREADS,), (M, out, np.int64(len(M)), np.int32(number)))
            return out

        return run

    return Rival("a thread per matrix, by hand", make, check_sweeps(M, number))


def scaling(room: int) -> Iterator[Race]:
    """Scale batches of every size, small ones of the layers of language models, and large ones alone."""
    for C in (2, 10, 32, 64):
        n = fitting((1 << 26) // C**2, 8 * C**2, room)  # 0.5 GB
        base = _data.confusion_matrices(min(n, PART), C, 0.9, 1e-3)
        M = cupy.asarray(base)[cupy.arange(n) % len(base)]
        number, want = needed(base[: 10 * PART // C]), cmfast.bi_normalize(M)
        rivals = [loop(M, number, merged=False), transport(M, want)]
        if C in (10, 32):  # the compiler takes many seconds for each
            rivals += loop(M, number, merged=True), loop(M.astype(np.float32), SWEEPS, merged=True)
        yield Race("bi_normalize", f"{n:,} {C}x{C}", lambda M=M: cmfast.bi_normalize(M), tuple(rivals))
    n = fitting(10_000_000, 64, room)
    base = np.exp(np.random.default_rng(0).normal(size=(min(n, PART), 4, 4))).astype(np.float32)
    M = cupy.asarray(base)[cupy.arange(n) % len(base)]
    rivals = make_handwritten_rival(M, SWEEPS), loop(M, SWEEPS, merged=True)
    yield Race("bi_normalize, float32", f"{n:,} 4x4", lambda: cmfast.bi_normalize(M), rivals)
    yield from alone(room)


def swept_and_back(M: Any, G: Any, number: int) -> tuple[Any, Any]:
    """Return matrices after so many sweeps, and the gradient in M of that in them: the steps of the Triton kernels."""
    sums: list[tuple[Any, Any]] = []
    for _ in range(number):
        row = M.sum(-1, keepdim=True)
        M = M / row
        sums.append((row, M.sum(-2, keepdim=True)))
        M = M / sums[-1][1]
    P = M
    for row, col in reversed(sums):
        G = (G - (G * M).sum(-2, keepdim=True)) / col
        M = M * col
        G = (G - (G * M).sum(-1, keepdim=True)) / row
        M = M * row
    return P, G


def recorded(M: Any, G: Any, number: int) -> Callable[[Any], str]:
    """Return the check of something that makes so many sweeps and comes back: against autograd, in float64."""
    import torch

    few = max(1, PART // 16)
    leaf = torch.from_numpy(M[:few].get()).double().requires_grad_()
    swept = leaf
    for _ in range(number):
        swept = swept / swept.sum(-1, keepdim=True)
        swept = swept / swept.sum(-2, keepdim=True)
    swept.backward(torch.from_numpy(G[:few].get()).double())
    exact = back(M[:few], G[:few])[1].get()

    def check(found: Any) -> str:
        P, slopes = (host(part[:few]).astype(np.float64) for part in found)
        np.testing.assert_allclose(P, swept.detach().numpy(), rtol=1e-3, atol=1e-6)
        largest = abs(leaf.grad.numpy()).max()
        np.testing.assert_allclose(slopes, leaf.grad.numpy(), rtol=1e-2, atol=1e-4 * largest)
        gap = abs(slopes - exact).max() / abs(exact).max()
        return f"{number} sweeps, residual {residual(P):.0e}, a slope off by {gap:.0e} of the largest"

    return check


def back(M: Any, G: Any) -> tuple[Any, Any]:
    """Return what we do: the scaled matrices, and the gradient in M of that in them."""
    result = cmfast.ipf(M)
    known = result.row_scale, result.col_scale, result.matrix, result.status, result.smoothing
    return result.matrix, dispatch.call("scaling_gradient", M, G, None, None, *known, targets=False)[0]


def make_triton_rival(M: Any, G: Any, number: int) -> Rival:
    """Return the kernels in Triton, which only a GPU runs."""

    def make() -> Callable[[], Any]:
        from benchmarks import _triton_sweeps

        there = tensor(M), tensor(G)
        if not there[0].is_cuda:
            msg = "Triton needs a GPU"
            raise ImportError(msg)
        return lambda: _triton_sweeps.swept_and_back(*there, number)

    return Rival(f"Triton, {number} sweeps and back", make, recorded(M, G, number))


def make_torch_rival(M: Any, G: Any, number: int, *, merged: bool) -> Rival:
    """Return the same steps in torch, eager or compiled."""

    def make() -> Callable[[], Any]:
        there = tensor(M), tensor(G)
        run = compiled(lambda M, G: swept_and_back(M, G, number), there[0]) if merged else None
        return lambda: run(*there) if run else swept_and_back(*there, number)

    how = "torch.compile" if merged else "torch"
    return Rival(f"{how}, {number} sweeps and back", make, recorded(M, G, number))


def gradients(room: int) -> Iterator[Race]:
    """Scale small matrices, and come back: exactly, against so many sweeps."""
    for most, C in ((1_000_000, 4), (100_000, 10)):
        n = fitting(most, 16 * C * C, room)
        M, G = layers(n, C)
        rivals = [make_torch_rival(M, G, SWEEPS, merged=merged) for merged in (False, True)]
        if C == 4:
            rivals.insert(0, make_triton_rival(M, G, SWEEPS))
        ours = lambda M=M, G=G: back(M, G)  # noqa: E731
        yield Race("bi_normalize and back", f"{n:,} {C}x{C} float32", ours, tuple(rivals))


def layers(n: int, C: int) -> tuple[Any, Any]:
    """Return matrices as layers of networks have them, and gradients in the scaled ones: a thousand again and again."""
    rng = np.random.default_rng(C)
    M, G = np.exp(rng.normal(size=(1000, C, C))), rng.normal(size=(1000, C, C))
    which = cupy.arange(n) % 1000
    return tuple(cupy.asarray(a.astype(np.float32))[which] for a in (M, G))


# Counting.


def counting(room: int) -> Iterator[Race]:
    """Count labels, in one byte and in eight."""
    n, C = fitting(100_000_000, 16, room), 10
    for dtype in (np.uint8, np.int64):
        y, p = (cupy.asarray(a.astype(dtype))[cupy.arange(n) % len(a)] for a in _data.labels(100_003, C))
        want = cmfast.confusion_matrix(y, p, n_classes=C)
        rivals = [_bincount(y, p, C, want), Rival("cupy.bincount", _cupy_bincount(y, p, C), same(want, 0.0))]
        if dtype == np.int64:
            rivals.append(_torchmetrics(y, p, C, want))

        def ours(y: Any = y, p: Any = p) -> Any:
            return cmfast.confusion_matrix(y, p, n_classes=C)

        yield Race(f"confusion_matrix {np.dtype(dtype)}", f"{n:,} labels, C={C}", ours, tuple(rivals))


def _bincount(y: Any, p: Any, C: int, want: Any) -> Rival:
    def make() -> Callable[[], Any]:
        import torch

        t, q = tensor(y), tensor(p)  # a pair fits into a byte where both labels do
        return lambda: torch.bincount(t * C + q, minlength=C * C).reshape(C, C)

    return Rival("torch.bincount", make, same(want, 0.0))


def _cupy_bincount(y: Any, p: Any, C: int) -> Callable[[], Callable[[], Any]]:
    return lambda: lambda: cupy.bincount(y * C + p, minlength=C * C).reshape(C, C)


def _torchmetrics(y: Any, p: Any, C: int, want: Any) -> Rival:
    def make() -> Callable[[], Any]:
        from torchmetrics.functional.classification import multiclass_confusion_matrix

        t, q = tensor(y), tensor(p)
        return lambda: multiclass_confusion_matrix(q, t, C, validate_args=False)

    return Rival("torchmetrics", make, same(want, 0.0))


# Cells, thresholds, comparisons.


def cells(room: int) -> Iterator[Race]:
    """Count points by cell: the others get the keys for nothing."""
    n, C = fitting(10_000_000, 42, room), 10
    X, y, p = _data.embeddings(min(n, 100_000), 10, C)
    shift = np.random.default_rng(1).normal(size=(-(-n // len(X)), 1, 10)).astype(np.float32)
    X, y, p = ((X + shift).reshape(-1, 10)[:n], *(np.tile(a.astype(np.uint8), len(shift))[:n] for a in (y, p)))
    grid = cmfast.Grid.scott(X)
    points = tuple(map(cupy.asarray, (X, y, p)))
    want = cmfast.cell_counts(*points, grid=grid, n_classes=C).counts

    def keys() -> Any:
        import torch

        X, y, p = map(tensor, points)
        origin, inverse = (torch.tensor(a).to(X.device) for a in (grid.origin, grid.inverse))
        index = ((X.double() - origin) * inverse).floor().long()
        key = torch.zeros_like(index[:, 0])
        for column in index.T:
            low, high = column.min(), column.max()
            key = key * (high - low + 1) + (column - low)
        return (key * C + y) * C + p

    def make_torch_call() -> Callable[[], Any]:
        import torch

        given = keys()
        return lambda: torch.unique(given, return_counts=True)[1]

    def make_cupy_call() -> Callable[[], Any]:
        given = array(keys())
        return lambda: cupy.unique(given, return_counts=True)[1]

    def check(found: Any) -> str:
        np.testing.assert_array_equal(np.sort(host(found)), np.sort(host(want)))
        return "keys not counted"

    rivals = Rival("torch.unique", make_torch_call, check), Rival("cupy.unique", make_cupy_call, check)
    ours = lambda: cmfast.cell_counts(*points, grid=grid, n_classes=C).counts  # noqa: E731
    yield Race("cell_counts", f"{n:,} points, m=10", ours, rivals)


def sampling(room: int) -> Iterator[Race]:
    """Move a threshold over scores."""
    n = fitting(10_000_000, 16, room)
    rng = np.random.default_rng(0)
    s, y = rng.permutation(n) / n, rng.integers(0, 2, n)
    scores, hits = cupy.asarray(s), cupy.asarray(y)
    order = np.argsort(-s)  # no score is there twice
    found = y[order].cumsum()

    def make_torch_call() -> Callable[[], Any]:
        import torch

        s, y = tensor(scores), tensor(hits)

        def run() -> Any:
            ordered, order = torch.sort(s, descending=True)
            last = torch.ones_like(ordered, dtype=torch.bool)
            last[:-1] = ordered[1:] != ordered[:-1]
            tp, above = y[order].cumsum(0)[last], torch.arange(1, len(s) + 1, device=s.device)[last]
            return torch.stack([tp, above - tp]), ordered[last]

        return run

    def check(result: Any) -> str:
        (hit, missed), ordered = map(host, result)
        np.testing.assert_array_equal(hit, found)
        np.testing.assert_array_equal(hit + missed, np.arange(1, n + 1))
        np.testing.assert_array_equal(ordered, s[order])
        return ""

    def compute_with_torchmetrics() -> Callable[[], Any]:
        from torchmetrics.functional.classification import binary_precision_recall_curve

        s, y = tensor(scores), tensor(hits)
        return lambda: binary_precision_recall_curve(s, y, thresholds=None, validate_args=False)

    def recall(result: Any) -> str:
        np.testing.assert_allclose(host(result[1][:-1].flip(0)), found / found[-1], rtol=1e-5)
        np.testing.assert_allclose(host(result[0][:-1].flip(0)), found / np.arange(1, n + 1), rtol=1e-5)
        return ""

    rivals = (
        Rival("torch.sort, cumsum", make_torch_call, check),
        Rival("torchmetrics", compute_with_torchmetrics, recall),
    )
    ours = lambda: cmfast.metrics.threshold_matrices(hits, scores)  # noqa: E731
    yield Race("threshold_matrices", f"{n:,} scores", ours, rivals)


def comparing(room: int) -> Iterator[Race]:
    """Compare matrices, and divide them by their rows: against loops merged by a compiler a tie is all there is."""
    n = fitting(1_000_000, 1600, room)
    base = _data.confusion_matrices(min(n, PART), 10, 0.9, 1e-3)
    M = cupy.asarray(base)[cupy.arange(n) % len(base)]
    other = cupy.ascontiguousarray(M[::-1])

    def shares(M: Any) -> Any:
        return M / M.sum(-1, keepdim=True)

    def overlap(S: Any, T: Any) -> Any:
        s, t = (a / a.sum((-2, -1), keepdim=True) for a in (S, T))
        return s.minimum(t).sum((-2, -1))

    def rival(function: Callable[..., Any], arrays: tuple[Any, ...], want: Any) -> Rival:
        def make() -> Callable[[], Any]:
            there = tuple(map(tensor, arrays))
            run = compiled(function, there[0])
            return lambda: run(*there)

        return Rival("torch.compile", make, same(want, 1e-12))

    size = f"{n:,} 10x10"
    rivals = (rival(overlap, (M, other), cmfast.overlap(M, other)),)
    yield Race("overlap", size, lambda: cmfast.overlap(M, other), rivals)
    rivals = (rival(shares, (M,), cmfast.normalize(M, "row")),)
    yield Race("normalize row", size, lambda: cmfast.normalize(M, "row"), rivals)


RACES: dict[str, Callable[[int], Iterator[Race]]] = {
    group.__name__: group for group in (scaling, gradients, counting, cells, sampling, comparing)
}
