"""States that other programs wrote with NumPy: the order of an array in the file is not the order of its cells."""

import io

import numpy as np
import pytest

import cmfast


def rewritten(state, order):
    """Return the bytes of a state, written again with arrays in an order in memory."""
    parts = dict(np.load(io.BytesIO(state.to_bytes())))
    file = io.BytesIO()
    np.savez(file, **{name: np.array(part, order=order) for name, part in parts.items()})
    return file.getvalue()


LABELS = ["ant", "bee", "ant", "cat", "bee"], ["bee", "bee", "ant", "ant", "bee"]
STATES = {
    "matrix": cmfast.ConfusionCounts.from_labels(*LABELS),
    "matrices": cmfast.ConfusionCounts.from_labels(*LABELS, groups=["x", "y", "x", "y", "y"]),
    "projection": cmfast.pca(np.random.default_rng(0).normal(size=(20, 4)), 2),
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", STATES)
def test_either_order_in_the_file_gives_the_same_state(name, order):
    state = STATES[name]
    data = rewritten(state, order)
    if order == "F":
        assert b"'fortran_order': True" in data
    assert type(state).from_bytes(data).to_bytes() == state.to_bytes()
