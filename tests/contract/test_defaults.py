"""No default changes unseen."""

import json

from defaults import FILE, find_defaults


def test_no_default_changed():
    kept, found = json.loads(FILE.read_text()), find_defaults()
    for option in sorted({*kept, *found}):
        got, want = found.get(option, "no such option"), kept.get(option, "no such option")
        assert got == want, (
            f"{option}: got {got}, expected {want}; `python tests/harness/defaults.py` writes those meant"
        )
