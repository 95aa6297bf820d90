"""What the oracle said is kept between runs, and asked again where anything that it depends on is another."""

import conformance
import numpy as np
import pytest
from cases import Case
from checks import assert_same_bits


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Keep answers in a folder of the test, and count how often the oracle of an op is asked."""
    counter = []

    def double(x, *, times=2):
        counter.append(times)
        return (x * times,)

    monkeypatch.setattr(conformance, "KEPT", tmp_path)
    monkeypatch.setitem(conformance.ORACLES, "overlap", double)
    conformance.expected.cache_clear()
    yield counter
    conformance.expected.cache_clear()


def ask(x, **options):
    """Ask as another process would: what this one remembers is forgotten."""
    conformance.expected.cache_clear()
    return conformance.expected("overlap", Case("case", (np.array(x),), options))


def test_the_oracle_is_asked_once(asked):
    first = ask([1.0, np.nan])
    assert_same_bits(ask([1.0, np.nan]), first)
    assert len(asked) == 1


def test_other_arguments_are_another_question(asked):
    assert ask([1.0])[0] == [2.0]
    assert ask([1.0], times=3)[0] == [3.0]
    assert ask([-0.0])[0].tobytes() != ask([0.0])[0].tobytes()
    assert ask([1])[0].dtype == np.int64
    assert len(asked) == 5


def test_another_source_is_another_question(asked, monkeypatch):
    ask([1.0])
    monkeypatch.setattr(conformance, "sources", lambda: "edited")
    ask([1.0])
    assert len(asked) == 2


def test_a_damaged_answer_is_not_believed(asked, tmp_path):
    ask([1.0])
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert ask([1.0])[0] == [2.0]
    assert len(asked) == 2
