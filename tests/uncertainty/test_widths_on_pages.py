"""The widths of the mean F1 of a published simulation are the same on every page that has them."""

import re
from pathlib import Path

from cmfast._reproduce.uncertainty import _teams

DOCS = Path(__file__).parents[2] / "docs"
REPLICATES, SEED = 20_000, 0  # of `cmfast reproduce uncertainty`


def numbers(text):
    return [float(x) for x in re.findall(r"0?\.\d{3}", text)]


def test_the_widths_of_the_mean_f1_are_one_value_on_three_pages():
    found = {n: _teams.compute_widths("expected_rounded", n, REPLICATES, SEED) for n in _teams.SIZES}
    want = [round(found[n][kind]["f1_macro"], 3) for kind in _teams.KINDS for n in _teams.SIZES]
    (line,) = [one for one in (DOCS / "errata.md").read_text(encoding="utf-8").splitlines() if "widths of sF1" in one]
    assert numbers(line.split("|")[2]) == want
    (line,) = [
        one for one in (DOCS / "reproduced.md").read_text(encoding="utf-8").splitlines() if "Widths of sF1" in one
    ]
    assert numbers(line.split("|")[4]) == want
    rows = [
        one.split("|")
        for one in (DOCS / "simulated_teams.md").read_text(encoding="utf-8").splitlines()
        if one.startswith('| | `"expected_rounded"`')
    ]
    column = 3 + list(_teams.NAMES).index("f1_macro")
    assert [numbers(row[column])[k] for k in range(2) for row in rows] == want
