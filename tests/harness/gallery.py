"""What the programs of ``docs/gallery`` draw: ``python tests/harness/gallery.py`` keeps it in ``tests/data/pictures``.

Texts are left out: their shapes change with every release of a font.
"""

import runpy
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.text import Text

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
KEPT = ROOT / "tests" / "data" / "pictures"
DPI = 40


def pictures(program: Path) -> dict[str, np.ndarray]:
    """Run a program and return its figures as pixels, by name."""
    mpl.use("Agg")
    plt.close("all")
    runpy.run_path(str(program))
    found = {f"{program.stem}_{k}": _pixels(plt.figure(k)) for k in plt.get_fignums()}
    plt.close("all")
    return found


def _pixels(figure: plt.Figure) -> np.ndarray:
    figure.canvas.draw()  # some texts are made only now
    for text in figure.findobj(Text):
        text.set_visible(False)
    figure.set_layout_engine("none")
    figure.set_dpi(DPI)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]


def load_expected(name: str) -> np.ndarray:
    """Return the expected pixels of a picture."""
    return np.round(plt.imread(KEPT / f"{name}.png")[..., :3] * 255).astype(np.uint8)


def main() -> None:
    """Keep all pictures as they are now."""
    for path in KEPT.glob("*.png"):
        path.unlink()
    for program in PROGRAMS:
        for name, pixels in pictures(program).items():
            plt.imsave(KEPT / f"{name}.png", pixels, metadata={"Software": None})


if __name__ == "__main__":
    main()
