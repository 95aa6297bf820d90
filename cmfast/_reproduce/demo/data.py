"""The data of the demo: handwritten digits in four rotations."""

from typing import Any, NamedTuple

import numpy as np

C = 10


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
