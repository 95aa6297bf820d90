"""Tensors: every way their memory can lie, and what comes back."""

import sys
from types import SimpleNamespace

import cuda_host
import cupy_on_cuda_host
import numpy as np
import on_cuda_host  # noqa: F401  # lets cmfast take the arrays that stand for CuPy's
import pytest
from checks import assert_same_bits

import cmfast

torch = pytest.importorskip("torch")
from cmfast._core.adapters import _torch, _torch_gradients  # noqa: E402

pytestmark = pytest.mark.torch

M = np.array([[4.0, 1.0], [2.0, 3.0]])
T = torch.from_numpy(M)


def test_results_are_tensors_on_the_cpu():
    out = cmfast.overlap(T, T)
    assert isinstance(out, torch.Tensor)
    assert out.device.type == "cpu"
    assert out.shape == ()
    assert not out.requires_grad
    result = cmfast.ipf(T)
    assert all(isinstance(part, torch.Tensor) for part in result[:6])
    assert cmfast.Status(result.status) is cmfast.Status.CONVERGED
    for wrong in (torch.tensor(9), 9, "CONVERGED", None, 0.5):
        with pytest.raises(ValueError, match="is not a valid Status"):
            cmfast.Status(wrong)


@pytest.mark.parametrize(
    "tensor",
    [
        torch._neg_view(-T),
        torch._neg_view(-T).T.T,
        T.t().contiguous().t(),
        torch.stack([T, T])[1],
        torch.stack([T, -T], -1)[..., 0],
        T.expand(3, 2, 2)[2],
        torch.nn.Parameter(T.clone(), requires_grad=False),
        T.clone().requires_grad_().detach(),
    ],
    ids=["negative", "negative-strided", "transposed", "offset", "strided", "expanded", "parameter", "detached"],
)
def test_views(tensor):
    before = tensor.clone()
    assert_same_bits(cmfast.normalize(tensor, "row"), torch.from_numpy(cmfast.normalize(M, "row")))
    assert torch.equal(tensor, before)


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool"])
def test_integer_types(name):
    y = torch.tensor([0, 1, 1]).to(getattr(torch, name))
    assert cmfast.confusion_matrix(y, y).tolist() == [[1, 0], [0, 2]]
    assert cmfast.confusion_matrix(y, y).dtype == torch.int64


def test_labels_as_a_list_or_a_tensor():
    y, p = torch.tensor([3, 5, 3]), torch.tensor([5, 5, 3])
    want = [[1, 0], [1, 1]]
    for labels in ([5, 3], torch.tensor([5, 3]), torch._neg_view(torch.tensor([-5, -3])), np.array([5, 3])):
        assert cmfast.confusion_matrix(y, p, labels=labels).tolist() == want


def test_results_do_not_share_memory_with_inputs():
    for method in ("all", "row", "col", "bi"):
        out = cmfast.normalize(T, method)
        assert out.data_ptr() != T.data_ptr()
        out.zero_()
    assert T.tolist() == M.tolist()


def test_inference_mode_and_no_grad():
    with torch.inference_mode():
        assert cmfast.overlap(T.clone(), T).item() == 1.0
    with torch.no_grad():
        assert cmfast.overlap(T.clone(), T).item() == 1.0


def test_results_can_be_written_to():
    out = cmfast.confusion_matrix(torch.tensor([0, 1]), torch.tensor([0, 1]))
    out += 1
    assert out.tolist() == [[2, 1], [1, 2]]


@pytest.mark.parametrize("given", ["uint8", "complex64", "float8_e4m3fn", "bfloat16", "nested", "quantised"])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_types_without_a_counterpart(given):
    if given == "uint8":
        assert cmfast.overlap(T.to(torch.uint8), T).item() == 1.0
        return
    tensor = {
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]),
        "quantised": lambda: torch.quantize_per_tensor(T.float(), 0.1, 0, torch.quint8),
    }.get(given, lambda: T.to(getattr(torch, given)))()
    with pytest.raises(TypeError, match=r"^overlap: A "):
        cmfast.overlap(tensor, T)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_tensors_are_not_moved():
    out = cmfast.overlap(T.cuda(), T.cuda())
    assert out.device.type == "cuda"
    assert float(out) == 1.0
    with pytest.raises(TypeError, match="one device"):
        cmfast.overlap(T.cuda(), T)


