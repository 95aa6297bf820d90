"""Synthetic letters from strokes, randomly rotated, sheared and blurred, without fonts."""

import numpy as np

LETTER_PIXELS = 10  # pixels of a side
SHARPNESS = 14.0
NOISE = 0.35

Strokes = tuple[np.ndarray, ...]


def _make_polyline(*points: tuple[float, float]) -> np.ndarray:
    """Return the points as an array of shape (points, 2)."""
    return np.array(points)


def _make_arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> np.ndarray:
    """Return nine points of an elliptic arc around (x, y), from angle `start` to `end` in degrees."""
    angles = np.radians(np.linspace(start, end, 9))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=-1)


_BACK = _make_polyline((0.2, 0.0), (0.2, 1.0))
_ROUND = _make_arc(0.5, 0.5, 0.4, 0.5, 0, 360)
_OPEN = _make_arc(0.5, 0.5, 0.4, 0.5, 45, 315)
_BOWL = _make_arc(0.2, 0.25, 0.55, 0.25, -90, 90)
# Letters in similar families, so that they can be confused; x to the right, y down.
ALPHABET: dict[str, Strokes] = {
    "O": (_ROUND,),
    "Q": (_ROUND, _make_polyline((0.6, 0.7), (0.95, 1.05))),
    "C": (_OPEN,),
    "G": (_OPEN, _make_polyline((0.55, 0.55), (0.8, 0.55), (0.8, 0.85))),
    "D": (_BACK, _make_arc(0.2, 0.5, 0.6, 0.5, -90, 90)),
    "P": (_BACK, _BOWL),
    "R": (_BACK, _BOWL, _make_polyline((0.35, 0.5), (0.8, 1.0))),
    "B": (_BACK, _BOWL, _make_arc(0.2, 0.75, 0.6, 0.25, -90, 90)),
    "E": (
        _BACK,
        _make_polyline((0.8, 0.0), (0.2, 0.0)),
        _make_polyline((0.7, 0.5), (0.2, 0.5)),
        _make_polyline((0.8, 1.0), (0.2, 1.0)),
    ),
    "F": (_BACK, _make_polyline((0.8, 0.0), (0.2, 0.0)), _make_polyline((0.7, 0.5), (0.2, 0.5))),
}


def draw(letter: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` pictures of a letter, (count, LETTER_PIXELS, LETTER_PIXELS) from 0 to 1 before their noise."""
    pieces = np.concatenate([np.stack([s[:-1], s[1:]], axis=1) for s in ALPHABET[letter]])  # (pieces, 2 ends, 2)
    moved = _transform_strokes(pieces - 0.5, count, rng)
    centres = (
        np.stack(np.meshgrid(np.arange(LETTER_PIXELS), np.arange(LETTER_PIXELS)), axis=-1) + 0.5
    ) / LETTER_PIXELS - 0.5
    distance = _compute_distances(centres.reshape(-1, 2), moved)
    width = rng.uniform(0.03, 0.09, (count, 1))
    ink = 1 / (1 + np.exp(SHARPNESS * (distance - width) / width.mean()))
    noisy = ink + rng.normal(0, NOISE, ink.shape)
    pictures: np.ndarray = noisy.reshape(count, LETTER_PIXELS, LETTER_PIXELS).astype(np.float32)
    return pictures


def _transform_strokes(pieces: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return the strokes of a letter, randomly rotated, sheared, scaled and shifted for each picture."""
    angle, shear = rng.normal(0, np.radians(10), count), rng.normal(0, 0.15, count)
    scale, shift = rng.uniform(0.55, 0.8, (count, 2)), rng.normal(0, 0.05, (count, 2))
    turn = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(count, 2, 2)
    turn[:, :, 1] += shear[:, None] * turn[:, :, 0]
    moved: np.ndarray = np.einsum("nab,nb,peb->npea", turn, scale, pieces) + shift[:, None, None]
    return moved


def _compute_distances(points: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """Return the distance of each point to the nearest stroke of each picture, (pictures, points)."""
    nearest = np.full((len(pieces), len(points)), np.inf)
    for start, end in pieces.transpose(1, 2, 0, 3):
        along = end - start
        from_start = points[None] - start[:, None]
        share = np.einsum("npa,na->np", from_start, along) / (along**2).sum(-1)[:, None]
        apart = from_start - np.clip(share, 0, 1)[..., None] * along[:, None]
        np.minimum(nearest, np.sqrt((apart**2).sum(-1)), out=nearest)
    return nearest
