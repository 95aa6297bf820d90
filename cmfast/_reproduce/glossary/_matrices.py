"""Matrices printed in the glossary, and random examples for its advice without numbers."""

import numpy as np

SURFACES = np.array([[420, 15, 15], [10, 280, 10], [30, 20, 200]])
SURFACE_NAMES = ["asphalt", "concrete", "composite"]
FOUR_SURFACES = np.array([[564, 6, 24, 6], [10, 465, 20, 5], [48, 28, 312, 12], [5, 10, 5, 480]])
FOUR_NAMES = [*SURFACE_NAMES, "gravel"]
GRADES = np.array([[315, 28, 7, 0], [36, 237, 24, 3], [0, 30, 152, 18], [0, 0, 16, 134]])
GRADE_NAMES = ["good", "fair", "poor", "failed"]
DEFECTS = np.array(
    [
        [820, 30, 5, 40, 10, 95],
        [15, 440, 20, 5, 15, 5],
        [0, 10, 285, 5, 20, 0],
        [25, 0, 5, 145, 60, 15],
        [5, 5, 15, 35, 180, 10],
        [65, 0, 0, 10, 15, 1910],
    ]
)
DEFECT_NAMES = ["hairline", "structural", "spalling", "efflorescence", "corrosion", "intact"]
CATEGORIES = ["crack", "crack", "spalling", "discoloration", "discoloration", "intact"]
TRIVIAL = np.array([[9500, 0], [500, 0]])  # intact, crack: always "intact"

CHECKPOINT_SEED, ANNOTATOR_SEED, SCORE_SEED = 1, 2, 3


def draw_earlier_checkpoint() -> np.ndarray:
    """Return an invented earlier checkpoint of the defects: three tenths of the predictions random."""
    shares = DEFECTS / DEFECTS.sum(axis=1, keepdims=True)
    early = 0.7 * shares + 0.3 / len(shares)
    rng = np.random.default_rng(CHECKPOINT_SEED)
    return np.stack([rng.multinomial(n, row) for n, row in zip(DEFECTS.sum(axis=1), early, strict=True)])


def draw_two_annotators(n: int, agreement: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return true grades and two annotators with independent, equal error rates and the given agreement."""
    right = (1 + np.sqrt(2 * agreement - 1)) / 2  # right**2 + (1 - right)**2 is the agreement
    rng = np.random.default_rng(ANNOTATOR_SEED)
    truth = rng.integers(0, 2, n)
    one, other = np.where(rng.random((2, n)) < right, truth, 1 - truth)
    return truth, one, other


def draw_crack_scores(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return calibrated probabilities of a crack and labels drawn from them; a fifth are cracks."""
    rng = np.random.default_rng(SCORE_SEED)
    probability = rng.beta(0.4, 1.6, n)
    return probability, (rng.random(n) < probability).astype(np.int64)
