"""Texts encoded by their bytes: codes and names are those of a dict of Python, for every kind of text and container."""

import numpy as np
import pytest

import cmfast
from cmfast._core import dispatch
from cmfast._core.adapters import _text_codes
from cmfast.kernels.cpu._core import distinct, texts

MOST = 2**64 - 1
RNG = np.random.default_rng(38)
WORDS = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "a" * 7,
    "a" * 8,
    "a" * 9,
    "a" * 16,
    "a" * 15 + "b",
    "ä",
    "€",
    "😀",
    "\ud800",
    "x" * 5000,
]


class Word(str):
    """A text of a subclass, whose own text of it is another."""

    __slots__ = ()

    def __str__(self):
        return "other"


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Let a few texts already be encoded by their bytes, in blocks of seven."""
    monkeypatch.setattr(_text_codes, "_LEAST_HASHED", 1)
    monkeypatch.setattr(_text_codes, "_HASHED_TEXTS", 7)


def _encode_by_dict(x):
    """Return codes and names of a list by a dictionary."""
    index = {}
    codes = [index.setdefault(text, len(index)) for text in x]
    return codes, list(index)


def _check(x, want):
    """Compare the encoding of `x` with that of the list `want`, whose texts are exact ones."""
    found = _text_codes.encode_many(x)
    codes, names = _encode_by_dict(want)
    assert found is not None
    assert found.codes.reshape(-1).tolist() == codes
    assert found.names == names
    assert set(map(type, found.names)) == {type(want[0])}
    assert found.dtype == (x.dtype if isinstance(x, np.ndarray) and x.dtype.kind in "US" else np.array(names).dtype)


@pytest.mark.parametrize("make", [list, tuple, lambda x: np.array(x, object)], ids=["list", "tuple", "objects"])
def test_texts_of_any_length_are_encoded_as_by_a_dict(make):
    some = [WORDS[k] for k in RNG.integers(0, len(WORDS), 300)]
    _check(make(some), some)
    data = [text.encode("utf-8", "surrogatepass") for text in some]
    _check(make(data), data)
    many = [f"class {k}" for k in RNG.integers(0, 20_000, 30_000)]
    _check(make(many), many)


@pytest.mark.parametrize("dtype", ["<U1", "<U5", "<U23", ">U9", "S1", "S8", "S20"])
def test_arrays_of_fixed_width_are_encoded_as_by_a_dict(dtype):
    words = np.array([b"", b"a", b"b", b"a\0b", b"abcdefgh", b"abcdefghi"] if dtype[0] == "S" else WORDS[:12], dtype)
    x = words[RNG.integers(0, len(words), (40, 30))]
    for y in (x, x[::2, ::3], x.T):
        _check(y, y.reshape(-1).tolist())


def test_an_array_of_variable_width_is_encoded_as_by_a_dict():
    some = [WORDS[k] for k in RNG.integers(0, 13, 300)]
    found = _text_codes.encode_many(np.array(some, np.dtypes.StringDType()))
    assert (found.codes.tolist(), found.names) == _encode_by_dict(some)


ARROW_WORDS = [text for text in WORDS if text != "\ud800"] + ["a\0", "a\0b"]


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_arrow_columns_are_encoded_from_their_bytes_as_by_a_dict(kind):
    pa = pytest.importorskip("pyarrow")
    some = [ARROW_WORDS[k] for k in RNG.integers(0, len(ARROW_WORDS), 300)]
    if "binary" in kind:
        some = [text.encode() for text in some]
    x = pa.array(some, getattr(pa, kind)())
    exact = pa.Array.from_buffers(
        x.type, len(x), [None, *(pa.py_buffer(part.to_pybytes()) for part in x.buffers()[1:])]
    )
    columns = {
        "whole": (x, some),
        "without bytes after it": (exact, some),
        "slice": (x[5:250], some[5:250]),
        "chunks": (pa.chunked_array([x[:100], x[:0], x[100:111], exact[111:]]), some),
        "empty texts": (pa.array([some[0][:0]] * 40, x.type), [some[0][:0]] * 40),
        "one": (x[:1], some[:1]),
    }
    for name, (column, want) in columns.items():
        coded = dispatch.adopt_one("y", column)
        assert (coded.codes.tolist(), coded.names) == _encode_by_dict(want), name
        assert set(map(type, coded.names)) == {type(want[0])}, name


def test_arrow_texts_that_collide_are_left_to_arrow():
    pa = pytest.importorskip("pyarrow")
    some = [_make_text(k << 40 | 777).to_bytes(8, "little") for k in range(3000)]
    coded = dispatch.adopt_one("y", pa.array(some, pa.binary()))
    assert (coded.codes.tolist(), coded.names) == _encode_by_dict(some)


def test_a_subclass_is_encoded_by_its_own_characters():
    some = [Word("a"), "b", Word("b"), np.str_("a"), "a"]
    for x in (some, np.array(some, object)):
        _check(x, ["a", "b", "b", "a", "a"])


@pytest.mark.parametrize(
    "x", [["a", 1], ["a", b"a"], ["a", None], ["a", float("nan")], [1, "a"], ["a", ["b"]], ["a\0", "a"]]
)
def test_what_is_not_plain_text_is_left_to_the_dict(x):
    assert _text_codes.encode_many(x) is None
    objects = np.empty(len(x), object)
    objects[:] = x
    assert _text_codes.encode_many(objects) is None


def test_texts_that_differ_in_a_final_nul_are_distinct():
    pair = ["a\0", "a", "a\0"] * 50, ["a", "a", "a\0"] * 50
    assert cmfast.confusion_matrix(*pair).tolist() == [[50, 0], [50, 50]]


def _invert_shift(x, bits):
    """Return what ``y ^ (y >> bits)`` made `x` of, for 64 bits."""
    y = x
    for _ in range(64 // bits):
        y = x ^ (y >> bits)
    return y


def _make_text(hashed):
    """Return the eight bytes whose hash is `hashed`."""
    x = _invert_shift(hashed, 32) * pow(0x94D049BB133111EB, -1, 2**64) & MOST
    x = _invert_shift(x, 29) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MOST
    return x ^ (8 * 0x9E3779B97F4A7C15 & MOST)


def test_texts_that_collide_are_left_to_the_dict_after_a_bounded_number_of_probes():
    x = np.array([_make_text(k << 40 | 777) for k in range(3000)], np.uint64).view("S8")
    with pytest.raises(distinct.HashingError):
        texts.TextCodes().encode_rows(x)
    assert _text_codes.encode_many(x) is None
    coded = dispatch.adopt_one("y", x)
    assert (coded.codes.tolist(), coded.names) == _encode_by_dict(x.tolist())


def test_matrices_of_texts_are_the_same_by_either_way(monkeypatch):
    y, p = ([f"k{k}" for k in RNG.integers(0, 40, 500)] for _ in range(2))
    found = [cmfast.confusion_matrix(make(y), make(p)) for make in (list, np.array, lambda x: np.array(x, object))]
    monkeypatch.setattr(_text_codes, "_LEAST_HASHED", 10**9)
    for each in found:
        np.testing.assert_array_equal(each, cmfast.confusion_matrix(y, p))
