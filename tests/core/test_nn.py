"""The layer and the losses: against what they are made of, and in a step of training."""

import doctest

import pytest

import cmfast
from cmfast import metrics

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck  # noqa: E402

from cmfast import nn  # noqa: E402

pytestmark = pytest.mark.torch


def logits(*shape, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    return (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()


def test_examples():
    assert doctest.testmod(nn).failed == 0


def test_the_layer_is_the_function():
    M = logits(3, 4, 4).detach().exp()
    assert torch.equal(nn.BiNormalize()(M), cmfast.bi_normalize(M))
    assert torch.equal(nn.BiNormalize(smoothing=0.5, tol=1e-12)(M), cmfast.bi_normalize(M, smoothing=0.5, tol=1e-12))
    assert "logits=True" in repr(nn.BiNormalize(logits=True))
    assert not list(nn.BiNormalize().parameters())


def test_logits_are_logarithms():
    L = logits(2, 4, 4)
    layer = nn.BiNormalize(logits=True, tol=1e-13)
    torch.testing.assert_close(layer(L), cmfast.bi_normalize(L.detach().exp(), tol=1e-13), rtol=1e-9, atol=0.0)
    assert gradcheck(layer, L, eps=1e-6, atol=1e-6)
    G = torch.arange(16.0, dtype=torch.float64).reshape(4, 4)
    first, second = (
        torch.autograd.grad((one * G.sqrt()).sum(), L)[0] for one in (layer(L), nn.BiNormalize(tol=1e-13)(L.exp()))
    )
    torch.testing.assert_close(first, second, rtol=1e-8, atol=1e-10)


def test_logits_beyond_the_range_of_exponentials():
    L = logits(5, 5)
    shifts = torch.tensor([3000.0, -2000.0, 0.0, 900.0, -900.0], dtype=torch.float64)
    layer = nn.BiNormalize(logits=True, tol=1e-12)
    moved = (L.detach() + shifts[:, None] - shifts.flip(0)).requires_grad_()
    torch.testing.assert_close(layer(moved), layer(L), rtol=1e-8, atol=0.0)
    for one in (moved, L):
        layer(one)[0, 0].backward()
    torch.testing.assert_close(moved.grad, L.grad, rtol=1e-8, atol=1e-12)


def test_a_soft_confusion_matrix_of_certain_predictions_is_one():
    y, p = torch.tensor([0, 1, 2, 2, 1]), torch.tensor([0, 2, 2, 1, 1])
    certain = torch.nn.functional.one_hot(p, 3).double()
    assert torch.equal(nn.soft_confusion_matrix(certain, y), cmfast.confusion_matrix(y, p).double())
    P = logits(5, 3)
    assert gradcheck(lambda P: nn.soft_confusion_matrix(P.softmax(1), y), P)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (lambda P, y: (P, y[:4]), ValueError, r"probabilities and y must have shapes .*, got \(5, 3\) and \(4,\)"),
        (lambda P, y: (P, y + 0.5), TypeError, "y must be integers, got dtype float32"),
        (lambda P, y: (P, y.tolist()), TypeError, "y must be a tensor, got list"),
        (lambda P, y: (P.detach().numpy(), y), TypeError, "probabilities must be a tensor, got ndarray"),
        (lambda P, y: (P, y + 1), ValueError, "y must be from 0 to 2, the columns of probabilities, got 3$"),
        (lambda P, y: (P, y - 1), ValueError, "y must be from 0 to 2, the columns of probabilities, got -1$"),
    ],
)
def test_what_is_no_batch_is_refused_by_name(given, error, said):
    with pytest.raises(error, match=f"^{said}"):
        nn.soft_confusion_matrix(*given(logits(5, 3), torch.tensor([0, 1, 2, 2, 1])))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_samples_of_half_precision_are_counted(dtype):
    """Sums of 5001 in half precision would be 5000 or 5024."""
    P = torch.ones(5001, 1, dtype=dtype, requires_grad=True)
    M = nn.soft_confusion_matrix(P, torch.zeros(5001, dtype=torch.int64))
    M.sum().backward()
    assert (M.dtype, M.item(), P.grad.dtype) == (torch.float32, 5001.0, dtype)


