"""User data: pictures or embeddings with labels, and predictions of a network trained elsewhere."""

from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from cmfast._files.output import FileError
from cmfast._files.tables import open_npy
from cmfast._reproduce.normalization.data import MOST_CLASS_SAMPLES, Pool

FEWEST = 10  # fewest samples per class: two halves, a fifth of each is kept
ANSWERED = 10 * MOST_CLASS_SAMPLES  # most samples per class with given predictions


def refuse(argument: str, what: str) -> NoReturn:
    """Raise FileError that names the argument of the command."""
    raise FileError(argument, what)


class UserData(NamedTuple):
    """Validated user data."""

    pool: Pool
    predicted: np.ndarray | None
    """Class index predicted for every sample, or None."""


def read_user_data(
    images: Path | None = None, embeddings: Path | None = None, labels: Path | None = None, pred: Path | None = None
) -> UserData | None:
    """Return the validated user data, or None if there is no file; FileError names the invalid argument."""
    if images is None and embeddings is None:
        for name, path in (("labels", labels), ("pred", pred)):
            if path is not None:
                refuse(f"--{name}", "needs --images or --embeddings beside it")
        return None
    name, path = ("images", images) if embeddings is None else ("embeddings", embeddings)
    if path is None or (images is not None and embeddings is not None):
        refuse("--embeddings", "cannot be given beside --images")
    if labels is None:
        refuse(f"--{name}", "needs --labels beside it")
    if pred is not None and name == "images":
        refuse("--pred", "needs --embeddings beside it: of images a network is trained here")
    X = _read_samples(name, path)
    y, classes = _encode_classes(_read_labels("labels", labels, len(X)))
    guess = None if pred is None else _encode_predictions(_read_labels("pred", pred, len(X)), classes)
    return _thin_samples(name, path, X, y, classes, guess)


def _read_samples(name: str, path: Path) -> np.ndarray:
    """Return the pictures or embeddings in a .npy file; FileError if shape or dtype do not fit."""
    array, at = open_npy(path), f"--{name} {path}"
    ranks = (2, 3, 4) if name == "images" else (2,)
    if array.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        refuse(at, f"must have {wanted} axes, has shape {array.shape}")
    if array.dtype.kind not in "buif":
        refuse(at, f"must be real numbers, has dtype {array.dtype}")
    if 0 in array.shape:
        refuse(at, f"is empty, has shape {array.shape}")
    if array.ndim == 4 and array.shape[3] > 4:
        refuse(at, f"must have its colours on the last axis, has shape {array.shape}")
    return array


def _read_labels(name: str, path: Path, n: int) -> np.ndarray:
    """Return the labels in a .npy file; FileError unless they are `n` whole numbers or texts."""
    array, at = open_npy(path), f"--{name} {path}"
    if array.shape != (n,):
        refuse(at, f"must have shape ({n},) as there are {n} samples, has {array.shape}")
    if array.dtype.kind not in "biuU":
        refuse(at, f"must be whole numbers or text, has dtype {array.dtype}")
    return array


def _encode_classes(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the class index of each label and the sorted classes; FileError for one class, or one with few samples."""
    classes, y = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        refuse("--labels", f"must name two classes at least, has {len(classes)}")
    fewest = int(np.bincount(y).argmin())
    if np.bincount(y)[fewest] < FEWEST:
        few = int(np.bincount(y)[fewest])
        refuse("--labels", f"must have {FEWEST} samples of every class at least, has {few} of {classes[fewest]}")
    return y, classes


def _encode_predictions(pred: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the class index of each prediction; FileError for a prediction that is not among `classes`."""
    if (pred.dtype.kind == "U") != (classes.dtype.kind == "U"):
        refuse("--pred", f"must be of the kind of --labels, has dtype {pred.dtype} for {classes.dtype}")
    strange = np.setdiff1d(pred, classes)
    if len(strange):
        refuse("--pred", f"must name classes of --labels, has {strange[0]}")
    return np.searchsorted(classes, pred)


def _thin_samples(
    name: str, path: Path, X: np.ndarray, y: np.ndarray, classes: np.ndarray, guess: np.ndarray | None
) -> UserData:
    """Return the user data with a limited number of samples per class, taken evenly; FileError for NaN."""
    most = MOST_CLASS_SAMPLES if guess is None else ANSWERED
    rows = [np.flatnonzero(y == c) for c in range(len(classes))]
    kept = np.sort(np.concatenate([r[np.linspace(0, len(r) - 1, min(most, len(r))).astype(int)] for r in rows]))
    some = np.asarray(X[kept])
    if not np.isfinite(some).all():
        refuse(f"--{name} {path}", "must be finite, holds NaN or infinity")
    least = int(np.bincount(y[kept]).min()) // 2
    title = f"{name} of {path.name}, {len(kept)} of {len(y)}, in each half {least} of every class"
    samples = some.astype(np.float64) if guess is not None else _scale_features(some, name)
    pool = Pool("own", title, samples, y[kept], np.arange(len(kept)), tuple(map(str, classes)))
    return UserData(pool, None if guess is None else guess[kept])


def _scale_features(X: np.ndarray, name: str) -> np.ndarray:
    """Divide pictures by their largest absolute value, embeddings by their standard deviation."""
    X = X.astype(np.float32)
    unit = float(np.abs(X).max() if name == "images" else X.std())
    return X / np.float32(unit) if unit > 0 else X
