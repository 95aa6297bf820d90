"""No bit of any result changes unseen: hashes of all cases, where rounding is that of the machine they are of."""

import json
from functools import partial

import bits
import numpy as np
import pytest
from cases import CASES
from folded import check_each

import cmfast

KEPT = json.loads(bits.FILE.read_text())
HERE = bits.machine()
elsewhere = pytest.mark.skipif(KEPT["machine"] != HERE, reason=f"bits are those of {KEPT['machine']}, this is {HERE}")


def check_bits(op, target):
    got, want = bits.hash_op(op, target), KEPT[target][op]
    assert got == want, f"{op} on {target}: got the hash {got}, expected {want}"


@elsewhere
@pytest.mark.exhaustive  # compiles all of a fixed set of cases; the short run keeps the tests of what it reads
@pytest.mark.parametrize("target", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda_host)])
def test_no_bit_changed(target):
    if target not in bits.targets():
        pytest.skip(f"{target} does not run here")
    check_each((op, partial(check_bits, op, target)) for op in CASES)


def test_every_op_has_bits():
    assert set(KEPT) == {"machine", "cpu", "cuda"}
    assert set(KEPT["cpu"]) == set(KEPT["cuda"]) == set(CASES)


def test_one_changed_bit_is_found(monkeypatch):
    honest, before = cmfast.overlap, bits.hash_op("overlap", "cpu")
    assert bits.hash_op("overlap", "cpu") == before
    monkeypatch.setattr(cmfast, "overlap", lambda *args, **options: np.nextafter(honest(*args, **options), 2))
    assert bits.hash_op("overlap", "cpu") != before