def test_losses_in_mixed_precision():
    P, y = logits(12, 3).detach().float().softmax(1), torch.arange(12) % 3
    for name in ("mcc", "f1_macro"):
        want = nn.MetricLoss(name)(P, y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(nn.MetricLoss(name)(P, y), want)


@pytest.mark.parametrize(
    ("name", "sign"),
    [("mcc", -1), ("f1_macro", -1), ("tau_weighted_1_5_2", -1), ("zero_one_loss", 1), ("fpr_macro", 1)],
)
def test_losses_fall_where_metrics_are_better(name, sign):
    P, y = logits(12, 3), torch.arange(12) % 3
    loss = nn.MetricLoss(name)
    want = sign * metrics.compute(nn.soft_confusion_matrix(P.softmax(1), y), name)
    assert torch.equal(loss(P.softmax(1), y), want)
    assert gradcheck(lambda P: loss(P.softmax(1), y), P)
    right = torch.eye(3, dtype=torch.float64)[y]
    assert loss(right, y) < loss(right.roll(1, 1), y)


def test_losses_are_of_one_number():
    with pytest.raises(ValueError, match=r"one number per matrix, got 'recall'; average it, as in 'recall_macro'"):
        nn.MetricLoss("recall")
    with pytest.raises(ValueError, match="did you mean"):
        nn.MetricLoss("f1_makro")
    for names in (["mcc", "accuracy"], None, "scalars"):
        with pytest.raises(TypeError, match=r"^name must be the name of one metric, got "):
            nn.MetricLoss(names)
    assert repr(nn.MetricLoss("mcc")) == "MetricLoss('mcc')"


def test_a_step_of_training_lowers_the_loss():
    P, y, loss = logits(30, 3), torch.arange(30) % 3, nn.MetricLoss("f1_macro")
    before = loss(P.softmax(1), y)
    (grad,) = torch.autograd.grad(before, P)
    assert loss((P - grad).softmax(1), y) < before


@pytest.mark.parametrize("ignored", [255, [255, 0], (2,), []])
def test_ignored_samples_are_left_out_of_soft_matrices_and_losses(ignored):
    y = torch.tensor([0, 255, 2, 1, 255, 1, 2], dtype=torch.uint8) if ignored not in ([], (2,)) else torch.arange(7) % 3
    P = logits(7, 3)
    left_out = torch.isin(y.long(), torch.tensor([ignored] if isinstance(ignored, int) else list(ignored)).long())
    with torch.no_grad():
        P[left_out] = float("nan")  # as of padded pixels: nothing of it may reach the matrix
    M = nn.soft_confusion_matrix(P, y, from_logits=True, ignore_index=ignored)
    rest = nn.soft_confusion_matrix(P.detach()[~left_out], y[~left_out].long(), from_logits=True)
    torch.testing.assert_close(M.detach(), rest, rtol=1e-14, atol=0.0)
    loss = nn.MetricLoss("accuracy", from_logits=True, ignore_index=ignored)
    torch.testing.assert_close(
        loss(P, y).detach(), nn.MetricLoss("accuracy")(P.detach()[~left_out].softmax(1), y[~left_out])
    )
    loss(P, y).backward()
    assert P.grad[~left_out].isfinite().all()


def test_what_may_be_ignored():
    with pytest.raises(TypeError, match="ignore_index must be an integer, got str"):
        nn.soft_confusion_matrix(logits(2, 2), torch.tensor([0, 1]), from_logits=True, ignore_index="cat")
    with pytest.raises(ValueError, match="y must be from 0 to 1"):
        nn.soft_confusion_matrix(logits(2, 2), torch.tensor([0, 255]), from_logits=True, ignore_index=0)
    assert repr(nn.MetricLoss("mcc", ignore_index=255)) == "MetricLoss('mcc', ignore_index=255)"
