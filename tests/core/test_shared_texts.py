"""Texts whose labels share objects are encoded by their addresses, as a dict of Python encodes them."""

import numpy as np
import pytest

import cmfast
from cmfast import metrics
from cmfast._core import dispatch
from cmfast._core.adapters import _text_codes

RNG = np.random.default_rng(4)
LEAST, BLOCK, HASHED = _text_codes._LEAST_SHARED, _text_codes._SHARED_TEXTS, _text_codes._LEAST_HASHED
SIZES = [1, LEAST - 1, LEAST, LEAST + 1, HASHED - 1, HASHED, BLOCK, BLOCK + 1, 2 * BLOCK + 5]


class Word(str):
    """A text of a subclass, whose own text of it is another."""

    __slots__ = ()

    def __str__(self):
        return "other"


def _encode_by_dict(texts):
    index = {}
    codes = [index.setdefault(text, len(index)) for text in texts]
    return codes, list(index)


def _count(y, p):
    order = sorted({*y, *p})
    places = {text: k for k, text in enumerate(order)}
    M = np.zeros((len(order), len(order)), np.int64)
    np.add.at(M, tuple([places[text] for text in texts] for texts in (y, p)), 1)
    return M


def _check(x, texts):
    found = dispatch.adopt_one("y", x)
    codes, names = _encode_by_dict(texts)
    assert found.codes.reshape(-1).tolist() == codes
    assert found.names == names
    assert set(map(type, found.names)) == {type(names[0])}
    assert found.dtype == np.dtype((type(names[0]), max(map(len, names))))
    return found


def _as_objects(texts):
    out = np.empty(len(texts), object)
    out[:] = texts
    return out


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("C", [1, 2, 9, 60])
@pytest.mark.parametrize("make", [_as_objects, list, tuple], ids=["objects", "list", "tuple"])
def test_codes_and_matrices_are_those_of_a_dict(n, C, make):
    names = [f"class {k}" for k in range(C - 1)] + ["€\0" if C % 2 else ""]
    y, p = ([names[k] for k in RNG.integers(0, C, n)] for _ in range(2))
    _check(make(y), y)
    np.testing.assert_array_equal(cmfast.confusion_matrix(make(y), make(p)), _count(y, p))
    assert metrics.from_labels(make(y), make(p), "accuracy") == np.mean([a == b for a, b in zip(y, p, strict=True)])
    data = [text.encode() for text in y]
    shared = {text: text for text in data}
    _check(make([shared[text] for text in data]), data)


@pytest.mark.parametrize("n", [LEAST, BLOCK + 1])
@pytest.mark.parametrize("objects", [100, 450, 3000, 30_000])
def test_many_objects_share_slots(n, objects):
    names = [f"{k % 400}" for k in range(objects)]  # equal texts of several objects
    texts = [names[k] for k in RNG.integers(0, objects, n)]
    _check(_as_objects(texts), texts)


@pytest.mark.parametrize("bits", [0, 1, 3, 5])
def test_objects_that_collide_are_left_to_the_next_table_or_to_the_dict(monkeypatch, bits):
    monkeypatch.setattr(_text_codes, "_SLOT_BITS", max(1, bits))
    monkeypatch.setattr(_text_codes, "_SHIFT", np.uint64(64 - bits if bits else 63))
    names = [f"class {k}" for k in range(7)]
    for C in range(1, 8):
        texts = [names[k] for k in RNG.integers(0, C, LEAST)]
        _check(_as_objects(texts), texts)


def test_layouts_and_subclasses():
    names = [f"class {k}" for k in range(5)]
    x = _as_objects([names[k] for k in RNG.integers(0, 5, 12_000)])
    grid = x.reshape(120, 100)
    for y in (x[::-1], x[::2], grid.T, grid[::2, 1::2], np.broadcast_to(x[:LEAST], (3, LEAST))):
        _check(y, y.reshape(-1).tolist())
        assert dispatch.adopt_one("y", y).shape == y.shape
    x.flags.writeable = False
    _check(x, x.tolist())
    words = [Word("a"), "b", Word("b"), np.str_("a"), "a"]
    _check(_as_objects(words * LEAST), ["a", "b", "b", "a", "a"] * LEAST)
    _check(words * LEAST, ["a", "b", "b", "a", "a"] * LEAST)


@pytest.mark.parametrize("at", [0, 1, 700, LEAST, 2 * LEAST - 1])
@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, ValueError, r"y_true must be without missing values, got 1 missing \(first: None at {at}\)"),
        (np.nan, ValueError, r"y_true must be without missing values, got 1 missing \(first: nan at {at}\)"),
        (7, TypeError, "y_true must be values of one type, got"),
        (b"a", TypeError, "y_true must be values of one type, got"),
    ],
)
def test_other_values_raise(at, value, error, message):
    texts = ["a", "b"] * LEAST
    texts[at] = value
    for make in (_as_objects, list):
        with pytest.raises(error, match=message.format(at=at)):
            cmfast.confusion_matrix(make(texts), ["a", "b"] * LEAST)


def test_one_side_of_own_objects_and_options():
    y = [f"{k % 3:03}" for k in range(3000)]  # an object of its own for each label
    names = ["000", "001", "002", "004"]
    p = [names[k] for k in RNG.integers(0, 4, 3000)]
    want = _count(y, p)
    np.testing.assert_array_equal(cmfast.confusion_matrix(y, p), want)
    np.testing.assert_array_equal(cmfast.confusion_matrix(p, y), want.T)
    weight = RNG.integers(0, 9, 3000)
    found = cmfast.confusion_matrix(p, y, sample_weight=weight / 4, labels=["002", "000"], ignore_index="000")
    pairs = [(a, b) for a in ("002", "000") for b in ("002", "000")]
    some = [sum(w for a, b, w in zip(p, y, weight, strict=True) if (a, b) == pair) / 4 for pair in pairs]
    assert found.tolist() == [some[:2], [0.0, 0.0]]
