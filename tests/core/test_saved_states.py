"""States that earlier versions saved load as what they were; what has no saved state yet is named."""

import base64
import json
import zlib

import numpy as np
import pytest
import saved_states
from callables import STATES

import cmfast
from cmfast._files import states

FILES = sorted(saved_states.FOLDER.glob("*.json"))
SAVED = {path.stem: json.loads(path.read_text()) for path in FILES}
MATRICES = {  # counted by hand
    "ConfusionCounts": [[1, 0, 0], [0, 0, 1], [0, 1, 1]],
    "ConfusionCounts, of dates": [[0, 1], [1, 0]],
    "ConfusionCounts, of text in groups": [[[0, 1], [0, 0]], [[1, 0], [0, 0]], [[0, 0], [0, 1]]],
    "ConfusionCounts, weighted": [[0, 0, 0], [0, 0.25, 0], [0, 0.5, 2]],
}


def loaded(kind, saved):
    """Return a state from its bytes, after a look that its JSON is of the same."""
    cls = type(saved_states.MAKERS[kind]())
    state = cls.from_bytes(zlib.decompress(base64.b64decode(saved["npz"])))
    assert cls.from_json(json.dumps(saved["json"])) == state
    return state


@pytest.mark.parametrize("name", SAVED)
def test_what_was_saved_loads_as_it_was(name):
    for kind, saved in SAVED[name].items():
        state, now = loaded(kind, saved), saved_states.MAKERS[kind]()
        if isinstance(now, cmfast.Projection):  # whose last bits belong to a library for linear algebra
            for before, array in zip(state, now, strict=True):
                np.testing.assert_allclose(before, array, rtol=1e-14, atol=1e-15, err_msg=kind)
        else:
            assert state == now, kind
        if kind in MATRICES:
            np.testing.assert_array_equal(sorted(state.matrix.tolist()), sorted(MATRICES[kind]), err_msg=kind)


def test_the_newest_file_has_every_kind():
    newest = SAVED[max(SAVED)]
    assert set(newest) == set(saved_states.MAKERS)
    assert {kind.partition(",")[0] for kind in newest} == set(STATES), "python tests/harness/saved_states.py"


def test_every_part_of_every_state_was_saved():
    """A part that a class has begun to store needs a file of today's states: run tests/harness/saved_states.py."""
    for name, make in STATES.items():
        cls = type(make(np.asarray))
        found = [saved["json"] for file in SAVED.values() for kind, saved in file.items() if kind.startswith(name)]
        assert set().union(*found) >= {"class", "format", "digest", *cls._STORED}, name
        assert {one["format"] for one in found} == set(range(1, states.FORMAT + 1)), name


@pytest.mark.parametrize("kind", saved_states.MAKERS)
def test_a_format_of_the_future_is_refused_by_its_number(kind):
    saved = SAVED[max(SAVED)][kind]
    future = {**saved["json"], "format": states.FORMAT + 1}
    future.pop("digest")
    with pytest.raises(ValueError, match=f"has format {states.FORMAT + 1}, this version reads {states.FORMAT}"):
        type(saved_states.MAKERS[kind]()).from_json(json.dumps(future))
