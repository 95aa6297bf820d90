"""Competitors in conformal sets: the NumPy idiom, and MAPIE, TorchCP and crepes where they are installed.

``pip install mapie crepes`` and ``pip install --no-deps torchcp``: nothing else of this project needs them.
"""

import importlib.util
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def numpy_scores(P, y, u):
    """Sort, add up, pick: what most write."""
    return np.take_along_axis(_sorted_scores(P, u)[1], _places(P, y), -1)[:, 0]


def _places(P, y):
    order = np.argsort(-P, axis=-1, kind="stable")
    return (order == y[:, None]).argmax(-1)[:, None]


def _sorted_scores(P, u):
    order = np.argsort(-P, axis=-1, kind="stable")
    ranked = np.take_along_axis(P, order, -1)
    return order, ranked.cumsum(-1) - u[:, None] * ranked


def numpy_rank_scores(P, y, u, lam=None):
    """Sort and count ranks: SAPS with the weight `lam` of a rank, top-k without."""
    return np.take_along_axis(_sorted_rank_scores(P, u, lam)[1], _places(P, y), -1)[:, 0]


def _sorted_rank_scores(P, u, lam):
    order, behind = np.argsort(-P, axis=-1, kind="stable"), np.arange(P.shape[-1]) - u[:, None]
    if lam is None:
        return order, 1.0 + behind
    most = P.max(-1)
    s = most[:, None] + lam * behind
    s[:, 0] = (1.0 - u) * most
    return order, s


def numpy_rank_sets(P, q, u, lam=None):
    """Sort once, compare scores by rank with every threshold, put back."""
    return _put_back(*_sorted_rank_scores(P, u, lam), P, q)


def numpy_sets(P, q, u):
    """Sort and add up once, compare with every threshold, put back."""
    return _put_back(*_sorted_scores(P, u), P, q)


def _put_back(order, s, P, q):
    out = np.empty((len(q), *P.shape), bool)
    for k, limit in enumerate(q):
        np.put_along_axis(out[k], order, s <= limit, -1)
    return out


def numpy_problem(P, y, u, new, v, alphas):
    """Calibrate and predict."""
    s = np.sort(numpy_scores(P, y, u))
    return numpy_sets(new, [s[int(np.ceil((len(y) + 1) * (1 - alpha))) - 1] for alpha in alphas], v)


class Peer(ABC):
    """One library's prediction sets for new rows from one calibration, as a mask (alpha, row, class).

    Attributes
    ----------
    name : str
        Name of the library.
    rows : int
        Largest number of rows to time it on.
    """

    name: str
    rows = 2000

    @abstractmethod
    def calibrate(self, P: Any, y: Any, alphas: list[float]) -> Any:
        """Return what `predict` needs to know."""

    @abstractmethod
    def predict(self, known: Any, new: Any) -> Any:
        """Return the sets of new rows."""

    def sets(self, P: Any, y: Any, new: Any, alphas: list[float]) -> Any:
        """Return the sets of new rows from a calibration."""
        return self.predict(self.calibrate(P, y, alphas), new)


class Mapie(Peer):
    """MAPIE, of a model that hands on probabilities."""

    name = "MAPIE"

    def __init__(self) -> None:
        from mapie.classification import SplitConformalClassifier
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Known(ClassifierMixin, BaseEstimator):
            def __init__(self, C=2):
                self.C, self.classes_, self.fitted_ = C, np.arange(C), True

            def fit(self, X, y):
                return self

            def predict_proba(self, X):
                return np.asarray(X)

            def predict(self, X):
                return np.asarray(X).argmax(-1)

        self.model, self.known = SplitConformalClassifier, Known

    def calibrate(self, P, y, alphas):
        levels = [1 - alpha for alpha in alphas]
        options = {"conformity_score": "aps", "prefit": True, "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.model(self.known(P.shape[1]), confidence_level=levels, **options)
            return found.conformalize(P, y)

    def predict(self, known, new):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return known.predict_set(new)[1].transpose(2, 0, 1)


class TorchCP(Peer):
    """TorchCP on the CPU: APS with random numbers, which it draws for every label."""

    name = "TorchCP"

    def __init__(self) -> None:
        import torch

        # The whole of it imports what is compiled for losses and graphs; scores and predictors do not need that.
        found = importlib.util.find_spec("torchcp")
        assert found is not None
        for package in ("torchcp", "torchcp.classification"):
            if package not in sys.modules:
                sys.modules[package] = ModuleType(package)
                root = Path((found.submodule_search_locations or [""])[0])
                sys.modules[package].__path__ = [str(root.joinpath(*package.split(".")[1:]))]
        from torchcp.classification.predictor import SplitPredictor
        from torchcp.classification.score import APS

        self.torch, self.rule, self.predictor = torch, APS, SplitPredictor

    def calibrate(self, P, y, alphas):
        rows, labels, known = self.torch.from_numpy(P), self.torch.from_numpy(y), []
        for alpha in alphas:
            one = self.predictor(self.rule(score_type="identity"))
            one.calculate_threshold(rows, labels, alpha)
            known.append(one)
        return known

    def predict(self, known, new):
        rows = self.torch.from_numpy(new)
        return np.stack([one.predict_with_logits(rows).numpy() for one in known])


class Crepes(Peer):
    """The crepes library: it has scores of one minus the probability alone, which is less work."""

    name = "crepes (1 - p)"
    rows = 50

    def __init__(self) -> None:
        from crepes import ConformalClassifier

        self.classifier = ConformalClassifier

    def calibrate(self, P, y, alphas):
        one = self.classifier()
        one.fit(1 - P[np.arange(len(y)), y])
        return one, alphas

    def predict(self, known, new):
        one, alphas = known
        return np.stack([one.predict_set(1 - new, confidence=1 - alpha, smoothing=True) for alpha in alphas])


@cache
def peers() -> list[Peer]:
    """Return those that are installed."""
    every: list[tuple[str, Callable[[], Peer]]] = [("mapie", Mapie), ("torchcp", TorchCP), ("crepes", Crepes)]
    return [make() for name, make in every if importlib.util.find_spec(name)]
