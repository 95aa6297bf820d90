"""Take the pictures of ``contingency.md`` from a full run and print its numbers: ``python docs/contingency.py FOLDER``.

The folder is the output of ``cmfast reproduce contingency``.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PICTURES = {"figure_2_metrics": "surfaces", "figure_3_paths": "paths", "figure_4_lengths": "lengths"}


def main(folder: Path) -> None:
    """Copy the pictures, print the tables."""
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    for drawn, shown in PICTURES.items():
        shutil.copyfile(folder / f"{drawn}.png", HERE / f"{shown}.png")
    volumes = found["figures"]["figure_7_sensitivity"]
    places = [volumes["r"].index(r) for r in (5.0, 32.0)]
    for name, volume in volumes["volume"].items():
        print(name, *(f"{volume[k]:.4f}" for k in places))
    (paths,) = (claim for claim in found["claims"] if "tests" in claim["figures"])
    for rate, test in paths["figures"]["tests"].items():
        print(f"rate {rate}:", {key: value for key, value in test.items() if key != "whiskers"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
