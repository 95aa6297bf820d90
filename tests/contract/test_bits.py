"""No bit of any result changes unseen: hashes of all cases, where rounding is that of the machine they are of."""

import json

import bits
import numpy as np
import pytest
from cases import CASES

import cmfast

KEPT = json.loads(bits.FILE.read_text())
HERE = bits.machine()
elsewhere = pytest.mark.skipif(KEPT["machine"] != HERE, reason=f"bits are those of {KEPT['machine']}, this is {HERE}")


@elsewhere
@pytest.mark.parametrize("op", CASES)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_no_bit_changed(op, target):
    if target not in bits.targets():
        pytest.skip(f"{target} does not run here")
    assert bits.of_op(op, target) == KEPT[target][op]


def test_every_op_has_bits():
    assert set(KEPT) == {"machine", "cpu", "cuda"}
    assert set(KEPT["cpu"]) == set(KEPT["cuda"]) == set(CASES)


def test_one_changed_bit_is_found(monkeypatch):
    honest, before = cmfast.overlap, bits.of_op("overlap", "cpu")
    assert bits.of_op("overlap", "cpu") == before
    monkeypatch.setattr(cmfast, "overlap", lambda *args, **options: np.nextafter(honest(*args, **options), 2))
    assert bits.of_op("overlap", "cpu") != before
