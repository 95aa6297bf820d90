"""Print what the two trainings of ``gradients.md`` show: minutes. Needs torch, scikit-learn and POT."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ot
import torch  # noqa: TID251
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).parent.parent))

from cmfast import metrics, nn

SEEDS, SORTING_SEEDS = 30, 5
STEPS = (60, 300)
NUMBERS, LISTS = 10, 64  # that are sorted, at a time

Layer = Callable[[Any], Any]


def digits() -> tuple[Any, Any]:
    """Return digits of which one odd one in fourteen is left."""
    X, y = load_digits(return_X_y=True)
    rare = (y % 2 == 1) & (np.random.default_rng(0).random(len(y)) < 0.93)
    return torch.tensor(X[~rare] / 16.0, dtype=torch.float32), torch.tensor(y[~rare])


def cross_entropy(P: Any, y: Any) -> Any:
    """Return that of probabilities."""
    return torch.nn.functional.nll_loss(P.log(), y)


def balanced(P: Any, y: Any) -> Any:
    """Return that in which every class weighs the same."""
    return torch.nn.functional.nll_loss(P.log(), y, weight=1.0 / torch.bincount(y, minlength=10).clamp(min=1))


LOSSES = {
    "cross-entropy": cross_entropy,
    "cross-entropy, classes balanced": balanced,
    "macro F1": nn.MetricLoss("f1_macro"),
    "MCC": nn.MetricLoss("mcc"),
}


def scores_of(loss: Callable[..., Any], X: Any, y: Any, seed: int, steps: int) -> tuple[float, float]:
    """Return macro F1 and MCC on the other half of the samples."""
    torch.manual_seed(seed)
    train, test = torch.randperm(len(y)).tensor_split(2)
    model = torch.nn.Linear(X.shape[1], 10)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(model(X[train]).softmax(1), y[train]).backward()
        optimiser.step()
    found = torch.nn.functional.one_hot(model(X[test]).argmax(1), 10).double()
    M = nn.soft_confusion_matrix(found, y[test])
    return float(metrics.f1(M, average="macro")), float(metrics.mcc(M))


def train_on_digits() -> None:
    """Print both scores of every loss, and by how much each seed beats that of cross-entropy."""
    X, y = digits()
    for steps in STEPS:
        first: Any = None
        for name, loss in LOSSES.items():
            found = np.array([scores_of(loss, X, y, seed, steps) for seed in range(SEEDS)])
            first = found if first is None else first
            gain, error = (found - first).mean(0), (found - first).std(0, ddof=1) / np.sqrt(SEEDS)
            each = [
                f"{score} {found[:, k].mean():.3f} ({gain[k]:+.3f} +- {error[k]:.3f})"
                for k, score in enumerate(("macro F1", "MCC"))
            ]
            print(f"{steps} steps, {name}: {', '.join(each)}", flush=True)


def sweeps(number: int) -> Layer:
    """Return a layer of that many sweeps, each of which autograd records."""

    def layer(L: Any) -> Any:
        for _ in range(number):
            L = L - L.logsumexp(-1, keepdim=True)
            L = L - L.logsumexp(-2, keepdim=True)
        return L.exp()

    return layer


def transport(L: Any) -> Any:
    """Return what POT makes of a batch, by sweeps until none of the lines is off by more than 1e-5."""
    ones = torch.full(L.shape[:2], 1.0 / L.shape[-1])
    found = ot.batch.bregman_log_projection_batch(L, ones, ones, max_iter=2000, tol=1e-5, grad="autodiff")
    return L.shape[-1] * found["T"]


LAYERS: dict[str, Layer] = {
    "exact": nn.BiNormalize(logits=True),
    "10 sweeps": sweeps(10),
    "20 sweeps": sweeps(20),
    "100 sweeps": sweeps(100),
    "POT, sweeps to 1e-5": transport,
}


def kept(layer: Layer, L: Any) -> int:
    """Return the bytes that are kept for the way back."""
    seen: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(L.detach().clone().requires_grad_())
    return sum(seen.values())


def learn_to_sort(layer: Layer, seed: int, steps: int = 300) -> tuple[float, float, float, float, int]:
    """Return the shares of numbers in their place and of lists that are sorted, the error of a row, seconds, bytes."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, NUMBERS))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    begin = time.perf_counter()
    for _ in range(steps):
        X = torch.rand(LISTS, NUMBERS, 1)
        P = layer(model(X) * 5.0)
        optimiser.zero_grad()
        (P.mT @ X - X.sort(1).values).square().mean().backward()
        optimiser.step()
    took = time.perf_counter() - begin
    X = torch.rand(1000, NUMBERS, 1)
    with torch.no_grad():
        L = model(X) * 5.0
        P = layer(L)
    memory = kept(layer, L[:LISTS])  # where gradients are recorded again
    right = P.argmax(2) == X.argsort(1).argsort(1)[..., 0]
    error = float((P.sum(-1) - 1.0).abs().max())
    return float(right.float().mean()), float(right.all(1).float().mean()), error, took, memory


def train_on_lists() -> None:
    """Print what every layer learns."""
    for name, layer in LAYERS.items():
        found = np.array([learn_to_sort(layer, seed) for seed in range(SORTING_SEEDS)])
        places, lists, error, took, memory = found.T
        print(
            f"{name}: in place {places.mean():.1%} +- {places.std():.1%}, lists {lists.mean():.1%}, "
            f"a row off by {error.max():.0e}, {took.min():.2f} s, {memory.max() / 1e6:.2f} MB",
            flush=True,
        )


def main() -> None:
    """Train on digits, then on lists of numbers."""
    train_on_digits()
    train_on_lists()


if __name__ == "__main__":
    main()
