"""Data of the experiments: pools of samples in blocks, split without shared blocks, then drawn imbalanced."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmfast._files.output import FileError
from cmfast._reproduce.normalization import letters as strokes

MOST_CLASS_SAMPLES = 800  # samples of a class: more would cost time and change little
PACKAGES = (
    "asyncio",
    "email",
    "http",
    "importlib",
    "logging",
    "multiprocessing",
    "unittest",
    "urllib",
    "xml",
    "xmlrpc",
)
TESTS = {"test", "tests", "__pycache__"}
SHORTEST, TOGETHER, FEATURES = 30, 20, 512  # characters of a line, lines of a block, hashed grams
LENGTH = 8.0  # of a line as a vector, so that its features are about as large as pixels
LEVELS = {10.0: "very low", 3.0: "low", 1.0: "medium", 0.3: "high", 0.1: "extreme"}
"""What the paper calls the heterogeneity of a Dirichlet draw, by its concentration (section 5.1)."""
PATCH, BLOCK, BANDS = 8, 32, 5  # pixels of a side, pixels of a side, bands of a photograph


@dataclass(frozen=True)
class Common:
    """Settings shared by the demo and the reproduction."""

    repeats: int = 30
    """Independent repetitions: other halves, other imbalance, other first weights."""
    kept: float = 0.2
    hidden: int = 64
    epochs: int = 8
    tol: float = 1e-9
    interval: float = 0.95


@dataclass(frozen=True)
class Pool:
    """Samples with classes; a block of samples is never split between halves."""

    name: str
    title: str
    X: np.ndarray
    """Float32 from about 0 to about 1, (samples, features) or (samples, height, width[, colours])."""
    y: np.ndarray
    block: np.ndarray
    classes: tuple[str, ...]


class Halves(NamedTuple):
    """Indices into a pool: two halves without shared blocks and with equal class counts."""

    train: np.ndarray
    test: np.ndarray


def halve_pool(pool: Pool, rng: np.random.Generator) -> Halves:
    """Split the blocks of every class into two halves of equal class counts."""
    found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for c in range(len(pool.classes)):
        members = np.flatnonzero(pool.y == c)
        blocks = rng.permutation(np.unique(pool.block[members]))
        second = np.isin(pool.block[members], blocks[len(blocks) // 2 :])
        for half, inside in zip(found, (~second, second), strict=True):
            half.append(rng.permutation(members[inside]))
    return Halves(*(np.sort(np.concatenate([m[: min(map(len, half))] for m in half])) for half in found))


def draw_imbalanced(
    y: np.ndarray, rng: np.random.Generator, *, alpha: float, kept: float, n_classes: int
) -> np.ndarray:
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


def digits() -> Pool:
    """Return scikit-learn's digits, each turned by 0, 90, 180 and 270 degrees; the turns of one are a block."""
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    pictures, target = found.images.astype(np.float32) / 16, found.target
    X = np.concatenate([np.rot90(pictures, k, axes=(1, 2)) for k in range(4)])
    classes = tuple(map(str, range(10)))
    return Pool(
        "digits", "digits in four rotations", X, np.tile(target, 4), np.tile(np.arange(len(target)), 4), classes
    )


def code() -> Pool:
    """Return lines of the standard library by package, as hashed grams of two to four characters.

    Lines that follow each other are a block; a line that occurs in several places is taken once.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    lines: list[str] = []
    labels: list[int] = []
    blocks: list[int] = []
    for c, package in enumerate(PACKAGES):
        taken = set(lines)
        mine = [line for line in dict.fromkeys(_read_code_lines(package)) if line not in taken]
        # Evenly over the package: its first files alone would be another choice in every version of Python.
        groups = [mine[k : k + TOGETHER] for k in range(0, len(mine), TOGETHER)]
        wanted = min(len(groups), MOST_CLASS_SAMPLES // TOGETHER)
        for k in np.linspace(0, len(groups) - 1, wanted).astype(int):
            lines += groups[k]
            labels += [c] * len(groups[k])
            blocks += [len(blocks)] * len(groups[k])
    hashed: Any = HashingVectorizer(analyzer="char", ngram_range=(2, 4), n_features=FEATURES, lowercase=False)
    X = hashed.transform(lines).toarray() * LENGTH
    return Pool("code", "lines of code by package", X.astype(np.float32), np.array(labels), np.array(blocks), PACKAGES)


def _read_code_lines(package: str) -> list[str]:
    """Return the stripped code lines of a package without its tests, without short lines and comments."""
    found = find_spec(package)
    places = [Path(place) for place in found.submodule_search_locations or ()] if found else []
    files = [
        file
        for place in places
        for file in sorted(place.rglob("*.py"))
        if not TESTS & set(file.relative_to(place).parts)  # Python itself may be in a folder of such a name
    ]
    stripped = [line.strip() for file in files for line in file.read_text("utf-8").splitlines()]
    lines = [line for line in stripped if len(line) >= SHORTEST and not line.startswith("#")]
    if not lines:
        raise FileError(package, "the sources of this package of Python are not here")
    return lines


def photo() -> Pool:
    """Return patches of scikit-learn's two photographs; a class is a band of one photograph, a block part of a band."""
    from sklearn.datasets import load_sample_images

    pieces, labels, blocks = [], [], []
    names: list[str] = []
    for image, name in zip(load_sample_images().images, ("china", "flower"), strict=True):
        for band in range(BANDS):
            left = band * (image.shape[1] // BANDS)
            for top in range(0, image.shape[0] - BLOCK + 1, BLOCK):
                for start in range(left, left + BLOCK * (image.shape[1] // BANDS // BLOCK), BLOCK):
                    part = image[top : top + BLOCK, start : start + BLOCK]
                    cut = part.reshape(BLOCK // PATCH, PATCH, BLOCK // PATCH, PATCH, 3).swapaxes(1, 2)
                    pieces.append(cut.reshape(-1, PATCH, PATCH, 3))
                    labels += [len(names)] * len(pieces[-1])
                    blocks += [len(pieces)] * len(pieces[-1])
            names.append(f"{name} {band + 1}")
    X = np.concatenate(pieces).astype(np.float32) / 255
    return Pool("photo", "patches of two photographs", X, np.array(labels), np.array(blocks), tuple(names))


def letters(count: int = MOST_CLASS_SAMPLES) -> Pool:
    """Return synthetic letters drawn by strokes: rotated, sheared and noisy, each picture its own block."""
    rng = np.random.default_rng(20)
    X = np.concatenate([strokes.draw(letter, count, rng) for letter in strokes.ALPHABET])
    y = np.repeat(np.arange(len(strokes.ALPHABET)), count)
    return Pool("letters", "drawn letters", X, y, np.arange(len(y)), tuple(strokes.ALPHABET))


SOURCES: dict[str, Callable[[], Pool]] = {"digits": digits, "code": code, "photo": photo, "letters": letters}
