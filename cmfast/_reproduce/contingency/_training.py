"""One-hidden-layer networks on the digits of scikit-learn, evaluated after every epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import cmfast

EASY, HARD = (0, 1), (3, 8)  # problems A and B
FIVE = (1, 2, 3, 4, 5)
HIDDEN, SCORE_MOMENTUM = 16, 0.9


@dataclass(frozen=True)
class ContingencySettings:
    """All settings that affect results."""

    seed: int = 0
    runs: int = 100
    """Of each of two pairs of digits."""
    epochs: int = 100
    rates: tuple[float, ...] = (0.01, 0.1)
    """Of learning; the first is the paper's."""
    pair_runs: int = 10
    """Of every other pair."""
    tracked: int = 30
    """Runs on five digits."""
    shares: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35, 0.25)
    """Of the images of each, where they are imbalanced."""
    n_ratios: int = 32
    """Imbalances from 1 to 32."""


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images, with cells from 0 to 1, and labels."""
    from sklearn.datasets import load_digits

    loaded: Any = load_digits(return_X_y=True)
    return loaded[0] / 16.0, loaded[1]


def choose_images(classes: Sequence[int], shares: Sequence[float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return shuffled images of some digits and their class indices; `shares` subsamples classes."""
    X, y = digits()
    rows = [np.flatnonzero(y == k) for k in classes]
    kept = np.sort(np.concatenate([r[: round(share * len(r))] for r, share in zip(rows, shares, strict=True)]))
    kept = kept[np.random.default_rng(seed).permutation(len(kept))]
    return X[kept], np.searchsorted(classes, y[kept])


class ScoreNetwork:
    """A network trained on one half of the images and evaluated on the other."""

    def __init__(self, X: np.ndarray, y: np.ndarray, n_classes: int, *, rate: float, seed: int) -> None:
        from sklearn.neural_network import MLPClassifier

        half = len(y) // 2
        self._X, self._y, self.X, self.y = X[:half], y[:half], X[half:], y[half:]
        self._classes = np.arange(n_classes)
        options: dict[str, Any] = {"solver": "sgd", "momentum": SCORE_MOMENTUM, "random_state": seed}
        self._network: Any = MLPClassifier((HIDDEN,), learning_rate_init=rate, **options)

    def learn(self) -> None:
        """Train one epoch."""
        self._network.partial_fit(self._X, self._y, classes=self._classes)

    def guess(self) -> np.ndarray:
        """Predict the classes of the other half."""
        found: np.ndarray = self._network.predict(self.X)
        return found

    def score(self) -> np.ndarray:
        """Return the probability of the last class on the other half."""
        found: np.ndarray = self._network.predict_proba(self.X)[:, -1]
        return found


def train_and_record(
    classes: Sequence[int], epochs: int, seed: int, *, rate: float, shares: Sequence[float] | None = None
) -> np.ndarray:
    """Return the matrices after each epoch of one training, (epochs, C, C)."""
    X, y = choose_images(classes, shares or [1.0] * len(classes), seed)
    network = ScoreNetwork(X, y, len(classes), rate=rate, seed=seed)
    guesses = []
    for _ in range(epochs):
        network.learn()
        guesses.append(network.guess())
    truth = np.broadcast_to(network.y, (epochs, len(network.y)))
    return cmfast.confusion_matrix(truth, np.array(guesses), n_classes=len(classes))
