"""Draw the picture of ``report.md`` in a browser: seconds. Needs ``pip install ".[plot]"``, and Chromium."""

import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "harness")]

import browser as browsers  # noqa: E402
import displays  # noqa: E402

import cmfast  # noqa: E402


def main() -> None:
    """Make a report, look at a cell of its balanced matrix, and take a picture."""
    y, first, second = displays.labels(6000, 0.15, 0)
    names = np.array(displays.NAMES)
    page = cmfast.report(names[y], {"new": names[first], "old": names[second]}, labels=names)
    with tempfile.TemporaryDirectory() as folder, browsers.browser() as browser:
        tab = browsers.Tab(browser, width=840)
        tab.open(page.save(Path(folder) / "report.html"), "document.documentElement?.dataset.ready")
        tab.click("label:has([value=bi])")
        tab.js("document.getElementById('canvas').focus()")
        for key in ("ArrowRight", "ArrowRight"):
            tab.key(key)
        tab.js("document.activeElement.blur()")
        tab.picture(HERE / "report.png", "figure")


if __name__ == "__main__":
    main()
