"""One repetition of both experiments: halves, imbalanced draws, twin networks with equal initial weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import cmfast
from cmfast._reproduce.normalization import networks
from cmfast._reproduce.normalization.data import LEVELS, Common, Halves, Pool, draw_imbalanced, halve_pool

EARLY, LATE, GIVEN = "early", "late", "given"
"""When a network is looked at: as soon as it is good enough, as in the paper; after as many rounds as in the demo."""
OF_STOPS = {
    EARLY: "networks that stop early",
    LATE: "networks that stop late",
    GIVEN: "answers that were given, the test set alone is drawn",
}


@dataclass(frozen=True)
class NormalizationSettings(Common):
    """All settings that affect results."""

    seed: int = 0
    network: str = "perceptron"
    levels: tuple[float, ...] = tuple(LEVELS)
    """Concentrations of the Dirichlet draws: the smaller, the more heterogeneous."""
    stops: tuple[str, ...] = (EARLY, LATE)
    """The first is that of the claims and of experiment 2."""
    goal: float = 0.6
    """Balanced accuracy on its test set at which a network is good enough ("early")."""
    most_epochs: int = 10
    """... or after so many rounds."""
    smoothings: tuple[float, ...] = (1e-3, 0.5)
    components: tuple[int, ...] = (10, 3)


class Answers(NamedTuple):
    """Predictions of one network on one test set."""

    M: np.ndarray
    points: np.ndarray
    y: np.ndarray
    predicted: np.ndarray


class Repetition(NamedTuple):
    """Predictions of twin networks, by stop: balanced, and one per level of imbalance."""

    balanced: dict[str, Answers]
    skewed: list[dict[str, Answers]]
    rows: Sequence[Halves] = ()
    """Of the pool, that each twin learned from and was tested on, the balanced one first; of given answers none."""


Repeat = Callable[[int, NormalizationSettings], Repetition]


def make_training_repeat(pool: Pool, halve: Callable[[Pool, np.random.Generator], Halves] = halve_pool) -> Repeat:
    """Return a function that makes a repetition by training networks on halves of a pool."""

    def repeat(r: int, settings: NormalizationSettings) -> Repetition:
        """Train twin networks on a random split and on imbalanced draws of it; the seed and `r` fix the result."""
        rng = np.random.default_rng([settings.seed, r])
        rows, first_weights = [halve(pool, rng)], int(rng.integers(2**31))
        rows += [
            Halves(*(_draw_imbalanced_rows(pool, part, alpha, settings, rng) for part in rows[0]))
            for alpha in settings.levels
        ]
        twins = []
        for train, test in rows:
            network = networks.make_network(
                settings.network, pool.X.shape[1:], len(pool.classes), first_weights, settings
            )
            twins.append(_train_network(network, pool, train, test, settings))
        return Repetition(twins[0], twins[1:], rows)

    return repeat


def make_answer_repeat(pool: Pool, predicted: np.ndarray) -> Repeat:
    """Return a function that makes a repetition from given predictions and imbalanced draws."""

    def repeat(r: int, settings: NormalizationSettings) -> Repetition:
        """Count the given predictions of one random half, and of imbalanced draws of the other half."""
        rng = np.random.default_rng([settings.seed, r])
        split = halve_pool(pool, rng)

        def tabulate_answers(rows: np.ndarray) -> dict[str, Answers]:
            """Return the given predictions of these rows and their confusion matrix, the same for every stop."""
            y, guess = pool.y[rows], predicted[rows]
            M = cmfast.confusion_matrix(y, guess, n_classes=len(pool.classes))
            return dict.fromkeys(settings.stops, Answers(M, pool.X[rows], y, guess))

        skewed = [
            tabulate_answers(_draw_imbalanced_rows(pool, split.test, alpha, settings, rng)) for alpha in settings.levels
        ]
        return Repetition(tabulate_answers(split.train), skewed)

    return repeat


def _draw_imbalanced_rows(
    pool: Pool, rows: np.ndarray, alpha: float, settings: NormalizationSettings, rng: np.random.Generator
) -> np.ndarray:
    """Return an imbalanced sample of the rows, sorted as they are."""
    chosen = draw_imbalanced(pool.y[rows], rng, alpha=alpha, kept=settings.kept, n_classes=len(pool.classes))
    part: np.ndarray = rows[chosen]
    return part


def _train_network(
    network: Any, pool: Pool, train: np.ndarray, test: np.ndarray, settings: NormalizationSettings
) -> dict[str, Answers]:
    """Train a network; return its predictions of the test rows at every stop."""
    found: dict[str, Answers] = {}
    X, y, X_test, y_test = pool.X[train], pool.y[train], pool.X[test], pool.y[test]
    for epoch in range(1, max(settings.epochs, settings.most_epochs) + 1):
        network.learn(X, y)
        due = {stop for stop in settings.stops if stop not in found and (stop == EARLY or epoch == settings.epochs)}
        if not due:
            continue
        predicted = network.predict(X_test)
        M = cmfast.confusion_matrix(y_test, predicted, n_classes=len(pool.classes))
        recall = np.diag(M) / np.maximum(M.sum(axis=1), 1)
        if recall.mean() < settings.goal and epoch < settings.most_epochs:
            due.discard(EARLY)
        if due:
            answers = Answers(M, network.embed(X_test), y_test, predicted)
            found |= dict.fromkeys(due, answers)
        if len(found) == len(settings.stops):
            break
    return {stop: found[stop] for stop in settings.stops}
