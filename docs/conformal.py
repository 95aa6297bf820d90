"""Print the numbers of ``conformal.md``, as ``cmfast reproduce conformal`` finds them, and draw ``conformal.png``.

Needs ``pip install ".[bench]"``.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from cmfast._core.progress import Bar  # noqa: E402
from cmfast._pages.parts import Figure, Table  # noqa: E402
from cmfast._reproduce.conformal import reproduce  # noqa: E402
from cmfast._reproduce.conformal._central_training import train_network  # noqa: E402
from cmfast._reproduce.conformal._network import CENTRE, ConformalSettings  # noqa: E402
from cmfast.display import CcmDisplay  # noqa: E402

if __name__ == "__main__":
    made = reproduce(quick=False, progress=Bar)
    print("epoch: correlation and errors of 3 and 9, of 0 and 1, at alpha = 0.1")
    for epoch, found in enumerate(made.numbers["first_seed"]["by_epoch"], 1):
        print(epoch, *(f"{rho:.3f} {errors}" for rho, errors in zip(found["rho"], found["errors"], strict=True)))
    for section in made.sections:
        for table in section.find(Table):
            print(f"\n{table.caption}\n{'  '.join(table.head)}", *map("  ".join, table.rows), sep="\n")
        print(*(said for figure in section.find(Figure) for said in figure.caption))
    sets, y, guess = train_network(0, ConformalSettings())["picture"]
    display = CcmDisplay.from_sets(sets, y, guess, index=CENTRE).plot()
    display.figure_.savefig(HERE / "conformal.png", dpi=64, metadata={"Software": None})
