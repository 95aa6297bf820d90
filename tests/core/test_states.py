"""States as bytes, files and JSON: what is read is what was written, and whatever else there is to read is refused."""

import io
import json
import re

import numpy as np
import pytest
from callables import STATES, tensors
from optional import torch

import cmfast


@pytest.fixture(params=STATES)
def state(request):
    """Return a state of every class that has one."""
    return STATES[request.param](np.asarray)


def said(kind):
    """Return how messages call a class."""
    return next(name for name in STATES if name.rpartition(".")[2] == kind.__name__)


def test_what_is_read_is_what_was_written(state, tmp_path):
    kind = type(state)
    assert kind.from_bytes(state.to_bytes()) == state
    assert kind.from_bytes(memoryview(state.to_bytes())) == state
    assert kind.from_json(state.to_json()) == state
    assert kind.from_json(state.to_json().encode()) == state
    for name in ("state.npz", "state", "state.json"):
        state.save(tmp_path / name)
        assert kind.load(str(tmp_path / name)) == state
    assert (tmp_path / "state").read_bytes() == state.to_bytes()
    assert json.loads((tmp_path / "state.json").read_text())["class"] == kind.__name__


@pytest.mark.parametrize("name", STATES)
def test_states_on_a_device_are_read_on_the_host(name):
    there, here = STATES[name](tensors), STATES[name](np.asarray)
    assert there.to_bytes() == here.to_bytes()
    assert type(here).from_bytes(there.to_bytes()) == here


class Bare(io.RawIOBase):
    """A file without a buffer, which takes seven bytes at a time."""

    def __init__(self):
        super().__init__()
        self.data = b""

    def writable(self):
        """Say that it is for writing."""
        return True

    def write(self, data):
        """Take some of `data`."""
        self.data += bytes(data[:7])
        return min(len(data), 7)


def test_files_that_are_open(state, tmp_path):
    kind, file, bare = type(state), io.BytesIO(), Bare()
    state.save(file)
    state.save(bare)
    assert file.getvalue() == bare.data == state.to_bytes()
    assert kind.load(io.BytesIO(bare.data)) == state
    assert kind.load(io.BytesIO(state.to_json().encode())) == state
    with (tmp_path / "log").open("wb") as log:
        log.write(b"before it")
        state.save(log)
    with (tmp_path / "log").open("rb") as log:
        log.read(9)
        assert kind.load(log) == state
    for text in (io.StringIO(), (tmp_path / "text").open("w")):
        with text, pytest.raises(TypeError, match=rf"^{said(kind)}\.save: path must be a path, or a file of bytes"):
            state.save(text)
    with pytest.raises(TypeError, match=rf"^{said(kind)}\.load: path must be a path, or a file of bytes"):
        kind.load(io.StringIO(state.to_json()))


def test_classes_are_told_apart(state):
    for other in {cmfast.Grid, cmfast.Projection, cmfast.CellCounts} - {type(state)}:
        wanted = rf"^{other.__name__}\.from_\w+: \w+ holds no {other.__name__}, or is damaged: its class is"
        with pytest.raises(ValueError, match=wanted):
            other.from_bytes(state.to_bytes())
        with pytest.raises(ValueError, match=wanted):
            other.from_json(state.to_json())


def without_digest(state):
    """Return what JSON says of a state, so that what is changed gets past its digest."""
    facts = json.loads(state.to_json())
    facts.pop("digest")
    return facts


def changes(facts, optional):
    """Yield what JSON must not be, from what it is."""
    yield from (5, None, [], {}, {**facts, "more": 1}, {**facts, "class": "dict"}, {**facts, "class": ["Grid"]})
    yield from ({**facts, "format": number} for number in (0, 2, "1", None, [1]))
    for name, value in facts.items():
        if name not in optional:
            yield {key: other for key, other in facts.items() if key != name}
        for wrong in ("x", 1.5, None, [], {}, [[[[1]]]], True, -1):
            yield {**facts, name: wrong}
        if not isinstance(value, dict) or "dtype" not in value:
            continue
        for key, wrong in (("dtype", "|O"), ("dtype", ">f8"), ("dtype", 3), ("shape", [2**40]), ("shape", [-1]),
                           ("shape", "2"), ("shape", []), ("values", 3), ("values", [None]), ("values", ["1"]),
                           ("values", [[1], [1, 2]]), ("values", [10**400] * 2), ("values", [True] * 2)):  # fmt: skip
            yield {**facts, name: {**value, key: wrong}}


def test_json_that_is_none(state):
    kind = type(state)
    match = rf"^{said(kind)}\.from_json: text holds no {kind.__name__}, or is damaged: "
    for facts in changes(without_digest(state), kind._OPTIONAL):
        with pytest.raises(ValueError, match=match):
            kind.from_json(json.dumps(facts))
    for text in ("", "{", "{" * 100_000, "[" * 100_000, '{"class": NaN}', "\x00", "9" * 5000, b"\xff\xfe"):
        with pytest.raises(ValueError, match=match):
            kind.from_json(text)


def outcome(kind, data):
    """Return what the bytes hold, or what is said of them."""
    try:
        return kind.from_bytes(bytes(data))
    except ValueError as error:
        return error


def test_bytes_that_are_damaged(state):
    kind, whole = type(state), state.to_bytes()
    rng = np.random.default_rng(0)
    for data in (b"", b"PK", whole[:-1], whole[9:-1], b"{" + whole):
        with pytest.raises(ValueError, match=rf"^{said(kind)}\.from_bytes: data holds no {kind.__name__}"):
            kind.from_bytes(data)
    for place in rng.integers(0, len(whole), 200):
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        found = outcome(kind, data)
        assert found == state or re.match(rf"{said(kind)}\.from_bytes: data holds no", str(found))


def test_axes_that_are_not_finite_are_kept():
    with pytest.warns(cmfast.FailureWarning):
        axes = cmfast.pca([[np.nan, 1.0]], 1)
    assert '"NaN"' in axes.to_json()
    assert np.isnan(cmfast.Projection.from_json(axes.to_json()).mean).all()
    endless = axes._replace(mean=np.array([np.inf, -np.inf]))
    assert cmfast.Projection.from_json(endless.to_json()).mean.tolist() == [np.inf, -np.inf]


def test_projections_are_tuples_still():
    mean, components, ratio = axes = cmfast.pca(np.eye(3), 2)
    assert isinstance(axes._replace(mean=mean), cmfast.Projection)
    assert isinstance(axes, tuple)
    assert (components.shape, ratio.shape) == ((2, 3), (2,))


def test_counts_are_equal_however_their_cells_are_numbered():
    grid = cmfast.Grid([0.0], [1.0])
    a = cmfast.cell_counts([[0.5], [0.6], [900.0]], [0, 0, 1], [0, 1, 1], grid=grid)
    stream = cmfast.CellAccumulator(grid, 2).update([[-5.5]], [0], [0])
    other = stream.update([[0.5], [0.6], [900.0]], [0, 0, 1], [0, 1, 1]).counts()
    assert a + cmfast.cell_counts([[-5.5]], [0], [0], grid=grid, n_classes=2) == other
    assert a != other
    assert a != cmfast.cell_counts([[0.5], [0.6], [900.0]], [0, 0, 1], [0, 1, 1], grid=grid, n_classes=3)
    assert a != cmfast.cell_counts([[0.5], [0.6], [900.5]], [0, 0, 1], [0, 1, 0], grid=grid)
    assert a != None  # noqa: E711  (it must not raise)
    assert cmfast.cell_counts(torch.tensor([[0.5], [0.6], [900.0]]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]),
                              grid=grid) == a  # fmt: skip
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)
