"""Write what other conformal libraries give on fixed probabilities to ``tests/data/conformal_peers.json``.

``python tests/harness/conformal_peers.py``, with MAPIE >= 1.6, TorchCP and crepes installed; tests do without. Rows
are sixty-fourths, so that no sum rounds and every difference is one of rules.
"""

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "data" / "conformal_peers.json"
ALPHAS = [0.05, 0.1, 0.2, 0.3, 0.7]
N, C = 249, 6


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities and labels of a calibration, and probabilities of new rows."""
    rng = np.random.default_rng(18)
    P = np.stack([rng.multinomial(64, p) for p in rng.dirichlet(np.full(C, 0.5), N + 200)]) / 64
    y = np.array([rng.choice(C, p=p) for p in P[:N]])
    y[:C] = np.arange(C)
    return P[:N], y, P[N:]


def words(mask: Any) -> str:
    """Return sets as text, two octal digits for the six classes of each."""
    return "".join(f"{int(''.join('01'[int(bit)] for bit in row), 2):02o}" for row in np.asarray(mask))


def mapie() -> dict[str, Any]:
    """Return the sets of MAPIE, for which rows are told by their numbers."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    P, y, new = rows()

    class Known(ClassifierMixin, BaseEstimator):
        def __init__(self):
            self.classes_, self.fitted_ = np.arange(C), True

        def fit(self, X, y):
            return self

        def predict_proba(self, X):
            return np.concatenate([P, new])[np.asarray(X)[:, 0].astype(int)]

        def predict(self, X):
            return self.predict_proba(X).argmax(-1)

    found = {}
    for name, options in (("lac", {}), ("aps", {"include_last_label": True}), ("aps", {"include_last_label": False})):
        model = SplitConformalClassifier(
            Known(),
            confidence_level=[1 - alpha for alpha in ALPHAS],
            conformity_score=name,
            prefit=True,
            random_state=0,
        )
        model.conformalize(np.arange(N)[:, None], y)
        _, sets = model.predict_set(np.arange(N, N + len(new))[:, None], conformity_score_params=options)
        key = name if not options else f"{name}-last-{'kept' if options['include_last_label'] else 'dropped'}"
        found[key] = [words(sets[:, :, k]) for k in range(len(ALPHAS))]
    return found


def import_torchcp() -> Any:
    """Import scores and predictors of TorchCP without its losses and graphs, which import what is compiled for them."""
    root = importlib.util.find_spec("torchcp").submodule_search_locations[0]
    for package in ("torchcp", "torchcp.classification"):
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(Path(root, *package.split(".")[1:]))]
    for part in ("predictor", "score"):
        module = importlib.import_module(f"torchcp.classification.{part}")
        setattr(sys.modules["torchcp.classification"], part, module)
    sys.modules["torchcp"].classification = sys.modules["torchcp.classification"]
    return sys.modules["torchcp"]


def torchcp() -> dict[str, Any]:
    """Return the thresholds and sets of TorchCP."""
    import torch

    parts = import_torchcp().classification
    ClassConditionalPredictor, SplitPredictor = (
        parts.predictor.ClassConditionalPredictor,
        parts.predictor.SplitPredictor,
    )
    score = parts.score

    P, y, new = rows()
    cal, labels, rest = torch.from_numpy(P), torch.from_numpy(y), torch.from_numpy(new)
    none = {"score_type": "identity"}
    rules = {
        "lac": score.LAC(**none),
        "aps": score.APS(**none, randomized=False),
        "raps": score.RAPS(**none, penalty=0.125, kreg=2, randomized=False),
        "top_k": score.TOPK(**none, randomized=False),
    }
    found = {}
    for name, rule in rules.items():
        for kind in (SplitPredictor, ClassConditionalPredictor):
            per_alpha = []
            for alpha in ALPHAS:
                predictor = kind(rule)
                predictor.calculate_threshold(cal, labels, alpha)
                per_alpha.append(words(predictor.predict_with_logits(rest)))
            found[name if kind is SplitPredictor else f"{name}-by-class"] = per_alpha
    return found


def crepes() -> dict[str, Any]:
    """Return the sets of crepes, whose scores are one minus the probability."""
    from crepes import ConformalClassifier

    P, y, new = rows()
    alone, of_classes = ConformalClassifier(), ConformalClassifier()
    scores = 1 - P[np.arange(N), y]
    alone.fit(scores)
    of_classes.fit(scores, bins=y)
    found: dict[str, Any] = {"lac": [], "lac-by-class": []}
    for alpha in ALPHAS:
        level = {"confidence": 1 - alpha, "smoothing": False}
        found["lac"].append(words(alone.predict_set(1 - new, **level)))
        columns = [of_classes.predict_set(1 - new[:, [c]], bins=np.full(len(new), c), **level) for c in range(C)]
        found["lac-by-class"].append(words(np.hstack(columns)))
    return found


if __name__ == "__main__":
    facts = {name: importlib.metadata.version(name) for name in ("mapie", "torchcp", "crepes")}
    every = {"versions": facts, "mapie": mapie(), "torchcp": torchcp(), "crepes": crepes()}
    FILE.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
