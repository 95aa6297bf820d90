"""The network: one hidden layer, as in the demo."""

from typing import Any

import numpy as np

HIDDEN = 64
BATCH = 32
RATE, MOMENTUM, DECAY = 0.01, 0.9, 1e-4


class Perceptron:
    """The network of the demo: one hidden layer, scikit-learn's."""

    def __init__(self, n_classes: int, seed: int) -> None:
        from sklearn.neural_network import MLPClassifier

        # Typed loosely: scikit-learn's annotations, read off its defaults, know batch_size as a string only.
        options: dict[str, Any] = {"solver": "sgd", "momentum": MOMENTUM, "batch_size": BATCH, "alpha": DECAY}
        self._network: Any = MLPClassifier((HIDDEN,), random_state=seed, learning_rate_init=RATE, **options)
        self._classes = np.arange(n_classes)

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """See every sample once."""
        self._network.partial_fit(X.reshape(len(X), -1), y, classes=self._classes)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of every sample."""
        found: np.ndarray = self._network.predict(X.reshape(len(X), -1))
        return found

    def embed(self, X: np.ndarray) -> np.ndarray:
        """Return the hidden layer."""
        network = self._network
        hidden: np.ndarray = np.maximum(X.reshape(len(X), -1) @ network.coefs_[0] + network.intercepts_[0], 0.0)
        return hidden
