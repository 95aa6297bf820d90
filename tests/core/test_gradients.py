"""Tensors that require gradients: what comes back along them, what is refused, and what is recorded where."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from checks import assert_same_bits
from processes import python

import cmfast
from cmfast import metrics
from cmfast.kernels.ops import OPS
from cmfast.metrics import _plan

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad, gradcheck  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from cmfast._core.adapters import _torch_gradients  # noqa: E402

pytestmark = pytest.mark.torch

TIGHT = {"tol": 1e-14}
SLOPED = ("accuracy", "f1_macro", "mcc", "kappa_quadratic", "gerrity", "geometric_mean", "f1_of_macro", "recall", "f1")


def tensor(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator, dtype=dtype) + 0.1).requires_grad_()


def check(function, *tensors):
    assert gradcheck(function, tensors, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}, {"solver": "newton"}, {"solver": "sinkhorn"}], ids=str)
def test_bi_normalize(options):
    check(lambda M: cmfast.bi_normalize(M, **TIGHT, **options), tensor(3, 4, 4))


def test_factors():
    check(lambda M: cmfast.ipf(M, **TIGHT)[:3], tensor(2, 3, 3))
    check(lambda M: cmfast.ras(M, **TIGHT)[1:3], tensor(2, 3, 3))


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 4, 3), (3, 4)], ids=str)
def test_targets(shape):
    """One matrix for many targets too: their totals are one, whatever they are."""
    R, C = shape[-2:]
    rows, cols = tensor(2, R, seed=1), tensor(C, seed=2)

    def scaled(M, rows, cols):
        return cmfast.ipf(M, rows / rows.sum(-1, keepdim=True), cols / cols.sum(), **TIGHT).matrix

    check(scaled, tensor(*shape), rows, cols)


SHAPES = [(1, 1), (2, 2), (10, 10), (65, 65), (130, 130), (300, 300), (2, 300), (300, 2), (1, 70), (150, 140)]


@pytest.mark.parametrize("options", [{}, {"smoothing": 0.1}], ids=["as it is", "smoothed"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sizes(shape, options):
    """Along random directions (fast_mode): of 300 classes there are 90,000 cells."""
    targets = [tensor(*shape, seed=3).detach().sum(axis) for axis in (1, 0)]

    def scaled(M):
        return cmfast.ipf(M, *targets, **TIGHT, **options)[:3]

    assert gradcheck(scaled, tensor(*shape), eps=1e-6, atol=1e-8, rtol=1e-6, fast_mode=True)


@pytest.mark.parametrize("method", ["all", "row", "col", "bi"])
def test_normalize_and_weights(method):
    options = TIGHT if method == "bi" else {}
    check(lambda M: cmfast.normalize(M, method, **options), tensor(2, 3, 3))
    check(lambda M: cmfast.importance_weights(M, method, **options), tensor(2, 3, 3))


def test_weights_of_a_target():
    check(lambda M, target: cmfast.importance_weights(M, target=target), tensor(2, 3, 3), tensor(3, 3, seed=1))


@pytest.mark.parametrize("function", [cmfast.overlap, cmfast.l1_distance, cmfast.kl_divergence])
def test_comparisons(function):
    check(function, tensor(3, 2, 3), tensor(2, 3, seed=1))


@pytest.mark.parametrize("name", SLOPED)
def test_metrics(name):
    check(lambda M: metrics.compute(M, name), tensor(3, 4, 4))


@pytest.mark.parametrize("undefined", ["present", "strict", "one"])
@pytest.mark.parametrize("options", [{}, {"v": 2.5}, {"normalize": True}, {"normalize": True, "v": 2.5}], ids=str)
def test_the_weighted_tau(options, undefined):
    check(lambda M: metrics.tau_weighted(M, [1.0, 0.0, 2.5], undefined=undefined, **options), tensor(3, 3, 3))


def test_where_the_weighted_tau_has_no_slope():
    perfect, wrong = torch.eye(2, dtype=torch.float64), 1.0 - torch.eye(2, dtype=torch.float64)
    for M, options, is_nan in (
        (perfect, {}, True),  # the root of a sum of squares that is zero
        (perfect, {"normalize": True}, True),
        (wrong, {"normalize": True}, False),
        (wrong, {"normalize": True, "v": 3.0}, False),
        (wrong, {"normalize": True, "v": 0.5}, True),
    ):
        leaf = M.clone().requires_grad_()
        metrics.tau_weighted(leaf, [1.0, 2.0], **options).backward()
        assert leaf.grad.isnan().all() == is_nan


def test_many_metrics_at_once():
    M = tensor(2, 3, 3)
    check(lambda M: tuple(metrics.compute(M, list(SLOPED)).values()), M)
    check(lambda M: metrics.compute(M, "recall", average_over=[2, 0]), M)
    check(metrics.mcc, M)
    found = metrics.compute(M, ["accuracy", "min_recall"])
    found["accuracy"].sum().backward()  # what is not asked for does not matter
    assert torch.isfinite(M.grad).all()


def test_a_metric_without_a_slope_is_nan_and_a_class_that_is_filled_in_is_a_constant():
    M = torch.tensor([[2.0, 0.0], [2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    metrics.mcc(M).backward()
    assert M.grad.isnan().all()
    M.grad = None
    metrics.precision(M).sum().backward()
    torch.testing.assert_close(M.grad, torch.tensor([[0.125, 0.0], [-0.125, 0.0]], dtype=torch.float64))


def test_single_precision():
    M = tensor(5, 4, 4, dtype=torch.float32)
    out = cmfast.bi_normalize(M, tol=1e-12)
    G = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    out.backward(G)
    wide = M.detach().double().requires_grad_()
    cmfast.bi_normalize(wide, tol=1e-12).backward(G.double())
    assert M.grad.dtype == torch.float32
    torch.testing.assert_close(M.grad.double(), wide.grad, rtol=1e-6, atol=1e-6)


def test_the_same_bits_for_any_batch():
    M = tensor(21, 4, 4)
    cmfast.bi_normalize(M)[..., 0].sum().backward()
    for part in (slice(0, 1), slice(3, 12), slice(20, 21)):
        one = M.detach()[part].clone().requires_grad_()
        cmfast.bi_normalize(one)[..., 0].sum().backward()
        assert_same_bits(one.grad, M.grad[part])


def test_what_did_not_converge_is_nan_and_alone():
    M = tensor(3, 4, 4).detach()
    M[1] = M[1] ** 40
    M.requires_grad_()
    with pytest.warns(cmfast.FailureWarning, match="MAX_ITER"):
        out = cmfast.bi_normalize(M, solver="sinkhorn", max_iter=40)
    out[..., 0].sum().backward()
    assert M.grad.isnan().reshape(3, -1).all(1).tolist() == [False, True, False]
    assert not M.grad[::2].isnan().any()


@pytest.mark.filterwarnings("ignore::cmfast.FailureWarning")
def test_limits():
    M = torch.tensor([[1.0, 2.0, 7.0], [3.0, 1.0, 0.0], [0.0, 0.0, 5.0]], dtype=torch.float64, requires_grad=True)
    block = M.detach()[:2, :2].clone().requires_grad_()
    for function in (cmfast.bi_normalize, lambda M: cmfast.importance_weights(M, "bi")):
        M.grad = block.grad = None
        function(M)[:2, :2].cumsum(0).prod().backward()
        function(block).cumsum(0).prod().backward()
        torch.testing.assert_close(M.grad[:2, :2], block.grad, rtol=1e-6, atol=1e-9)
        assert M.grad[:2, 2].tolist() == M.grad[2, :2].tolist() == [0.0, 0.0]


# What has a gradient, by the ops of the table.
FUNCTIONS = {
    "ipf": cmfast.bi_normalize,
    "ras": lambda M: cmfast.ras(M)[1],
    "ipf_of_logits": lambda M: cmfast.bi_normalize(M, logits=True),
    "overlap": lambda M: cmfast.overlap(M, M.detach().mT),
    "l1_distance": lambda M: cmfast.l1_distance(M, M.detach().mT),
    "kl_divergence": lambda M: cmfast.kl_divergence(M, M.detach().mT),
    "normalize": lambda M: cmfast.normalize(M, "row"),
    "importance_weights": lambda M: cmfast.importance_weights(M, "col"),
    "metrics_of_matrices": lambda M: metrics.compute(M, "mcc"),
}


def bytes_kept(function, M):
    """Return the result, and what is kept for the way back beside it and the input, in bytes."""
    seen = {}

    def note(kept):
        seen[kept.untyped_storage().data_ptr()] = kept.untyped_storage().nbytes()
        return kept

    with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        result = function(M)
    for known in (M, result):
        seen.pop(known.untyped_storage().data_ptr(), None)
    return result, sum(seen.values())


@pytest.mark.parametrize("op", FUNCTIONS)
def test_nothing_is_recorded_where_nothing_requires_a_gradient(op, monkeypatch):
    monkeypatch.setattr(_torch_gradients, "call_with_gradient", None)
    M = tensor(2, 3, 3)
    for context, given in ((nullcontext(), M.detach()), (torch.no_grad(), M)):
        with context:
            result, kept = bytes_kept(FUNCTIONS[op], given)
        assert not result.requires_grad
        assert result.grad_fn is None
        assert kept == 0


@pytest.mark.parametrize("op", FUNCTIONS)
def test_what_is_kept_for_the_way_back_has_no_sweeps(op):
    """Beside input and result at most another input or result, the factors, and two numbers a matrix."""
    n, C = 64, 6
    result, kept = bytes_kept(FUNCTIONS[op], tensor(n, C, C))
    assert result.requires_grad
    assert kept <= n * (C * C + 2 * C + 2) * 8


@pytest.mark.parametrize("solver", ["auto", "newton", "sinkhorn"])
def test_as_much_is_kept_whatever_the_solver_does(solver):
    _, kept = bytes_kept(lambda M: cmfast.bi_normalize(M, solver=solver), tensor(64, 6, 6))
    assert kept == 64 * (2 * 6 * 8 + 1 + 8)  # factors, status, smoothing


def test_one_gradient_of_several():
    S, T = tensor(2, 3, 3), tensor(3, 3, seed=1)
    cmfast.overlap(S, T.detach()).sum().backward()
    want, S.grad = S.grad, None
    cmfast.overlap(S, T).sum().backward()
    assert_same_bits(S.grad, want)
    assert T.grad.shape == (3, 3)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_gradients_of_gradients_are_refused(op):
    M = tensor(3, 3)
    (first,) = torch.autograd.grad(FUNCTIONS[op](M).square().sum(), M, create_graph=True)
    assert torch.isfinite(first).all()
    with pytest.raises(NotImplementedError, match=f"^{op}: cmfast has gradients, but no gradients of gradients"):
        first.sum().backward()


def test_functions_that_transform():
    M = tensor(3, 3)
    cmfast.bi_normalize(M)[0, 0].backward()
    found = torch.func.grad(lambda M: cmfast.bi_normalize(M)[0, 0])(M.detach())
    assert_same_bits(found, M.grad)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_vmap_is_refused_in_words(op):
    for M in (tensor(2, 3, 3), tensor(2, 3, 3).detach()):
        with pytest.raises(TypeError, match=r"is inside torch.vmap, .*; give cmfast the whole batch"):
            torch.func.vmap(FUNCTIONS[op])(M)
    inner = torch.func.grad(lambda M: FUNCTIONS[op](M).sum())
    with pytest.raises(TypeError, match=rf"^{op}: inside torch.vmap, .*; give cmfast the whole batch"):
        torch.func.vmap(inner)(tensor(2, 3, 3).detach())
    with pytest.raises(TypeError, match=rf"^{op}: its backward pass is inside torch.vmap; torch.autograd.functional"):
        torch.func.jacrev(FUNCTIONS[op])(tensor(3, 3).detach())
    M = tensor(3, 3).detach()
    assert torch.isfinite(torch.autograd.functional.jacobian(FUNCTIONS[op], M)).all()


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # by which torch prepares tangents
def test_forward_mode_is_refused_in_words(op):
    """Whose tangents would be lost."""
    M = tensor(3, 3).detach()
    for transformed in (torch.func.jacfwd(FUNCTIONS[op]), lambda M: torch.func.jvp(FUNCTIONS[op], (M,), (M,))):
        with pytest.raises(TypeError, match="has a tangent of forward mode, which cmfast does not propagate"):
            transformed(M)
    with forward_ad.dual_level(), pytest.raises(TypeError, match="has a tangent of forward mode"):
        FUNCTIONS[op](forward_ad.make_dual(M, M))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_checkpoints_compute_the_way_forth_again(op):
    M = tensor(3, 3)
    want, found = (
        torch.autograd.grad(run(FUNCTIONS[op], M).square().sum(), M)[0]
        for run in (lambda function, M: function(M), partial(checkpoint, use_reentrant=False))
    )
    assert_same_bits(found, want)


def test_what_has_no_gradient_is_refused():
    M = tensor(3, 3)
    for function in (cmfast.support, metrics.margins, lambda M: metrics.from_sums(M, M, M)):
        with pytest.raises(TypeError, match=r"requires gradients, which cmfast does not propagate; give .*detach\(\)"):
            function(M)
    with pytest.raises(TypeError, match=r"^bi_normalize: smoothing='pseudo-bayes' has no gradient"):
        cmfast.bi_normalize(M, smoothing="pseudo-bayes")
    cmfast.bi_normalize(M.detach(), smoothing="pseudo-bayes")


def test_every_op_of_the_table_has_its_way_back():
    assert set(_torch_gradients.BACKWARDS) == set(FUNCTIONS) == {name for name, op in OPS.items() if op.gradient}
    assert {op.gradient for op in OPS.values() if op.gradient} <= set(OPS)


def test_devices_without_the_kernel_are_refused(monkeypatch):
    class OnDevice:
        device = torch.device("cuda:0")

    assert _torch_gradients.explain_refusal(OnDevice, "ipf") is None
    monkeypatch.setitem(OPS, "scaling_gradient", replace(OPS["scaling_gradient"], targets=frozenset({"cpu"})))
    assert _torch_gradients.explain_refusal(OnDevice, "ipf").endswith("does not propagate on cuda")
    assert _torch_gradients.explain_refusal(tensor(1), "ipf") is None


@pytest.mark.parametrize(
    ("v", "normalize", "refused"), [(1.0, False, False), (2.0, False, True), (1.0, True, True)], ids=str
)
def test_forms_of_tau_without_a_gradient_on_a_gpu_are_refused_there(v, normalize, refused):
    class OnDevice:
        device = torch.device("cuda:0")
        requires_grad = True

    plan = _plan.make_tau_plan(torch.ones(2).numpy(), v, normalize=normalize, undefined="present")
    with (
        pytest.raises(TypeError, match=r"v=1.0 and normalize=False alone; give M.cpu\(\)") if refused else nullcontext()
    ):
        assert _torch_gradients.needs_gradient((OnDevice(),), {"plan": plan})


def test_warm_starts_are_no_part_of_the_graph():
    M = tensor(3, 3)
    start = cmfast.ras(M.detach())[1:3]
    start[0].requires_grad_()
    cmfast.bi_normalize(M, start=start)[0, 0].backward()
    assert not start[0].grad.any()
    want, M.grad = M.grad, None
    cmfast.bi_normalize(M)[0, 0].backward()
    torch.testing.assert_close(M.grad, want)


COMPILED = """
import torch
import cmfast
from cmfast import metrics, nn

