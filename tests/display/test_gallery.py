"""Programs of the gallery draw what they should; ``python tests/harness/gallery.py`` keeps what they draw now."""

from pathlib import Path

import numpy as np
import pytest

gallery = pytest.importorskip("gallery", reason="needs matplotlib")

pytestmark = pytest.mark.pictures

NEAR = 6.0  # of 255, root mean square: lines are smoothed otherwise by other releases


def difference(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return np.inf
    return float(np.sqrt(np.mean((a.astype(np.float64) - b) ** 2)))


@pytest.mark.parametrize("program", gallery.PROGRAMS, ids=lambda path: path.stem)
def test_a_program_draws_what_it_should(program: Path) -> None:
    found = gallery.pictures(program)
    assert found
    assert set(found) == {path.stem for path in gallery.KEPT.glob(f"{program.stem}_[0-9].png")}
    for name, pixels in found.items():
        assert difference(pixels, gallery.load_expected(name)) < NEAR, name


def test_another_picture_is_noticed() -> None:
    kept = {path.stem: gallery.load_expected(path.stem) for path in gallery.KEPT.glob("*.png")}
    for name, pixels in kept.items():
        assert difference(pixels, pixels[:, ::-1]) > NEAR, name  # mirrored
    apart = [difference(a, b) for x, a in kept.items() for y, b in kept.items() if x < y]
    assert min(apart) > NEAR