@pytest.fixture
def rehearsed(monkeypatch):
    """Let tensors of the host go the way of those on a device, through arrays that stand for CuPy's."""
    if cuda_host.missing():
        pytest.skip(cuda_host.missing())
    cupy_on_cuda_host.install(monkeypatch)
    monkeypatch.delitem(sys.modules, "cmfast._core.adapters._torch_memory", raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    yield lambda op, *arrays, **options: _torch._call_cuda(op, torch.device("cpu:0"), arrays, options)
    sys.modules.pop("cmfast._core.adapters._torch_memory", None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_on_a_device_are_memory_of_torch(rehearsed, dtype, monkeypatch):
    """What torch did not allocate it would not keep from being used again while another stream reads it."""
    made, honest = [], torch.empty

    def empty(size, **options):
        made.append(honest(size, **options))
        return made[-1]

    monkeypatch.setattr(torch, "empty", empty)
    matrices = T.to(dtype).expand(3, 2, 2)
    out, status = rehearsed("normalize", matrices, method="row")
    assert (out.dtype, status.dtype) == (dtype, torch.int8)
    assert_same_bits(out, cmfast.normalize(matrices.contiguous(), "row"))
    assert status.tolist() == [0, 0, 0]
    owned = {tensor.untyped_storage().data_ptr() for tensor in made if tensor.dtype == torch.uint8}
    assert {part.untyped_storage().data_ptr() for part in (out, status)} <= owned
    assert out.is_contiguous()
    out += 1


def test_results_on_a_device_without_elements_and_of_other_memory(rehearsed):
    out, status = rehearsed("normalize", T.expand(0, 2, 2), method="row")
    assert (out.shape, status.shape) == ((0, 2, 2), (0,))
    memory, numbers = sys.modules["cmfast._core.adapters._torch_memory"], np.arange(3.0)
    other = SimpleNamespace(
        data=SimpleNamespace(mem=None), __dlpack__=numbers.__dlpack__, __dlpack_device__=numbers.__dlpack_device__
    )
    assert memory.share_as_tensor(other, torch.float64).data_ptr() == numbers.ctypes.data


def test_parts_of_results_on_a_device_keep_their_place(rehearsed):
    labels = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 2, 2, 1]), None, None
    *parts, outside = rehearsed("label_margins", *labels, n_classes=3, n_groups=None)
    want = cmfast.metrics.label_margins(*labels[:2], n_classes=3)
    assert_same_bits(tuple(parts), tuple(want))
    assert outside == 0


@pytest.mark.parametrize("op", ["ipf", "ras"])
def test_gradients_on_a_device_go_the_way_of_results(rehearsed, op):
    """What comes back need not be contiguous, and is the CPU's."""
    found = []
    generator = torch.Generator().manual_seed(0)
    for run in (_torch.ADAPTER._run, lambda op, arrays, options: rehearsed(op, *arrays, **options)):
        M = (torch.rand((5, 3, 4), generator=generator.manual_seed(0)) + 0.1).requires_grad_()
        u, v = torch.full((3,), 4.0, requires_grad=True), torch.full((4,), 3.0, requires_grad=True)
        out = _torch_gradients.call_with_gradient(run, op, (M, u, v, None, None), {"tol": 1e-13})
        (out[0][:, 0].sum() + out[1].square().sum()).backward()
        found.append((M.grad, u.grad, v.grad))
        assert all(part.isfinite().all() for part in found[-1])
    for one, other in zip(*found, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
