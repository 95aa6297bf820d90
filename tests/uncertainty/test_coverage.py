"""How often intervals hold the truth is what docs/coverage.md says, simulated again with other seeds; its warnings."""

import json

import interval_coverage
import numpy as np
import pytest

SETTINGS = {name: setting for name, setting in interval_coverage.settings().items() if len(setting[0]) <= 10}
KEPT = json.loads(interval_coverage.KEPT.read_text())["methods"]
SOME = list(SETTINGS)[::7]
SETS = 300

pytestmark = pytest.mark.slow


def distances(setting):
    """Return by how many standard errors the coverage of every method and metric is off what was measured."""
    (P, n), kept = SETTINGS[setting], KEPT[setting]
    held = interval_coverage.coverage(P, n, SETS, kept["replicates"], [35, len(P), n])
    found = {}
    for method, numbers in held.items():
        for name, count in zip(interval_coverage.names_of(method), numbers, strict=True):
            share = interval_coverage.part(kept, method)[name]
            error = np.sqrt(max(share * (1 - share), 1 / SETS) * (1 / SETS + 1 / kept["test_sets"]))
            found[method, name] = abs(count / SETS - share) / error
    return found


@pytest.mark.parametrize("setting", SOME)
def test_coverage_is_what_was_measured(setting):
    found = distances(setting)
    assert len(found) > 300
    far = {key: value for key, value in found.items() if value > 5}
    assert not far, far


def test_intervals_that_hold_the_truth_too_seldom_are_warned_of_and_others_are_not():
    unkind = interval_coverage.unkind()
    for some in (SETTINGS, {name: SETTINGS[name] for name in SETTINGS if name in unkind}):
        low, fine = [], []
        for setting in some:
            warned = interval_coverage.warned(setting)
            for method in interval_coverage.METHODS:
                for name, share in interval_coverage.part(KEPT[setting], method).items():
                    (low if share < interval_coverage.LEAST else fine).append(warned[method][name])
        assert len(low) > 400
        assert np.mean(low) >= 0.9
        assert np.mean(fine) <= 0.1
