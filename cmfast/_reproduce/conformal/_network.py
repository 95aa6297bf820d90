"""A one-hidden-layer network on the digits of scikit-learn, and the prediction sets of its outputs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cmfast import conformal
from cmfast.results import PredictionSets

ALPHAS = [0.3, 0.2, 0.1, 0.05]
CENTRE = ALPHAS.index(0.1)
PAIR, OTHER = (3, 9), (0, 1)  # digits that share sets, digits that do not
DIGIT_CLASSES, DOUBLED_CLASSES, HIDDEN_UNITS = 10, 20, 16  # digits; digits that stand and that lie


@dataclass(frozen=True)
class ConformalSettings:
    """All settings that affect results."""

    seeds: int = 30
    """Splits of the digits, first weights, clients."""
    epochs: int = 20
    clients: int = 10
    chosen: int = 7
    rounds: int = 15
    concentrations: tuple[float, ...] = (0.1, 0.5, 5.0)
    interval: float = 0.95
    """Of all differences of one claim together."""


Data = tuple[np.ndarray, ...]
Weights = list[np.ndarray]


def digits(seed: int, classes: int = DIGIT_CLASSES) -> Data:
    """Return images and labels of three parts: training, calibration and test.

    Twenty classes are the digits and the same images turned by 90 degrees, both in one part of the three.
    """
    from sklearn.datasets import load_digits

    loaded: Any = load_digits(return_X_y=True)
    X, y = loaded
    order = np.random.default_rng(seed).permutation(len(y))
    first, calibrate, new = np.split(order, [597, 1197])
    X = X / 16.0
    parts = [(X[rows], y[rows]) for rows in (first, calibrate, new)]
    if classes == DOUBLED_CLASSES:
        parts = [(np.concatenate([X, _rotate_images(X)]), np.concatenate([y, y + DIGIT_CLASSES])) for X, y in parts]
    return tuple(array for part in parts for array in part)


def _rotate_images(X: np.ndarray) -> np.ndarray:
    """Return 8x8 images (as rows) rotated by 90 degrees."""
    return np.rot90(X.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)


def init_weights(rng: np.random.Generator, classes: int = DIGIT_CLASSES) -> Weights:
    """Return random initial weights and zero biases of both layers."""
    out = (
        rng.normal(0, 0.2, (64, HIDDEN_UNITS)),
        np.zeros(HIDDEN_UNITS),
        rng.normal(0, 0.3, (HIDDEN_UNITS, classes)),
        np.zeros(classes),
    )
    return list(out)


def predict(weights: Weights, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hidden layer and the class probabilities (softmax)."""
    hidden = np.maximum(X @ weights[0] + weights[1], 0)
    z = hidden @ weights[2] + weights[3]
    P = np.exp(z - z.max(-1, keepdims=True))
    return hidden, P / P.sum(-1, keepdims=True)


def train_epoch(weights: Weights, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Weights:
    """Return the weights after one epoch of gradient descent in batches of about 16 rows."""
    for batch in np.array_split(rng.permutation(len(y)), max(1, len(y) // 16)):
        hidden, P = predict(weights, X[batch])
        error = (P - np.eye(P.shape[1])[y[batch]]) / max(1, len(batch))
        back = (error @ weights[2].T) * (hidden > 0)
        slopes = [X[batch].T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
        weights = [w - 0.3 * slope for w, slope in zip(weights, slopes, strict=True)]
    return weights


def make_sets(weights: Weights, data: Data, seed: int, alpha: Any = ALPHAS) -> Any:
    """Return the prediction sets of the test rows, calibrated on the calibration rows."""
    _, _, X, y, new, _ = data
    q = conformal.threshold(conformal.scores(predict(weights, X)[1], y, rng=seed), alpha)
    return conformal.prediction_sets(predict(weights, new)[1], q, rng=seed)


def select_rows(sets: Any, rows: np.ndarray) -> Any:
    """Return the prediction sets of the given rows."""
    return PredictionSets(sets.packed[:, rows], sets.sizes[:, rows], sets.n_classes, "allow")