G = torch.arange(9.0).reshape(3, 3)
y = torch.tensor([0, 1, 2])
layer, loss = nn.BiNormalize(logits=True), nn.MetricLoss("f1_macro")
STEPS = (
    lambda M: (cmfast.bi_normalize(M * 2.0) * G).sum(),
    lambda M: (layer(M * 2.0) * G).sum(),
    lambda M: loss((M * 2.0).softmax(1), y) * 3.0,
    lambda M: metrics.tau_weighted(M * 2.0, [1.0, 2.0, 3.0]) * 3.0,
    lambda M: cmfast.overlap(cmfast.normalize(M * 2.0, "row"), G.softmax(1)) * 3.0,
)
for step in STEPS:
    M = (torch.rand(3, 3, generator=torch.Generator().manual_seed(0)) + 0.1).requires_grad_()
    step(M).backward()
    want, M.grad = M.grad, None
    torch._dynamo.utils.counters.clear()
    for _ in range(2):
        M.grad = None
        torch.compile(step, backend="eager")(M).backward()
        assert torch.equal(M.grad, want)
    assert torch._dynamo.utils.counters["graph_break"]
print("the same")
"""


def test_gradients_under_compile(tmp_path):
    assert python("-c", COMPILED, cwd=tmp_path).endswith("the same\n")
