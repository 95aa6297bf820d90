"""One repetition of both experiments: halves, imbalance, twins from the same weights, their confusions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import cmfast
from cmfast._reproduce.normalization import networks
from cmfast._reproduce.normalization.data import Halves, Pool, halves, imbalanced

STOPS = ("early", "late")
"""When a network is looked at: as soon as it is good enough, as in the paper; after as many rounds as in the demo."""


@dataclass(frozen=True)
class Settings:
    """Everything that can change a result."""

    seed: int = 0
    repeats: int = 30
    levels: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1)
    """Concentrations of the Dirichlet draws: the smaller, the more heterogeneous."""
    kept: float = 0.2
    goal: float = 0.6
    """Balanced accuracy on its test set at which a network is good enough ("early")."""
    most_epochs: int = 10
    """... or after so many rounds."""
    epochs: int = 8
    """Rounds of "late"."""
    smoothings: tuple[float, ...] = (1e-3, 0.5)
    components: tuple[int, ...] = (10, 3)
    tol: float = 1e-9
    interval: float = 0.95


class Answers(NamedTuple):
    """What one network says of one test set."""

    M: np.ndarray
    points: np.ndarray
    y: np.ndarray
    predicted: np.ndarray
    epochs: int


class Repetition(NamedTuple):
    """The answers of twins, by :data:`STOPS`: of the balanced one, and of one per level of imbalance."""

    balanced: dict[str, Answers]
    skewed: list[dict[str, Answers]]


Repeat = Callable[[int, Settings], Repetition]


def by_training(pool: Pool) -> Repeat:
    """Return what makes a repetition by training networks on a pool."""

    def repeat(r: int, settings: Settings) -> Repetition:
        rng = np.random.default_rng([settings.seed, r])
        split, first_weights = halves(pool, rng), int(rng.integers(2**31))
        twins = []
        for train, test in (split.train, split.test), *_draws(pool.y, split, len(pool.classes), settings, rng):
            network = networks.Perceptron(len(pool.classes), first_weights)
            twins.append(_trained(network, pool, train, test, settings))
        return Repetition(twins[0], twins[1:])

    return repeat


def _draws(
    y: np.ndarray, split: Halves, n_classes: int, settings: Settings, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for alpha in settings.levels:
        draws = (part[imbalanced(y[part], n_classes, rng, alpha=alpha, kept=settings.kept)] for part in split)
        train, test = draws
        yield train, test


def _trained(
    network: networks.Perceptron, pool: Pool, train: np.ndarray, test: np.ndarray, settings: Settings
) -> dict[str, Answers]:
    """Return the answers at both stops of one training."""
    n_classes, found = len(pool.classes), {}
    X, y, X_test, y_test = pool.X[train], pool.y[train], pool.X[test], pool.y[test]
    for epoch in range(1, max(settings.epochs, settings.most_epochs) + 1):
        network.learn(X, y)
        if "early" in found and epoch != settings.epochs:
            continue
        predicted = network.predict(X_test)
        M = cmfast.confusion_matrix(y_test, predicted, n_classes=n_classes)
        recall = np.diag(M) / np.maximum(M.sum(axis=1), 1)
        answers = Answers(M, network.embed(X_test), y_test, predicted, epoch)
        if "early" not in found and (recall.mean() >= settings.goal or epoch == settings.most_epochs):
            found["early"] = answers
        if epoch == settings.epochs:
            found["late"] = answers
        if len(found) == len(STOPS):
            break
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra run on one thread: such small products are slower on several, and their bits depend on it."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
