"""The data and the network: handwritten digits in four rotations, drawn balanced and imbalanced."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

C = 10
BATCH, RATE, MOMENTUM, DECAY = 32, 0.01, 0.9, 1e-4
LEVELS = {10.0: "very low", 3.0: "low", 1.0: "medium", 0.3: "high", 0.1: "extreme"}
"""What the paper calls the heterogeneity of a Dirichlet draw, by its concentration (section 5.1)."""


@dataclass(frozen=True)
class Common:
    """What changes the results of the demo and of the reproduction of the paper alike."""

    repeats: int = 30
    """Independent repetitions: other halves, other imbalance, other first weights."""
    kept: float = 0.2
    hidden: int = 64
    epochs: int = 8
    tol: float = 1e-9
    interval: float = 0.95


class Split(NamedTuple):
    """Two halves of the digits without a common picture, every class equally often in each."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def digits(rng: np.random.Generator) -> Split:
    """Return scikit-learn's digits, each picture turned by 0, 90, 180 and 270 degrees.

    The rotations make the task harder, as in section 5.1 of the paper: without errors there is nothing to normalise.
    """
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    classes = [rng.permutation(np.flatnonzero(found.target == c)) for c in range(C)]
    half = min(len(members) for members in classes) // 2
    halves = [np.concatenate([m[k * half : (k + 1) * half] for m in classes]) for k in (0, 1)]
    return Split(*(part for half in halves for part in _turned(found.images[half], found.target[half])))


def _turned(images: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    turned = [np.rot90(images, k, axes=(1, 2)).reshape(len(images), -1) for k in range(4)]
    return np.concatenate(turned) / 16.0, np.tile(y, 4)


def imbalanced(y: np.ndarray, rng: np.random.Generator, *, alpha: float, kept: float, n_classes: int = C) -> np.ndarray:
    """Return the indices of an imbalanced sample of classes `y`.

    The share `kept` of every class stays; what is left of the whole set is handed out to the classes by a Dirichlet
    draw of concentration `alpha`, as far as each class goes (section 5.1 of the paper).
    """
    have = np.bincount(y, minlength=n_classes)
    least = np.ceil(kept * have).astype(np.int64)
    extra = np.floor(rng.dirichlet(np.full(n_classes, alpha)) * (have - least).sum()).astype(np.int64)
    sizes = np.minimum(have, least + extra)
    chosen = [rng.permutation(np.flatnonzero(y == c))[: sizes[c]] for c in range(n_classes)]
    return np.sort(np.concatenate(chosen))


class Perceptron:
    """A network with one hidden layer; the same `seed` starts from the same weights."""

    def __init__(self, n_classes: int, seed: int, hidden: int) -> None:
        from sklearn.neural_network import MLPClassifier

        # Typed loosely: scikit-learn's annotations, read off its defaults, know batch_size as a string only.
        options: dict[str, Any] = {"solver": "sgd", "learning_rate_init": RATE, "momentum": MOMENTUM}
        options |= {"batch_size": BATCH, "alpha": DECAY}
        self._network: Any = MLPClassifier((hidden,), random_state=seed, **options)
        self._classes = np.arange(n_classes)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """See every sample once."""
        self._network.partial_fit(X.reshape(len(X), -1), y, classes=self._classes)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of every sample."""
        found: np.ndarray = self._network.predict(X.reshape(len(X), -1))
        return found

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Return what the hidden layer makes of `X`: the space in which the network tells the classes apart."""
        network = self._network
        hidden: np.ndarray = np.maximum(X.reshape(len(X), -1) @ network.coefs_[0] + network.intercepts_[0], 0.0)
        return hidden
